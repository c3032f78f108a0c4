// The slots of the batch: who sits there, what it says, and how far it is.

import { make, say } from "../../viz/static/dom.js";
import { Chip, crossButton } from "./chip.js";

export class Slots {
  constructor(view) {
    this.view = view;
    const { max_num_seqs } = view.built.ranges;
    this.rows = Array.from({ length: max_num_seqs[1] }, (_, slot) => new Slot(view, slot));
    this.keys = make("div.sp-legend", { "aria-hidden": "true" });
    this.root = make(
      "section.sp-stage", {}, make("div.sp-head", {}, make("span", {}, "Slots"), this.keys),
      make("ol.lv-slots", {}, ...this.rows.map((row) => row.root)),
    );
  }

  legend(palette) {
    const tones = palette.of(0);
    const entries = [["prefill", tones.solid], ["decode", tones.soft], ["to come", tones.pale]];
    this.keys.replaceChildren(...entries.map(([name, colour]) => {
      const swatch = make("i.lv-swatch");
      swatch.style.backgroundColor = colour;
      return make("span", {}, swatch, name);
    }));
  }

  /** Forget who sat here before. */
  clear() {
    for (const row of this.rows) row.last = null;
  }

  draw({ slots }, palette) {
    const open = this.view.model.get("max_num_seqs"), running = slots.filter(Boolean).length;
    let free = Math.max(0, open - running);
    this.rows.forEach((row, slot) => {
      const closed = !slots[slot] && free-- <= 0;
      row.draw(slots[slot], closed, palette);
    });
  }
}

class Slot {
  constructor(view, slot) {
    this.view = view;
    this.last = null;
    this.chip = new Chip(view);
    this.past = make("span");
    this.fresh = make("mark");
    this.text = make("p.lv-text", {}, this.past, this.fresh);
    this.word = make("span.lv-word");
    this.count = make("span.lv-count");
    this.abort = crossButton("Abort", () => view.wish("abort", { id: this.chip.id }));
    this.prompt = make("i");
    this.output = make("i");
    this.bar = make("div.lv-bar", { "aria-hidden": "true" }, this.output, this.prompt);
    this.root = make(
      "li.lv-slot", {}, make("span.lv-number", {}, make("span.lv-hidden", {}, "slot "), String(slot)), this.chip.root, this.text,
      make("span.lv-facts", {}, this.word, this.count), this.abort, this.bar,
    );
  }

  draw(seat, closed, palette) {
    const { cards } = this.view, card = cards.get(seat ? seat[0] : this.last), ended = seat ? null : card?.ended;
    this.root.dataset.state = seat ? "busy" : closed ? "closed" : card ? "done" : "free";
    const bare = !card || (closed && !seat);
    for (const each of [this.chip.root, this.bar]) each.hidden = bare;
    this.abort.hidden = !seat;
    this.root.classList.toggle("sp-lit", Boolean(card) && !bare && card.id === this.view.selected);
    if (bare) return this._empty(closed);
    if (seat) this.last = card.id;
    const made = seat ? seat[1] : (ended?.[1] ?? 0), prefill = seat && made === 0;
    this.chip.draw(card, palette, seat ? "solid" : "pale");
    const word = !seat ? { abort: "aborted", error: "failed" }[ended?.[0]] ?? "finished" : prefill ? "prefill" : "decode";
    say(this.word, word);
    this.root.dataset.word = word;
    say(this.count, prefill ? `${card.in} in` : `${made} / ${card.out}`);
    this._words(card, seat, prefill);
    this._fill(card, made, palette, seat);
    if (seat) this.abort.setAttribute("aria-label", `Abort ${card.id}`);
    return undefined;
  }

  _empty(closed) {
    this.text.classList.remove("lv-asked");
    say(this.past, closed ? "closed by max_num_seqs" : "free");
    for (const each of [this.fresh, this.word, this.count]) say(each, "");
  }

  // Before the first word, what was asked.
  _words(card, seat, prefill) {
    const fresh = seat ? card.fresh : "", asks = prefill || !card.text;
    const before = flat(asks ? card.prompt : card.text.slice(0, card.text.length - fresh.length)), after = asks ? "" : flat(fresh);
    if (this.past.textContent === before && this.fresh.textContent === after) return;
    this.text.classList.toggle("lv-asked", asks);
    say(this.past, before);
    say(this.fresh, after);
    this.text.scrollTop = asks ? 0 : this.text.scrollHeight;
  }

  _fill(card, made, palette, seat) {
    const tones = palette.of(card.number), all = card.in + card.out;
    const shares = [[this.bar, null, tones.pale], [this.prompt, card.in / all, seat ? tones.solid : tones.soft], [this.output, (card.in + made) / all, tones.soft]];
    for (const [element, share, colour] of shares) {
      if (element.style.backgroundColor !== colour) element.style.backgroundColor = colour;
      if (share !== null) element.style.transform = `scaleX(${share})`;
    }
  }
}

// Two lines are all there is room for.
function flat(text) {
  return text.replace(/\s*\n\s*/g, " ↵ ");
}
