// All there is to read of the selected request.

import { make, say } from "../../viz/static/dom.js";
import { plural } from "../../viz/static/format.js";

const ENDS = { stop: "finished", length: "finished: max_tokens reached", abort: "aborted", error: "failed" };

export class Reader {
  constructor() {
    this.chip = make("span.sp-chip");
    this.title = make("span.sp-inspector-title");
    this.hint = make("span.sp-quiet.sp-hint", {}, "Press a request's name to read all of its text here.");
    this.prompt = make("p.sp-prompt.lv-asked-for");
    this.state = make("span.sp-state");
    this.count = make("span.sp-outputs");
    this.past = make("span");
    this.fresh = make("mark");
    this.text = make("p.sp-text.lv-whole", { tabindex: 0, role: "group", "aria-label": "Text of the selected request" }, this.past, this.fresh);
    this.body = make("div.sp-inspector-body", {}, this.prompt, make("div", {}, make("p.sp-facts", {}, this.state, this.count), this.text));
    this.root = make("section.sp-inspector", {}, make("p.sp-head", {}, this.chip, this.title, this.hint), this.body);
  }

  draw(card, { slots }, palette) {
    this.hint.hidden = Boolean(card);
    this.body.hidden = this.chip.hidden = !card;
    if (!card) return say(this.title, "Nobody selected");
    const tones = palette.of(card.number), seat = slots.find((each) => each?.[0] === card.id);
    say(this.chip, card.id);
    Object.assign(this.chip.style, { backgroundColor: tones.solid, color: tones.onSolid });
    say(this.title, `Request ${card.id}`);
    say(this.prompt, `${plural(card.in, "prompt token")}, at most ${card.out} out. “${card.prompt}”`);
    const made = seat ? seat[1] : card.ended?.[1];
    say(this.state, seat ? (seat[1] ? "decode" : "prefill") : card.ended ? ENDS[card.ended[0]] : "waiting");
    say(this.count, made === undefined ? "" : `${made} / ${card.out} output tokens`);
    const follows = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 24;
    const fresh = seat ? card.fresh : "";
    say(this.past, card.text.slice(0, card.text.length - fresh.length));
    say(this.fresh, fresh);
    if (follows) this.text.scrollTop = this.text.scrollHeight;
    return undefined;
  }
}
