// The player: one state, many views of it.

import { View } from "./axis.js";
import { StepClock, TimeClock } from "./clock.js";
import { Controls, pressKey } from "./controls.js";
import { make, say } from "./dom.js";
import { Lane } from "./lane.js";
import { GUTTER } from "./layout.js";
import { Palette } from "./palette.js";
import { Inspector } from "./panels.js";
import { Pointer } from "./pointer.js";

const QUIET_MS = 150; // between two messages to the kernel while scrubbing

export class Player {
  constructor(root, model, replays) {
    this.root = root;
    this.model = model;
    const several = replays.length > 1;
    this.lanes = replays.map((replay) => new Lane(replay, several, { title: model.get("title"), height: model.get("height") }));
    this.clock = several ? new TimeClock(this.lanes) : new StepClock(this.lanes);
    this.view = new View();
    this.value = this.clock.valueOf(this.lanes[0], Math.max(0, model.get("step")));
    this.byTime = several;
    this.selected = model.get("selected");
    this.hovered = "";
    this.draws = 0;
    this._build(several);
    this._listen();
    this._moved();
  }

  _build(several) {
    this.inspector = new Inspector(this.lanes);
    this.controls = new Controls(this);
    this.story = make("p.sp-story", { "aria-live": "polite" });
    this.tip = make("div.sp-tip", { "aria-hidden": "true", hidden: true });
    const title = this.model.get("title"), line = make("div.sp-line", {}, this.story);
    const deck = [this.controls.root, line, this.inspector.root];
    this.root.replaceChildren(
      ...(several && title ? [make("p.sp-caption", {}, title)] : []),
      make("div.sp-lanes", {}, ...this.lanes.map((lane) => lane.root)),
      ...(several ? deck : []), this.tip,
    );
    if (several) this.controls.help.before(make("span.sp-quiet.sp-apart", {}, "zoom"), this.controls.zooms);
    else {
      line.append(this.lanes[0].progress);
      this.lanes[0].legend.before(this.controls.zooms);
      this.lanes[0].stage.append(...deck);
    }
    this.root.classList.toggle("sp-several", several);
    this.root.style.setProperty("--sp-lanes", this.lanes.length);
    // Else Jupyter takes our keys for commands and deletes cells: it matches `:focus` before it looks at ancestors, so
    // whatever can have the focus needs the mark itself.
    for (const element of this.root.querySelectorAll("button, input")) element.dataset.lmSuppressShortcuts = "true";
    this._setAxis(this.byTime);
  }

  _listen() {
    const stop = new AbortController(), { signal } = stop, { root, model } = this;
    root.addEventListener("keydown", (event) => {
      if (!pressKey(this, event)) return;
      event.preventDefault();
      event.stopPropagation();
    }, { signal });
    this.pointer = new Pointer(this, signal);
    const restyle = () => this.restyle();
    const themes = new MutationObserver(restyle);
    themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["theme", "data-theme", "class", "style"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle, { signal });
    const sizes = new ResizeObserver(() => this.layout());
    sizes.observe(root);
    const fromKernel = { "change:step": () => this._kernelStep(), "change:selected": () => this.select(model.get("selected"), false) };
    for (const [name, handler] of Object.entries(fromKernel)) model.on(name, handler);
    this.dispose = () => {
      this.disposed = true;
      stop.abort();
      themes.disconnect();
      sizes.disconnect();
      clearTimeout(this.telling);
      for (const [name, handler] of Object.entries(fromKernel)) model.off(name, handler);
    };
  }

  // Jupyter swaps its style sheet a moment after it says so.
  restyle() {
    for (const delay of [0, 150, 600]) setTimeout(() => this.disposed || this.layout(true), delay);
  }

  layout(force = false) {
    const width = this.root.clientWidth;
    if (!width || (width === this.width && window.devicePixelRatio === this.ratio && !force)) return;
    Object.assign(this, { width, ratio: window.devicePixelRatio });
    const columns = this.lanes.length > 1 && width / this.lanes.length >= 560 ? this.lanes.length : 1;
    this.root.dataset.size = width / columns >= 960 ? "wide" : width / columns >= 680 ? "medium" : "narrow";
    this.root.style.setProperty("--sp-columns", columns);
    this.root.classList.toggle("sp-abreast", columns > 1);
    this.palette = new Palette(this.root);
    for (const lane of this.lanes) lane.layout(this.palette, this.clock.place(lane));
    this.controls.layout();
    this._fit();
    this._drawNow();
  }

  _fit() {
    const length = this.byTime ? this.clock.lanes ? this.clock.max : this.lanes[0].axis.length : this.lanes[0].axis.length;
    const pitch = Math.min(...this.lanes.map((lane) => lane.axis.pitch));
    this.view.fit(length, pitch, Math.max(40, this.lanes[0].timeline.width - GUTTER), this.clock.lanes ? 0 : 7);
    this._follow();
  }

