// The strokes that everything on the canvas is made of: outlines, hatches, and text that fits. Pixels only; knows nothing
// of spans.

import type { Theme } from "../theme/theme";
import type { Hatch, Patterns } from "./patterns";

export interface Surface {
  readonly ctx: CanvasRenderingContext2D;
  readonly theme: Theme;
  readonly patterns: Patterns;
  readonly ratio: number;
  /** How far the stripes of running bars have moved, in pixels. */
  readonly shift: number;
  /** The run's age in milliseconds. */
  readonly now: number;
}

/** Where a mark stands, in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

export const ROUND = 4;
const widths = new Map<string, number>();

export const labelFont = (theme: Theme): string => `500 11px ${theme.font}`;

/** How a bar ends on its right. */
export type Edge = "closed" | "open" | "torn" | "arrow";

/** The path of a bar. */
export function outline(ctx: CanvasRenderingContext2D, { x, y, w, h }: Box, edge: Edge, round: number): void {
  const r = Math.min(round, w / 2, h / 2);
  ctx.beginPath();
  if (edge === "closed") ctx.roundRect(x, y, w, h, r);
  else if (edge === "open" || w < 8) ctx.roundRect(x, y, w, h, [r, 0, 0, r]);
  else if (edge === "arrow") {
    const head = Math.min(h / 2, w - 2);
    ctx.moveTo(x, y);
    ctx.lineTo(x + w - head, y);
    ctx.lineTo(x + w, y + h / 2);
    ctx.lineTo(x + w - head, y + h);
    ctx.lineTo(x, y + h);
    ctx.closePath();
  } else {
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

export function overlay(surface: Surface, hatch: Hatch, color: string, alpha: number): void {
  const shift = hatch === "stripes" ? surface.shift : 0;
  const pattern = surface.patterns.get(surface.ctx, hatch, color, surface.ratio, shift);
  if (!pattern) return;
  surface.ctx.globalAlpha = alpha;
  surface.ctx.fillStyle = pattern;
  surface.ctx.fill();
  surface.ctx.globalAlpha = 1;
}

export function fill(ctx: CanvasRenderingContext2D, color: string, alpha: number): void {
  ctx.globalAlpha = alpha;
  ctx.fillStyle = color;
  ctx.fill();
  ctx.globalAlpha = 1;
}

export function stroke(ctx: CanvasRenderingContext2D, color: string, alpha: number): void {
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
