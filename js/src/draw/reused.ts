// A task that an earlier run has done (C34): hatched, with what that saved in words beside it, since its bar has no width.

import type { Mark } from "../layout/marks";
import { savingOf } from "../wording/labels";
import { type Box, fill, labelFont, measure, outline, overlay, ROUND, shorten, stroke, type Surface } from "./strokes";

const GAP_PX = 7;
const EDGE_PX = 8;
const LEAST_PX = 40;

export function drawReused(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  outline(ctx, box, "closed", ROUND);
  fill(ctx, theme.background, 1);
  fill(ctx, theme.hues.idle, 0.12);
  overlay(surface, "hatch", theme.hues.idle, 0.55);
  ctx.lineWidth = 1.25;
  stroke(ctx, theme.hues.idle, 1);
  drawWords(surface, `reused${savingOf(mark.row, ": ")}`, box);
}

/** After the bar where there is room, else before it. */
function drawWords(surface: Surface, words: string, { x, y, w, h }: Box): void {
  const { ctx, theme, width } = surface;
  ctx.font = labelFont(theme);
  const after = x + w + GAP_PX;
  const wanted = measure(surface, words);
  const isAfter = after + wanted <= width - EDGE_PX || x - GAP_PX - wanted < EDGE_PX;
  const room = isAfter ? width - EDGE_PX - after : x - GAP_PX - EDGE_PX;
  if (room < LEAST_PX) return;
  ctx.fillStyle = theme.muted;
  ctx.fillText(shorten(surface, words, room), isAfter ? after : x - GAP_PX - wanted, y + h / 2 + 0.5);
}
