// Who waits and why, and who is done and how long it took.

import { make, say } from "../../viz/static/dom.js";
import { seconds } from "../../viz/static/format.js";
import { Chip, crossButton } from "./chip.js";

const QUEUE_ROWS = 6, FINISHED_ROWS = 5;
const OUTCOMES = { stop: "end of text", length: "max_tokens", abort: "aborted", error: "failed" };

export class WaitingList {
  constructor(view) {
    this.view = view;
    this.rows = Array.from({ length: QUEUE_ROWS }, () => this._row());
    this.list = make("ol.sp-queue-list", {}, ...this.rows.map((row) => row.root));
    this.count = make("span.sp-count");
    this.empty = make("p.sp-quiet", {}, "Nobody waits.");
    this.more = make("p.sp-more");
    this.root = make("section.sp-queue.lv-queue", {}, make("p.sp-head", {}, "Waiting queue ", this.count), this.list, this.empty, this.more);
  }

  _row() {
    const row = { chip: new Chip(this.view), size: make("span.sp-size"), age: make("span.sp-age"), reason: make("span.sp-reason") };
    row.abort = crossButton("Abort", () => this.view.wish("abort", { id: row.chip.id }));
    row.root = make("li", {}, row.chip.root, row.reason, row.size, row.age, row.abort);
    return row;
  }

  draw({ queue, reason, gauges }, palette) {
    const { view } = this, waiting = gauges[5];
    this.empty.hidden = queue.length > 0;
    this.list.hidden = !queue.length;
    say(this.count, waiting ? String(waiting) : "");
    this.rows.forEach((row, place) => {
      const card = view.cards.get(queue[place]);
      row.root.hidden = !card;
      if (!card) return;
      row.chip.draw(card, palette);
      row.root.classList.toggle("sp-lit", card.id === view.selected);
      say(row.reason, place ? `behind ${queue[0]}` : reason || "not looked at yet");
      say(row.size, `${card.in} in, ≤ ${card.out} out`);
      say(row.age, seconds(Math.max(0, view.now - card.arrival) * 1e6));
      row.abort.setAttribute("aria-label", `Abort ${card.id}`);
    });
    say(this.more, waiting > queue.length ? `and ${waiting - queue.length} more` : "");
  }
}

export class FinishedList {
  constructor(view) {
    this.view = view;
    this.rows = Array.from({ length: FINISHED_ROWS }, () => this._row());
    this.count = make("span.sp-count");
    this.empty = make("p.sp-quiet", {}, "Nobody yet.");
    const titles = { TTFT: "time to first token", TPOT: "time per output token after the first", E2E: "from arrival to the last token" };
    const heads = Object.entries(titles).map(([name, title]) => make("th", { scope: "col", title }, name));
    this.table = make(
      "table.lv-finished", { "aria-label": "Requests that finished last" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "request"), make("th", { scope: "col" }, "ended by"), make("th", { scope: "col" }, "tokens"), ...heads)),
      make("tbody", {}, ...this.rows.map((row) => row.root)),
    );
    this.root = make("section.lv-done", {}, make("p.sp-head", {}, "Finished ", this.count), this.table, this.empty);
  }

  _row() {
    const chip = new Chip(this.view), cells = Array.from({ length: 5 }, () => make("td"));
    return { chip, cells, root: make("tr", {}, make("td", {}, chip.root), ...cells) };
  }

  draw({ finished, served }, palette) {
    const newestFirst = [...finished].reverse();
    this.empty.hidden = finished.length > 0;
    this.table.hidden = !finished.length;
    say(this.count, served ? String(served) : "");
    this.rows.forEach((row, place) => {
      const card = this.view.cards.get(newestFirst[place]);
      row.root.hidden = !card?.ended;
      if (!card?.ended) return;
      const [why, tokens, ...times] = card.ended;
      row.chip.draw(card, palette);
      row.root.classList.toggle("sp-lit", card.id === this.view.selected);
      const words = [OUTCOMES[why] ?? why, String(tokens), ...times.map((time) => (time === null ? "–" : seconds(time * 1e6)))];
      row.cells.forEach((cell, i) => say(cell, words[i]));
    });
  }
}
