// Tasks and phases that have no time yet or never got one: a pill that says why.

import type { Mark } from "../layout/marks";
import { toPixel } from "../layout/time-scale";
import { nameKey, type Track } from "../layout/tracks";
import { describeSkip, nameOf } from "../wording/labels";
import { type Scene, topOf } from "./scene";
import { labelFont, measure, shorten, stroke, type Surface } from "./strokes";

const EDGE = 8;
const LONGEST_GHOST = 300;

export function drawGhost(surface: Surface, scene: Scene, track: Track, mark: Mark): void {
  const anchor = Number.isNaN(mark.from) ? scene.now : mark.from;
  const wanted = toPixel(scene.window, scene.width, anchor) + 10;
  // What is still to come stands right of now; what never came has the whole row for its reason.
  const least = scene.isRunning && mark.row.status === "pending" ? Math.min(Math.max(wanted, EDGE), scene.width - 32) : EDGE;
  drawPill(surface, mark, ghostLabel(scene, track), topOf(scene, track) + mark.top, { wanted, least, limit: scene.width - EDGE });
}

/** Why a row has no bar. */
function ghostLabel(scene: Scene, { row, parent, isWorker }: Track): string {
  if (row.kind === "group" || row.kind === "delegation") return row.reason ?? "";
  if (row.status === "skipped") return describeSkip(row.reason);
  if (row.status === "cancelled") return describeSkip(row.reason, "cancelled before it began");
  if (scene.isOver) return "never began";
  const waits = (row.depends_on ?? []).filter((name) => !scene.layout.done.has(name));
  const titles = waits.map((name) => nameOf(scene.layout.named.get(nameKey(row.kind, name)) ?? { ...row, name, title: null, description: null }));
  if (waits.length) return `after ${titles.join(", ")}`;
  // Nothing that it waits for is left, and the phase that it is in has begun: only places can be missing.
  const isReady = scene.isRunning && scene.lostAt === null && row.kind === "task" && !isWorker && row.review_id == null && (parent === null || scene.layout.track(parent)?.row.start_ms != null);
  return isReady ? "waits for a free place" : "pending";
}

/** Where a ghost may stand: from `wanted` on if it fits, never past `limit`, never before `least`. */
export interface PillPlace {
  readonly wanted: number;
  readonly least: number;
  readonly limit: number;
}

/** What has no time yet or never got one: a pill that says why, dotted while it may still come, dashed when it won't. */
export function drawPill(surface: Surface, mark: Mark, label: string, y: number, { wanted, least, limit }: PillPlace): void {
  const { ctx, theme } = surface;
  const isPending = mark.row.status === "pending";
  ctx.font = labelFont(theme);
  const text = shorten(surface, label, Math.min(limit - least - 18, LONGEST_GHOST));
  const w = text ? measure(surface, text) + 18 : 24;
  const x = Math.max(Math.min(wanted, limit - w), least);
  ctx.beginPath();
  ctx.roundRect(x + 0.5, y + 0.5, w - 1, mark.height - 1, (mark.height - 1) / 2);
  ctx.setLineDash(isPending ? [1.5, 3] : [5, 3]);
  ctx.lineCap = isPending ? "round" : "butt";
  ctx.lineWidth = isPending ? 1.25 : 1;
  stroke(ctx, theme.hues.idle, 0.9);
  ctx.setLineDash([]);
  ctx.lineCap = "butt";
  if (!text) return;
  ctx.fillStyle = theme.muted;
  ctx.fillText(text, x + 9, y + mark.height / 2 + 0.5);
}
