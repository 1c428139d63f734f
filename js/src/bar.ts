// One mark on the canvas: its shape, its status and its label. Each meaning has two channels (W2): model calls are the
// upper part with a diamond, tools the lower part with a square, errors are hatched with a thick border and a cross,
// what runs is open to the right with moving stripes, what was cancelled is torn.

import { cause, count, duration } from "./format";
import type { Mark } from "./layout";
import { type Hatch, Patterns } from "./pattern";
import type { Hue } from "./palette";
import type { Skin } from "./theme";

export interface Brush {
  readonly ctx: CanvasRenderingContext2D;
  readonly skin: Skin;
  readonly patterns: Patterns;
  readonly ratio: number;
  /** How far the stripes of running bars have moved, in pixels. */
  readonly shift: number;
}

/** Where a mark stands, in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

const ROUND = 4;
const GLYPH = 7;
const LONGEST_GHOST = 300;
const widths = new Map<string, number>();

export const labelFont = (skin: Skin): string => `500 11px ${skin.font}`;

/** Draws one mark whose interval is on screen. `label` may be left out when the bar is too small for it. */
export function drawMark(brush: Brush, mark: Mark, box: Box): void {
  switch (mark.shape) {
    case "phase":
      return drawPhase(brush, mark, box);
    case "task":
      return drawTask(brush, mark, box);
    case "backoff":
      return drawBackoff(brush, mark, box);
    case "ghost":
      return;
    default:
      return drawBar(brush, mark, box);
  }
}

/** The hue of what a mark does, before its status has a say. */
export const hueOf = (mark: Mark): "llm" | "tool" => (mark.shape === "llm" || mark.shape === "attempt" ? "llm" : "tool");

function drawBar(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const status = mark.row.status;
  const hue: Hue = status === "error" ? "error" : status === "cancelled" || status === "interrupted" ? "idle" : hueOf(mark);
  const isOpen = mark.to === null;
  outline(ctx, box, isOpen ? "open" : hue === "idle" ? "torn" : "closed", ROUND);
  if (hue === "error" && box.w > 5) {
    fill(ctx, skin.background, 1);
    fill(ctx, skin.hues.error, 0.14);
    overlay(brush, "hatch", skin.hues.error, 0.5);
    ctx.save();
    ctx.clip();
    ctx.lineWidth = 4;
    stroke(ctx, skin.hues.error, 1);
    ctx.restore();
  } else {
    fill(ctx, skin.hues[hue], hue === "idle" ? 0.75 : 1);
    if (isOpen) overlay(brush, "stripes", skin.inks[hue], 0.2);
    else if (hue === "idle") overlay(brush, "back-hatch", skin.background, 0.4);
  }
  if (hue === "error") drawLabel(brush, mark, box, skin.text, skin.hues.error, skin.background);
  else drawLabel(brush, mark, box, skin.inks[hue], skin.inks[hue]);
}

function drawTask(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const status = mark.row.status;
  const isError = status === "error";
  const isCut = status === "cancelled" || status === "interrupted";
  outline(ctx, box, mark.to === null ? "open" : isCut ? "torn" : "closed", ROUND + 2);
  fill(ctx, isError ? skin.hues.error : skin.text, isError ? 0.1 : 0.055);
  if (isError) overlay(brush, "hatch", skin.hues.error, 0.16);
  if (isCut) overlay(brush, "back-hatch", skin.hues.idle, 0.24);
  ctx.lineWidth = isError ? 1.5 : 1;
  stroke(ctx, isError ? skin.hues.error : skin.text, isError ? 0.9 : 0.16);
  if (mark.row.critical) {
    ctx.fillStyle = skin.text;
    ctx.globalAlpha = 0.75;
    ctx.fillRect(box.x, box.y + box.h - 1, box.w, 2);
    ctx.globalAlpha = 1;
  }
}

