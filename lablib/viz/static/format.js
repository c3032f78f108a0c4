// Numbers as a reader wants them.

/** The next of 1, 2, 5, 10, 20 … at or above `value`. */
export function roundUp(value, least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, least)));
  return [1, 2, 5, 10].find((digit) => digit * power >= value * 0.999) * power;
}

/** Microseconds as text, in a unit that suits them and with three digits. */
export function seconds(us) {
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${threeDigits(us / 1e3)} ms`;
  return `${threeDigits(us / 1e6)} s`;
}

function threeDigits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** `3 requests`, `1 request`. */
export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
