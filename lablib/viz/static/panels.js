// The queue, and all there is to know about one request.

import { make, say } from "./dom.js";
import { STATE, STATE_NAMES } from "./lives.js";
import { plural, seconds } from "./format.js";

const ROWS = 6;
const PROMPT_TAIL = 110; // characters

export class Queue {
  constructor(lane, compact) {
    this.replay = lane.replay;
    this.rows = Array.from({ length: compact ? 1 : ROWS }, () => this._row());
    this.more = make("p.sp-more");
    this.empty = make("p.sp-quiet", {}, "Nobody waits.");
    this.list = make("ul.sp-queue-list", {}, ...this.rows.map((row) => row.root));
    this.count = make("span.sp-count");
    this.root = make("section.sp-queue", {}, make("p.sp-head", {}, "Waiting queue ", this.count), this.list, this.empty, this.more);
  }

  _row() {
    const row = { chip: make("span.sp-chip"), size: make("span.sp-size"), age: make("span.sp-age"), reason: make("span.sp-reason") };
    row.root = make("li", {}, row.chip, row.reason, row.size, row.age);
    return row;
  }

  draw(step, queue, palette, focus) {
    const { replay } = this, clock = step < 0 ? 0 : replay.start[step];
    this.empty.hidden = queue.length > 0;
    this.list.hidden = !queue.length;
    say(this.count, queue.length ? String(queue.length) : "");
    this.rows.forEach((row, place) => {
      const entry = queue[place];
      row.root.hidden = !entry;
      if (!entry) return;
      const id = replay.ids[entry.request];
      row.root.dataset.request = id;
      row.root.classList.toggle("sp-lit", entry.request === focus);
      paintChip(row.chip, replay, entry.request, palette);
      say(row.size, `${replay.requests.prompt[entry.request]} in, ≤ ${replay.requests.max_tokens[entry.request]} out`);
      say(row.age, seconds(Math.max(0, clock - replay.requests.arrival_us[entry.request])));
      say(row.reason, (entry.state === STATE.PREEMPTED ? "preempted · " : "") + (entry.reason || "not looked at yet"));
    });
    const hidden = queue.length - this.rows.length;
    say(this.more, hidden > 0 ? `and ${hidden} more` : "");
  }
}

/** Give an element a request's label and colour. */
export function paintChip(chip, replay, request, palette) {
  say(chip, replay.labels[request]);
  const tones = palette.of(request);
  if (chip.style.backgroundColor !== tones.solid) chip.style.backgroundColor = tones.solid;
  chip.style.color = tones.onSolid;
}

/** Prompt, state and text of one request; with several traces, how far it is in each. */
export class Inspector {
  constructor(lanes) {
    this.lanes = lanes;
    this.chip = make("span.sp-chip");
    this.title = make("span.sp-inspector-title");
    this.prompt = make("p.sp-prompt");
    this.columns = lanes.map((lane) => this._column(lane, lanes.length > 1));
    this.hint = make("span.sp-quiet.sp-hint", {}, "Point at a request to follow it through every view; a click keeps it.");
    this.body = make("div.sp-inspector-body", {}, this.prompt, ...this.columns.map((column) => column.root));
    this.root = make("section.sp-inspector", {}, make("p.sp-head", {}, this.chip, this.title, this.hint), this.body);
  }

  _column(lane, several) {
    const column = { lane, state: make("span.sp-state"), count: make("span.sp-outputs"), done: make("i"), past: make("span") };
    Object.assign(column, { fresh: make("mark"), held: make("span.sp-held") });
    column.text = make("p.sp-text", {}, column.past, column.held, column.fresh);
    const name = several ? [make("strong", {}, lane.name, " ")] : [];
    column.root = make(
      "div.sp-column", {}, make("p.sp-facts", {}, ...name, column.state, column.count),
      make("div.sp-bar", { "aria-hidden": "true" }, column.done), column.text,
    );
    return column;
  }

  /** Show request `id`; without one, whoever computes in the first slot. */
  draw(focus, palette) {
    const knows = (id) => this.lanes.find((lane) => lane.replay.indexOf.has(id));
    const id = knows(focus) ? focus : this.lanes[0].firstAtWork(), owner = knows(id);
    this.hint.hidden = id === focus;
    this.body.hidden = this.chip.hidden = !owner;
    if (!owner) return say(this.title, "Nobody computes");
    const request = owner.replay.indexOf.get(id), { prompt, max_tokens, prompt_text, message } = owner.replay.requests;
    paintChip(this.chip, owner.replay, request, palette);
    say(this.title, `Request ${id}`);
    const size = `${plural(prompt[request], "prompt token")}, at most ${max_tokens[request]} out.`;
    say(this.prompt, prompt_text[request] ? `${size} “${tail(prompt_text[request])}”` : size);
    for (const column of this.columns) this._follow(column, id, palette, message[request]);
  }

  _follow(column, id, palette, message) {
    const { replay, step } = column.lane, request = replay.indexOf.get(id);
    if (request === undefined) {
      for (const part of [column.count, column.past, column.held, column.fresh]) say(part, "");
      return say(column.state, "not in this run");
    }
    const made = replay.generated(request, step), given = replay.delivered(request, step);
    const fresh = made - replay.generated(request, step - 1), state = replay.lives.state(request, step);
    const waits = state === STATE.RUNNING && made > given ? ", not delivered yet" : "";
    const ended = replay.end[replay.requests.finish_step[request]] - replay.requests.arrival_us[request];
    const after = state === STATE.FINISHED && ended >= 0 ? ` after ${seconds(ended)}` : "";
    say(column.state, STATE_NAMES[state] + after + waits + (state >= STATE.ABORTED && message ? `: ${message}` : ""));
    say(column.count, `${made} / ${replay.requests.max_tokens[request]} output tokens`);
    column.done.style.transform = `scaleX(${made / Math.max(1, replay.requests.max_tokens[request])})`;
    column.done.style.backgroundColor = palette.of(request).solid;
    const pieces = replay.requests.text[request], old = made - fresh;
    say(column.past, pieces.slice(0, Math.min(given, old)).join(""));
    say(column.held, pieces.slice(Math.min(given, old), old).join(""));
    say(column.fresh, pieces.slice(old, made).join(""));
    column.text.hidden = !pieces.length;
    column.text.scrollTop = column.text.scrollHeight;
  }
}

// A prompt's end is what was asked; it often begins with the same instructions as all others.
function tail(text) {
  const line = text.trim().replace(/\s*\n\s*/g, " ↵ ");
  return line.length > PROMPT_TAIL ? `…${line.slice(-PROMPT_TAIL)}` : line;
}
