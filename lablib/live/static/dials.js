// Gauges: the numbers of now, above the course of the last moments.

import { make, say, sharpen } from "../../viz/static/dom.js";
import { seconds } from "../../viz/static/format.js";

const HEIGHT = 26;
const MOMENTS = 160;

export class Dials {
  constructor(view) {
    this.view = view;
    this.past = [];
    const model = view.model, slots = () => model.get("max_num_seqs"), built = view.built.ranges.max_num_seqs[1];
    const length = view.built.max_model_len;
    this.dials = [
      new Dial("Batch", ([batch]) => batch, slots, ([batch]) => [batch, batch > slots() ? `${slots()} may stay` : `of ${slots()} slots`]),
      new Dial("Throughput", ([, rate]) => rate ?? 0, null, ([, rate]) => [rate === null ? "–" : Math.round(rate), "tokens/s"]),
      new Dial("Step time", ([, , step]) => step ?? 0, null, ([, , step]) => (step === null ? ["–", ""] : seconds(step * 1e6).split(" "))),
      new Dial("KV blocks", ([, , , blocks]) => blocks, () => built,
        ([, , , blocks, written]) => [blocks, blocks ? `of ${built}, ${Math.round((100 * written) / (blocks * length))}% full` : `of ${built}`]),
      new Dial("Waiting", (values) => values[5], null, (values) => [values[5], values[5] === 1 ? "request" : "requests"]),
    ];
    this.word = make("strong");
    this.why = make("span.sp-gauge-note");
    this.limit = make("div.sp-gauge.sp-limit", {}, make("span.sp-gauge-name", {}, "Limit now"), this.word, this.why);
    this.root = make("div.sp-gauges", {}, ...this.dials.map((dial) => dial.root), this.limit);
  }

  push(values) {
    this.past.push(values);
    if (this.past.length > MOMENTS) this.past.shift();
  }

  draw(palette) {
    const { state } = this.view, limit = this._limit(state);
    for (const dial of this.dials) dial.draw(state.gauges, this.past, palette);
    say(this.word, limit[0]);
    say(this.why, limit[1]);
    this.limit.dataset.limit = limit[0];
    this.dials[0].root.classList.toggle("sp-binds", limit[0] === "slots");
  }

  // Which limit keeps the head of the queue waiting.
  _limit({ reason, queue }) {
    const slots = this.view.model.get("max_num_seqs");
    if (!queue.length) return ["none", "nobody waits"];
    if (reason === "slots") return ["slots", slots === 1 ? "the one is taken" : `all ${slots} are taken`];
    if (reason === "token budget") return ["tokens", "the step's budget is too small"];
    if (reason.startsWith("blocks")) return ["blocks", reason.replace(/^blocks: /, "")];
    return ["none", "the next step looks"];
  }
}

class Dial {
  constructor(name, value, top, words) {
    Object.assign(this, { value, top, words });
    this.number = make("span.sp-number");
    this.note = make("span.sp-gauge-note");
    this.chart = make("canvas", { "aria-hidden": "true" });
    this.root = make(
      "div.sp-gauge", {}, make("span.sp-gauge-name", {}, name),
      make("span.sp-gauge-value", {}, this.number, " ", this.note), make("div.sp-spark", {}, this.chart),
    );
  }

  draw(values, past, palette) {
    const [number, note] = this.words(values);
    say(this.number, String(number));
    say(this.note, note ?? "");
    const width = Math.max(20, Math.floor(this.chart.parentElement.clientWidth));
    const c = sharpen(this.chart, width, HEIGHT), course = past.map(this.value);
    const top = this.top?.(), highest = Math.max(1e-9, ...course, top ?? 0);
    const y = (value) => HEIGHT - 0.5 - (value / highest) * (HEIGHT - 3), pitch = width / MOMENTS;
    const line = new Path2D(), left = width - course.length * pitch;
    course.forEach((value, i) => {
      line[i ? "lineTo" : "moveTo"](left + i * pitch, y(value));
      line.lineTo(left + (i + 1) * pitch, y(value));
    });
    const area = new Path2D(line);
    area.lineTo(width, y(0));
    area.lineTo(left, y(0));
    c.fillStyle = palette.colours.rule;
    if (course.length) c.fill(area);
    c.strokeStyle = palette.colours.muted;
    c.lineWidth = 0.9;
    c.stroke(line);
    if (!top) return;
    c.fillStyle = palette.colours.muted;
    for (let x = 0; x < width; x += 5) c.fillRect(x, y(top), 2.5, 1);
  }
}
