// Who owns which KV block at a step: the trace's block changes, made reversible so that scrubbing runs both ways.

import { whole } from "./replay.js";

export class BlockHistory {
  constructor(data, replay) {
    const { blocks } = data, changes = blocks.count.reduce((sum, count) => sum + count, 0);
    let last = 0;
    const ids = data.block_ids.map((difference) => (last += difference));
    const highest = ids.reduce((most, id) => Math.max(most, id), -1);
    this.count = Math.max(highest + 1, whole(data.meta.num_blocks) ?? 0);
    this.size = whole(data.meta.block_size);
    this.owner = new Int32Array(this.count).fill(-1); // request, -1 for a free block
    this.place = new Int32Array(this.count); // where it stands in its owner's block table
    this.shares = new Int32Array(this.count); // requests that use it
    this.usedAt = new Int32Array(replay.numSteps);
    this.changeStep = new Int32Array(changes);
    this.block = new Int32Array(changes);
    this.before = { owner: new Int32Array(changes), place: new Int32Array(changes) };
    this.after = { owner: new Int32Array(changes), place: new Int32Array(changes) };
    this.sharesAfter = new Int32Array(changes);
    this.sharesBefore = new Int32Array(changes);
    this._play(blocks, ids, replay);
    this.position = this.block.length;
    this.seek(-1);
  }

  // Walk through all changes once; each is noted with the state before and after it. The trace names what is allocated;
  // what is freed is the end of the request's block table.
  _play(blocks, ids, replay) {
    const tables = Array.from({ length: replay.numRequests }, () => []), sharers = new Map();
    let entry = 0, taken = 0, used = 0, step = 0;
    for (let row = 0; row < blocks.step.length; row++) {
      for (; step < Math.min(blocks.step[row], replay.numSteps); step++) this.usedAt[step] = used;
      const request = blocks.request[row], table = tables[request], count = blocks.count[row];
      const freed = blocks.kind[row] === 1, place = freed ? Math.max(0, table.length - count) : table.length;
      if (!freed) for (let k = 0; k < count; k++) table.push(ids[taken++]);
      const changed = table.slice(place);
      if (freed) table.length = place;
      changed.forEach((block, k) => {
        this.block[entry] = block;
        used += this._change(entry++, blocks.step[row], request, place + k, freed, sharers);
      });
    }
    for (; step < replay.numSteps; step++) this.usedAt[step] = used;
    this.usedAtEnd = used;
    this.block = this.block.subarray(0, entry); // shorter than planned where a broken manager frees what it has not
  }

  _change(entry, step, request, place, freed, sharers) {
    const { owner, place: places, shares } = this, block = this.block[entry];
    this.changeStep[entry] = step;
    this.before.owner[entry] = owner[block];
    this.before.place[entry] = places[block];
    this.sharesBefore[entry] = shares[block];
    if (!freed && owner[block] >= 0) sharers.set(block, [...(sharers.get(block) ?? [owner[block]]), request]);
    if (freed && sharers.has(block)) sharers.set(block, sharers.get(block).filter((other) => other !== request));
    shares[block] = Math.max(0, shares[block] + (freed ? -1 : 1));
    if (freed) owner[block] = shares[block] ? sharers.get(block)?.[0] ?? owner[block] : -1;
    else if (owner[block] < 0) {
      owner[block] = request;
      places[block] = place;
    }
    this.after.owner[entry] = owner[block];
    this.after.place[entry] = places[block];
    this.sharesAfter[entry] = shares[block];
    return (shares[block] > 0) - (this.sharesBefore[entry] > 0);
  }

  /** Bring `owner`, `place` and `shares` to how they are during a step. */
  seek(step) {
    while (this.position < this.block.length && this.changeStep[this.position] <= step)
      this._set(this.position++, this.after, this.sharesAfter);
    while (this.position > 0 && this.changeStep[this.position - 1] > step)
      this._set(--this.position, this.before, this.sharesBefore);
  }

  _set(entry, side, shares) {
    const block = this.block[entry];
    this.owner[block] = side.owner[entry];
    this.place[block] = side.place[entry];
    this.shares[block] = shares[entry];
  }

  /** Tokens written to a block, of `size`, when its owner has computed so many. */
  written(block, computed) {
    if (!this.size) return 1;
    return Math.max(0, Math.min(this.size, computed - this.place[block] * this.size));
  }
}
