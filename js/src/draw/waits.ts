// What waits: gaps inside a model call, and questions to a person.

import type { Mark } from "../layout/marks";
import { causeOfWait } from "../layout/row-waits";
import { SHAPES } from "../layout/shapes";
import { answerOf, waitOf } from "../wording/labels";
import { formatClock, formatDuration } from "../wording/numbers";
import { fullCause, shortCause } from "../wording/text";
import { type Box, fill, labelFont, measure, outline, shorten, stroke, type Surface, visiblePart } from "./strokes";

/** With less room there is no more of a verdict than that the work was sent back. */
const LEAST_VERDICT = 100;

/** A wait inside a call, before an attempt or between two: dots, and the reason where it fits. */
export function drawGap(surface: Surface, mark: Mark, whole: Box): void {
  const { ctx, theme } = surface;
  const box = visiblePart(surface, whole);
  const middle = Math.round(box.y + box.h / 2) + 0.5;
  const causes = causesOf(mark);
  const time = mark.to === null || mark.shape === "between" ? "" : ` · ${formatDuration(mark.to - mark.from)}`;
  const hue = theme.hues[SHAPES[mark.shape].hue];
  ctx.font = labelFont(theme);
  const label = [...causes.map((cause) => cause && cause + time), ...causes].find((text) => text && box.w > measure(surface, text) + 12);
  ctx.strokeStyle = hue;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([1.5, 3.5]);
  ctx.lineCap = "round";
  ctx.beginPath();
  const side = label ? (box.w - measure(surface, label) - 8) / 2 : box.w;
  ctx.moveTo(box.x + 2, middle);
  ctx.lineTo(box.x + side, middle);
  if (label) {
    ctx.moveTo(box.x + box.w - side, middle);
    ctx.lineTo(box.x + box.w - 1, middle);
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.lineCap = "butt";
  const outside = causes.find((text) => text && mark.to === null && box.x + box.w + 8 + measure(surface, text) < surface.width);
  if (!label && outside) {
    ctx.fillStyle = theme.muted;
    ctx.fillText(outside, box.x + box.w + 8, middle);
  }
  if (!label) return;
  ctx.textAlign = "center";
  if (mark.shape === "between") {
    ctx.strokeStyle = theme.background; // the end of a round may be behind it
    ctx.lineWidth = 4;
    ctx.strokeText(label, box.x + box.w / 2, middle);
  }
  ctx.fillStyle = theme.muted;
  ctx.fillText(label, box.x + box.w / 2, middle);
  ctx.textAlign = "left";
}

/** Why there is a gap, the fullest words first. */
function causesOf(mark: Mark): string[] {
  const reason = mark.row.retry_reason ?? mark.row.error_type;
  if (mark.shape === "backoff") return [fullCause(reason), shortCause(reason)];
  return mark.shape === "wait" ? [causeOfWait(mark), waitOf(mark.row)] : [causeOfWait(mark)];
}

/** A question to a person: two upright strokes in a dotted outline, which moves as long as nobody has answered. */
export function drawReview(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const isOpen = mark.to === null && !surface.isLost;
  const hue = theme.hues[mark.row.status === "error" ? "error" : "wait"];
  outline(ctx, box, "closed", box.h / 2);
  fill(ctx, theme.background, 1);
  fill(ctx, hue, isOpen ? 0.2 : 0.1);
  ctx.setLineDash([2, 3]);
  ctx.lineDashOffset = isOpen ? -surface.shift * 5 : 0; // a whole number of dots in the time that the stripes take
  ctx.lineWidth = isOpen ? 2 : 1.5;
  stroke(ctx, hue, 1);
  ctx.setLineDash([]);
  const seen = visiblePart(surface, box);
  if (seen.w < 18 || box.h < 12) return;
  const middle = box.y + box.h / 2;
  ctx.fillStyle = theme.text;
  ctx.fillRect(seen.x + 8, middle - 4, 2.5, 8);
  ctx.fillRect(seen.x + 12.5, middle - 4, 2.5, 8);
  ctx.font = labelFont(theme);
  if (mark.label === "") return; // what it came to stands beside it
  const [room, verdict] = [seen.w - 28, mark.names?.[0]];
  const said = isOpen ? [answerOf(mark.row), "waiting"] : [mark.to === null ? "not answered" : answerOf(mark.row)];
  const time = isOpen ? formatClock(surface.now - mark.from) : formatDuration((mark.to ?? surface.now) - mark.from);
  const label = verdict && room >= LEAST_VERDICT ? shorten(surface, verdict, room)
    : [...said.map((text) => `${text} ${isOpen ? "" : "· "}${time}`), ...said].find((text) => measure(surface, text) <= room);
  if (label) ctx.fillText(label, seen.x + 20, middle + 0.5);
}
