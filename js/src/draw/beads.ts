// Beads, which stand for what is mostly too short for a bar (guardrails and looks into the memory), and notches, which stand
// where work begins anew.

import type { Mark } from "../layout/marks";
import { type Box, fill, stroke, type Surface } from "./strokes";

const BEAD = 11;

/** A guardrail (a shield), a look into the memory (a stack) or something else, on a line as long as it took. */
export function drawBead(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const isError = mark.row.status === "error";
  const hue = theme.hues[isError ? "error" : "idle"];
  const [x, y, r] = [box.x, box.y + box.h / 2, BEAD / 2];
  if (box.w > BEAD) {
    ctx.fillStyle = hue;
    ctx.fillRect(x, y - 1, box.w, 2);
  }
  ctx.beginPath();
  if (mark.row.kind === "guardrail") {
    ctx.moveTo(x, y - r - 0.5);
    ctx.lineTo(x + r, y - r + 1.5);
    ctx.lineTo(x + r - 0.5, y + 1);
    ctx.lineTo(x, y + r + 1);
    ctx.lineTo(x - r + 0.5, y + 1);
    ctx.lineTo(x - r, y - r + 1.5);
    ctx.closePath();
  } else ctx.roundRect(x - r, y - r, BEAD, BEAD, 3);
  ctx.lineWidth = 3;
  stroke(ctx, theme.background, 1);
  fill(ctx, isError ? hue : theme.background, 1);
  ctx.lineWidth = 1.5;
  stroke(ctx, hue, 1);
  ctx.beginPath();
  if (mark.row.kind === "memory") {
    for (const line of [-2.2, 0, 2.2]) {
      ctx.moveTo(x - 2.5, y + line);
      ctx.lineTo(x + 2.5, y + line);
    }
    ctx.lineWidth = 1;
  } else if (isError) {
    for (const side of [-2, 2]) {
      ctx.moveTo(x - side, y - 2.5);
      ctx.lineTo(x + side, y + 1.5);
    }
  } else {
    ctx.moveTo(x - 2.3, y - 0.5);
    ctx.lineTo(x - 0.5, y + 1.5);
    ctx.lineTo(x + 2.5, y - 2);
  }
  stroke(ctx, isError ? theme.labelColors.error : hue, 1);
}

/** Where work begins anew: a line across the row, and in a disc under the bars the number of the attempt, or a hook. */
export function drawNotch(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const x = Math.round(box.x);
  const y = box.y + box.h - 6;
  ctx.fillStyle = theme.hues.wait;
  ctx.fillRect(x - 1, box.y, 2, box.h);
  ctx.beginPath();
  ctx.arc(x, y, 5.5, 0, 2 * Math.PI);
  ctx.lineWidth = 2;
  stroke(ctx, theme.background, 1);
  fill(ctx, theme.hues.wait, 1);
  ctx.fillStyle = theme.labelColors.wait;
  ctx.font = `600 8.5px ${theme.font}`;
  ctx.textAlign = "center";
  ctx.fillText(mark.label ?? "", x, y + 0.5);
  ctx.textAlign = "left";
}
