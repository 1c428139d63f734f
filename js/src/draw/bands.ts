// The rounds of work that was sent back (W23): a band over the rows of a phase for each, and in the row of the phase its
// number, and what became of it in words.

import type { Mark } from "../layout/marks";
import { toPixel } from "../layout/time-scale";
import { type Scene, topOf } from "./scene";
import { type Box, labelFont, measure, shorten, stroke, type Surface, visiblePart } from "./strokes";

const MIDDLE = 9;
const EDGE = 6;
const APART = 12;
/** A verdict that would have less room is told elsewhere: in the tooltip, and in the words of the row. */
const LEAST_VERDICT = 54;

/** The bands behind the rows: every other one is darker, and each ends in a line. */
export function drawBands({ ctx, theme }: Surface, scene: Scene): void {
  const xOf = (ms: number): number => Math.min(Math.max(toPixel(scene.window, scene.width, ms), -4), scene.width + 4);
  for (const { rounds, top, bottom } of scene.layout.bands) {
    const start = topOf(scene, { y: top });
    const y = Math.max(start, scene.head);
    const height = Math.min(start + bottom - top, scene.height) - y;
    if (height <= 0) continue;
    rounds.forEach(({ start_ms, end_ms }, k) => {
      const [left, right] = [xOf(start_ms), xOf(end_ms ?? scene.now)];
      ctx.fillStyle = theme.text;
      ctx.globalAlpha = k % 2 ? 0.055 : 0.025;
      ctx.fillRect(left, y, right - left, height);
      if (k === rounds.length - 1) return;
      ctx.globalAlpha = 0.5;
      ctx.strokeStyle = theme.text;
      ctx.lineWidth = 1;
      ctx.setLineDash([3, 3]);
      ctx.beginPath();
      ctx.moveTo(Math.round(right) + 0.5, y);
      ctx.lineTo(Math.round(right) + 0.5, y + height);
      stroke(ctx, theme.text, 0.45);
      ctx.setLineDash([]);
    });
    ctx.globalAlpha = 1;
  }
}

/** In the row of the phase: which round it is, and at its end what became of it, as far as there is room. */
export function drawRound(surface: Surface, mark: Mark, whole: Box): void {
  const { ctx, theme } = surface;
  const box = visiblePart(surface, whole);
  const [left, room] = [box.x + EDGE, box.w - 2 * EDGE];
  const [label = "", verdict = ""] = [mark.label, mark.names?.[0]];
  ctx.font = labelFont(theme);
  const said = [label, label.replace(/^\D+/, "")].find((text) => measure(surface, text) <= room);
  if (said === undefined) return;
  ctx.fillStyle = theme.muted;
  ctx.fillText(said, left, box.y + MIDDLE);
  const free = room - measure(surface, said) - APART;
  if (!verdict || said !== label || free < LEAST_VERDICT) return;
  const words = shorten(surface, verdict, free);
  ctx.fillStyle = theme.text;
  ctx.fillText(words, box.x + box.w - EDGE - measure(surface, words), box.y + MIDDLE);
}
