// The bars of work on the canvas, and the frames around them. Each meaning has two channels (W2): model calls are the
// upper part with a diamond, tools the lower part with a square, work that is handed on is a hollow arrow, errors are
// hatched with a thick border and a cross, what runs is open to the right with moving stripes, what was cancelled is torn,
// and a fallback agent's call has a hook. Gaps and questions are in `waits`, what is too short for a bar in `beads`.

import { durationOf } from "../wire/predicates";
import type { Mark } from "../layout/marks";
import type { Shape } from "../layout/shapes";
import { modelNameOf, modelOf, signOf } from "../wording/labels";
import { formatCount, formatDuration } from "../wording/numbers";
import { drawBead, drawNotch } from "./beads";
import { chooseHue, isCutShort } from "./hues";
import { type Box, fill, labelFont, measure, outline, overlay, ROUND, stroke, type Surface } from "./strokes";
import { drawGap, drawReview } from "./waits";

const GLYPH = 7;

type Draw = (surface: Surface, mark: Mark, box: Box) => void;

/** How each shape is drawn. */
const DRAWINGS: Record<Shape, Draw> = {
  phase: drawPhase, task: drawTask, work: drawBar, llm: drawBar, attempt: drawBar, tool: drawBar, delegation: drawBar,
  review: drawReview, plain: drawBar, bead: drawBead, wait: drawGap, backoff: drawGap,
  notch: drawNotch,
  // Ghosts have no place on the axis, so the painter asks for them itself.
  ghost: () => undefined,
};

/** Draws one mark whose interval is on screen; its label is left out where the bar is too small for it. */
export function drawMark(surface: Surface, mark: Mark, box: Box): void {
  DRAWINGS[mark.shape](surface, mark, box);
}

function drawBar(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const status = mark.row.status;
  const isCut = isCutShort(status);
  const hue = chooseHue(mark);
  const isOpen = mark.to === null;
  const isHollow = mark.shape === "delegation" && hue === "tool";
  outline(ctx, box, isOpen ? "open" : isCut ? "torn" : mark.shape === "delegation" ? "arrow" : "closed", ROUND);
  if (isHollow) {
    fill(ctx, theme.background, 1);
    fill(ctx, theme.hues.tool, 0.16);
    if (isOpen) overlay(surface, "stripes", theme.hues.tool, 0.18);
    ctx.lineWidth = 1.5;
    stroke(ctx, theme.hues.tool, 1);
  } else if (hue === "error" && box.w > 5) {
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
  if (isHollow) drawLabel(surface, mark, box, theme.text, theme.hues.tool);
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
  if (mark.row.critical) {
    ctx.fillStyle = theme.text;
    ctx.globalAlpha = 0.75;
    ctx.fillRect(box.x, box.y + box.h - 1, box.w, 2);
    ctx.globalAlpha = 1;
  }
}

function drawPhase(surface: Surface, mark: Mark, box: Box): void {
  const { ctx, theme } = surface;
  const isError = mark.row.status === "error";
  const color = isError ? theme.hues.error : theme.hues.idle;
  const y = Math.round(box.y + box.h / 2);
  ctx.globalAlpha = isError ? 1 : 0.85;
  ctx.fillStyle = color;
  const thickness = isError ? 4 : 3;
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

function drawLabel(surface: Surface, mark: Mark, box: Box, ink: string, glyphInk: string, halo?: string): void {
  const { ctx, theme } = surface;
  if (box.h < 12 || box.w < GLYPH + 8) return;
  const middle = box.y + box.h / 2;
  const hasGlyph = mark.row.status === "error" || signOf(mark.row) !== "";
  if (hasGlyph) drawGlyph(ctx, mark, box.x + 5 + GLYPH / 2, middle, glyphInk);
  const start = hasGlyph ? GLYPH + 9 : 6;
  const room = box.w - start - 6;
  if (room < 14) return;
  ctx.font = labelFont(theme);
  const label = labels(mark).find((text) => measure(ctx, text) <= room);
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

/** What a bar may say, longest first. */
function labels(mark: Mark): string[] {
  const { row } = mark;
  const isCall = mark.shape === "llm" || mark.shape === "attempt";
  const name = isCall ? modelOf(row) : (row.delegate_to ?? row.tool ?? row.name);
  const tokens = isCall && row.output_tokens != null ? `${formatCount(row.input_tokens)} → ${formatCount(row.output_tokens)}` : "";
  const length = durationOf(row);
  const time = length === null ? "" : formatDuration(length);
  const base = mark.shape === "work" ? time : mark.shape === "attempt" && (row.attempt ?? 1) > 1 ? `${name} · try ${row.attempt}` : name;
  return [tokens ? `${base}  ${tokens}` : "", base, modelNameOf(row) ? shortModel(modelOf(row)) : ""].filter(Boolean);
}

const shortModel = (model: string): string => model.replace(/^.*[/:]/, "").replace(/[-_].*$/, "");

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
