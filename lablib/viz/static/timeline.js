// Slots × steps: who sits where, and what each slot computes or wastes in every step.

import { drawFrame } from "./frame.js";
import { drawLabels } from "./labels.js";
import { AXIS, FOOT, GUTTER } from "./layout.js";
import { drawMark } from "./marks.js";
import { KIND } from "./replay.js";

const TILE = 512; // pixels; a tile is drawn once and then only copied, which is what makes scrubbing smooth
const MOST_TILES = 14;

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
    if (this.rowHeight >= 13) drawLabels(c, this, step, focus);
    c.restore();
    this._cursor(c, step, time);
    drawFrame(c, this, step);
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
        c.fillRect(begin * this.scale, this.top(slot), (end - begin) * this.scale, this.rowHeight - this.gap);
      begin = next;
    }
  }

  top(slot) {
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
      if (wanted) this._run(c, run, at, end, this.top(slot), this.rowHeight - this.gap);
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
    if (this.axis.pitch * this.scale < 5) return;
    c.fillStyle = this.palette.colours.fog;
    for (let step = first; step <= last; step++) c.fillRect(this.axis.from[step] * this.scale - 0.5, 0, 1, this.rows);
  }

  _marks(c, first, last, only) {
    const { replay, axis, scale } = this, { kind, request } = replay.events;
    for (let step = first; step <= last + 1; step++) {
      for (const row of replay.eventsAt(step)) {
        const stopped = kind[row] === 1 ? replay.runAt(request[row], step - 1) : lastRealRun(replay, request[row], step);
        if (kind[row] === 0 || stopped < 0 || (only >= 0 && only !== request[row])) continue;
        const end = Math.min(step, replay.runs.step[stopped] + replay.runs.count[stopped] - 1);
        const x = axis.to[end] * scale, y = this.top(replay.runs.slot[stopped]);
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
