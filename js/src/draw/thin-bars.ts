// Bars that are too thin for a shape, drawn as strips of pixels, hue by hue: setting a colour is dearer than a rectangle.

import type { Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import type { Hue } from "../theme/palette";
import { chooseHue } from "./hues";
import type { Box, Surface } from "./strokes";

const GAP_HIGH = 2;

/** A box that grows as long as bars are joined to it. */
type GrowingBox = { -readonly [Side in keyof Box]: Box[Side] };

/** The thin bars of a row; errors come last, on top. */
export class ThinBars {
  readonly #surface: Surface;
  readonly #boxes: Record<Hue, GrowingBox[]> = { idle: [], llm: [], tool: [], wait: [], error: [] };

  constructor(surface: Surface) {
    this.#surface = surface;
  }

  add(mark: Mark, box: Box): void {
    if (SHAPES[mark.shape].isThinnable) this.#join(this.#boxes[chooseHue(mark)], box);
    // A gap is a line also where it has a shape.
    else this.#join(this.#boxes.wait, { ...box, y: box.y + (box.h - GAP_HIGH) / 2, h: GAP_HIGH });
  }

  /** Bars of one lane and hue that are less than a pixel apart are one rectangle: each costs as much as many pixels. */
  #join(boxes: GrowingBox[], { x, y, w, h }: Box): void {
    const last = boxes[boxes.length - 1];
    const isNear = last !== undefined && last.y === y && last.h === h && x >= last.x && x - (last.x + last.w) < 1;
    if (isNear) last.w = Math.max(last.w, x + w - last.x);
    else boxes.push({ x, y, w, h });
  }

  flush(): void {
    const { ctx, theme, ratio } = this.#surface;
    // At whole pixels of the screen, where no edge has to be blended: that is most of what a rectangle costs.
    const snap = (x: number): number => Math.round(x * ratio) / ratio;
    for (const hue of ["idle", "llm", "tool", "wait", "error"] as const) {
      if (!this.#boxes[hue].length) continue;
      ctx.fillStyle = theme.hues[hue];
      for (const { x, y, w, h } of this.#boxes[hue]) {
        const left = snap(x);
        ctx.fillRect(left, snap(y), Math.max(snap(x + w) - left, 1 / ratio), h);
      }
    }
  }
}