  _setAxis(byTime) {
    this.byTime = byTime;
    for (const lane of this.lanes) lane.setAxis(byTime);
    say(this.controls.axis, byTime ? "axis: time" : "axis: steps");
    this.controls.axis.hidden = this.lanes.length > 1;
    this.view.zoom = null;
  }

  // What a reader can do

  seek(value, tell = true) {
    const inside = Math.max(0, Math.min(this.clock.max, value));
    if (inside === this.value) return;
    this.value = inside;
    this._moved();
    if (tell) this._tell();
  }

  by(count) {
    this.seek(this.clock.by(this.value, count));
  }

  event(direction) {
    this.seek(this.clock.event(this.value, direction));
  }

  speed(change) {
    this.clock.rate = Math.max(0, Math.min(this.clock.rates.length - 1, this.clock.rate + change));
    this.redraw();
  }

  zoom(factor, at = null) {
    const { axis, step } = this.lanes[0];
    if (factor) this.view.zoomBy(factor, at ?? (step < 0 ? 0 : axis.from[step]));
    else this.view.reset();
    this.redraw();
  }

  toggleAxis() {
    this._setAxis(!this.byTime);
    this._fit();
    this.redraw();
  }

  toggleHelp() {
    const { keys, help } = this.controls;
    keys.hidden = !keys.hidden;
    help.setAttribute("aria-expanded", String(!keys.hidden));
  }

  escape() {
    if (!this.controls.keys.hidden) this.toggleHelp();
    else this.select("");
  }

  select(id, tell = true) {
    if (id === this.selected) return;
    this.selected = id;
    this.redraw();
    if (tell) this._tell();
  }

  selectNeighbour(direction) {
    const ids = [...new Set(this.lanes.flatMap((lane) => lane.order()))], at = ids.indexOf(this.selected);
    if (ids.length) this.select(at < 0 ? ids[direction > 0 ? 0 : ids.length - 1] : ids[(at + direction + ids.length) % ids.length]);
  }

  hover(id) {
    if (id === this.hovered) return;
    this.hovered = id;
    this.redraw();
  }

  togglePlay() {
    this.playing = !this.playing;
    this.story.setAttribute("aria-live", this.playing ? "off" : "polite");
    if (this.playing && this.value >= this.clock.max) this.seek(0);
    let last = performance.now();
    const frame = (now) => {
      if (!this.playing || this.disposed) return;
      this.seek(this.clock.advance(this.value, Math.min(0.25, (now - last) / 1e3)));
      last = now;
      if (this.value >= this.clock.max) this.togglePlay();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    this.redraw();
  }

  // What follows from it

  _moved() {
    for (const lane of this.lanes) lane.step = this.clock.stepOf(lane, this.value);
    this._follow();
    this.redraw();
  }

  _follow() {
    if (this.dragging || !this.view.width) return;
    const { axis, step } = this.lanes[0];
    if (this.clock.lanes) this.view.follow(this.value, this.value);
    else if (step >= 0) this.view.follow(axis.from[step], axis.to[step]);
  }

  redraw() {
    if (this.frame || !this.palette) return;
    this.frame = requestAnimationFrame(() => this._drawNow());
  }

  _drawNow() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.disposed || !this.palette) return;
    const focus = this.hovered || this.selected;
    for (const lane of this.lanes) lane.draw(this.view, this.value, focus, this.playing);
    this.controls.draw(this.value, this._window(), Boolean(this.playing));
    this.inspector.draw(focus, this.palette);
    const stories = this.lanes.map((lane) => [lane.name, lane.story()]).filter(([, story]) => story);
    say(this.story, stories.map(([name, story]) => (this.lanes.length > 1 ? `${name}: ${story}` : story)).join(" · ") || "\u00a0");
    this.draws++;
  }

  // The part of the run on screen, as shares of the scrubber.
  _window() {
    const { view, clock } = this, [lane] = this.lanes;
    const low = view.low, high = low + view.width / view.scale;
    if (clock.lanes) return [low / clock.max, Math.min(1, high / clock.max)];
    if (!lane.replay.numSteps) return [0, 1];
    const place = clock.place(lane), last = lane.axis.stepAt(high);
    return [place(lane.axis.stepAt(low))[0], place(last)[1]];
  }

  _tell() {
    if (this.telling) return;
    this.telling = setTimeout(() => {
      this.telling = 0;
      this.model.set("step", Math.max(0, this.lanes[0].step));
      this.model.set("selected", this.selected);
      this.model.save_changes();
    }, QUIET_MS);
  }

  _kernelStep() {
    const step = this.model.get("step");
    if (step !== this.lanes[0].step && !this.telling) this.seek(this.clock.valueOf(this.lanes[0], step), false);
  }
}