function drawPhase(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const isError = mark.row.status === "error";
  const color = isError ? skin.hues.error : skin.hues.idle;
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

/** The wait before the next attempt: a notch, dots, and the reason where it fits. */
function drawBackoff(brush: Brush, mark: Mark, box: Box): void {
  const { ctx, skin } = brush;
  const middle = Math.round(box.y + box.h / 2) + 0.5;
  const why = cause(mark.row.retry_reason ?? mark.row.error_type);
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

/** The ring around what is selected (strong) or under the pointer (soft). */
export function drawRing(brush: Brush, box: Box, isStrong: boolean): void {
  const { ctx, skin } = brush;
  const out = isStrong ? 2 : 1.5;
  ctx.beginPath();
  ctx.roundRect(box.x - out, box.y - out, Math.max(box.w, 2) + 2 * out, box.h + 2 * out, ROUND + 2);
  ctx.lineWidth = isStrong ? 2 : 1.5;
  stroke(ctx, isStrong ? skin.accent : skin.text, isStrong ? 1 : 0.45);
}

function drawLabel(brush: Brush, mark: Mark, box: Box, ink: string, glyphInk: string, halo?: string): void {
  const { ctx, skin } = brush;
  if (box.h < 12 || box.w < GLYPH + 8) return;
  const middle = box.y + box.h / 2;
  drawGlyph(ctx, mark, box.x + 5 + GLYPH / 2, middle, glyphInk);
  const room = box.w - GLYPH - 15;
  if (room < 14) return;
  ctx.font = labelFont(skin);
  const label = labels(mark).find((text) => measure(ctx, text) <= room);
  if (!label) return;
  const x = box.x + GLYPH + 9;
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
  const name = isCall ? (row.model ?? row.name) : (row.tool ?? row.name);
  const tokens = isCall && row.output_tokens != null ? `${count(row.input_tokens)} → ${count(row.output_tokens)}` : "";
  const time = row.end_ms != null && row.start_ms != null ? duration(row.end_ms - row.start_ms) : "";
  const base = mark.shape === "work" ? [time] : [name];
  if (mark.shape === "attempt" && row.attempt != null) base[0] = `${name} · try ${row.attempt}`;
  return [tokens ? `${base[0]}  ${tokens}` : "", base[0] ?? "", row.model ? shortModel(row.model) : ""].filter(Boolean);
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
  if (mark.shape === "llm" || mark.shape === "attempt") {
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

/** The path of a bar: closed, open to the right, or torn there. */
function outline(ctx: CanvasRenderingContext2D, { x, y, w, h }: Box, edge: "closed" | "open" | "torn", round: number): void {
  const r = Math.min(round, w / 2, h / 2);
  ctx.beginPath();
  if (edge === "closed") ctx.roundRect(x, y, w, h, r);
  else if (edge === "open" || w < 8) ctx.roundRect(x, y, w, h, [r, 0, 0, r]);
  else {
    ctx.moveTo(x + r, y);
    ctx.lineTo(x + w, y);
    const teeth = Math.max(2, Math.round(h / 5));
    for (let k = 1; k <= teeth; k += 1) ctx.lineTo(x + w - (k % 2 ? 3.5 : 0), y + (h * k) / teeth);
    ctx.lineTo(x + r, y + h);
    ctx.arcTo(x, y + h, x, y + h - r, r);
    ctx.lineTo(x, y + r);
    ctx.arcTo(x, y, x + r, y, r);
    ctx.closePath();
  }
}

function overlay(brush: Brush, hatch: Hatch, color: string, alpha: number): void {
  const shift = hatch === "stripes" ? brush.shift : 0;
  const pattern = brush.patterns.get(brush.ctx, hatch, color, brush.ratio, shift);
  if (!pattern) return;
  brush.ctx.globalAlpha = alpha;
  brush.ctx.fillStyle = pattern;
  brush.ctx.fill();
  brush.ctx.globalAlpha = 1;
}

function fill(ctx: CanvasRenderingContext2D, color: string, alpha: number): void {
  ctx.globalAlpha = alpha;
  ctx.fillStyle = color;
  ctx.fill();
  ctx.globalAlpha = 1;
}

function stroke(ctx: CanvasRenderingContext2D, color: string, alpha: number): void {
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = color;
  ctx.stroke();
  ctx.globalAlpha = 1;
}

/** The width of a text in the current font, remembered: measuring is the dearest part of a label. */
export function measure(ctx: CanvasRenderingContext2D, text: string): number {
  const key = `${ctx.font}|${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 4000) widths.clear();
    width = ctx.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** As much of a text as fits, with an ellipsis; empty when not even four letters do. */
export function shorten(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (measure(ctx, text) <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low < 4 ? "" : `${text.slice(0, low).trimEnd()}…`;
}
