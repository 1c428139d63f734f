// What waits: gaps inside a model call, and questions to a person.

import type { Mark } from "../layout/marks";
import { answerOf, waitOf } from "../wording/labels";
import { formatClock, formatDuration } from "../wording/numbers";
import { shortCause } from "../wording/text";
import { type Box, fill, labelFont, measure, outline, stroke, type Surface } from "./strokes";

/** A wait inside a call, before an attempt or between two: dots, and the reason where it fits. */
export function drawGap(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const middle = Math.round(box.y + box.h / 2) + 0.5;
  const why = mark.shape === "wait" ? waitOf(mark.row) : shortCause(mark.row.retry_reason ?? mark.row.error_type);
  const long = mark.to === null ? why : `${why} · ${formatDuration(mark.to - mark.from)}`;
  ctx.font = labelFont(theme);
  const label = [long, why].find((text) => box.w > measure(ctx, text) + 16);
  ctx.strokeStyle = theme.hues.wait;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([1.5, 3.5]);
  ctx.lineCap = "round";
  ctx.beginPath();
  const side = label ? (box.w - measure(ctx, label) - 8) / 2 : box.w;
  ctx.moveTo(box.x + 2, middle);
  ctx.lineTo(box.x + side, middle);
  if (label) {
    ctx.moveTo(box.x + box.w - side, middle);
    ctx.lineTo(box.x + box.w - 1, middle);
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.lineCap = "butt";
  if (!label) return;
  ctx.fillStyle = theme.hues.wait;
  ctx.textAlign = "center";
  ctx.fillText(label, box.x + box.w / 2, middle);
  ctx.textAlign = "left";
}

/** A question to a person: two upright strokes in a dotted outline, which moves as long as nobody has answered. */
export function drawReview(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const isOpen = mark.to === null;
  const hue = theme.hues[mark.row.status === "error" ? "error" : "wait"];
  outline(ctx, box, "closed", box.h / 2);
  fill(ctx, theme.background, 1);
  fill(ctx, hue, isOpen ? 0.2 : 0.1);
  ctx.setLineDash([2, 3]);
  ctx.lineDashOffset = isOpen ? -surface.shift * 5 : 0; // a whole number of dots in the time that the stripes take
  ctx.lineWidth = isOpen ? 2 : 1.5;
  stroke(ctx, hue, 1);
  ctx.setLineDash([]);
  if (box.w < 18 || box.h < 12) return;
  const middle = box.y + box.h / 2;
  ctx.fillStyle = theme.text;
  ctx.fillRect(box.x + 8, middle - 4, 2.5, 8);
  ctx.fillRect(box.x + 12.5, middle - 4, 2.5, 8);
  ctx.font = labelFont(theme);
  const said = isOpen ? [answerOf(mark.row), "waiting"] : [answerOf(mark.row)];
  const time = isOpen ? formatClock(surface.now - mark.from) : formatDuration((mark.to as number) - mark.from);
  const label = [...said.map((text) => `${text} ${isOpen ? "" : "· "}${time}`), ...said].find((text) => measure(ctx, text) <= box.w - 28);
  if (label) ctx.fillText(label, box.x + 20, middle + 0.5);
}
