// All views of one trace.

import { Axis } from "./axis.js";
import { BlockGrid } from "./blockgrid.js";
import { make, say, sharpen } from "./dom.js";
import { plural, seconds } from "./format.js";
import { Gauges } from "./gauges.js";
import { drawMark } from "./marks.js";
import { Queue } from "./panels.js";
import { EVENTS, KIND, KIND_NAMES } from "./replay.js";
import { Timeline } from "./timeline.js";

const CHUNKS = -1; // asks for a swatch in pieces

export class Lane {
  constructor(replay, compact, { title, height }) {
    this.replay = replay;
    this.compact = compact;
    this.height = height;
    this.name = replay.name;
    this.step = replay.numSteps ? 0 : -1;
    this.timeline = new Timeline(this);
    this.grid = new BlockGrid(this);
    this.gauges = new Gauges(this);
    this.queue = new Queue(this, compact);
    this.progress = make("span.sp-progress");
    this.legend = make("div.sp-legend", { "aria-hidden": "true" });
    this.head = make("div.sp-head", {}, make("span", {}, "Slots × steps"), this.legend);
    this.stage = make("section.sp-stage", {}, this.head, this.timeline.canvas);
    this.usage = make("span.sp-count");
    const blocks = make("section.sp-blocks", {}, make("p.sp-head", {}, make("span", {}, "KV blocks ", this.usage)), this.grid.canvas);
    blocks.hidden = replay.blocks.count === 0;
    this.body = make("div.sp-body", {}, this.stage, make("div.sp-side", {}, this.queue.root, blocks));
    this.root = make("section.sp-lane", { "aria-label": this.name }, this._header(compact ? "" : title), this.gauges.root, this.body);
  }

  _header(title) {
    const { meta } = this.replay, pieces = meta.pieces && typeof meta.pieces === "object" ? Object.entries(meta.pieces) : [];
    const badges = pieces.map(([piece, whose]) =>
      make(`span.sp-badge.${whose === "yours" ? "sp-yours" : "sp-reference"}`, {}, `${piece}: `, make("b", {}, String(whose))));
    const rule = meta.block_size < meta.max_model_len && meta.admission; // one block a request: nothing to reserve by
    const facts = [title && this.name, meta.workload, meta.executor, rule].filter(Boolean).map(String).join(" · ");
    return make(
      "header.sp-header", {},
      make("p.sp-title", {}, make("strong", {}, title || this.name), facts ? make("span", {}, facts) : ""),
      make("p.sp-badges", {}, ...badges), this.compact ? this.progress : "",
    );
  }

  setAxis(byTime) {
    this.axis = new Axis(this.replay, byTime);
    this.timeline.setAxis(this.axis);
  }

  layout(palette, place) {
    this.palette = palette;
    this.place = place;
    const rows = this.height ?? (this.compact ? 208 : 400);
    this.timeline.layout(Math.floor(this.stage.clientWidth), rows, palette);
    const blocks = this.grid.canvas.parentElement;
    if (!blocks.hidden) this.grid.layout(Math.floor(blocks.clientWidth), palette);
    this.gauges.layout(palette, place);
    this._legend();
  }

  // Only what this run has; a picture is read faster without words for things that aren't in it.
  _legend() {
    const { hasKind, hasPadding, events, batch, numSlots } = this.replay, { palette } = this, tones = palette.of(0);
    const happened = new Set(events.kind), idle = batch.some((count) => count < numSlots);
    const entries = [
      [hasKind[KIND.PREFILL], "prefill", tones.solid], [hasKind[KIND.CHUNK], "chunk", tones.solid, CHUNKS],
      [hasKind[KIND.RECOMPUTE], "recompute", tones.solid, palette.again], [hasKind[KIND.DECODE], "decode", tones.soft],
      [hasPadding, "padding", palette.padding], [hasKind[KIND.STRAGGLER], "straggler", palette.straggler],
      [idle, "idle", palette.idle], [happened.has(1), "preempted", null, 1], [happened.has(2), "finished", tones.soft, 2],
    ];
    this.legend.replaceChildren(...entries.filter(([shown]) => shown).map(([, name, style, extra]) =>
      make("span", {}, this._swatch(style, extra), name)));
  }

