// Marks on a bar: where a request finished, lost its place, or was given up.

const PREEMPTED = 1, FINISHED = 2;

/** Draw the mark of an event, an index into `EVENTS`, whose right edge is at `x`. */
export function drawMark(c, palette, kind, x, y, height, request) {
  if (kind === FINISHED) {
    const width = height >= 8 ? 3 : 2, tones = palette.of(request);
    c.fillStyle = palette.dark ? tones.solid : tones.edge;
    c.fillRect(x - width, y, width, height);
    return;
  }
  const reach = Math.max(2.2, Math.min(5, height / 2 - 2)), middle = y + height / 2, centre = x - reach - 1;
  for (const [colour, width] of [[palette.colours.paper, 4], [palette.colours.ink, 1.8]]) {
    c.strokeStyle = colour;
    c.lineWidth = height >= 8 ? width : width * 0.75;
    c.beginPath();
    c.moveTo(centre - reach, middle - reach);
    c.lineTo(centre + reach, middle + reach);
    if (kind === PREEMPTED) {
      c.moveTo(centre + reach, middle - reach);
      c.lineTo(centre - reach, middle + reach);
    }
    c.stroke();
  }
}
