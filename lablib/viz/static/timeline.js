// Slots × steps: who sits where, and what each slot computes or wastes in every step.

import { roundUp, seconds } from "./format.js";
import { drawMark } from "./marks.js";
import { KIND } from "./replay.js";

const TILE = 512; // pixels; a tile is drawn once and then only copied, which is what makes scrubbing smooth
const MOST_TILES = 14;
export const GUTTER = 34; // room for slot numbers
const AXIS = 20; // room for step numbers
const FOOT = 12; // room for arrivals

export class Timeline {
  constructor(lane) {
    this.lane = lane;
    this.replay = lane.replay;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "sp-timeline";
    this.canvas.setAttribute("role", "img");
    this.context = this.canvas.getContext("2d");
    this.tiles = new Map();
  }

  /** Take `width` pixels; rows share `rowsHeight` as far as they stay legible. */
  layout(width, rowsHeight, palette) {
    const slots = this.replay.numSlots;
    this.palette = palette;
    this.ratio = window.devicePixelRatio || 1;
    this.rowHeight = Math.max(3, Math.min(30, Math.floor(rowsHeight / slots)));
    this.gap = this.rowHeight >= 12 ? 3 : this.rowHeight >= 5 ? 1 : 0;
    this.width = width;
    this.rows = this.rowHeight * slots;
    this.height = AXIS + this.rows + FOOT;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.tiles.clear();
  }

  setAxis(axis) {
    this.axis = axis;
    this.tiles.clear();
  }

