// The strokes that everything on the canvas is made of: outlines, hatches, and text that fits. Pixels only; knows nothing
// of spans.

import type { Paint, Theme } from "../theme/theme";
import type { Hatch, Patterns } from "./patterns";

export interface Surface {
  readonly ctx: CanvasRenderingContext2D;
  readonly theme: Theme;
  readonly paint: Paint | null;
  readonly patterns: Patterns;
  readonly ratio: number;
  /** How far the stripes of running bars have moved, in pixels. */
  readonly shift: number;
  /** The run's age in milliseconds. */
  readonly now: number;
  /** Nothing is known any more of what has no end. */
  readonly isLost: boolean;
  /** Of the chart, in pixels: no label stands beyond. */
  readonly width: number;
}

/** Where a mark stands, in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** A box that may still become another one. */
export type GrowingBox = { -readonly [Side in keyof Box]: Box[Side] };

export const ROUND = 4;
const widths = new Map<string, number>();
let widthsFont = "";

export const labelFont = (theme: Theme): string => `500 11px ${theme.font}`;

/** How a bar ends on its right. */
export type Edge = "closed" | "open" | "torn" | "arrow";

/** Adds a closed bar to the path. */
export const roundedBar = (ctx: CanvasRenderingContext2D, { x, y, w, h }: Box, round = ROUND): void => ctx.roundRect(x, y, w, h, Math.min(round, w / 2, h / 2));

/** The path of a bar. */
export function outline(ctx: CanvasRenderingContext2D, box: Box, edge: Edge, round: number): void {
  const { x, y, w, h } = box;
  const r = Math.min(round, w / 2, h / 2);
  ctx.beginPath();
  if (edge === "closed") roundedBar(ctx, box, round);
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

/**
 * The width of a text in the font of labels, which must be set, remembered: measuring is the dearest part of a label. To ask
 * the canvas for its font would be dearer still.
 */
export function measure({ ctx, theme }: Surface, text: string): number {
  if (widths.size > 4000 || widthsFont !== theme.font) widths.clear();
  widthsFont = theme.font;
  let width = widths.get(text);
  if (width === undefined) widths.set(text, (width = ctx.measureText(text).width));
  return width;
}

const EDGE = 3;

/** The part of a box that is in sight, where its label stands. */
export function visiblePart({ width }: Surface, { x, y, w, h }: Box): Box {
  const left = Math.max(x, EDGE - 4);
  return { x: left, y, w: Math.min(x + w, width - EDGE) - left, h };
}

/** Every letter is a character of its own. */
const PLAIN = /^[ -~]*$/;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** The characters of a text as a person counts them: an emoji of several parts is one. */
export const charactersOf = (text: string): string[] =>
  PLAIN.test(text) ? text.split("") : Array.from(segmenter.segment(text), ({ segment }) => segment);

/** As much of a text as fits, with an ellipsis; empty when not even `least` characters do. */
export function shorten(surface: Surface, text: string, room: number, least = 4): string {
  if (measure(surface, text) <= room) return text;
  const characters = charactersOf(text.slice(0, 400));
  const upTo = (count: number): string => `${characters.slice(0, count).join("").trimEnd()}…`;
  const count = mostThatFit(characters.length, (many) => measure(surface, upTo(many)) <= room);
  return count < least ? "" : upTo(count);
}

/** As much of the end of a text as fits, with an ellipsis before it. */
export function shortenStart(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (ctx.measureText(text).width <= room) return text;
  const characters = charactersOf(text);
  const from = (count: number): string => `…${characters.slice(characters.length - count).join("").trimStart()}`;
  return from(mostThatFit(characters.length, (many) => ctx.measureText(from(many)).width <= room));
}

/** The largest number up to `most` for which it fits, where less of it fits, too. */
function mostThatFit(most: number, fits: (count: number) => boolean): number {
  let [low, high] = [0, most];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}
