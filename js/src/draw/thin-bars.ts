// Bars that are too thin for a shape, drawn as strips of pixels: what lets a hundred thousand spans be drawn at all.

import type { Mark } from "../layout/marks";
import type { Hue } from "../theme/palette";
import { chooseHue } from "./hues";
import type { Box, Surface } from "./strokes";

/**
 * The bars of a track that are too thin for a shape. Those that share a pixel are drawn once, so that the cost follows the
 * pixels on screen and not the spans in the run; errors come last, on top, and none is left out.
 */
export class ThinBars {
  readonly #surface: Surface;
  readonly #drawnTo = new Map<number, number>();
  readonly #boxes: Record<Hue, Box[]> = { idle: [], llm: [], tool: [], wait: [], error: [] };

  constructor(surface: Surface) {
    this.#surface = surface;
  }

  add(mark: Mark, box: Box): void {
    const isError = mark.row.status === "error";
    const key = isError ? -mark.top - 1 : mark.top;
    const right = box.x + box.w;
    const drawn = this.#drawnTo.get(key) ?? -Infinity;
    if (right < drawn + 1) return;
    this.#drawnTo.set(key, right);
    const x = Math.max(box.x, Math.min(drawn, right - 1));
    this.#boxes[chooseHue(mark)].push({ ...box, x, w: right - x });
  }

  flush(): void {
    const { ctx, theme } = this.#surface;
    for (const hue of ["idle", "llm", "tool", "wait", "error"] as const) {
      ctx.fillStyle = theme.hues[hue];
      for (const { x, y, w, h } of this.#boxes[hue]) ctx.fillRect(x, y, w, h);
    }
  }
}
