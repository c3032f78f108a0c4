// Gauges: what the step is made of now, above the course of the same number through the whole run.

import { make, say, sharpen } from "./dom.js";
import { whole } from "./replay.js";
import { seconds } from "./format.js";

const HEIGHT = 26;

export class Gauges {
  constructor(lane) {
    this.replay = lane.replay;
    const { meta, numSlots, blocks, batch, tokens, padding, lives, start, end } = this.replay;
    const slots = whole(meta.max_num_seqs) ?? numSlots, budget = whole(meta.max_num_batched_tokens);
    const time = Float64Array.from(end, (value, step) => value - start[step]);
    const all = Int32Array.from(tokens, (value, step) => value + padding[step]);
    this.gauges = [
      new Gauge("batch", "Batch", batch, slots, (v) => [v, `of ${slots} slots`], "slots"),
      new Gauge("tokens", "Tokens", all, budget, (v, t) => [v, this._tokens(t, budget)], "tokens", padding),
      new Gauge("blocks", "KV blocks", blocks.usedAt, blocks.count, (v) => [v, `of ${blocks.count}`], "blocks"),
      new Gauge("queue", "Waiting", lives.queueLength, null, (v) => [v, v === 1 ? "request" : "requests"]),
      new Gauge("time", "Step time", time, null, (v) => seconds(v).split(" ")),
    ];
    this.word = make("strong");
    this.why = make("span.sp-gauge-note");
    this.limit = make("div.sp-gauge.sp-limit", {}, make("span.sp-gauge-name", {}, "Limit now"), this.word, this.why);
    this.root = make("div.sp-gauges", {}, ...this.gauges.map((gauge) => gauge.root), this.limit);
  }

  _tokens(step, budget) {
    const padding = this.replay.padding[step];
    if (padding) return `${padding} wasted`;
    return budget ? `of ${budget}` : "computed";
  }

  layout(palette, place) {
    for (const gauge of this.gauges) gauge.layout(palette, place);
  }

  draw(step, limit, place) {
    for (const gauge of this.gauges) gauge.draw(step, limit.name, place);
    say(this.word, step < 0 ? "–" : limit.name);
    say(this.why, limit.why);
    this.limit.dataset.limit = step < 0 ? "none" : limit.name;
  }
}

class Gauge {
  constructor(key, name, values, top, words, limit = "", waste = null) {
    Object.assign(this, { values, top, words, limit, waste });
    this.number = make("span.sp-number");
    this.note = make("span.sp-gauge-note");
    this.chart = make("canvas", { "aria-hidden": "true" });
    this.dot = make("i.sp-now", { "aria-hidden": "true" });
    this.root = make(
      `div.sp-gauge.sp-gauge-${key}`, {}, make("span.sp-gauge-name", {}, name),
      make("span.sp-gauge-value", {}, this.number, " ", this.note), make("div.sp-spark", {}, this.chart, this.dot),
    );
  }

  // The course of the number, drawn once: the highest value of the steps that share a pixel.
  layout(palette, place) {
    this.width = Math.max(20, Math.floor(this.chart.parentElement.clientWidth));
    const c = sharpen(this.chart, this.width, HEIGHT);
    const highest = this.values.reduce((most, value) => Math.max(most, value), 0);
    this.ceiling = Math.max(highest, this.top && this.top <= 3 * highest ? this.top : 0, 1e-9);
    this._area(c, this.values, palette.colours.rule, palette.colours.muted, place);
    if (this.waste) this._area(c, this.waste, palette.colours.waste, null, place);
    if (this.top && this.top === this.ceiling) {
      c.fillStyle = palette.colours.muted;
      for (let x = 0; x < this.width; x += 5) c.fillRect(x, 1.5, 2.5, 1);
    }
  }

  _area(c, values, area, line, place) {
    const tops = new Float64Array(this.width);
    for (let step = 0; step < values.length; step++) {
      const [from, to] = place(step).map((share) => share * this.width), first = Math.floor(from);
      for (let x = first; x < Math.min(Math.max(first + 1, to), this.width); x++) tops[x] = Math.max(tops[x], values[step]);
    }
    const outline = new Path2D();
    outline.moveTo(0, this._y(tops[0]));
    tops.forEach((top, x) => {
      outline.lineTo(x, this._y(top));
      outline.lineTo(x + 1, this._y(top));
    });
    const shape = new Path2D(outline);
    shape.lineTo(this.width, this._y(0));
    shape.lineTo(0, this._y(0));
    c.fillStyle = area;
    c.fill(shape);
    c.lineWidth = 0.9;
    c.strokeStyle = line ?? "transparent";
    c.stroke(outline);
  }

  _y(value) {
    return HEIGHT - 0.5 - (value / this.ceiling) * (HEIGHT - 3);
  }

  draw(step, limit, place) {
    const [number, note] = step < 0 ? ["–", ""] : this.words(this.values[step], step);
    say(this.number, String(number));
    say(this.note, note ?? "");
    const x = step < 0 ? 0 : ((place(step)[0] + place(step)[1]) / 2) * this.width;
    this.dot.style.transform = `translate(${x}px, ${step < 0 ? HEIGHT : this._y(this.values[step])}px)`;
    this.root.classList.toggle("sp-binds", this.limit !== "" && this.limit === limit);
  }
}
