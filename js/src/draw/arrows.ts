// The way of work from row to row: to the worker and back (W3).

import { LANE_HEIGHT } from "../layout/sizes";
import type { WorkArrow } from "../layout/tracks";
import { boxOf, fixedTracks, type Scene, topOf, visibleTracks } from "./scene";
import type { Box, Surface } from "./strokes";

const MOST_ARROWS = 60;
/** More workers of one span than these stand below it without lines, which would lie on each other. */
const MOST_OF_ONE = 12;

/**
 * Work on its way from row to row: faint, but strong for the span that is selected or under the pointer; to items, of which
 * there may be many, only then (W3).
 */
export function drawArrows(surface: Surface, scene: Scene): void {
  const seen = scene.layout.arrowsTo([...fixedTracks(scene), ...visibleTracks(scene)]);
  const counts = new Map<string, number>();
  for (const { by } of seen) counts.set(by.row.span_id, (counts.get(by.row.span_id) ?? 0) + 1);
  const isCrowded = ({ by }: WorkArrow): boolean => (counts.get(by.row.span_id) ?? 0) > MOST_OF_ONE;
  const picked = (one: WorkArrow): boolean =>
    [scene.selected, scene.hovered].some((span) => span !== null && (span === one.to.id || (span === one.by.row.span_id && !isCrowded(one))));
  const faint = seen.length > MOST_ARROWS ? [] : seen.filter((one) => one.by.row.kind !== "task" && !picked(one) && !isCrowded(one));
  for (const one of [...faint, ...seen.filter(picked)]) {
    const frame = one.to.marks.find((mark) => mark.shape === "task" || mark.shape === "work");
    const by = boxOf(scene, one.by, topOf(scene, one.from));
    const worker = frame && boxOf(scene, { ...frame, height: LANE_HEIGHT }, topOf(scene, one.to));
    if (by && worker) drawArrow(surface, by, worker, one.by.to !== null && frame.to !== null, picked(one));
  }
}

/** Work goes down to its worker and comes back: two lines with heads, strong for what is pointed at. */
export function drawArrow({ ctx, theme }: Surface, by: Box, worker: Box, isBack: boolean, isStrong: boolean): void {
  const middle = worker.y + Math.min(worker.h, 24) / 2;
  const [left, right] = [worker.x - 6, worker.x + worker.w + 6];
  const [start, end] = [by.y + by.h, by.x + by.w - 4];
  ctx.strokeStyle = ctx.fillStyle = isStrong ? theme.text : theme.hues.tool;
  ctx.globalAlpha = isStrong ? 1 : 0.3;
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
