// Buttons, scrubber, keys. Everything here only says what is wanted; the player does it.

import { icon, make, say } from "./dom.js";

const ICONS = {
  play: "M4 2.5v11l9-5.5z", pause: "M4 2.5h3v11H4zm5 0h3v11H9z", back: "M11 2.5v11L4 8z", forward: "M5 2.5v11L12 8z",
  before: "M3 2.5h2v11H3zm10 0v11L6 8z", after: "M11 2.5h2v11h-2zM3 2.5v11L10 8z",
};

const KEYS = [
  ["space", "play or pause"], ["← →", "a step back, a step on"], ["shift + ← →", "ten steps"],
  ["p n", "previous, next event"], ["Home End", "first, last step"], ["− +", "slower, faster"],
  ["↑ ↓", "select the request above, below"], ["Esc", "let go of the request"],
  ["z x 0", "zoom in, out, back"], ["?", "this list"],
];

export class Controls {
  constructor(player) {
    this.player = player;
    const act = (name, ...args) => () => player[name](...args);
    const button = (label, path, click, kind = "") => make(`button.sp-button${kind}`, { type: "button", "aria-label": label, title: label, onclick: click }, icon(path));
    this.play = button("Play", ICONS.play, act("togglePlay"), ".sp-play");
    this.slower = make("button.sp-button", { type: "button", "aria-label": "Slower", title: "Slower", onclick: act("speed", -1) }, "−");
    this.faster = make("button.sp-button", { type: "button", "aria-label": "Faster", title: "Faster", onclick: act("speed", 1) }, "+");
    this.rate = make("span.sp-rate");
    this.zoomOut = make("button.sp-button", { type: "button", "aria-label": "Zoom out", title: "Zoom out (x)", onclick: act("zoom", 1 / 1.5) }, "−");
    this.zoomIn = make("button.sp-button", { type: "button", "aria-label": "Zoom in", title: "Zoom in (z)", onclick: act("zoom", 1.5) }, "+");
    this.axis = make("button.sp-button.sp-word", { type: "button", title: "Draw steps by number or by time", onclick: act("toggleAxis") });
    this.help = make("button.sp-button", { type: "button", "aria-label": "Keys", title: "Keys (?)", "aria-expanded": "false", onclick: act("toggleHelp") }, "?");
    this.position = make("span.sp-position");
    this.buttons = make(
      "div.sp-controls", {},
      make("div.sp-group", {}, this.play, button("Previous event (p)", ICONS.before, act("event", -1)), button("Step back", ICONS.back, act("by", -1)),
        button("Step on", ICONS.forward, act("by", 1)), button("Next event (n)", ICONS.after, act("event", 1))),
      this.position,
      make("div.sp-group.sp-right", {}, make("span.sp-quiet", {}, "speed"), this.slower, this.rate, this.faster, this.help),
    );
    this.zooms = make("div.sp-group.sp-zooms", {}, this.axis, this.zoomOut, this.zoomIn);
    this._scrubber(player);
    this.keys = make("div.sp-help", { role: "dialog", "aria-label": "Keys", hidden: true },
      make("dl", {}, ...KEYS.map(([key, does]) => make("div", {}, make("dt", {}, key), make("dd", {}, does)))));
    this.root = make("div.sp-deck", {}, this.track, this.buttons, this.keys);
  }

  _scrubber(player) {
    this.range = make("input.sp-range", { type: "range", min: 0, max: player.clock.max, step: player.clock.unit, value: 0, "aria-label": "Position in the run" });
    this.range.addEventListener("input", () => player.seek(Number(this.range.value)));
    this.strips = player.lanes.map(() => make("canvas.sp-strip", { "aria-hidden": "true" }));
    this.window = make("i.sp-window", { "aria-hidden": "true" });
    this.track = make("div.sp-track", {}, ...this.strips, this.window, this.range);
  }

  // The thumb is as wide as a step where that can be seen, so that it stands over the step it means.
  layout() {
    const { lanes, clock } = this.player, width = this.track.clientWidth, steps = clock.replay?.numSteps ?? 0;
    const thumb = Math.max(6, steps ? width / steps : 6);
    this.inset = steps > 1 ? (width - ((width - thumb) * steps) / (steps - 1)) / 2 : steps ? 0 : thumb / 2;
    this.stripWidth = width - 2 * this.inset;
    const height = lanes.length > 1 ? 20 : Math.max(22, Math.min(40, lanes[0].replay.numSlots * 4));
    this.track.style.setProperty("--sp-thumb", `${thumb}px`);
    this.track.style.setProperty("--sp-thumb-height", `${height * lanes.length + 3 * (lanes.length - 1) + 10}px`);
    this.strips.forEach((strip, i) => {
      lanes[i].paintStrip(strip, Math.max(1, this.stripWidth), height);
      strip.style.marginLeft = `${this.inset}px`;
    });
  }

  draw(value, [from, to], playing) {
    const { clock } = this.player, text = clock.text(value);
    this.range.value = value;
    if (!playing) this.range.setAttribute("aria-valuetext", text);
    say(this.position, text.replace(/^./, (letter) => letter.toUpperCase()));
    say(this.rate, clock.rateText);
    this.window.hidden = from <= 0.001 && to >= 0.999;
    this.window.style.left = `${this.inset + from * this.stripWidth}px`;
    this.window.style.width = `${(to - from) * this.stripWidth}px`;
    if (this.playing === playing) return;
    this.playing = playing;
    this.play.replaceChildren(icon(playing ? ICONS.pause : ICONS.play));
    this.play.setAttribute("aria-label", playing ? "Pause" : "Play");
  }
}

/** Do what a key means; false when it means nothing here. */
export function pressKey(player, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.target.tagName === "BUTTON" && (event.key === " " || event.key === "Enter")) return false;
  const far = event.shiftKey ? 10 : 1;
  const actions = {
    " ": () => player.togglePlay(), ArrowLeft: () => player.by(-far), ArrowRight: () => player.by(far),
    ArrowUp: () => player.selectNeighbour(-1), ArrowDown: () => player.selectNeighbour(1),
    n: () => player.event(1), p: () => player.event(-1), Home: () => player.seek(0), End: () => player.seek(player.clock.max),
    "+": () => player.speed(1), "=": () => player.speed(1), "-": () => player.speed(-1), "_": () => player.speed(-1),
    z: () => player.zoom(1.5), x: () => player.zoom(1 / 1.5), 0: () => player.zoom(0),
    Escape: () => player.escape(), "?": () => player.toggleHelp(),
  };
  const action = actions[event.key];
  if (action) action();
  return Boolean(action);
}
