// The bars of work on the canvas, and the frames around them. Each meaning has two channels (W2): model calls are the
// upper part with a diamond, tools the lower part with a square, work that is handed on is a hollow arrow, errors are
// hatched with a thick border and a cross, what runs is open to the right with moving stripes, what was cancelled is torn,
// a fallback agent's call has a hook, and what nothing is known of any more is hollow and dashed. Gaps and questions are
// in `waits`, what is too short for a bar in `beads`.

import { durationOf } from "../wire/predicates";
import type { Mark } from "../layout/marks";
import type { Shape } from "../layout/shapes";
import { signOf } from "../wording/labels";
import { formatCount, formatDuration } from "../wording/numbers";
import { drawBead, drawNotch } from "./beads";
import { chooseHue, isCutShort } from "./hues";
import { type Box, fill, labelFont, measure, outline, overlay, ROUND, shorten, stroke, type Surface, visiblePart } from "./strokes";
import { drawReused } from "./reused";
import { drawRound } from "./bands";
import { drawGap, drawReview } from "./waits";

const GLYPH = 7;
/** From so wide on, a bar has room for a sign. */
export const LABELLED_PX = GLYPH + 8;
/** Errors that are wider are hatched. */
export const HATCHED_PX = 5;

type Draw = (surface: Surface, mark: Mark, box: Box, hasLabel?: boolean) => void;

/** How each shape is drawn. */
const DRAWINGS: Record<Shape, Draw> = {
  phase: drawPhase, round: drawRound, task: drawTask, work: drawBar, reused: drawReused, llm: drawBar, attempt: drawBar, tool: drawBar, delegation: drawBar,
  review: drawReview, plain: drawBar, bead: drawBead, wait: drawGap, backoff: drawGap, queue: drawGap, between: drawGap,
  notch: drawNotch,
  // Ghosts have no place on the axis, so the painter asks for them itself.
  ghost: () => undefined,
};

/** Draws one mark whose interval is on screen; its label is left out where the bar is too small for it. */
export function drawMark(surface: Surface, mark: Mark, box: Box, hasLabel = true): void {
  DRAWINGS[mark.shape](surface, mark, box, hasLabel);
}

/** A bar without a label has its sign alone, and room for something else. */
function drawBar(surface: Surface, mark: Mark, box: Box, hasLabel = true): void {
  const { ctx, theme } = surface;
  const status = mark.row.status;
  const isCut = isCutShort(status);
  const hue = chooseHue(surface, mark);
  const isOpen = mark.to === null;
  const isUnknown = isOpen && surface.isLost;
  const isHollow = isUnknown || (mark.shape === "delegation" && hue !== "error" && !isCut);
  outline(ctx, box, isOpen ? "open" : isCut ? "torn" : mark.shape === "delegation" ? "arrow" : "closed", ROUND);
  if (isHollow) {
    fill(ctx, theme.background, 1);
    fill(ctx, theme.hues[hue], 0.16);
    if (isOpen && !isUnknown) overlay(surface, "stripes", theme.hues[hue], 0.18);
    if (isUnknown) ctx.setLineDash([4, 3]);
    ctx.lineWidth = 1.5;
    stroke(ctx, theme.hues[hue], 1);
    ctx.setLineDash([]);
  } else if (hue === "error" && box.w > HATCHED_PX) {
    fill(ctx, theme.background, 1);
    fill(ctx, theme.hues.error, 0.14);
    overlay(surface, "hatch", theme.hues.error, 0.5);
    ctx.save();
    ctx.clip();
    ctx.lineWidth = 4;
    stroke(ctx, theme.hues.error, 1);
    ctx.restore();
  } else {
    fill(ctx, theme.hues[hue], isCut ? 0.75 : 1);
    if (isOpen) overlay(surface, "stripes", theme.labelColors[hue], 0.2);
    else if (isCut) overlay(surface, "back-hatch", theme.background, 0.4);
  }
  // The tasks of agents have it on their frames.
  if (mark.shape === "work" && mark.row.critical) drawSpine(surface, box, 1);
  if (!hasLabel) drawSign(surface, mark, box, isHollow ? theme.hues[hue] : theme.labelColors[hue]);
  else if (isHollow) drawLabel(surface, mark, box, theme.text, theme.hues[hue]);
  else if (hue === "error") drawLabel(surface, mark, box, theme.text, theme.hues.error, theme.background);
  else drawLabel(surface, mark, box, theme.labelColors[hue], theme.labelColors[hue]);
}

function drawTask(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const status = mark.row.status;
  const isError = status === "error";
  const isCut = isCutShort(status) || status === "skipped";
  outline(ctx, box, mark.to === null ? "open" : isCut ? "torn" : "closed", ROUND + 2);
  fill(ctx, isError ? theme.hues.error : theme.text, isError ? 0.1 : 0.055);
  if (isError) overlay(surface, "hatch", theme.hues.error, 0.16);
  if (isCut) overlay(surface, "back-hatch", theme.hues.idle, 0.24);
  ctx.lineWidth = isError ? 1.5 : 1;
  stroke(ctx, isError ? theme.hues.error : theme.text, isError ? 0.9 : 0.16);
  if (mark.row.critical) drawSpine(surface, box, -1);
}

/** The dark line under what is on the critical path. */
function drawSpine({ ctx, theme }: Surface, box: Box, below: number): void {
  ctx.fillStyle = theme.text;
  ctx.globalAlpha = 0.75;
  ctx.fillRect(box.x, box.y + box.h + below, box.w, 2);
  ctx.globalAlpha = 1;
}

