// Where the work stands, in words that are said aloud when they change.

import { make, say } from "../../viz/static/dom.js";
import { plural } from "../../viz/static/format.js";

export class Standing {
  constructor() {
    this.words = make("span.lv-story");
    this.phase = make("span.sp-badge.lv-phase");
    this.root = make("p.lv-standing", { role: "status" }, this.words, this.phase);
  }

  draw(state) {
    say(this.words, story(state));
    say(this.phase, state.phase);
    this.phase.dataset.phase = state.phase;
  }
}

function story({ phase, served, gauges }) {
  const [batch, , , , , waiting, steps] = gauges;
  if (phase === "running") return "";
  if (phase === "closed") return "run the cell again for a new engine";
  if (phase === "paused") return `step ${steps}: ${batch} in the batch, ${waiting} waiting`;
  if (batch + waiting) return "nobody can compute";
  return served ? `${plural(served, "request")} served` : "type a prompt, or send 20";
}
