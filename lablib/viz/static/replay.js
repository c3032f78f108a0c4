// A trace, unpacked into typed arrays that answer "what was going on at step t?" without searching long.

import { BlockHistory } from "./blocks.js";
import { Lives } from "./lives.js";

export const KIND = { DECODE: 0, PREFILL: 1, CHUNK: 2, RECOMPUTE: 3, STRAGGLER: 4 };
export const KIND_NAMES = ["decode", "prefill", "chunk of a prompt", "recompute", "straggler"];
export const EVENTS = ["admitted", "preempted", "finished", "aborted", "failed", "refused"];

/** Gunzip the bytes of a trace file and parse them. */
export async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** First index whose value is larger than `value`, in a sorted array. */
export function upperBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Group the rows of a table by a key: `group(key)` gives row numbers, in the table's order. */
export function groupBy(keys, count) {
  const starts = new Int32Array(count + 2);
  for (const key of keys) starts[key + 2]++;
  for (let key = 2; key < starts.length; key++) starts[key] += starts[key - 1];
  const rows = new Int32Array(keys.length);
  for (let row = 0; row < keys.length; row++) rows[starts[keys[row] + 1]++] = row;
  return (key) => rows.subarray(starts[key], starts[key + 1]);
}

export class Replay {
  constructor(data, name) {
    this.meta = data.meta;
    this.name = name || "";
    this.requests = data.requests;
    this.ids = data.requests.id;
    this.labels = shortLabels(this.ids);
    this.indexOf = new Map(this.ids.map((id, index) => [id, index]));
    this.numRequests = this.ids.length;
    this.numSteps = data.steps.duration_us.length;
    this.last = this.numSteps - 1;
    this._clock(data.steps);
    this._runs(data.runs);
    this._cells();
    this._series();
    this.events = data.events;
    this.eventsAt = groupBy(data.events.step, this.numSteps + 1);
    this.deliveries = data.deliveries;
    this.deliveriesOf = groupBy(data.deliveries.request, this.numRequests);
    this.lives = new Lives(this, data);
    this.blocks = new BlockHistory(data, this);
    this.eventSteps = Int32Array.from(new Set(data.events.step)).sort().filter((step) => step < this.numSteps);
  }

  _clock(steps) {
    this.start = new Float64Array(this.numSteps);
    this.end = new Float64Array(this.numSteps);
    let now = 0;
    for (let step = 0; step < this.numSteps; step++) {
      this.start[step] = now + steps.gap_us[step];
      this.end[step] = now = this.start[step] + steps.duration_us[step];
    }
    this.endOfRun = now;
  }

  _runs(table) {
    this.runs = splitRuns(table, this.requests.prompt);
    const { request, start } = this.runs;
    this.runsOf = groupBy(request, this.numRequests);
    this.runKind = new Uint8Array(request.length);
    this.runFrom = start.slice(); // first position, carried over where a run computes nothing
    this.sampledBefore = new Int32Array(request.length);
    this.hasKind = [false, false, false, false, false];
    this.hasPadding = false;
    for (let each = 0; each < this.numRequests; each++) this._classify(each);
  }

  // What a chunk is follows from what came before it: a step computes some of the tokens whose K/V are missing.
  _classify(request) {
    const { start, tokens, count, sampled, padding } = this.runs;
    const prompt = this.requests.prompt[request];
    let sampledSoFar = 0, reached = 0, computed = 0, partial = false;
    for (const run of this.runsOf(request)) {
      let kind = KIND.PREFILL;
      if (tokens[run] === 0) kind = KIND.STRAGGLER;
      else if (sampledSoFar && start[run] === prompt + sampledSoFar - 1) kind = KIND.DECODE;
      else if (start[run] < reached) kind = KIND.RECOMPUTE;
      else if (!sampled[run] || partial) kind = KIND.CHUNK;
      this.runKind[run] = kind;
      this.hasKind[kind] = true;
      this.hasPadding ||= tokens[run] > 0 && padding[run] > 0;
      this.sampledBefore[run] = sampledSoFar;
      if (tokens[run]) computed = start[run] + count[run] * tokens[run];
      else this.runFrom[run] = computed;
      partial = tokens[run] > 0 && !sampled[run];
      reached = Math.max(reached, computed);
      sampledSoFar += count[run] * sampled[run];
    }
  }

