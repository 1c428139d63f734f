// One line of pixels that is drawn as high as the bars of a lane: where these are many, it costs less than a rectangle for
// each. Pixels only; knows nothing of spans.

import { parse } from "../theme/palette";
import type { Box, Surface } from "./strokes";

/** Keeps the line of one canvas. */
export class PixelLine {
  #ctx: CanvasRenderingContext2D | null | undefined;
  #image: ImageData | null = null;
  #pixels = new Uint32Array();

  /** Draws boxes that are equally high in the colour that is set, at whole pixels of the screen; false where that can't be done. */
  draw({ ctx, ratio, width }: Surface, boxes: readonly Box[]): boolean {
    const [line, ink, { y, h }] = [this.#resize(Math.ceil(width * ratio)), inkOf(ctx.fillStyle), boxes[0] as Box];
    if (!line || !this.#image || ink === null) return false;
    const pixels = this.#pixels;
    let [first, end] = [pixels.length, 0];
    pixels.fill(0);
    for (const { x, w } of boxes) {
      const left = Math.max(Math.round(x * ratio), 0);
      const right = Math.min(Math.max(Math.round((x + w) * ratio), left + 1), pixels.length);
      if (right <= left) continue;
      pixels.fill(ink, left, right);
      first = Math.min(first, left);
      end = Math.max(end, right);
    }
    if (end <= first) return true;
    line.putImageData(this.#image, 0, 0, first, 0, end - first, 1);
    const [top, bottom] = [Math.round(y * ratio), Math.round((y + h) * ratio)];
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(line.canvas, first, 0, end - first, 1, first / ratio, top / ratio, (end - first) / ratio, (bottom - top) / ratio);
    ctx.imageSmoothingEnabled = true;
    return true;
  }

  /** A line of so many pixels; null where there is nothing to paint on. */
  #resize(width: number): CanvasRenderingContext2D | null {
    this.#ctx ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    if (this.#ctx && this.#pixels.length !== width) {
      this.#ctx.canvas.width = width;
      this.#ctx.canvas.height = 1;
      this.#image = this.#ctx.createImageData(width, 1);
      this.#pixels = new Uint32Array(this.#image.data.buffer);
    }
    return this.#ctx;
  }
}

/** What a style that a canvas told is as a pixel; null where it is no colour. */
function inkOf(style: unknown): number | null {
  const color = typeof style === "string" ? parse(style) : null;
  return color && (0xff000000 | (color[2] << 16) | (color[1] << 8) | color[0]) >>> 0;
}
