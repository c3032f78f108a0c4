// The live view: what the kernel says comes in here, what the reader wants goes out.

import { make } from "../../viz/static/dom.js";
import { Palette } from "../../viz/static/palette.js";
import { Desk } from "./desk.js";
import { Dials } from "./dials.js";
import { Reader } from "./reader.js";
import { Slots } from "./slots.js";
import { Standing } from "./standing.js";
import { FinishedList, WaitingList } from "./lists.js";

const BLANK = {
  phase: "idle", message: "", slots: [], queue: [], reason: "", finished: [], served: 0, now: 0,
  gauges: [0, null, null, 0, 0, 0, 0],
};
const PATIENCE_MS = 4000; // until a kernel that says nothing is spoken of
const SILENCE = "The kernel does not answer. A cell is running, or the kernel was restarted: then run this cell again.";
const AGE_MS = 1000; // between two looks at the clock while nothing else happens

export class LiveView {
  constructor(root, model) {
    Object.assign(this, { root, model, state: { ...BLANK }, cards: new Map(), selected: "", draws: 0, messages: 0 });
    this.id = String(Math.random()).slice(2);
    this.built = model.get("_built");
    this._build();
    this._listen();
    this.wish("open", { view: this.id });
    this.layout();
  }

  _build() {
    this.desk = new Desk(this);
    this.dials = new Dials(this);
    this.slots = new Slots(this);
    this.waiting = new WaitingList(this);
    this.finished = new FinishedList(this);
    this.reader = new Reader(this);
    this.standing = new Standing();
    const { title, model } = this.built;
    const header = make(
      "div.sp-header", {}, make("p.sp-title", {}, make("strong", {}, title), make("span", {}, model)), this.standing.root,
    );
    const side = make("div.sp-side", {}, this.waiting.root, this.finished.root);
    this.root.replaceChildren(
      header, this.desk.root, this.dials.root, make("div.sp-body", {}, this.slots.root, side), this.reader.root,
    );
    this.quieten();
  }

  /** Else Jupyter takes keys for commands and deletes cells: whatever can have the focus needs the mark itself. */
  quieten() {
    for (const each of this.root.querySelectorAll("button, input, textarea, [tabindex]")) each.dataset.lmSuppressShortcuts = "true";
  }

  _listen() {
    const stop = new AbortController(), { signal } = stop, { root, model } = this;
    root.addEventListener("keydown", (event) => {
      if (this.desk.press(event)) event.preventDefault();
      event.stopPropagation();
    }, { signal });
    const restyle = () => [0, 150, 600].forEach((delay) => setTimeout(() => stop.signal.aborted || this.layout(true), delay));
    const themes = new MutationObserver(restyle);
    themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle, { signal });
    const sizes = new ResizeObserver(() => this.layout());
    sizes.observe(root);
    const heard = (message) => this.take(message), turned = () => this.redraw();
    model.on("msg:custom", heard);
    for (const knob of Object.keys(this.built.ranges)) model.on(`change:${knob}`, turned);
    const ages = setInterval(() => this.state.queue.length && this.redraw(), AGE_MS);
    this.dispose = () => {
      stop.abort();
      themes.disconnect();
      sizes.disconnect();
      clearInterval(ages);
      clearTimeout(this.silence);
      cancelAnimationFrame(this.frame);
      model.off("msg:custom", heard);
      for (const knob of Object.keys(this.built.ranges)) model.off(`change:${knob}`, turned);
      this.wish("gone", { view: this.id });
    };
  }

  /** Tell the kernel what somebody wants; a kernel that is gone can't hear it. */
  wish(action, details = {}) {
    if (["submit", "send", "reset"].includes(action)) {
      clearTimeout(this.silence);
      this.silence = setTimeout(() => this.take({ message: SILENCE }), PATIENCE_MS);
    }
    try {
      this.model.send({ do: action, ...details });
    } catch {
      this.take({ message: SILENCE });
    }
  }

  /** Take a message of the kernel in: all there is, or what has changed. */
  take(message) {
    clearTimeout(this.silence);
    const { cards = {}, text = {}, ended = {}, whole, ...state } = message;
    this.messages++;
    if (whole) this.cards.clear();
    if (state.now !== undefined) {
      this.heardAt = performance.now();
      if (this.state.message === SILENCE) this.state.message = "";
    }
    this.state = { ...(whole ? BLANK : this.state), ...state };
    for (const [id, card] of Object.entries(cards)) this.cards.set(id, { id, ...card, text: legible(card.text ?? ""), fresh: "" });
    for (const card of this.cards.values()) card.fresh = "";
    for (const [id, words] of Object.entries(text)) this._write(id, words);
    for (const [id, outcome] of Object.entries(ended)) if (this.cards.has(id)) this.cards.get(id).ended = outcome;
    if (state.gauges) this.dials.push(state.gauges);
    if (whole) this.slots.clear();
    if (this.desk.awaits && Object.keys(cards).length) this.select(this.desk.claim(Object.keys(cards)));
    this.redraw();
  }

  _write(id, words) {
    const card = this.cards.get(id);
    if (!card) return;
    card.fresh = legible(words);
    card.text += card.fresh;
  }

  /** Seconds on the engine's clock. */
  get now() {
    return this.state.now + (this.heardAt === undefined ? 0 : (performance.now() - this.heardAt) / 1e3);
  }

  select(id) {
    this.selected = id === this.selected ? "" : id;
    this.redraw();
  }

  /** Select the request above or below, in reading order. */
  selectNeighbour(direction) {
    const { slots, queue, finished } = this.state;
    const ids = [...slots.filter(Boolean).map(([id]) => id), ...queue, ...finished];
    const at = ids.indexOf(this.selected);
    if (ids.length) this.select(ids[at < 0 ? (direction > 0 ? 0 : ids.length - 1) : (at + direction + ids.length) % ids.length]);
  }

  layout(force = false) {
    const width = this.root.clientWidth;
    if (!width || (width === this.width && !force)) return;
    this.width = width;
    this.root.dataset.size = width >= 960 ? "wide" : width >= 680 ? "medium" : "narrow";
    this.palette = new Palette(this.root);
    this.slots.legend(this.palette);
    this.redraw();
  }

  redraw() {
    if (!this.frame && this.palette) this.frame = requestAnimationFrame(() => this._draw());
  }

  _draw() {
    this.frame = 0;
    const { state, palette } = this;
    this._forget();
    this.standing.draw(state);
    this.desk.draw(state);
    this.dials.draw(palette);
    this.slots.draw(state, palette);
    this.waiting.draw(state, palette);
    this.finished.draw(state, palette);
    this.reader.draw(this.cards.get(this.selected), state, palette);
    this.draws++;
  }

  // Only who can still be seen is kept.
  _forget() {
    const { slots, queue, finished, gauges } = this.state;
    if (this.cards.size <= 400) return;
    const seen = new Set([...slots.filter(Boolean).map(([id]) => id), ...queue, ...finished, this.selected]);
    const oldest = [...this.cards.keys()].slice(0, this.cards.size - gauges[5] - slots.length - finished.length);
    for (const id of oldest) if (!seen.has(id)) this.cards.delete(id);
  }
}

/** What a screen can show of it: a model without training writes control characters too. */
function legible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "·");
}