  _cells() {
    const { slot, step, count } = this.runs;
    const used = slot.reduce((most, value) => Math.max(most, value + 1), 0);
    const limit = whole(this.meta.max_num_seqs);
    this.numSlots = Math.max(1, used, limit && limit <= 128 ? limit : 0);
    this.cells = new Int32Array(this.numSteps * this.numSlots).fill(-1);
    for (let run = 0; run < slot.length; run++)
      for (let k = 0; k < count[run]; k++) this.cells[(step[run] + k) * this.numSlots + slot[run]] = run;
  }

  _series() {
    const { step, count, tokens, padding } = this.runs;
    const zeros = () => new Int32Array(this.numSteps);
    Object.assign(this, { batch: zeros(), tokens: zeros(), padding: zeros(), widest: zeros(), cutShort: zeros() });
    for (let run = 0; run < step.length; run++) {
      for (let t = step[run]; t < step[run] + count[run]; t++) {
        this.batch[t]++;
        this.tokens[t] += tokens[run];
        this.padding[t] += padding[run];
        this.widest[t] = Math.max(this.widest[t], tokens[run] + padding[run]);
        if (tokens[run] && !this.runs.sampled[run]) this.cutShort[t] = 1;
      }
    }
  }

  /** Last step that has begun at `clock` microseconds, or -1. */
  stepAt(clock) {
    return upperBound(this.start, clock) - 1;
  }

  /** The run that a slot works on in a step, or -1. */
  cell(step, slot) {
    return step >= 0 && step < this.numSteps ? this.cells[step * this.numSlots + slot] : -1;
  }

  /** The last run of a request that has begun by `step`, or -1. */
  runAt(request, step) {
    const rows = this.runsOf(request);
    let low = 0, high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.runs.step[rows[middle]] > step) high = middle;
      else low = middle + 1;
    }
    return low ? rows[low - 1] : -1;
  }

  /** Tokens of a request whose K/V are in the cache after `step`, if it still holds its blocks. */
  computed(request, step) {
    const run = this.runAt(request, step);
    if (run < 0) return 0;
    return this.runFrom[run] + this._turns(run, step) * this.runs.tokens[run];
  }

  /** Output tokens of a request that exist after `step`. */
  generated(request, step) {
    const run = this.runAt(request, step);
    return run < 0 ? 0 : this.sampledBefore[run] + this._turns(run, step) * this.runs.sampled[run];
  }

  /** Output tokens of a request that its caller has after `step`. */
  delivered(request, step) {
    const { step: first, count, tokens } = this.deliveries;
    let total = 0;
    for (const row of this.deliveriesOf(request))
      total += tokens[row] * Math.max(0, Math.min(count[row], step - first[row] + 1));
    return total;
  }

  _turns(run, step) {
    return Math.min(this.runs.count[run], step - this.runs.step[run] + 1);
  }
}

// A prompt whose last chunk is a single token goes on as one run with the decoding that follows: part the two.
function splitRuns(runs, prompts) {
  const split = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  for (let run = 0; run < runs.step.length; run++) {
    const row = Object.fromEntries(Object.entries(runs).map(([name, values]) => [name, values[run]]));
    const mixed = row.tokens === 1 && row.sampled && row.count > 1 && row.start < prompts[row.request];
    const rest = { ...row, step: row.step + 1, start: row.start + 1, count: row.count - 1 };
    for (const part of mixed ? [{ ...row, count: 1 }, rest] : [row])
      for (const name in split) split[name].push(part[name]);
  }
  return Object.fromEntries(Object.entries(split).map(([name, values]) => [name, Int32Array.from(values)]));
}

export function whole(value) {
  return Number.isInteger(value) && value > 0 ? value : null;
}

// Labels must fit into a bar: ids without what they all begin with, as far as that ends before a digit.
function shortLabels(ids) {
  let prefix = ids.length > 1 ? ids[0] : "";
  for (const id of ids) while (!id.startsWith(prefix)) prefix = prefix.slice(0, -1);
  prefix = prefix.replace(/[0-9]+$/, "");
  const cut = prefix.length > 2 && ids.every((id) => id.length > prefix.length) ? prefix.length : 0;
  return ids.map((id) => id.slice(cut));
}
