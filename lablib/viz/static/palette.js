// Colours, textures and the page's theme. Hues are Okabe and Ito's (2008), which colour-blind readers tell apart;
// vermillion is kept for waste. Requests outnumber hues, so a label always goes with them.

const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"].map(parse);
const WASTE = parse("#d55e00");

export class Palette {
  /** Read the colours that hold at `root` now: those of Jupyter's theme, or the fallbacks of the style sheet. */
  constructor(root) {
    this.paper = resolve(root, "--sp-paper");
    this.ink = resolve(root, "--sp-ink");
    this.dark = luminance(this.paper) < 0.35;
    const fade = (share) => css(mix(this.paper, this.ink, share));
    this.colours = {
      paper: css(this.paper), ink: css(this.ink), muted: fade(0.66), rule: fade(0.13), faint: fade(0.05),
      empty: fade(this.dark ? 0.09 : 0.06), veil: css(this.paper, this.dark ? 0.56 : 0.6),
      fog: css(this.paper, this.dark ? 0.76 : 0.78), cursor: css(this.ink, 0.85), column: css(this.ink, 0.07),
    };
    this.emptyPixel = pack(mix(this.paper, this.ink, this.dark ? 0.09 : 0.06));
    this.font = getComputedStyle(root).fontFamily;
    this.tones = HUES.map((hue) => this._tones(hue));
    this._textures(window.devicePixelRatio || 1);
  }

  _tones(hue) {
    const solid = this.dark ? mix(hue, [255, 255, 255], 0.06) : hue;
    const soft = mix(this.paper, hue, this.dark ? 0.5 : 0.46);
    const pale = mix(this.paper, hue, this.dark ? 0.2 : 0.17);
    const edge = mix(hue, this.ink, this.dark ? 0.35 : 0.42);
    return {
      solid: css(solid), soft: css(soft), pale: css(pale), edge: css(edge),
      onSolid: readable(solid), onSoft: readable(soft), onPale: readable(pale),
      pixels: [solid, pale].map((tone) => [pack(tone), pack(mix(this.paper, tone, 0.25))]),
    };
  }

  /** The tones of a request's hue: `solid`, `soft`, `pale`, `edge`, and text colours that can be read on them. */
  of(request) {
    return this.tones[request % this.tones.length];
  }

  _textures(ratio) {
    const waste = css(mix(this.paper, WASTE, this.dark ? 0.85 : 0.8)), wash = css(mix(this.paper, WASTE, 0.1));
    const ground = css(mix(this.paper, this.ink, 0.025)), dot = css(mix(this.paper, this.ink, this.dark ? 0.24 : 0.2));
    const light = css(this.paper, 0.55);
    this.colours.waste = waste;
    this.padding = texture(6, ratio, wash, (c) => strokes(c, waste, [[-1, 7, 7, -1], [-1, 1, 1, -1], [5, 7, 7, 5]]));
    this.straggler = texture(5, ratio, wash, (c) => dots(c, waste, [[1.25, 1.25, 0.95], [3.75, 3.75, 0.95]]));
    this.idle = texture(6, ratio, ground, (c) => dots(c, dot, [[3, 3, 0.6]]));
    this.again = texture(6, ratio, null, (c) => strokes(c, light, [[-1, -1, 7, 7], [5, -1, 7, 1], [-1, 5, 1, 7]], 1.6));
    this.shared = texture(4, ratio, null, (c) => strokes(c, light, [[0, 2, 4, 2]], 1.2));
  }
}

function texture(size, ratio, ground, draw) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.round(size * Math.ceil(ratio));
  const context = canvas.getContext("2d");
  context.scale(canvas.width / size, canvas.width / size);
  if (ground) {
    context.fillStyle = ground;
    context.fillRect(0, 0, size, size);
  }
  draw(context);
  const pattern = context.createPattern(canvas, "repeat");
  pattern.setTransform(new DOMMatrix().scale(size / canvas.width));
  return pattern;
}

function strokes(context, colour, lines, width = 1.1) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  for (const [x0, y0, x1, y1] of lines) {
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  }
}

function dots(context, colour, places) {
  context.fillStyle = colour;
  for (const [x, y, radius] of places) {
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
  }
}

function parse(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// A probe lets the browser do the arithmetic of var() and color-mix(); a pixel turns any notation into numbers.
function resolve(root, property) {
  const probe = document.createElement("span");
  probe.style.color = `var(${property})`;
  root.append(probe);
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, 1, 1);
  context.fillStyle = getComputedStyle(probe).color;
  context.fillRect(0, 0, 1, 1);
  probe.remove();
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

function mix(from, to, share) {
  return from.map((value, i) => value + (to[i] - value) * share);
}

// A colour as one number of an ImageData, as every machine that runs a browser today stores it.
function pack([r, g, b]) {
  return (255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r);
}

function css([r, g, b], alpha = 1) {
  return `rgba(${Math.round(r)},${Math.round(g)},${Math.round(b)},${alpha})`;
}

function luminance(colour) {
  const [r, g, b] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Black or white, whichever has more contrast; one of them always reaches 4.5 to 1.
function readable(colour) {
  return luminance(colour) > 0.179 ? "#000" : "#fff";
}
