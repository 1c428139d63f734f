// What stands beside the bars of work: gaps in them, questions to a person, beads for what is mostly too short for a bar,
// notches where work begins anew, the pills of what has no time yet, and the way of work from row to row.

import { cause, clock, duration } from "./format";
import type { Mark } from "./mark";
import { answerOf, waitOf } from "./name";
import { type Box, type Brush, fill, labelFont, measure, outline, shorten, stroke } from "./pen";

const LONGEST_GHOST = 300;
const BEAD = 11;

/** A wait inside a call, before an attempt or between two: dots, and the reason where it fits. */
export function drawGap(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const middle = Math.round(box.y + box.h / 2) + 0.5;
  const why = mark.shape === "wait" ? waitOf(mark.row) : cause(mark.row.retry_reason ?? mark.row.error_type);
  const long = mark.to === null ? why : `${why} · ${duration(mark.to - mark.from)}`;
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
  const time = isOpen ? clock(brush.now - mark.from) : duration((mark.to as number) - mark.from);
  const label = [...said.map((text) => `${text} ${isOpen ? "" : "· "}${time}`), ...said].find((text) => measure(ctx, text) <= box.w - 28);
  if (label) ctx.fillText(label, box.x + 20, middle + 0.5);
}

/** A guardrail (a shield) or a look into the memory (a stack), on a line as long as it took. */
export function drawBead(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const isError = mark.row.status === "error";
  const hue = skin.hues[isError ? "error" : "idle"];
  const [x, y, r] = [box.x, box.y + box.h / 2, BEAD / 2];
  if (box.w > BEAD) {
    ctx.fillStyle = hue;
    ctx.fillRect(x, y - 1, box.w, 2);
  }
  ctx.beginPath();
  if (mark.shape === "guardrail") {
    ctx.moveTo(x, y - r - 0.5);
    ctx.lineTo(x + r, y - r + 1.5);
    ctx.lineTo(x + r - 0.5, y + 1);
    ctx.lineTo(x, y + r + 1);
    ctx.lineTo(x - r + 0.5, y + 1);
    ctx.lineTo(x - r, y - r + 1.5);
    ctx.closePath();
  } else ctx.roundRect(x - r, y - r, BEAD, BEAD, 3);
  ctx.lineWidth = 3;
  stroke(ctx, skin.background, 1);
  fill(ctx, isError ? hue : skin.background, 1);
  ctx.lineWidth = 1.5;
  stroke(ctx, hue, 1);
  ctx.beginPath();
  if (mark.shape === "memory") {
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
  stroke(ctx, isError ? skin.inks.error : hue, 1);
}

/** Where work begins anew: a line across the row, and in a disc on it the number of the attempt, or a hook. */
export function drawNotch(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const x = Math.round(box.x);
  const y = box.y + box.h - 8;
  ctx.fillStyle = skin.hues.wait;
  ctx.fillRect(x - 1, box.y, 2, box.h);
  ctx.beginPath();
  ctx.arc(x, y, 6.5, 0, 2 * Math.PI);
  ctx.lineWidth = 3;
  stroke(ctx, skin.background, 1);
  fill(ctx, skin.hues.wait, 1);
  ctx.fillStyle = skin.inks.wait;
  ctx.font = `600 9px ${skin.font}`;
  ctx.textAlign = "center";
  ctx.fillText(mark.label ?? "", x, y + 0.5);
  ctx.textAlign = "left";
}

/** Where a ghost may stand: from `wanted` on if it fits, never past `limit`, never before `least`. */
export interface Place {
  readonly wanted: number;
  readonly least: number;
  readonly limit: number;
}

/** What has no time yet or never got one: a pill that says why, dotted while it may still come, dashed when it won't. */
export function drawGhost(brush: Brush, mark: Mark, label: string, y: number, { wanted, least, limit }: Place): void {
  const { ctx, skin } = brush;
  const isPending = mark.row.status === "pending";
  ctx.font = labelFont(skin);
  const text = shorten(ctx, label, Math.min(limit - least - 18, LONGEST_GHOST));
  const w = text ? measure(ctx, text) + 18 : 24;
  const x = Math.max(Math.min(wanted, limit - w), least);
  ctx.beginPath();
  ctx.roundRect(x + 0.5, y + 0.5, w - 1, mark.height - 1, (mark.height - 1) / 2);
  ctx.setLineDash(isPending ? [1.5, 3] : [5, 3]);
  ctx.lineCap = isPending ? "round" : "butt";
  ctx.lineWidth = isPending ? 1.25 : 1;
  stroke(ctx, skin.hues.idle, 0.9);
  ctx.setLineDash([]);
  ctx.lineCap = "butt";
  if (!text) return;
  ctx.fillStyle = skin.muted;
  ctx.fillText(text, x + 9, y + mark.height / 2 + 0.5);
}

/** Work goes down to its worker and comes back: two lines with heads, strong for what is pointed at. */
export function drawHandover({ ctx, skin }: Brush, by: Box, worker: Box, isBack: boolean, isStrong: boolean): void {
  const middle = worker.y + Math.min(worker.h, 24) / 2;
  const [left, right] = [worker.x - 6, worker.x + worker.w + 6];
  const [start, end] = [by.y + by.h, by.x + by.w - 4];
  ctx.strokeStyle = ctx.fillStyle = isStrong ? skin.text : skin.hues.tool;
  ctx.globalAlpha = isStrong ? 1 : 0.55;
  ctx.lineWidth = isStrong ? 1.75 : 1.25;
  ctx.lineJoin = "round";
  ctx.beginPath();
  ctx.moveTo(by.x + 1, start);
  ctx.lineTo(left, start + 4);
  ctx.lineTo(left, middle);
  ctx.lineTo(left + 3, middle);
  if (isBack) {
    ctx.moveTo(right - 5, middle);
    ctx.lineTo(right, middle);
    ctx.lineTo(right, start + 8);
    ctx.lineTo(end, start + 5);
  }
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(left + 6, middle);
  ctx.lineTo(left + 1, middle - 3.5);
  ctx.lineTo(left + 1, middle + 3.5);
  ctx.closePath();
  if (isBack) {
    ctx.moveTo(end, start + 1);
    ctx.lineTo(end - 3.5, start + 6.5);
    ctx.lineTo(end + 3.5, start + 6.5);
    ctx.closePath();
  }
  ctx.fill();
  ctx.globalAlpha = 1;
}
