// Pointing, clicking, dragging and zooming on the canvases.

import { make } from "./dom.js";
import { GUTTER } from "./layout.js";

export class Pointer {
  constructor(player, signal) {
    this.player = player;
    const on = (element, handlers) => {
      for (const [name, handler] of Object.entries(handlers))
        element.addEventListener(name, handler, { signal, passive: name !== "wheel" && name !== "pointerdown" });
    };
    for (const lane of player.lanes) {
      const { canvas } = lane.timeline, grid = lane.grid.canvas;
      on(canvas, {
        pointermove: (event) => this._overTimeline(lane, event), pointerdown: (event) => this._press(lane, event),
        pointerup: (event) => this._release(lane, event), pointercancel: () => this._end(), pointerleave: () => this._leave(),
        wheel: (event) => this._wheel(lane, event),
      });
      on(grid, {
        pointermove: (event) => this._overBlocks(lane, event), pointerleave: () => this._leave(),
        click: (event) => player.select(this._blockAt(lane, event)?.id ?? ""),
      });
      on(lane.queue.list, {
        pointermove: (event) => player.hover(rowId(event)), pointerleave: () => player.hover(""),
        click: (event) => player.select(rowId(event)),
      });
    }
    // Keys work after a click anywhere in the player, because the scrubber then has the focus.
    on(player.root, { click: (event) => event.target.closest("button, input") || player.controls.range.focus({ preventScroll: true }) });
  }

  _overTimeline(lane, event) {
    const found = lane.timeline.pick(event.offsetX, event.offsetY);
    if (this.player.dragging) {
      this.moved ||= Math.abs(event.offsetX - this.pressedAt) > 3;
      if (this.moved) this._seekTo(lane, event, found);
      return this._leave();
    }
    this._show(found && lane.explain(found), event);
  }

  _press(lane, event) {
    if (event.button !== 0) return;
    event.preventDefault();
    lane.timeline.canvas.setPointerCapture(event.pointerId);
    Object.assign(this, { moved: false, pressedAt: event.offsetX });
    this.player.dragging = true;
    this._seekTo(lane, event, lane.timeline.pick(event.offsetX, event.offsetY));
  }

  _release(lane, event) {
    const found = lane.timeline.pick(event.offsetX, event.offsetY);
    if (this.player.dragging && !this.moved && found?.slot >= 0) this.player.select(lane.explain(found)?.id ?? "");
    this._end();
  }

  _end() {
    this.player.dragging = false;
    this.player.redraw();
  }

  _seekTo(lane, event, found) {
    const { player } = this, { clock } = player;
    if (!found) return;
    if (clock.lanes) player.seek((event.offsetX - GUTTER) / player.view.scale + player.view.low);
    else player.seek(clock.valueOf(lane, found.step));
  }

  _wheel(lane, event) {
    const { view } = this.player, zoom = event.ctrlKey || event.metaKey;
    if (!zoom && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // a page that won't scroll is a nuisance
    event.preventDefault();
    if (zoom) view.zoomBy(Math.exp(-event.deltaY / 240), (event.offsetX - GUTTER) / view.scale + view.low);
    else view.pan(event.deltaX);
    this.player.redraw();
  }

  _blockAt(lane, event) {
    const block = lane.grid.pick(event.offsetX, event.offsetY);
    return block < 0 ? null : lane.explainBlock(block);
  }

  _overBlocks(lane, event) {
    this._show(this._blockAt(lane, event), event);
  }

  _show(words, event) {
    const { player } = this, { tip, root } = player;
    player.hover(words?.id ?? "");
    tip.hidden = !words;
    if (!words) return;
    tip.replaceChildren(...words.lines.map((line, i) => make(i ? "div" : "div.sp-tip-head", {}, line)));
    const box = root.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const left = x + tip.offsetWidth + 18 > root.clientWidth ? x - tip.offsetWidth - 12 : x + 14;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, y - tip.offsetHeight - 10)}px)`;
  }

  _leave() {
    this.player.hover("");
    this.player.tip.hidden = true;
  }
}

function rowId(event) {
  return event.target.closest("li")?.dataset.request ?? "";
}
