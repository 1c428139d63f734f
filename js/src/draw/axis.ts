// The axis above the rows, the grid behind them, and the line of now.

import { AXIS_HEIGHT } from "../layout/sizes";
import { toPixel } from "../layout/time-scale";
import { formatClock } from "../wording/numbers";
import type { Scene } from "./scene";
import { labelFont, measure, type Surface } from "./strokes";

export function drawGrid({ ctx, theme }: Surface, columns: readonly number[], height: number): void {
  ctx.fillStyle = theme.text;
  ctx.globalAlpha = 0.07;
  for (const x of columns) ctx.fillRect(x, AXIS_HEIGHT, 1, height - AXIS_HEIGHT);
  ctx.globalAlpha = 1;
}

export function drawAxis({ ctx, theme }: Surface, scene: Scene, labels: readonly { x: number; label: string }[]): void {
  ctx.fillStyle = theme.text;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(0, AXIS_HEIGHT - 1, scene.width, 1);
  for (const { x } of labels) ctx.fillRect(x, AXIS_HEIGHT - 7, 1, 6);
  ctx.globalAlpha = 1;
  ctx.font = labelFont(theme);
  ctx.fillStyle = theme.muted;
  for (const { x, label } of labels) {
    if (x + 5 + measure(ctx, label) < scene.width) ctx.fillText(label, x + 5, AXIS_HEIGHT / 2);
  }
}

export function drawNow({ ctx, theme }: Surface, scene: Scene): void {
  const x = Math.round(toPixel(scene.window, scene.width, scene.now));
  if (x < 0 || x > scene.width) return;
  ctx.fillStyle = theme.accent;
  ctx.fillRect(x, AXIS_HEIGHT - 6, 1.5, scene.height);
  ctx.font = labelFont(theme);
  const text = formatClock(scene.now);
  const w = measure(ctx, text) + 12;
  const left = Math.max(0, Math.min(x - w / 2, scene.width - w));
  ctx.beginPath();
  ctx.roundRect(left, 4, w, 18, 9);
  ctx.fill();
  ctx.fillStyle = theme.background;
  ctx.fillText(text, left + 6, 13.5);
}
