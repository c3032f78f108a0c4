// When each request waited, ran and ended, and why the head of the queue waited.

import { upperBound, whole } from "./replay.js";

export const STATE = { AWAY: 0, WAITING: 1, RUNNING: 2, PREEMPTED: 3, FINISHED: 4, ABORTED: 5, FAILED: 6, REFUSED: 7 };
export const STATE_NAMES = [
  "not arrived yet", "waiting", "running", "preempted, waiting", "finished", "aborted", "failed", "refused",
];
const ENDS = { 2: STATE.FINISHED, 3: STATE.ABORTED, 4: STATE.FAILED };

export class Lives {
  constructor(replay, data) {
    this.replay = replay;
    this.reasons = data.reasons;
    this.waits = data.waits;
    this._turningPoints(data);
    this._queueLengths();
  }

  // Per request: the steps at which its state changes, and the state from then on.
  _turningPoints({ events, requests }) {
    const { start, numRequests, numSteps } = this.replay;
    this.steps = Array.from({ length: numRequests }, () => []);
    this.states = Array.from({ length: numRequests }, () => []);
    for (let row = 0; row < events.step.length; row++) {
      const request = events.request[row], kind = events.kind[row], step = events.step[row];
      if (kind === 0) this._turn(request, step, STATE.RUNNING);
      else if (kind === 1) this._turn(request, step, STATE.PREEMPTED);
      else if (kind === 5) this._turn(request, step, STATE.REFUSED);
      else this._turn(request, step + (numSteps ? 1 : 0), ENDS[kind]);
    }
    for (let request = 0; request < numRequests; request++) {
      if (this.states[request][0] === STATE.REFUSED) continue;
      const seen = upperBound(start, requests.arrival_us[request] - 1);
      this.steps[request].unshift(Math.min(seen, this.steps[request][0] ?? seen));
      this.states[request].unshift(STATE.WAITING);
    }
  }

  _turn(request, step, state) {
    this.steps[request].push(step);
    this.states[request].push(state);
  }

  _queueLengths() {
    const { numSteps, numRequests } = this.replay;
    const change = new Int32Array(numSteps + 2), ended = new Int32Array(numSteps + 2);
    for (let request = 0; request < numRequests; request++) {
      const steps = this.steps[request], states = this.states[request];
      for (let i = 0; i < steps.length; i++) {
        const at = Math.min(steps[i], numSteps), until = Math.min(steps[i + 1] ?? numSteps, numSteps);
        if (states[i] >= STATE.FINISHED) ended[at]++;
        if (states[i] !== STATE.WAITING && states[i] !== STATE.PREEMPTED) continue;
        change[at]++;
        change[Math.max(at, until)]--;
      }
    }
    this.queueLength = new Int32Array(numSteps);
    this.endedBefore = new Int32Array(numSteps + 1);
    for (let step = 0, waiting = 0, done = 0; step <= numSteps; step++) {
      waiting += change[step];
      done += ended[step];
      if (step < numSteps) this.queueLength[step] = waiting;
      this.endedBefore[step] = done;
    }
  }

  /** What a request is doing during a step. */
  state(request, step) {
    const steps = this.steps[request];
    let i = steps.length - 1;
    while (i >= 0 && steps[i] > step) i--;
    return i < 0 ? STATE.AWAY : this.states[request][i];
  }

  /** Waiting requests during a step, head first: those preempted, then by arrival, unless the trace names the head. */
  queue(step) {
    const waiting = [];
    for (let request = 0; request < this.replay.numRequests; request++) {
      const state = this.state(request, step);
      if (state === STATE.WAITING || state === STATE.PREEMPTED) waiting.push({ request, state });
    }
    waiting.sort((a, b) => b.state - a.state || a.request - b.request);
    const { request: head, reason } = this._lastWait(step);
    const place = waiting.findIndex((entry) => entry.request === head);
    if (place > 0) waiting.unshift(...waiting.splice(place, 1));
    const first = waiting[0];
    for (const entry of waiting) entry.reason = `behind ${this.replay.ids[first.request]}`;
    if (first) first.reason = place >= 0 ? reason : "";
    return waiting;
  }

  _lastWait(step) {
    const row = upperBound(this.waits.step, step) - 1;
    if (row < 0) return { request: -1, reason: "" };
    return { request: this.waits.request[row], reason: this.reasons[this.waits.reason[row]] };
  }

  /** Which of the three limits holds the work back in a step, with a word why. */
  limit(step, queue) {
    const { meta, batch, tokens, cutShort, numSlots } = this.replay;
    const slots = whole(meta.max_num_seqs) ?? numSlots, budget = whole(meta.max_num_batched_tokens);
    const reason = queue[0]?.reason ?? "";
    if (reason === "batch is running") return { name: "batch", why: "closed until its last row ends" };
    if (/^batch|wait/.test(reason)) return { name: "batch", why: reason.replace(/^batch /, "") };
    if (/^slots/.test(reason)) return { name: "slots", why: `all ${slots} are taken` };
    if (/^block/.test(reason)) return { name: "blocks", why: reason.replace(/^blocks?:?\s*/, "") || "too few are free" };
    const spent = budget !== null && tokens[step] >= budget;
    if (/token/.test(reason) || (spent && cutShort[step])) return { name: "tokens", why: "the step's budget is spent" };
    if (queue.length && batch[step] >= slots) return { name: "slots", why: `all ${slots} are taken` };
    return { name: "none", why: queue.length ? reason : "nobody waits" };
  }
}
