// Hatches and stripes as canvas patterns, made once per colour and pixel ratio. Pixels only; knows nothing of spans.

export type Hatch = "hatch" | "back-hatch" | "stripes";

const TILE = 8;

/** Keeps the patterns of one canvas context. */
export class Patterns {
  #made = new Map<string, CanvasPattern | null>();

  /** A seamless diagonal pattern in `color`, moved by `shift` pixels along the bar. */
  get(ctx: CanvasRenderingContext2D, hatch: Hatch, color: string, ratio: number, shift = 0): CanvasPattern | null {
    const key = `${hatch} ${color} ${ratio}`;
    let pattern = this.#made.get(key);
    if (pattern === undefined) {
      pattern = make(ctx, hatch, color, ratio);
      this.#made.set(key, pattern);
    }
    pattern?.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, shift % TILE, 0]));
    return pattern;
  }
}

function make(ctx: CanvasRenderingContext2D, hatch: Hatch, color: string, ratio: number): CanvasPattern | null {
  const size = Math.max(4, Math.round(TILE * ratio));
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const tileCtx = tile.getContext("2d");
  if (!tileCtx) return null;
  tileCtx.strokeStyle = color;
  tileCtx.lineWidth = size * (hatch === "stripes" ? 0.36 : 0.16);
  const [bottom, top] = hatch === "back-hatch" ? [0, size] : [size, 0];
  tileCtx.beginPath();
  for (const left of [-size, 0, size]) {
    tileCtx.moveTo(left - size, bottom + (bottom - top));
    tileCtx.lineTo(left + 2 * size, top - (bottom - top));
  }
  tileCtx.stroke();
  return ctx.createPattern(tile, "repeat");
}
