// Names of requests in their bars, and the words they generate.

import { AXIS, GUTTER } from "./layout.js";
import { KIND } from "./replay.js";

/** Write into the bars of a timeline: names of requests, and, far enough in, what they say up to `step`. */
export function drawLabels(c, timeline, step, focus) {
  const [first, last] = timeline.visible, { runs } = timeline.replay;
  c.textBaseline = "middle";
  c.textAlign = "left";
  for (let slot = 0; slot < timeline.replay.numSlots; slot++) {
    let labelled = -1;
    for (let at = first; at <= last; at++) {
      const run = timeline.replay.cell(at, slot), request = runs.request[run];
      if (run < 0) labelled = -1;
      if (run < 0 || timeline.replay.runKind[run] === KIND.STRAGGLER) continue;
      c.globalAlpha = focus >= 0 && request !== focus ? 0.55 : 1;
      const free = request === labelled ? 0 : drawLabel(c, timeline, run, slot, step, focus);
      if (free > 0) labelled = request;
      const end = Math.min(last, runs.step[run] + runs.count[run] - 1);
      drawWords(c, timeline, run, at, Math.min(end, step), slot, free);
      at = end;
    }
  }
  c.globalAlpha = 1;
}

function middle(timeline, slot) {
  return AXIS + timeline.top(slot) + (timeline.rowHeight - timeline.gap) / 2 + 0.5;
}

// The request's name where its run begins, or comes into sight; returns where the name ends, 0 without room for it.
function drawLabel(c, timeline, run, slot, step, focus) {
  const { axis, replay } = timeline, { request, step: begin, count, tokens, padding } = replay.runs;
  const text = replay.labels[request[run]], tones = timeline.palette.of(request[run]);
  const left = timeline.x(axis.from[begin[run]]), right = timeline.x(axis.to[begin[run] + count[run] - 1]);
  const end = padding[run] ? left + ((right - left) * tokens[run]) / (tokens[run] + padding[run]) : right;
  const x = Math.max(left, GUTTER) + 5;
  c.font = `600 ${Math.min(12, timeline.rowHeight - 4)}px ${timeline.palette.font}`;
  const width = c.measureText(text).width;
  if (Math.min(end, timeline.width) < x + width + 4) return 0;
  const pale = begin[run] > step || (focus >= 0 && request[run] !== focus);
  const strong = replay.runKind[run] === KIND.DECODE ? tones.onSoft : tones.onSolid;
  c.fillStyle = pale ? timeline.palette.colours.muted : strong;
  c.fillText(text, x, middle(timeline, slot));
  return x + width + 6;
}

// Far enough in, each step shows the text of the token it produced.
function drawWords(c, timeline, run, first, last, slot, free) {
  const { replay, axis } = timeline, { request, sampled } = replay.runs, pieces = replay.requests.text[request[run]];
  if (axis.pitch * timeline.scale < 24 || !pieces.length || sampled[run] !== 1) return;
  const decodes = replay.runKind[run] === KIND.DECODE, tones = timeline.palette.of(request[run]);
  c.font = `${Math.min(11, timeline.rowHeight - 6)}px ${timeline.palette.font}`;
  c.fillStyle = decodes ? tones.onSoft : tones.onSolid;
  for (let step = first; step <= last; step++) {
    const text = (pieces[replay.generated(request[run], step) - 1] ?? "").trim();
    const right = timeline.x(axis.to[step]), natural = c.measureText(text).width;
    const width = Math.min(natural, axis.pitch * timeline.scale - 4);
    if (!text || width < 0.6 * natural) continue; // squeezed a little, or left out
    const x = decodes ? Math.max(timeline.x(axis.from[step]) + 3, free) : right - width - 3;
    if (x >= free && right - x >= width) c.fillText(text, x, middle(timeline, slot), width);
  }
}