function drawPhase(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const isError = mark.row.status === "error";
  const color = isError ? theme.hues.error : mark.row.critical ? theme.text : theme.hues.idle;
  const y = Math.round(box.y + box.h / 2);
  ctx.globalAlpha = isError ? 1 : 0.85;
  ctx.fillStyle = color;
  const thickness = isError || mark.row.critical ? 4 : 3;
  ctx.beginPath();
  ctx.roundRect(box.x, y - thickness / 2, Math.max(box.w, 2), thickness, mark.to === null ? [2, 0, 0, 2] : 2);
  ctx.fill();
  ctx.fillRect(box.x, y - 4, 2, 8);
  if (mark.to !== null) ctx.fillRect(box.x + box.w - 2, y - 4, 2, 8);
  ctx.globalAlpha = 1;
}

/** The ring around what is selected (strong) or under the pointer (soft). */
export function drawRing(surface: Surface, box: Box, isStrong: boolean): void {
  const { ctx, theme } = surface;
  const out = isStrong ? 2 : 1.5;
  ctx.beginPath();
  ctx.roundRect(box.x - out, box.y - out, Math.max(box.w, 2) + 2 * out, box.h + 2 * out, ROUND + 2);
  ctx.lineWidth = isStrong ? 2 : 1.5;
  stroke(ctx, isStrong ? theme.accent : theme.text, isStrong ? 1 : 0.45);
}

/** The sign at the left of a bar; false where the bar has none. */
function drawSign(surface: Surface, mark: Mark, whole: Box, ink: string): boolean {
  const { x, y, w, h } = visiblePart(surface, whole);
  if (h < 12 || w < LABELLED_PX || (mark.row.status !== "error" && signOf(mark.row) === "")) return false;
  drawGlyph(surface.ctx, mark, x + 5 + GLYPH / 2, y + h / 2, ink);
  return true;
}

function drawLabel(surface: Surface, mark: Mark, whole: Box, ink: string, glyphInk: string, halo?: string): void {
  const { ctx, theme } = surface;
  const box = visiblePart(surface, whole);
  if (box.h < 12 || box.w < LABELLED_PX) return;
  const middle = box.y + box.h / 2;
  const hasGlyph = drawSign(surface, mark, whole, glyphInk);
  const start = hasGlyph ? GLYPH + 9 : 6;
  const room = box.w - start - 6;
  if (room < 14) return;
  ctx.font = labelFont(theme);
  const names = labels(mark);
  const label = names.find((text) => measure(surface, text) <= room) ?? shorten(surface, names.at(-1) ?? "", room);
  if (!label) return;
  const x = box.x + start;
  if (halo) {
    ctx.lineJoin = "round";
    ctx.lineWidth = 4;
    ctx.strokeStyle = halo;
    ctx.strokeText(label, x, middle + 0.5);
    ctx.lineJoin = "miter";
  }
  ctx.fillStyle = ink;
  ctx.fillText(label, x, middle + 0.5);
}

/** What a bar may say, longest first: what was done, and of a call how much went in and came out. */
function labels({ row, shape, names }: Mark): string[] {
  if (shape === "work") {
    const length = durationOf(row);
    return length === null ? (row.progress ? [row.progress] : []) : [formatDuration(length)];
  }
  const found = names ?? [row.delegate_to ?? row.tool ?? row.name];
  const attempt = `try ${row.attempt ?? 1}`;
  // What failed did nothing of what its call did in the end.
  const told = shape !== "attempt" ? found : row.status === "error" ? [attempt] : (row.attempt ?? 1) > 1 ? [`${found[0]} · ${attempt}`, attempt] : found;
  if (row.progress && row.end_ms == null) return [`${told[0]} · ${row.progress}`, row.progress, ...told];
  const tokens = names && row.output_tokens != null ? `  ${formatCount(row.input_tokens)} → ${formatCount(row.output_tokens)} tok` : "";
  return tokens ? [`${told[0]}${tokens}`, ...told] : [...told];
}

function drawGlyph(ctx: CanvasRenderingContext2D, mark: Mark, x: number, y: number, color: string): void {
  const r = GLYPH / 2;
  ctx.beginPath();
  if (mark.row.status === "error") {
    ctx.moveTo(x - r + 0.5, y - r + 0.5);
    ctx.lineTo(x + r - 0.5, y + r - 0.5);
    ctx.moveTo(x + r - 0.5, y - r + 0.5);
    ctx.lineTo(x - r + 0.5, y + r - 0.5);
    ctx.lineWidth = 2;
    stroke(ctx, color, 1);
    return;
  }
  const glyph = signOf(mark.row);
  if (glyph === "↳") {
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x - r, y + 1);
    ctx.lineTo(x + r, y + 1);
    ctx.moveTo(x + 1, y - 2);
    ctx.lineTo(x + r + 0.5, y + 1);
    ctx.lineTo(x + 1, y + 4);
    ctx.lineWidth = 1.6;
    stroke(ctx, color, 1);
    return;
  }
  if (glyph === "▸") {
    ctx.moveTo(x - 2.5, y - r);
    ctx.lineTo(x + r, y);
    ctx.lineTo(x - 2.5, y + r);
    ctx.closePath();
  } else if (glyph === "◆") {
    ctx.moveTo(x, y - r - 0.5);
    ctx.lineTo(x + r + 0.5, y);
    ctx.lineTo(x, y + r + 0.5);
    ctx.lineTo(x - r - 0.5, y);
    ctx.closePath();
  } else {
    ctx.rect(x - 2.5, y - 2.5, 5, 5);
  }
  ctx.fillStyle = color;
  ctx.fill();
}
