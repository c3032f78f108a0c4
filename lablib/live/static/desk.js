// Where the reader says what is wanted: the prompt, the buttons, the knobs, the keys.

import { icon, make, say } from "../../viz/static/dom.js";
import { crossButton } from "./chip.js";

const PLAY = "M4 2.5v11l9-5.5z", PAUSE = "M4 2.5h3v11H4zm5 0h3v11H9z", STEP = "M3 2.5v11L9.5 8zM11 2.5h2v11h-2z";
const KNOBS = {
  max_num_seqs: ["max_num_seqs", "Most requests that run at once. Lowered, it keeps newcomers out; who runs stays."],
  max_num_batched_tokens: ["token budget", "max_num_batched_tokens: most tokens computed in one step."],
  max_tokens: ["max_tokens", "Most output tokens of the requests to come."],
  temperature: ["temperature", "Of the requests to come; 0 takes the most likely token."],
};
const KEYS = [
  ["/", "into the prompt"], ["Enter", "send the prompt"], ["shift + Enter", "a new line in it"], ["m", "send 20 more"],
  ["p", "pause or go on"], ["s", "one step"], ["↑ ↓", "select the request above, below"], ["Esc", "let go of the request"],
  ["?", "this list"],
];

export class Desk {
  constructor(view) {
    this.view = view;
    this.awaits = "";
    this.root = make("div.lv-desk", {}, this._message(), this._composer(), this._deck());
  }

  _message() {
    this.said = make("span", { role: "status" });
    this.message = make("div.lv-message", { hidden: true }, this.said, crossButton("Dismiss the message", () => this.dismiss()));
    return this.message;
  }

  _composer() {
    const id = `lv-prompt-${this.view.id}`;
    this.prompt = make("textarea.lv-prompt", { id, rows: 2, placeholder: "What is a glacier, and how does it move?", spellcheck: "false" });
    this.send = make("button.sp-button.sp-word.lv-send", { type: "submit" }, "Send");
    this.more = make("button.sp-button.sp-word", { type: "button", onclick: () => this.view.wish("send", { count: 20 }) }, "Send 20");
    const form = make(
      "form.lv-composer", {}, make("label.lv-name", { for: id }, "Prompt"), this.prompt, make("div.lv-sends", {}, this.send, this.more),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    return form;
  }

  _deck() {
    const { view } = this;
    const button = (label, path, click, kind = "") => make(`button.sp-button${kind}`, { type: "button", "aria-label": label, title: label, onclick: click }, icon(path));
    this.play = button("Pause", PAUSE, () => this.togglePlay(), ".sp-play");
    this.step = button("One step (s)", STEP, () => view.wish("step"));
    this.reset = make("button.sp-button.sp-word", { type: "button", title: "Forget all requests and begin anew", onclick: () => view.wish("reset") }, "Reset");
    this.help = make("button.sp-button", { type: "button", "aria-label": "Keys", title: "Keys (?)", "aria-expanded": "false", onclick: () => this.toggleHelp() }, "?");
    this.keys = make("div.sp-help.lv-help", { role: "dialog", "aria-label": "Keys", hidden: true },
      make("dl", {}, ...KEYS.map(([key, does]) => make("div", {}, make("dt", {}, key), make("dd", {}, does)))));
    this.knobs = Object.entries(view.built.ranges).map(([name, range]) => new Knob(view, name, range));
    return make(
      "div.lv-deck", {}, make("div.sp-group", {}, this.play, this.step, this.reset, this.help),
      make("div.lv-knobs", {}, ...this.knobs.map((knob) => knob.root)), this.keys,
    );
  }

  dismiss() {
    this.view.wish("dismiss");
    this.view.take({ message: "" });
  }

  submit() {
    const text = this.prompt.value.trim();
    if (!text) return this.prompt.focus();
    this.view.wish("submit", { text });
    this.awaits = text;
    this.prompt.value = "";
    return undefined;
  }

  /** The request that came of the prompt sent last: the newest. */
  claim(ids) {
    this.awaits = "";
    return ids[ids.length - 1];
  }

  togglePlay() {
    this.view.wish(this.view.state.phase === "paused" ? "resume" : "pause");
  }

  toggleHelp() {
    this.keys.hidden = !this.keys.hidden;
    this.help.setAttribute("aria-expanded", String(!this.keys.hidden));
  }

  escape() {
    if (!this.keys.hidden) this.toggleHelp();
    else if (this.view.selected) this.view.select("");
  }

  /** Do what a key stands for; returns whether it stands for something. */
  press(event) {
    const { view } = this, writing = event.target.matches("textarea, input");
    if (event.target === this.prompt && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      this.submit();
      return true;
    }
    if (event.key === "Escape") {
      if (writing) event.target.blur();
      else this.escape();
      return true;
    }
    if (writing || event.ctrlKey || event.metaKey || event.altKey) return false;
    const actions = {
      "/": () => this.prompt.focus(), m: () => view.wish("send", { count: 20 }), p: () => this.togglePlay(), s: () => view.wish("step"),
      ArrowUp: () => view.selectNeighbour(-1), ArrowDown: () => view.selectNeighbour(1), "?": () => this.toggleHelp(),
    };
    if (event.target.closest(".lv-whole") || !actions[event.key]) return false;
    actions[event.key]();
    return true;
  }

  draw(state) {
    const paused = state.phase === "paused", label = paused ? "Go on (p)" : "Pause (p)";
    if (this.play.title !== label) {
      this.play.title = label;
      this.play.setAttribute("aria-label", label);
      this.play.replaceChildren(icon(paused ? PLAY : PAUSE));
    }
    for (const each of [this.play, this.step, this.reset, this.send, this.more, this.prompt]) each.disabled = state.phase === "closed";
    say(this.said, state.message);
    this.message.hidden = !state.message;
    for (const knob of this.knobs) knob.draw(state.phase === "closed");
  }
}

class Knob {
  constructor(view, name, [low, high]) {
    const [label, title] = KNOBS[name], id = `lv-${name}-${view.id}`;
    Object.assign(this, { view, name });
    const step = name === "temperature" ? 0.1 : [16, 8, 4, 2].find((each) => high - low > 200 && (high - low) % each === 0) ?? 1;
    this.range = make("input.lv-range", { id, type: "range", min: low, max: high, step, title });
    this.value = make("output", { for: id });
    this.root = make("div.lv-knob", {}, make("label.lv-name", { for: id, title }, label), this.value, this.range);
    this.range.addEventListener("input", () => {
      view.model.set(name, Number(this.range.value));
      view.model.save_changes();
      view.redraw();
    });
  }

  draw(disabled) {
    const value = this.view.model.get(this.name), text = this.name === "temperature" ? value.toFixed(1) : String(value);
    if (Number(this.range.value) !== value) this.range.value = value;
    this.range.disabled = disabled;
    say(this.value, text);
  }
}
