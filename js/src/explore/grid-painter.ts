// Draws the cells of the grid. Each look has a shape of its own beside its colour, in the cells as in the legend. Pixels only.

import type { Theme } from "../theme/theme";
import { boxOf, type Places } from "./grid-places";
import type { Look } from "./grid-scale";

const STEP_SIZES = [0.42, 0.56, 0.7, 0.85, 1];
const STEP_STRENGTHS = [0.5, 0.62, 0.75, 0.88, 1];

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
      ctx.fillStyle = theme.accent;
      const alpha = ctx.globalAlpha;
      ctx.globalAlpha = alpha * 0.28;
      if (isNamed) ctx.fillRect(0, y, width, cell.h);
      else ctx.fillRect(start.x - 1, y - 1, columns * cell.w + 1, cell.h);
      ctx.globalAlpha = alpha;
      // A second sign beside the tint.
      ctx.fillRect(isNamed ? 0 : start.x - 1, isNamed ? y : y + cell.h - 2, isNamed ? 3 : columns * cell.w + 1, isNamed ? cell.h : 1.5);
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
  if (room < 8 || text === "") return;
  let shown = text.slice(0, Math.ceil(room / 2));
  if (shown !== text || ctx.measureText(shown).width > room) {
    while (shown.length > 0 && ctx.measureText(`${shown}…`).width > room) shown = shown.slice(0, Math.min(shown.length - 1, Math.ceil((shown.length * room) / ctx.measureText(shown).width)));
    shown = `${shown.trimEnd()}…`;
  }
  ctx.fillText(shown, x, y);
}

/** One cell: what is done is full, what failed has a cross, what runs is half full, what has not begun is hollow. */
export function drawSwatch(ctx: CanvasRenderingContext2D, x: number, y: number, size: number, look: Look, theme: Theme): void {
  const { hues, muted } = theme;
  const middle = size / 2;
  if (typeof look === "number") {
    const side = size * (STEP_SIZES[look] ?? 1);
    const alpha = ctx.globalAlpha;
    ctx.globalAlpha = alpha * (STEP_STRENGTHS[look] ?? 1);
    ctx.fillStyle = hues.llm;
    ctx.fillRect(x + (size - side) / 2, y + (size - side) / 2, side, side);
    ctx.globalAlpha = alpha;
    return;
  }
  const line = Math.max(1, size / 10);
  const outline = (color: string): void => {
    ctx.strokeStyle = color;
    ctx.lineWidth = line;
    ctx.strokeRect(x + line / 2, y + line / 2, size - line, size - line);
  };
  const fill = (color: string, left = 0, top = 0, w = size, h = size): void => {
    ctx.fillStyle = color;
    ctx.fillRect(x + left, y + top, w, h);
  };
  const stroke = (color: string, ...points: readonly (readonly [number, number, number, number])[]): void => {
    ctx.strokeStyle = color;
    ctx.lineWidth = Math.max(1.2, size / 7);
    ctx.beginPath();
    for (const [x1, y1, x2, y2] of points) {
      ctx.moveTo(x + x1 * size, y + y1 * size);
      ctx.lineTo(x + x2 * size, y + y2 * size);
    }
    ctx.stroke();
  };
  switch (look) {
    case "ok": case "passed": return fill(hues.tool);
    case "reused": fill(hues.tool, 0, 0, size, line * 2); fill(hues.tool, 0, size - line * 2, size, line * 2); return fill(hues.tool, 0, middle - line / 2, size, line);
    case "error": fill(hues.error); return stroke(theme.labelColors.error, [0.2, 0.2, 0.8, 0.8], [0.8, 0.2, 0.2, 0.8]);
    case "failed": outline(hues.wait); return stroke(hues.wait, [0.15, 0.85, 0.85, 0.15]);
    case "running": outline(hues.llm); return fill(hues.llm, 0, 0, middle);
    case "waiting": outline(hues.wait); return stroke(hues.wait, [0.35, 0.25, 0.35, 0.75], [0.65, 0.25, 0.65, 0.75]);
    case "cancelled": case "interrupted": outline(hues.idle); return stroke(hues.idle, [0.1, 0.1, 0.9, 0.9]);
    case "skipped": return stroke(hues.idle, [0.1, 0.5, 0.9, 0.5]);
    case "pending": return outline(hues.idle);
    case "unknown": ctx.setLineDash([2, 2]); outline(hues.idle); return ctx.setLineDash([]);
    default: return fill(muted, middle - 1, middle - 1, 2, 2);
  }
}
