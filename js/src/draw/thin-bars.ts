// Bars that are too thin for a shape, drawn as strips of pixels, hue by hue: setting a colour is dearer than a rectangle.

import type { Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import type { Hue } from "../theme/palette";
import { chooseHue } from "./hues";
import type { PixelLine } from "./pixel-line";
import type { GrowingBox, Surface } from "./strokes";

const GAP_HIGH = 2;
/** From so many bars of one lane and hue on, a line of pixels costs less. */
const MANY = 48;

/** The thin bars of a row; errors come last, on top. */
export class ThinBars {
  readonly #surface: Surface;
  readonly #line: PixelLine;
  /** By hue, lane after lane. */
  readonly #lanes: Partial<Record<Hue, GrowingBox[][]>> = {};

  constructor(surface: Surface, line: PixelLine) {
    this.#surface = surface;
    this.#line = line;
  }

  /** Takes a bar, whose box is the taker's from then on. */
  add(mark: Mark, box: GrowingBox): void {
    if (SHAPES[mark.shape].isThinnable) return this.#join(chooseHue(this.#surface, mark), box);
    // A gap is a line also where it has a shape.
    box.y += (box.h - GAP_HIGH) / 2;
    box.h = GAP_HIGH;
    this.#join(SHAPES[mark.shape].hue, box);
  }

  /** Bars of one lane and hue that are less than a pixel apart are one rectangle: each costs as much as many pixels. */
  #join(hue: Hue, box: GrowingBox): void {
    const lanes = (this.#lanes[hue] ??= []);
    const lane = lanes[lanes.length - 1];
    const last = lane?.[lane.length - 1];
    if (!lane || !last || last.y !== box.y || last.h !== box.h) lanes.push([box]);
    else if (box.x >= last.x && box.x - (last.x + last.w) < 1) last.w = Math.max(last.w, box.x + box.w - last.x);
    else lane.push(box);
  }

  flush(): void {
    const { ctx, theme } = this.#surface;
    for (const [hue, color] of Object.entries(theme.hues)) {
      const lanes = this.#lanes[hue as Hue];
      if (!lanes) continue;
      ctx.fillStyle = color;
      for (const lane of lanes) {
        if (lane.length < MANY || !this.#line.draw(this.#surface, lane)) this.#drawEach(lane);
      }
    }
  }

  #drawEach(boxes: readonly GrowingBox[]): void {
    const { ctx, ratio } = this.#surface;
    // At whole pixels of the screen, where no edge has to be blended: that is most of what a rectangle costs.
    const snap = (x: number): number => Math.round(x * ratio) / ratio;
    for (const { x, y, w, h } of boxes) {
      const [left, top] = [snap(x), snap(y)];
      ctx.fillRect(left, top, Math.max(snap(x + w) - left, 1 / ratio), snap(y + h) - top);
    }
  }
}
