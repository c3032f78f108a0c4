// What stands around the slots × steps picture: step or time ticks, the cursor's flag, arrivals, slot numbers.

import { roundUp, seconds } from "./format.js";
import { AXIS, GUTTER } from "./layout.js";

/** Draw the frame of a timeline whose cursor is at `step`. */
export function drawFrame(c, timeline, step) {
  drawTicks(c, timeline, step);
  drawSlotNumbers(c, timeline);
}

function drawTicks(c, timeline, step) {
  const { axis, replay, palette } = timeline;
  if (!replay.numSteps) return;
  const [first, last] = timeline.visible, perStep = (timeline.width - GUTTER) / Math.max(1, last - first + 1);
  c.font = `11px ${palette.font}`;
  c.textBaseline = "alphabetic";
  c.textAlign = "center";
  const flag = step >= 0 ? timeline.x((axis.from[step] + axis.to[step]) / 2) : -100;
  c.fillStyle = palette.colours.muted;
  if (axis.byTime) drawTimeTicks(c, timeline, flag);
  else {
    const every = roundUp(58 / perStep, 1);
    for (let tick = Math.ceil(first / every) * every; tick <= last; tick += every) {
      const x = timeline.x((axis.from[tick] + axis.to[tick]) / 2);
      if (Math.abs(x - flag) > 42 && x > GUTTER && x < timeline.width - 10) c.fillText(tick, x, 12);
    }
  }
  drawArrivals(c, timeline, first, last);
  if (step >= 0 && flag > 0) drawFlag(c, timeline, step, flag);
}

function drawTimeTicks(c, timeline, flag) {
  const every = roundUp(76 / timeline.scale, 1e-9);
  const first = Math.ceil(timeline.left / timeline.scale / every);
  for (let k = first, x = timeline.x(k * every); x <= timeline.width; x = timeline.x(++k * every)) {
    if (Math.abs(x - flag) > 48 && x > GUTTER + 8 && x < timeline.width - 18) c.fillText(seconds(k * every), x, 12);
  }
}

function drawFlag(c, timeline, step, x) {
  const text = timeline.axis.byTime ? `step ${step}` : `${step}`;
  c.font = `700 11px ${timeline.palette.font}`;
  const half = c.measureText(text).width / 2 + 5;
  x = Math.max(GUTTER + half, Math.min(timeline.width - half, x));
  c.fillStyle = timeline.palette.colours.ink;
  c.beginPath();
  c.roundRect(x - half, 0, 2 * half, 16, 4);
  c.fill();
  c.fillStyle = timeline.palette.colours.paper;
  c.fillText(text, x, 12);
}

// A tick under the picture for each arrival, at the first step that could have served it.
function drawArrivals(c, timeline, first, last) {
  const { lives, requests, numRequests, numSteps } = timeline.replay, y = AXIS + timeline.rows + 3;
  for (let request = 0; request < numRequests; request++) {
    const seen = lives.steps[request][0];
    if (seen < first || seen > last || seen >= numSteps) continue;
    const x = timeline.x(timeline.axis.byTime ? requests.arrival_us[request] : timeline.axis.from[seen]);
    c.fillStyle = timeline.palette.of(request).edge;
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(x + 3, y + 6);
    c.lineTo(x - 3, y + 6);
    c.fill();
  }
}

function drawSlotNumbers(c, timeline) {
  c.font = `11px ${timeline.palette.font}`;
  c.fillStyle = timeline.palette.colours.muted;
  c.textAlign = "right";
  c.textBaseline = "middle";
  const every = timeline.rowHeight >= 12 ? 1 : timeline.rowHeight >= 7 ? 4 : 8;
  for (let slot = 0; slot < timeline.replay.numSlots; slot += every)
    c.fillText(slot, GUTTER - 8, AXIS + (slot + 0.5) * timeline.rowHeight + 0.5);
}
