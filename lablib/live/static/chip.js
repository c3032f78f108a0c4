// Small buttons that stand for a request.

import { icon, make, say } from "../../viz/static/dom.js";

const CROSS = "M4 3l4 4 4-4 1 1-4 4 4 4-1 1-4-4-4 4-1-1 4-4-4-4z";

/** A small button with a cross. */
export function crossButton(label, click) {
  return make("button.sp-button.lv-cross", { type: "button", "aria-label": label, title: label, onclick: click }, icon(CROSS));
}

/** A request's name as a button in its colour, which shows all there is about it. */
export class Chip {
  constructor(view) {
    this.view = view;
    this.root = make("button.sp-chip.lv-chip", { type: "button", onclick: () => view.select(this.id) });
  }

  draw(card, palette, tone = "solid") {
    this.id = card.id;
    say(this.root, card.id);
    const tones = palette.of(card.number), colour = tones[tone];
    if (this.colour !== colour) {
      this.colour = this.root.style.backgroundColor = colour;
      this.root.style.color = { solid: tones.onSolid, soft: tones.onSoft, pale: tones.onPale }[tone];
    }
    this.root.setAttribute("aria-pressed", String(card.id === this.view.selected));
    this.root.setAttribute("aria-label", `${card.id}: show all of its text`);
  }
}