  _swatch(style, extra) {
    const canvas = make("canvas"), { palette } = this, c = sharpen(canvas, 18, 11);
    for (const texture of [style, extra].filter((entry) => entry && !(typeof entry === "number"))) {
      c.fillStyle = texture;
      c.fillRect(0, 0, 18, 11);
    }
    if (extra === CHUNKS) for (const x of [5, 11]) c.clearRect(x, 0, 1.5, 11);
    else if (typeof extra === "number") drawMark(c, palette, extra, style ? 18 : 14, 0, 11, 0);
    return canvas;
  }

  /** Draw every view at `value` of the clock; `quiet` leaves the descriptions for screen readers as they are. */
  draw(view, value, focusId, quiet) {
    const { replay, step } = this, focus = replay.indexOf.get(focusId) ?? -1;
    this.over = this.compact && step >= 0 && value >= replay.endOfRun;
    const now = this.over ? replay.numSteps : step;
    this.waiting = replay.lives.queue(now);
    this.limit = this._limit();
    this.timeline.draw(view, step, focus, this.compact ? value : null);
    this.grid.draw(now, focus);
    this.gauges.draw(this.over ? -1 : step, this.limit, this.place);
    this.queue.draw(step, this.waiting, this.palette, focus);
    const { count, usedAt, usedAtEnd } = replay.blocks, used = this.over ? usedAtEnd : (usedAt[step] ?? 0);
    say(this.usage, count ? `${used} of ${count} in use` : "");
    const done = replay.lives.endedBefore[Math.min(replay.numSteps, step + 1)] ?? 0;
    const noun = this.compact ? "" : " requests", end = this.over ? ` at ${seconds(replay.endOfRun)}` : "";
    say(this.progress, `${done} of ${replay.numRequests}${noun} done${end}`);
    this.root.classList.toggle("sp-over", this.over);
    if (!quiet) this._describe(used);
  }

  _limit() {
    if (this.step < 0) return { name: "none", why: "not started" };
    return this.over ? { name: "none", why: "the run has ended" } : this.replay.lives.limit(this.step, this.waiting);
  }

  _describe(used) {
    const { replay, step, limit } = this;
    const state = step < 0 ? "Before the first step." : `Step ${step} of ${replay.last}: ${replay.batch[step]} of ${replay.numSlots} slots compute ${replay.tokens[step]} tokens, ${plural(this.waiting.length, "request")} waiting, limit: ${limit.name}.`;
    this.timeline.canvas.setAttribute("aria-label", `${this.name}, slots by steps. ${state} ${this.story()}`);
    this.grid.canvas.setAttribute("aria-label", `${this.name}, KV blocks: ${used} of ${replay.blocks.count} in use.`);
  }

  /** What happens in this step, in a sentence. */
  story() {
    const { replay, step } = this, told = new Map();
    if (step < 0 || this.over) return "";
    const tell = (what, who) => told.set(what, [...(told.get(what) ?? []), who]);
    for (const row of replay.eventsAt(step)) tell(EVENTS[replay.events.kind[row]], replay.ids[replay.events.request[row]]);
    const doing = [0, 0, 0, 0, 0];
    for (let slot = 0; slot < replay.numSlots; slot++) {
      const run = replay.cell(step, slot);
      if (run >= 0) doing[replay.runKind[run]]++;
    }
    const work = [KIND.PREFILL, KIND.CHUNK, KIND.RECOMPUTE, KIND.DECODE, KIND.STRAGGLER].filter((kind) => doing[kind]);
    const events = [...told].map(([what, who]) => `${what} ${list(who)}`);
    return [...events, work.map((kind) => `${doing[kind]} × ${KIND_NAMES[kind]}`).join(", ")].filter(Boolean).join("; ");
  }

