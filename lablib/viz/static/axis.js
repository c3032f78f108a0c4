// Where steps lie along a picture: by number (a step as wide as its longest row, compressed), or by time.

import { upperBound } from "./replay.js";

export class Axis {
  constructor(replay, byTime) {
    this.byTime = byTime;
    this.from = byTime ? replay.start : new Float64Array(replay.numSteps);
    this.to = byTime ? replay.end : new Float64Array(replay.numSteps);
    if (!byTime) this._count(replay);
    const widths = this.to.map((to, step) => to - this.from[step]).sort();
    this.pitch = widths[widths.length >> 1] || 1; // a typical step
  }

  // Prompts are wide and answers are long: without the logarithm one of the two could not be seen.
  _count({ numSteps, widest }) {
    for (let step = 0, at = 0; step < numSteps; step++) {
      this.from[step] = at;
      this.to[step] = at += 1 + 0.9 * Math.log2(Math.max(1, widest[step]));
    }
  }

  get length() {
    return this.to.length ? this.to[this.to.length - 1] : 0;
  }

  /** The step drawn at `value`, or the nearest one before it. */
  stepAt(value) {
    return Math.max(0, upperBound(this.from, value) - 1);
  }
}

/** The part of an axis that is on screen: `scale` pixels per unit from `low` on. */
export class View {
  constructor() {
    this.low = 0;
    this.scale = 1;
    this.zoom = null; // pixels per unit that the reader chose; null fits the picture to its kind
  }

  /** Fit `length` units, or as many as stay legible at `pitch` units a step, into `width` pixels. */
  fit(length, pitch, width, least) {
    this.length = Math.max(length, 1e-9);
    this.width = width;
    this.whole = width / this.length;
    this.most = Math.max(this.whole, 72 / pitch);
    const legible = least / pitch, almost = this.whole > 0.7 * legible;
    this.natural = Math.min(almost ? this.whole : legible, this.most);
    this._settle();
  }

  zoomBy(factor, at) {
    const scale = Math.max(this.whole, Math.min(this.most, this.scale * factor));
    const offset = (at - this.low) * this.scale;
    this.zoom = scale;
    this.low = at - offset / scale;
    this._settle();
  }

  pan(pixels) {
    this.low += pixels / this.scale;
    this._settle();
  }

  reset() {
    this.zoom = null;
    this._settle();
  }

  /** Move as little as needed to keep `from`…`to` well inside. */
  follow(from, to) {
    const span = this.width / this.scale, margin = span * 0.22;
    if (to > this.low + span - margin) this.low = to - span + margin;
    if (from < this.low + margin) this.low = from - margin;
    this._settle();
  }

  _settle() {
    this.scale = Math.max(this.whole, Math.min(this.most, this.zoom ?? this.natural));
    this.low = Math.max(0, Math.min(this.low, this.length - this.width / this.scale));
  }
}
