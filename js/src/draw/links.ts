// Who waits for whom (W3): lines from the end of a task to the beginning of the one that waited for it, with the size of
// what was handed over. Loaded once somebody points at a bar, selects something, or asks for all lines.

import { Links, type TaskLink } from "../layout/task-links";
import { toPixel } from "../layout/time-scale";
import type { Layout, Track } from "../layout/tracks";
import { formatCount } from "../wording/numbers";
import { type Scene, topOf } from "./scene";
import { type Box, labelFont, measure, type Surface } from "./strokes";

const MOST_LINKS = 120;
const HEAD = 4;
const ROOM = 10;

/** Each layout is drawn many times. */
const known = new WeakMap<Layout, Links>();

/** The lines of what is selected or under the pointer; of the critical path while it is shown; all on request. */
export function drawLinks(surface: Surface, scene: Scene): void {
  const rows = [scene.current, scene.hoveredRow];
  if (!scene.areArrowsShown && !scene.isCriticalShown && rows.every((row) => row === null)) return;
  const isPicked = ({ from, to }: TaskLink): boolean => rows.includes(from.id) || rows.includes(to.id);
  const isCritical = ({ source, to }: TaskLink): boolean => source.critical === true && to.row.critical === true;
  const areAll = scene.areArrowsShown || scene.isCriticalShown;
  const links = known.get(scene.layout) ?? new Links(scene.layout);
  known.set(scene.layout, links);
  const seen = (areAll ? links.all : links.of(rows)).filter((link) => isOnScreen(scene, link));
  const wanted = seen.filter((link) => scene.areArrowsShown || isPicked(link) || (scene.isCriticalShown && isCritical(link)));
  const picked = wanted.filter(isPicked);
  for (const link of wanted.filter((each) => !isPicked(each)).slice(0, MOST_LINKS)) drawLink(surface, scene, link, false);
  const sized: Box[] = [];
  for (const link of picked) drawLink(surface, scene, link, true, sized);
}

function isOnScreen(scene: Scene, { from, to }: TaskLink): boolean {
  const [one, other] = [topOf(scene, from), topOf(scene, to)];
  return Math.max(one + from.height, other + to.height) > scene.head && Math.min(one, other) < scene.height;
}

const middleOf = (scene: Scene, track: Track): number => topOf(scene, track) + Math.min(track.height, 28) / 2;

function drawLink(surface: Surface, scene: Scene, { from, to, source, isContext, resumedAt, go }: TaskLink, isStrong: boolean, sized: Box[] = []): void {
  const { ctx, theme } = surface;
  const at = go?.from ?? source.end_ms ?? (source.start_ms == null ? null : scene.now);
  if (at === null) return;
  const startsAt = go?.to ?? resumedAt ?? (resumedAt === undefined ? to.row.start_ms : null) ?? (scene.isRunning ? scene.now : null);
  if (startsAt === null) return;
  const [x, y] = [toPixel(scene.window, scene.width, at), middleOf(scene, from)];
  const [left, bottom] = [toPixel(scene.window, scene.width, startsAt), middleOf(scene, to)];
  if (Math.max(x, left) < -50 || Math.min(x, left) > scene.width + 50) return;
  const end = left - 1;
  // Out to the right of the one and in from the left of the other, however close they stand.
  const bend = Math.max(12, Math.min(60, Math.abs(end - x) / 2));
  ctx.strokeStyle = ctx.fillStyle = theme.text;
  ctx.globalAlpha = isStrong ? 0.9 : 0.38;
  ctx.lineWidth = isStrong ? 1.75 : 1.25;
  ctx.setLineDash(isContext ? [] : [4, 3]);
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.bezierCurveTo(x + bend, y, end - bend, bottom, end - HEAD, bottom);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.moveTo(end, bottom);
  ctx.lineTo(end - HEAD - 1, bottom - HEAD);
  ctx.lineTo(end - HEAD - 1, bottom + HEAD);
  ctx.closePath();
  ctx.fill();
  ctx.globalAlpha = 1;
  if (isStrong && isContext && source.output_characters != null) {
    drawSize(surface, `output: ${formatCount(source.output_characters)} characters`, { x: x + bend / 2 + 4, y }, { x: end - 2 * HEAD, y: bottom }, sized);
  }
}

interface Point {
  readonly x: number;
  readonly y: number;
}

/**
 * How much was handed over: right of the end of what was done, else left of the beginning of what followed. Nothing else
 * stands there; an output that went to several is sized once.
 */
function drawSize(surface: Surface, text: string, after: Point, before: Point, sized: Box[]): void {
  const { ctx, theme, width } = surface;
  ctx.font = labelFont(theme);
  const w = measure(surface, text) + ROOM;
  const isRight = after.x + w + 2 <= width || before.x - w < 2;
  const x = isRight ? Math.max(2, Math.min(after.x, width - w - 2)) : before.x - w;
  const { y } = isRight ? after : before;
  if (sized.some((box) => Math.abs(box.y - y) < box.h && x < box.x + box.w && box.x < x + w)) return;
  sized.push({ x, y, w, h: 16 });
  ctx.beginPath();
  ctx.roundRect(x, y - 8, w, 16, 8);
  ctx.fillStyle = theme.background;
  ctx.fill();
  ctx.lineWidth = 1;
  ctx.strokeStyle = theme.text;
  ctx.globalAlpha = 0.35;
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.text;
  ctx.fillText(text, x + ROOM / 2, y + 0.5);
}
