// The axis above the rows, the grid behind them, and the line of now.

import { AXIS_HEIGHT } from "../layout/sizes";
import { toPixel } from "../layout/time-scale";
import { formatClock } from "../wording/numbers";
import { unknownSince } from "../store/row-state";
import type { Scene } from "./scene";
import { labelFont, measure, type Surface } from "./strokes";

export function drawGrid({ ctx, theme }: Surface, columns: readonly number[], height: number): void {
  ctx.fillStyle = theme.text;
  ctx.globalAlpha = 0.07;
  for (const x of columns) ctx.fillRect(x, AXIS_HEIGHT, 1, height - AXIS_HEIGHT);
  ctx.globalAlpha = 1;
}

export function drawAxis(surface: Surface, scene: Scene, labels: readonly { x: number; label: string }[]): void {
  const { ctx, theme } = surface;
  ctx.fillStyle = theme.text;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(0, AXIS_HEIGHT - 1, scene.width, 1);
  for (const { x } of labels) ctx.fillRect(x, AXIS_HEIGHT - 7, 1, 6);
  ctx.globalAlpha = 1;
  ctx.font = labelFont(theme);
  ctx.fillStyle = theme.muted;
  const now = clockOf(surface, scene);
  for (const { x, label } of labels) {
    const w = measure(surface, label);
    // At the edge of the chart a label stands on the other side of its tick.
    const left = x + 5 + w < scene.width ? x + 5 : x - 5 - w;
    const isUnderClock = now !== null && left + w + 4 > now.left && left - 4 < now.left + now.width;
    if (!isUnderClock) ctx.fillText(label, left, AXIS_HEIGHT / 2);
  }
}

/** Where the run's clock stands on the axis; null where now is not on screen. */
function clockOf(surface: Surface, scene: Scene): { x: number; left: number; width: number; text: string } | null {
  const x = Math.round(toPixel(scene.window, scene.width, scene.now));
  if (!scene.isRunning || x < 0 || x > scene.width) return null;
  const text = scene.lostAt === null ? formatClock(scene.now) : unknownSince(scene.lostAt);
  const width = measure(surface, text) + 12;
  return { x, left: Math.max(0, Math.min(x - width / 2, scene.width - width)), width, text };
}

export function drawNow(surface: Surface, scene: Scene): void {
  const { ctx, theme } = surface;
  ctx.font = labelFont(theme);
  const clock = clockOf(surface, scene);
  if (!clock) return;
  ctx.fillStyle = scene.lostAt === null ? theme.accent : theme.muted;
  ctx.fillRect(clock.x, AXIS_HEIGHT - 6, 1.5, scene.height);
  ctx.beginPath();
  ctx.roundRect(clock.left, 4, clock.width, 18, 9);
  ctx.fill();
  ctx.fillStyle = theme.background;
  ctx.fillText(clock.text, clock.left + 6, 13.5);
}