  /** Draw the part of the run that `view` shows, with the cursor at `step` and request `focus` lit up; `time` adds a hairline. */
  draw(view, step, focus, time = null) {
    if (view.scale !== this.drawnScale) this.tiles.clear();
    this.drawnScale = view.scale;
    this.left = Math.round(view.low * view.scale * this.ratio) / this.ratio;
    this.scale = view.scale;
    const c = this.context;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, this.width - GUTTER, AXIS + this.rows);
    c.clip();
    this._copyTiles(c);
    if (focus >= 0) this._light(c, focus);
    this._veil(c, step);
    if (this.rowHeight >= 13) this._labels(c, step, focus);
    c.restore();
    this._cursor(c, step, time);
    this._ticks(c, step);
    this._slotNumbers(c);
  }

  /** What lies at a point of the canvas: step, slot, and the run there or -1; null outside. */
  pick(x, y) {
    if (x < GUTTER || !this.replay.numSteps) return null;
    const step = this.axis.stepAt((x - GUTTER + this.left) / this.scale);
    const slot = Math.floor((y - AXIS) / this.rowHeight);
    const inside = slot >= 0 && slot < this.replay.numSlots;
    return { step, slot: inside ? slot : -1, run: inside ? this.replay.cell(step, slot) : -1 };
  }

  x(value) {
    return GUTTER + value * this.scale - this.left;
  }

  get visible() {
    const first = this.axis.stepAt(this.left / this.scale);
    return [first, this.axis.stepAt((this.left + this.width - GUTTER) / this.scale)];
  }

  _copyTiles(c) {
    const first = Math.floor(this.left / TILE), last = Math.floor((this.left + this.width - GUTTER) / TILE);
    for (let index = first; index <= last; index++) {
      let tile = this.tiles.get(index);
      if (tile) this.tiles.delete(index);
      else tile = this._paintTile(index);
      this.tiles.set(index, tile);
      c.drawImage(tile, GUTTER + index * TILE - this.left, AXIS, TILE, this.rows);
    }
    while (this.tiles.size > MOST_TILES) this.tiles.delete(this.tiles.keys().next().value);
  }

  _paintTile(index) {
    const tile = document.createElement("canvas");
    tile.width = Math.round(TILE * this.ratio);
    tile.height = Math.max(1, Math.round(this.rows * this.ratio));
    const c = tile.getContext("2d"), left = index * TILE;
    c.setTransform(this.ratio, 0, 0, this.ratio, -left * this.ratio, 0);
    const { replay, axis } = this;
    if (!replay.numSteps) return tile;
    const first = Math.max(0, axis.stepAt(left / this.scale) - 1);
    const last = Math.min(replay.last, axis.stepAt((left + TILE) / this.scale) + 1);
    this._idle(c, first, last);
    this._rows(c, first, last, -1);
    this._marks(c, first, last, -1);
    return tile;
  }

  // An empty seat is only a waste while others compute: between steps nothing is drawn.
  _idle(c, first, last) {
    c.fillStyle = this.palette.idle;
    let begin = this.axis.from[first];
    for (let step = first; step <= last; step++) {
      const end = this.axis.to[step], next = step < last ? this.axis.from[step + 1] : Infinity;
      if ((next - end) * this.scale < 1) continue;
      for (let slot = 0; slot < this.replay.numSlots; slot++)
        c.fillRect(begin * this.scale, this._top(slot), (end - begin) * this.scale, this.rowHeight - this.gap);
      begin = next;
    }
  }

  _top(slot) {
    return slot * this.rowHeight + this.gap / 2;
  }

  // Paint the runs that touch steps first…last; with `only`, those of one request. The lines between steps are drawn
  // once for all rows, over what decodes and under the rest.
  _rows(c, first, last, only) {
    const { numSlots } = this.replay;
    for (let slot = 0; slot < numSlots; slot++) this._row(c, slot, first, last, only, true);
    this._separators(c, first, last);
    for (let slot = 0; slot < numSlots; slot++) this._row(c, slot, first, last, only, false);
  }

  _row(c, slot, first, last, only, decodes) {
    const { replay } = this, { step, count, request } = replay.runs;
    for (let at = first; at <= last; at++) {
      const run = replay.cell(at, slot);
      if (run < 0) continue;
      const end = Math.min(last, step[run] + count[run] - 1);
      const wanted = (replay.runKind[run] === KIND.DECODE) === decodes && (only < 0 || request[run] === only);
      if (wanted) this._run(c, run, at, end, this._top(slot), this.rowHeight - this.gap);
      at = end;
    }
  }

  _run(c, run, first, last, y, height) {
    const { replay, axis, scale, palette } = this, kind = replay.runKind[run];
    const tones = palette.of(replay.runs.request[run]);
    const x0 = axis.from[first] * scale, x1 = axis.to[last] * scale;
    if (kind === KIND.STRAGGLER) {
      fill(c, palette.straggler, x0, y, x1 - x0, height);
      return;
    }
    if (kind === KIND.DECODE) {
      fill(c, tones.soft, x0, y, x1 - x0, height);
      if (height > 8) fill(c, tones.edge, x0, y + height - 1, x1 - x0, 1);
      return;
    }
    for (let step = first; step <= last; step++) this._prefill(c, run, step, y, height, tones);
  }

  _prefill(c, run, step, y, height, tones) {
    const { replay, axis, scale, palette } = this, kind = replay.runKind[run];
    const { tokens, padding } = replay.runs, all = tokens[run] + padding[run];
    const x0 = axis.from[step] * scale, width = (axis.to[step] - axis.from[step]) * scale;
    // On a step axis a narrow row of a wide step looks as short as it is; padding is what fills it up.
    const real = width * (padding[run] ? tokens[run] / all : 1);
    fill(c, tones.solid, x0, y, real, height);
    if (kind === KIND.RECOMPUTE) fill(c, palette.again, x0, y, real, height);
    if (padding[run]) fill(c, palette.padding, x0 + real, y, width - real, height);
    if (kind === KIND.CHUNK && width > 5) fill(c, palette.colours.paper, x0 + width - 1.5, y, 1.5, height);
  }

  _separators(c, first, last) {
    const { from, to } = this.axis;
    c.fillStyle = this.palette.colours.fog;
    for (let step = first; step <= last; step++)
      if ((to[step] - from[step]) * this.scale >= 5) c.fillRect(from[step] * this.scale - 0.5, 0, 1, this.rows);
  }

  _marks(c, first, last, only) {
    const { replay, axis, scale } = this, { kind, request } = replay.events;
    for (let step = first; step <= last + 1; step++) {
      for (const row of replay.eventsAt(step)) {
        const stopped = kind[row] === 1 ? replay.runAt(request[row], step - 1) : lastRealRun(replay, request[row], step);
        if (kind[row] === 0 || stopped < 0 || (only >= 0 && only !== request[row])) continue;
        const end = Math.min(step, replay.runs.step[stopped] + replay.runs.count[stopped] - 1);
        const x = axis.to[end] * scale, y = this._top(replay.runs.slot[stopped]);
        drawMark(c, this.palette, kind[row], x, y, this.rowHeight - this.gap, request[row]);
      }
    }
  }

  // Everything but the request in focus steps back.
  _light(c, focus) {
    const [first, last] = this.visible;
    c.fillStyle = this.palette.colours.fog;
    c.fillRect(GUTTER, AXIS, this.width, this.rows);
    c.save();
    c.translate(GUTTER - this.left, AXIS);
    this._rows(c, first, last, focus);
    this._marks(c, first, last, focus);
    c.restore();
  }

  // What has not happened yet is there to be seen, but pale.
  _veil(c, step) {
    const x = Math.max(GUTTER, step < 0 ? GUTTER : this.x(this.axis.to[step]));
    c.fillStyle = this.palette.colours.veil;
    c.fillRect(x, AXIS, this.width - x, this.rows);
  }

  _labels(c, step, focus) {
    const [first, last] = this.visible, { runs, labels } = this.replay;
    c.font = `600 ${Math.min(12, this.rowHeight - 4)}px ${this.palette.font}`;
    c.textBaseline = "middle";
    c.textAlign = "left";
    for (let slot = 0; slot < this.replay.numSlots; slot++) {
      let labelled = -1;
      for (let at = first; at <= last; at++) {
        const run = this.replay.cell(at, slot);
        if (run < 0) continue;
        const request = runs.request[run], end = runs.step[run] + runs.count[run] - 1;
        if (request !== labelled && this._label(c, run, slot, labels[request], step, focus)) labelled = request;
        at = end;
      }
    }
  }

  _label(c, run, slot, text, step, focus) {
    const { axis, replay } = this, kind = replay.runKind[run], tones = this.palette.of(replay.runs.request[run]);
    if (kind === KIND.STRAGGLER) return false;
    const first = replay.runs.step[run], last = first + replay.runs.count[run] - 1, padding = replay.runs.padding[run];
    const x0 = Math.max(this.x(axis.from[first]), GUTTER);
    let x1 = this.x(axis.to[last]);
    if (padding) x1 = x0 + ((x1 - x0) * replay.runs.tokens[run]) / (replay.runs.tokens[run] + padding);
    if (Math.min(x1, this.width) - x0 < c.measureText(text).width + 9) return false;
    const dimmed = focus >= 0 && replay.runs.request[run] !== focus;
    const pale = dimmed || first > step;
    c.fillStyle = pale ? this.palette.colours.muted : kind === KIND.DECODE ? tones.onSoft : tones.onSolid;
    c.globalAlpha = dimmed ? 0.55 : 1;
    c.fillText(text, x0 + 5, AXIS + this._top(slot) + (this.rowHeight - this.gap) / 2 + 0.5);
    c.globalAlpha = 1;
    return true;
  }

  _cursor(c, step, time) {
    if (time !== null) {
      c.fillStyle = this.palette.colours.cursor;
      c.fillRect(this.x(time) - 0.5, AXIS - 2, 1, this.rows + 4);
    }
    if (step < 0 || time > this.axis.length) return;
    const x0 = Math.max(GUTTER, this.x(this.axis.from[step])), x1 = Math.max(x0 + 1.5, this.x(this.axis.to[step]));
    c.fillStyle = this.palette.colours.column;
    c.fillRect(x0, AXIS, x1 - x0, this.rows);
    c.fillStyle = this.palette.colours.cursor;
    c.fillRect(x0 - 0.5, AXIS - 2, 1, this.rows + 2);
    c.fillRect(x1 - 0.5, AXIS - 2, 1, this.rows + 2);
    c.fillRect(x0 - 0.5, AXIS - 2, x1 - x0 + 1, 2);
  }

  _ticks(c, step) {
    const { axis, replay, palette } = this;
    if (!replay.numSteps) return;
    const [first, last] = this.visible, perStep = (this.width - GUTTER) / Math.max(1, last - first + 1);
    c.font = `11px ${palette.font}`;
    c.textBaseline = "alphabetic";
    c.textAlign = "center";
    const flag = step >= 0 ? this.x((axis.from[step] + axis.to[step]) / 2) : -100;
    c.fillStyle = palette.colours.muted;
    if (axis.byTime) this._timeTicks(c, flag);
    else {
      const every = roundUp(58 / perStep, 1);
      for (let tick = Math.ceil(first / every) * every; tick <= last; tick += every) {
        const x = this.x((axis.from[tick] + axis.to[tick]) / 2);
        if (Math.abs(x - flag) > 42 && x > GUTTER && x < this.width - 10) c.fillText(tick, x, 12);
      }
    }
    this._arrivals(c, first, last);
    if (step >= 0 && flag > 0) this._flag(c, step, flag);
  }

  _timeTicks(c, flag) {
    const every = roundUp(76 / this.scale, 1e-9);
    for (let k = Math.ceil(this.left / this.scale / every); ; k++) {
      const x = this.x(k * every);
      if (x > this.width) return;
      if (Math.abs(x - flag) > 48 && x > GUTTER + 8 && x < this.width - 18) c.fillText(seconds(k * every), x, 12);
    }
  }

  _flag(c, step, x) {
    const text = this.axis.byTime ? `step ${step}` : `${step}`;
    c.font = `700 11px ${this.palette.font}`;
    const half = c.measureText(text).width / 2 + 5;
    x = Math.max(GUTTER + half, Math.min(this.width - half, x));
    c.fillStyle = this.palette.colours.ink;
    c.beginPath();
    c.roundRect(x - half, 0, 2 * half, 16, 4);
    c.fill();
    c.fillStyle = this.palette.colours.paper;
    c.fillText(text, x, 12);
  }

  // A tick under the picture for each arrival, at the first step that could have served it.
  _arrivals(c, first, last) {
    const { lives, requests, numRequests, numSteps } = this.replay, y = AXIS + this.rows + 3;
    for (let request = 0; request < numRequests; request++) {
      const seen = lives.steps[request][0];
      if (seen < first || seen > last || seen >= numSteps) continue;
      const x = this.x(this.axis.byTime ? requests.arrival_us[request] : this.axis.from[seen]);
      c.fillStyle = this.palette.of(request).edge;
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(x + 3, y + 6);
      c.lineTo(x - 3, y + 6);
      c.fill();
    }
  }

  _slotNumbers(c) {
    c.font = `11px ${this.palette.font}`;
    c.fillStyle = this.palette.colours.muted;
    c.textAlign = "right";
    c.textBaseline = "middle";
    const every = this.rowHeight >= 12 ? 1 : this.rowHeight >= 7 ? 4 : 8;
    for (let slot = 0; slot < this.replay.numSlots; slot += every)
      c.fillText(slot, GUTTER - 8, AXIS + (slot + 0.5) * this.rowHeight + 0.5);
  }
}

// The last run in which a request computed something: a static batch goes on without it.
function lastRealRun(replay, request, step) {
  let found = -1;
  for (const run of replay.runsOf(request)) if (replay.runs.step[run] <= step && replay.runs.tokens[run]) found = run;
  return found;
}

function fill(c, style, x, y, width, height) {
  c.fillStyle = style;
  c.fillRect(x, y, width, height);
}
