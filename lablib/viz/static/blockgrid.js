// KV blocks: each by its owner's colour, filled as far as tokens are written.

export class BlockGrid {
  constructor(lane) {
    this.replay = lane.replay;
    this.mostHeight = lane.compact ? 92 : 400;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "sp-blocks-canvas";
    this.canvas.setAttribute("role", "img");
    this.context = this.canvas.getContext("2d");
    this.computed = new Int32Array(this.replay.numRequests);
    this.computedFor = new Int32Array(this.replay.numRequests).fill(-2);
  }

  layout(width, palette) {
    const { count, size } = this.replay.blocks;
    this.palette = palette;
    this.ratio = window.devicePixelRatio || 1;
    Object.assign(this, arrange(count, size ?? 1, width, this.mostHeight));
    this.rowsShown = Math.ceil(count / this.columns);
    this.width = width;
    this.height = Math.max(1, this.rowsShown * this.cellHeight);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.drawn = new Float64Array(count).fill(NaN);
    this.image = this.cellHeight >= 12 ? null : this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = this.image && new Uint32Array(this.image.data.buffer);
  }

  /** Draw the blocks as they are after `step`, those of request `focus` lit up. */
  draw(step, focus) {
    const { blocks } = this.replay, c = this.context;
    if (blocks.count === 0) return;
    blocks.seek(step);
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.font = `600 ${Math.min(11, this.cellHeight - 5)}px ${this.palette.font}`;
    c.textBaseline = "middle";
    for (let block = 0; block < blocks.count; block++) {
      const owner = blocks.owner[block];
      const written = owner < 0 ? 0 : blocks.written(block, this._computed(owner, step));
      const dim = focus >= 0 && owner !== focus;
      // Only blocks that look different from last time are painted: a step changes few of thousands.
      const look = ((owner + 1) * 65536 + written) * 8 + (blocks.shares[block] > 1 ? 4 : 0) + (dim ? 1 : 0);
      if (this.drawn[block] === look) continue;
      this.drawn[block] = look;
      if (this.image) this._pixels(block, owner, written, dim);
      else this._block(c, block, owner, written, dim);
    }
    if (this.image) c.putImageData(this.image, 0, 0);
  }

  /** The block at a point of the canvas, or -1. */
  pick(x, y) {
    const column = Math.floor(x / this.cellWidth), row = Math.floor(y / this.cellHeight);
    const block = row * this.columns + column;
    return column >= 0 && column < this.columns && block >= 0 && block < this.replay.blocks.count ? block : -1;
  }

  _computed(request, step) {
    if (this.computedFor[request] !== step) {
      this.computedFor[request] = step;
      this.computed[request] = this.replay.computed(request, step);
    }
    return this.computed[request];
  }

  // Thousands of blocks are painted into memory and shown at once: ten times as fast as as many rectangles.
  _pixels(block, owner, written, dim) {
    const { ratio, cellWidth, cellHeight, inset, pixels, palette } = this, line = this.canvas.width;
    const left = (block % this.columns) * cellWidth, top = Math.floor(block / this.columns) * cellHeight;
    const x0 = Math.round(left * ratio), x1 = Math.round((left + cellWidth - inset) * ratio);
    const y0 = Math.round(top * ratio), y1 = Math.round((top + cellHeight - inset) * ratio);
    const share = written / (this.replay.blocks.size ?? 1), shade = dim ? 1 : 0;
    const middle = owner < 0 ? x0 : x0 + (written ? Math.max(1, Math.round((x1 - x0) * share)) : 0);
    const [solid, pale] = owner < 0 ? [0, palette.emptyPixel] : palette.of(owner).pixels.map((tone) => tone[shade]);
    const shared = this.replay.blocks.shares[block] > 1;
    for (let y = y0; y < y1; y++) {
      const stripe = shared && ((y - y0) >> 1) % 2;
      pixels.fill(stripe ? pale : solid, y * line + x0, y * line + middle);
      pixels.fill(pale, y * line + middle, y * line + x1);
    }
  }

  _block(c, block, owner, written, dim) {
    const { palette, cellWidth, cellHeight, inset } = this, colours = palette.colours;
    const x = (block % this.columns) * cellWidth, y = Math.floor(block / this.columns) * cellHeight;
    const width = cellWidth - inset, height = cellHeight - inset;
    c.globalAlpha = 1;
    c.fillStyle = colours.paper;
    c.fillRect(x, y, cellWidth, cellHeight);
    if (owner < 0) {
      c.fillStyle = colours.empty;
      c.fillRect(x, y, width, height);
      return;
    }
    const tones = palette.of(owner), share = written / (this.replay.blocks.size ?? 1);
    c.globalAlpha = dim ? 0.25 : 1;
    c.fillStyle = tones.pale;
    c.fillRect(x, y, width, height);
    if (share > 0) {
      c.fillStyle = tones.solid;
      c.fillRect(x, y, width * share, height);
    }
    if (this.replay.blocks.shares[block] > 1) {
      c.fillStyle = palette.shared;
      c.fillRect(x, y, width, height);
    }
    if (share < 1 && height >= 8) this._outline(c, x, y, width, height, tones.edge);
    if (this.lettered && !dim) this._letter(c, this.replay.labels[owner], x, y, width, height, tones, share);
    c.globalAlpha = 1;
  }

  _outline(c, x, y, width, height, colour) {
    c.strokeStyle = colour;
    c.lineWidth = 1;
    c.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }

  // A label moves to the empty part of a block when the written part is too narrow for it.
  _letter(c, text, x, y, width, height, tones, share) {
    const room = c.measureText(text).width + 6, filled = width * share;
    if (room > width) return;
    c.textAlign = "left";
    if (filled >= room || filled > width / 2) {
      if (filled < room) return;
      c.fillStyle = tones.onSolid;
      c.fillText(text, x + (width > 90 ? 6 : (filled - room) / 2 + 3), y + height / 2 + 0.5);
    } else if (width - filled >= room) {
      c.fillStyle = tones.onPale;
      c.fillText(text, x + filled + (width > 90 ? 6 : (width - filled - room) / 2 + 3), y + height / 2 + 0.5);
    }
  }
}

// Giant blocks become wide bars, small ones squares; thousands shrink until they fit.
function arrange(count, size, width, mostHeight) {
  if (size >= 128 && count <= 64) {
    const columns = Math.max(1, Math.ceil((count * 16) / mostHeight)), rows = Math.ceil(count / columns);
    const cellHeight = Math.max(14, Math.min(26, Math.floor(mostHeight / rows)));
    return { columns, cellWidth: (width + 3) / columns, cellHeight, inset: 3, lettered: true };
  }
  const rowsAt = (side) => Math.ceil(count / Math.max(1, Math.floor(width / side)));
  let side = 34;
  while (side > 2 && rowsAt(side) * side > mostHeight) side--;
  const columns = Math.max(1, Math.floor(width / side));
  return { columns, cellWidth: side, cellHeight: side, inset: side >= 12 ? 2 : 1, lettered: side >= 20 };
}