  /** Words for a point of the slots × steps picture. */
  explain({ step, slot, run }) {
    const { replay } = this;
    if (slot < 0) return null;
    if (run < 0) return { lines: [`slot ${slot} · step ${step}`, "idle: nobody sits here"] };
    const { request, start, tokens, padding, step: first } = replay.runs, kind = replay.runKind[run];
    const from = start[run] + (step - first[run]) * tokens[run], to = from + tokens[run] - 1;
    const made = replay.generated(request[run], step), text = replay.requests.text[request[run]][made - 1];
    const lines = [`${replay.ids[request[run]]} · slot ${slot} · step ${step}`];
    if (kind === KIND.STRAGGLER) lines.push("straggler: has finished, computes padding until the batch ends");
    else lines.push(`${KIND_NAMES[kind]}: ${tokens[run] === 1 ? `position ${from}` : `${tokens[run]} tokens, positions ${from}–${to}`}`);
    if (tokens[run] && padding[run]) lines.push(`+ ${padding[run]} positions of padding`);
    if (replay.runs.sampled[run]) lines.push(`output token ${made}${text ? ` “${text}”` : ""}`);
    return { id: replay.ids[request[run]], lines };
  }

  /** Words for a KV block. */
  explainBlock(block) {
    const { replay } = this, { blocks } = replay, owner = blocks.owner[block];
    if (owner < 0) return { lines: [`block ${block}`, "free"] };
    const lines = [`block ${block} · ${replay.ids[owner]}`];
    const written = blocks.written(block, replay.computed(owner, this.step)), first = blocks.place[block] * blocks.size;
    if (blocks.size) lines.push(`for positions ${first}–${first + blocks.size - 1}`, `${written} of ${blocks.size} written${written ? "" : ": reserved"}`);
    if (blocks.shares[block] > 1) lines.push(`shared by ${blocks.shares[block]} requests`);
    return { id: replay.ids[owner], lines };
  }

  /** Id of the request that computes in the first slot where one does, or "". */
  firstAtWork() {
    const { replay, step } = this;
    for (let slot = 0; slot < replay.numSlots; slot++) {
      const run = replay.cell(step, slot);
      if (run >= 0 && replay.runs.tokens[run]) return replay.ids[replay.runs.request[run]];
    }
    return "";
  }

  /** Ids in reading order: by slot, then the queue. */
  order() {
    const { replay, step } = this, ids = [];
    for (let slot = 0; slot < replay.numSlots; slot++) {
      const run = replay.cell(step, slot);
      if (run >= 0) ids.push(replay.ids[replay.runs.request[run]]);
    }
    return [...ids, ...(this.waiting ?? []).map((entry) => replay.ids[entry.request])];
  }

  /** A small picture of the whole run for the scrubber. */
  paintStrip(canvas, width, height) {
    const c = sharpen(canvas, width, height), { replay, palette, place } = this, { runs } = replay;
    const row = height / replay.numSlots;
    for (let run = 0; run < runs.step.length; run++) {
      const tones = palette.of(runs.request[run]), kind = replay.runKind[run];
      const x0 = place(runs.step[run])[0] * width, x1 = place(runs.step[run] + runs.count[run] - 1)[1] * width;
      c.fillStyle = kind === KIND.STRAGGLER ? palette.straggler : kind === KIND.DECODE ? tones.soft : tones.solid;
      c.fillRect(x0, runs.slot[run] * row, Math.max(kind === KIND.DECODE ? 0.3 : 1, x1 - x0), row - (row > 3 ? 0.75 : 0));
    }
  }
}

function list(words) {
  const shown = words.length > 4 ? [...words.slice(0, 3), `${words.length - 3} more`] : words;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown[shown.length - 1]}`;
}
