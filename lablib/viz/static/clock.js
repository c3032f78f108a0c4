// What the scrubber counts: steps for one trace, microseconds for several, so that they run on one clock.

import { upperBound } from "./replay.js";
import { seconds } from "./format.js";

export class StepClock {
  constructor(lanes) {
    this.replay = lanes[0].replay;
    this.max = Math.max(0, this.replay.last);
    this.rates = [1, 2, 4, 8, 15, 30, 60];
    this.rate = this.rates.findIndex((rate) => rate >= Math.min(60, this.replay.numSteps / 45));
    this.unit = 1;
  }

  get rateText() {
    return `${this.rates[this.rate]} step${this.rates[this.rate] > 1 ? "s" : ""}/s`;
  }

  /** Where `value` goes after `elapsed` seconds of playing. */
  advance(value, elapsed) {
    return value + elapsed * this.rates[this.rate];
  }

  by(value, count) {
    return Math.floor(value) + count;
  }

  event(value, direction) {
    const steps = this.replay.eventSteps, at = Math.floor(value);
    const next = upperBound(steps, at), previous = upperBound(steps, at - 1) - 1;
    return (direction > 0 ? steps[next] : steps[previous]) ?? at;
  }

  stepOf(lane, value) {
    return lane.replay.numSteps ? Math.floor(value) : -1;
  }

  valueOf(lane, step) {
    return step;
  }

  /** Left and right end of a step on the scrubber, as shares of its length. */
  place(lane) {
    const steps = Math.max(1, this.replay.numSteps);
    return (step) => [step / steps, (step + 1) / steps];
  }

  text(value) {
    if (!this.replay.numSteps) return "no steps";
    const step = Math.floor(value);
    return `step ${step} of ${this.max}, ${seconds(this.replay.start[step])}`;
  }
}

export class TimeClock {
  constructor(lanes) {
    this.lanes = lanes;
    this.max = Math.max(...lanes.map((lane) => lane.replay.endOfRun), 1);
    this.starts = Float64Array.from(new Set(lanes.flatMap((lane) => [...lane.replay.start]))).sort();
    const events = lanes.flatMap(({ replay }) => Array.from(replay.eventSteps, (step) => replay.start[step]));
    this.events = Float64Array.from(new Set(events)).sort();
    this.rates = Array.from({ length: 15 }, (_, i) => 2 ** (i - 7));
    const wanted = this.max / 1e6 / 25; // the whole run in some 25 seconds
    this.rate = Math.max(0, this.rates.findIndex((rate) => rate >= wanted));
    if (wanted > this.rates[14]) this.rate = 14;
    this.unit = 1;
  }

  get rateText() {
    const rate = this.rates[this.rate];
    return rate >= 1 ? `${rate} × real time` : `1/${1 / rate} real time`;
  }

  advance(value, elapsed) {
    return value + elapsed * 1e6 * this.rates[this.rate];
  }

  by(value, count) {
    const at = upperBound(this.starts, value) - 1 + count;
    return at >= this.starts.length ? this.max : this.starts[Math.max(0, at)] ?? 0;
  }

  event(value, direction) {
    const next = upperBound(this.events, value);
    if (direction > 0) return this.events[next] ?? this.max;
    return this.events[upperBound(this.events, value - 1) - 1] ?? 0;
  }

  stepOf(lane, value) {
    return lane.replay.stepAt(value);
  }

  valueOf(lane, step) {
    return lane.replay.start[step] ?? 0;
  }

  place(lane) {
    const { start, end } = lane.replay;
    return (step) => [start[step] / this.max, end[step] / this.max];
  }

  text(value) {
    return `${seconds(value)} of ${seconds(this.max)}`;
  }
}
