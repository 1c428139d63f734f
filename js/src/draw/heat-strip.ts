// How busy many rows are together, in the one row that stands in for them: the darker the more at once, errors as ticks.

import { type Heat, heatColumns } from "../layout/heat";
import { PHASE_HEIGHT } from "../layout/sizes";
import { toPixel } from "../layout/time-scale";
import type { Scene } from "./scene";
import type { Surface } from "./strokes";

const TOP = 8;
const HIGH = 12;
const SHADES = 8;

export function drawHeat({ ctx, theme }: Surface, scene: Scene, heat: Heat, top: number): void {
  const columns = heatColumns(heat, scene.window, scene.width, scene.now);
  const most = columns.reduce((found, value) => Math.max(found, value), 0);
  if (most > 0) {
    ctx.fillStyle = theme.hues.llm;
    let begin = 0;
    let shade = 0;
    for (let x = 0; x <= columns.length; x += 1) {
      const value = x < columns.length ? (columns[x] as number) : 0;
      const next = value < 0.01 ? 0 : Math.max(1, Math.ceil((value / most) * SHADES));
      if (next === shade && x < columns.length) continue;
      if (shade > 0) {
        ctx.globalAlpha = 0.18 + (0.72 * shade) / SHADES;
        ctx.fillRect(begin, top + TOP, x - begin, HIGH);
      }
      [begin, shade] = [x, next];
    }
    ctx.globalAlpha = 1;
  }
  // A tick has a thick head, so that it is no bar of another colour.
  ctx.fillStyle = theme.hues.error;
  let drawn = -Infinity;
  for (const at of [...heat.errors].sort((a, b) => a - b)) {
    const x = Math.round(toPixel(scene.window, scene.width, at));
    if (x < drawn + 2 || x < -2 || x > scene.width) continue;
    drawn = x;
    ctx.fillRect(x - 1, top + 3, 2, PHASE_HEIGHT - 6);
    ctx.fillRect(x - 3, top + 3, 6, 3);
  }
}
