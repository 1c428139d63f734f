// What waits: gaps inside a model call, and questions to a person.

import type { Mark } from "../layout/marks";
import { answerOf, waitOf } from "../wording/labels";
import { formatClock, formatDuration } from "../wording/numbers";
import { cause } from "../wording/text";
import { type Box, type Brush, fill, labelFont, measure, outline, stroke } from "./strokes";

/** A wait inside a call, before an attempt or between two: dots, and the reason where it fits. */
export function drawGap(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const middle = Math.round(box.y + box.h / 2) + 0.5;
  const why = mark.shape === "wait" ? waitOf(mark.row) : cause(mark.row.retry_reason ?? mark.row.error_type);
  const long = mark.to === null ? why : `${why} · ${formatDuration(mark.to - mark.from)}`;
  ctx.font = labelFont(skin);
  const label = [long, why].find((text) => box.w > measure(ctx, text) + 16);
  ctx.strokeStyle = skin.hues.wait;
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
  ctx.fillStyle = skin.hues.wait;
  ctx.textAlign = "center";
  ctx.fillText(label, box.x + box.w / 2, middle);
  ctx.textAlign = "left";
}

/** A question to a person: two upright strokes in a dotted outline, which moves as long as nobody has answered. */
export function drawReview(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const isOpen = mark.to === null;
  const hue = skin.hues[mark.row.status === "error" ? "error" : "wait"];
  outline(ctx, box, "closed", box.h / 2);
  fill(ctx, skin.background, 1);
  fill(ctx, hue, isOpen ? 0.2 : 0.1);
  ctx.setLineDash([2, 3]);
  ctx.lineDashOffset = isOpen ? -brush.shift * 5 : 0; // a whole number of dots in the time that the stripes take
  ctx.lineWidth = isOpen ? 2 : 1.5;
  stroke(ctx, hue, 1);
  ctx.setLineDash([]);
  if (box.w < 18 || box.h < 12) return;
  const middle = box.y + box.h / 2;
  ctx.fillStyle = skin.text;
  ctx.fillRect(box.x + 8, middle - 4, 2.5, 8);
  ctx.fillRect(box.x + 12.5, middle - 4, 2.5, 8);
  ctx.font = labelFont(skin);
  const said = isOpen ? [answerOf(mark.row), "waiting"] : [answerOf(mark.row)];
  const time = isOpen ? formatClock(brush.now - mark.from) : formatDuration((mark.to as number) - mark.from);
  const label = [...said.map((text) => `${text} ${isOpen ? "" : "· "}${time}`), ...said].find((text) => measure(ctx, text) <= box.w - 28);
  if (label) ctx.fillText(label, box.x + 20, middle + 0.5);
}
