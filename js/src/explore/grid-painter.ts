// Draws the cells of the grid. Each look has a shape of its own beside its colour, in the cells as in the legend. Pixels only.

import type { Hue } from "../theme/palette";
import type { Theme } from "../theme/theme";
import { boxOf, type Places } from "./grid-places";
import { type Look, STEPS } from "./grid-scale";

export interface GridScene {
  readonly places: Places;
  readonly lookAt: (line: number, column: number) => Look;
  /** The words of a cell, where it has room for some. */
  readonly wordsAt: (line: number, column: number) => string;
  readonly nameOf: (line: number) => string;
  readonly columns: readonly string[];
  readonly isSelected: (line: number) => boolean;
  readonly isDimmed: (line: number) => boolean;
  readonly scrollTop: number;
  readonly theme: Theme;
}

/** Makes a canvas as large as its box, clears it, and gives what draws on it in pixels of the page. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const ctx = canvas.getContext("2d");
  ctx?.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx?.clearRect(0, 0, width, height);
  return ctx;
}

export function paintGrid(ctx: CanvasRenderingContext2D, scene: GridScene, width: number, height: number): void {
  const { places, theme, scrollTop } = scene;
  const { isNamed, across, cell, head, columns, lines } = places;
  const first = Math.max(0, Math.floor((scrollTop - head) / cell.h)) * across;
  const last = Math.min(lines, (Math.ceil((scrollTop + height - head) / cell.h) + 1) * across);
  ctx.font = `12px ${theme.font}`;
  ctx.textBaseline = "middle";
  for (let line = first; line < last; line += 1) {
    const start = boxOf(places, { line, column: 0 });
    const y = start.y - scrollTop;
    ctx.globalAlpha = scene.isDimmed(line) ? 0.25 : 1;
    if (scene.isSelected(line)) {
      const [left, wide] = isNamed ? [0, width] : [start.x - 1, columns * cell.w + 1];
      ctx.fillStyle = theme.accent;
      // A second sign beside the tint.
      ctx.fillRect(left, y + cell.h - 2, wide, 1.5);
      ctx.globalAlpha *= 0.28;
      ctx.fillRect(left, y - 1, wide, cell.h);
      ctx.globalAlpha /= 0.28;
    }
    if (isNamed) {
      ctx.fillStyle = theme.text;
      fillCut(ctx, scene.nameOf(line), 12, y + cell.h / 2, places.names - 22);
    }
    for (let column = 0; column < columns; column += 1) {
      const x = start.x + column * cell.w;
      const look = scene.lookAt(line, column);
      if (!isNamed) drawSwatch(ctx, x, y, cell.w - 1, look, theme);
      else {
        const size = Math.min(14, cell.w - 2);
        drawSwatch(ctx, x, y + (cell.h - size) / 2, size, look, theme);
        if (cell.w < 56) continue;
        ctx.fillStyle = theme.muted;
        fillCut(ctx, scene.wordsAt(line, column), x + size + 6, y + cell.h / 2, cell.w - size - 12);
      }
    }
  }
  ctx.globalAlpha = 1;
  if (isNamed) paintHead(ctx, scene, width);
}

/** The names of the columns, over what is scrolled. */
function paintHead(ctx: CanvasRenderingContext2D, { places, columns, theme }: GridScene, width: number): void {
  ctx.clearRect(0, 0, width, places.head);
  ctx.fillStyle = theme.muted;
  ctx.font = `600 11px ${theme.font}`;
  columns.forEach((name, k) => fillCut(ctx, name, places.names + k * places.cell.w, places.head / 2, places.cell.w - 6));
  ctx.globalAlpha = 0.25;
  ctx.fillRect(0, places.head - 1, width, 1);
  ctx.globalAlpha = 1;
}

/** A text, cut with an ellipsis where there is no room for all of it. */
function fillCut(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, room: number): void {
  let shown = text;
  for (let width = ctx.measureText(shown).width; width > room && shown.length > 1; width = ctx.measureText(shown).width) {
    shown = `${shown.slice(0, Math.max(0, Math.min(shown.length - 2, Math.floor((shown.length * room) / width) - 1))).trimEnd()}…`;
  }
  if (room > 8) ctx.fillText(shown, x, y);
}

type Stroke = readonly [x1: number, y1: number, x2: number, y2: number];

/** The hue of a look, how much of it is full from the left on, whether it has an outline, and the lines in it: shares of its size. */
const LOOKS: Readonly<Record<string, readonly [hue: Hue, full: number, hasOutline: boolean, ...strokes: Stroke[]]>> = {
  ok: ["tool", 1, false], passed: ["tool", 1, false], reused: ["tool", 0, false, [0, 0.1, 1, 0.1], [0, 0.5, 1, 0.5], [0, 0.9, 1, 0.9]],
  error: ["error", 1, false, [0.2, 0.2, 0.8, 0.8], [0.8, 0.2, 0.2, 0.8]], failed: ["wait", 0, true, [0.15, 0.85, 0.85, 0.15]],
  running: ["llm", 0.5, true], waiting: ["wait", 0, true, [0.35, 0.25, 0.35, 0.75], [0.65, 0.25, 0.65, 0.75]],
  cancelled: ["idle", 0, true, [0.1, 0.1, 0.9, 0.9]], interrupted: ["idle", 0, true, [0.1, 0.1, 0.9, 0.9]],
  skipped: ["idle", 0, false, [0.1, 0.5, 0.9, 0.5]], pending: ["idle", 0, true], unknown: ["idle", 0, true, [0.5, 0.3, 0.5, 0.7]], none: ["idle", 0, false, [0.4, 0.5, 0.6, 0.5]],
};

/** One cell: what is done is full, what failed has a cross, what runs is half full, what has not begun is hollow; a step is as large as it is much. */
export function drawSwatch(ctx: CanvasRenderingContext2D, x: number, y: number, size: number, look: Look, theme: Theme): void {
  if (typeof look === "number") {
    const share = 0.4 + (0.6 * look) / (STEPS - 1);
    const alpha = ctx.globalAlpha;
    ctx.globalAlpha = alpha * (0.5 + share / 2);
    ctx.fillStyle = theme.hues.llm;
    ctx.fillRect(x + (size * (1 - share)) / 2, y + (size * (1 - share)) / 2, size * share, size * share);
    ctx.globalAlpha = alpha;
    return;
  }
  const [hue, full, hasOutline, ...strokes] = LOOKS[look] ?? (LOOKS.none as (typeof LOOKS)[string]);
  ctx.fillStyle = ctx.strokeStyle = theme.hues[hue];
  ctx.fillRect(x, y, size * full, size);
  ctx.lineWidth = Math.max(1, size / 10);
  if (hasOutline) ctx.strokeRect(x + ctx.lineWidth / 2, y + ctx.lineWidth / 2, size - ctx.lineWidth, size - ctx.lineWidth);
  if (full === 1) ctx.strokeStyle = theme.labelColors[hue];
  ctx.lineWidth = Math.max(1.2, size / 7);
  ctx.beginPath();
  for (const [x1, y1, x2, y2] of strokes) {
    ctx.moveTo(x + x1 * size, y + y1 * size);
    ctx.lineTo(x + x2 * size, y + y2 * size);
  }
  ctx.stroke();
}
