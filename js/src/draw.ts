// The whole picture: grid, rows, marks, the line of now and the axis, for one moment. It reads a scene and paints it; it
// keeps nothing but its patterns, starts no timer and asks nobody.

import { drawGhost, drawHandover } from "./aside";
import { drawMark, drawRing, hueOf } from "./bar";
import { clock } from "./format";
import type { Handover, Layout, Track } from "./layout";
import { isBead, isStop, LANE_HEIGHT, type Mark, type Shape } from "./mark";
import { Patterns } from "./pattern";
import { type Box, type Brush, labelFont, measure } from "./pen";
import { ticks, toPixel, type Window } from "./scale";
import type { Row } from "./wire";
import type { Skin } from "./theme";

export const AXIS_HEIGHT = 28;
const TICK_APART = 84;
const EDGE = 8;
const THIN_PX = 4;
const BEAD_APART = 13;
const MOST_HANDOVERS = 60;

/** What is drawn as a strip of pixels where it is too thin for a shape. */
const STRIPED: ReadonlySet<Shape> = new Set<Shape>(["work", "llm", "attempt", "tool", "delegation", "review"]);
/** What may overlap its neighbours, but not end before them. */
const WHOLE: ReadonlySet<Shape> = new Set<Shape>(["task", "phase", "guardrail", "memory", "notch"]);

export interface Scene {
  readonly layout: Layout;
  readonly window: Window;
  readonly width: number;
  readonly height: number;
  readonly scrollTop: number;
  /** The run's age in milliseconds. */
  readonly now: number;
  readonly isRunning: boolean;
  /** True once nothing will start any more. */
  readonly isOver: boolean;
  readonly selected: string | null;
  /** The track that holds the selection. */
  readonly current: string | null;
  readonly hovered: string | null;
  readonly skin: Skin;
  readonly ratio: number;
  readonly shift: number;
}

export class Painter {
  #patterns = new Patterns();

  paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const { width, height, ratio, skin } = scene;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const brush: Brush = { ctx, skin, patterns: this.#patterns, ratio, shift: scene.shift, now: scene.now };
    const marks = ticks(scene.window, width, TICK_APART);
    const columns = marks.map((tick) => Math.round(toPixel(scene.window, width, tick.at)));
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, AXIS_HEIGHT, width, height - AXIS_HEIGHT);
    ctx.clip();
    drawRows(brush, scene);
    drawGrid(brush, columns, height);
    for (const track of visible(scene)) drawTrack(brush, scene, track);
    drawHandovers(brush, scene);
    ctx.restore();
    drawAxis(brush, scene, marks.map((tick, k) => ({ x: columns[k] as number, label: tick.label })));
    if (scene.isRunning) drawNow(brush, scene);
  }
}

function visible(scene: Scene): Track[] {
  const top = scene.scrollTop;
  const bottom = top + scene.height - AXIS_HEIGHT;
  return scene.layout.tracks.filter((track) => track.y + track.height > top && track.y < bottom);
}

const topOf = (scene: Scene, track: Track): number => AXIS_HEIGHT + track.y - scene.scrollTop;

/** The row of the selection and the rows of phases are tinted; each row ends in a hairline. */
function drawRows({ ctx, skin }: Brush, scene: Scene): void {
  ctx.fillStyle = skin.text;
  for (const track of visible(scene)) {
    const y = Math.round(topOf(scene, track));
    if (track.kind === "phase") {
      ctx.globalAlpha = 0.035;
      ctx.fillRect(0, y, scene.width, track.height);
    }
    ctx.globalAlpha = 0.06;
    ctx.fillRect(0, y + track.height - 1, scene.width, 1);
    if (scene.current === track.id) {
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = skin.accent;
      ctx.fillRect(0, y, scene.width, track.height - 1);
      ctx.fillStyle = skin.text;
    }
  }
  ctx.globalAlpha = 1;
}

function drawGrid({ ctx, skin }: Brush, columns: readonly number[], height: number): void {
  ctx.fillStyle = skin.text;
  ctx.globalAlpha = 0.07;
  for (const x of columns) ctx.fillRect(x, AXIS_HEIGHT, 1, height - AXIS_HEIGHT);
  ctx.globalAlpha = 1;
}

function drawTrack(brush: Brush, scene: Scene, track: Track): void {
  const y = topOf(scene, track);
  const strip = new Strip(brush);
  const rings: [Box, boolean][] = [];
  const beads: [Mark, Box][] = [];
  for (const mark of track.marks) {
    if (mark.shape === "ghost") {
      drawGhostOf(brush, scene, mark, y);
      continue;
    }
    const box = place(scene, mark, y);
    if (!box) continue;
    const isSelected = isPicked(mark, scene.selected);
    const isHovered = isPicked(mark, scene.hovered);
    if (isBead(mark)) beads.push([mark, box]);
    else if (STRIPED.has(mark.shape) && box.w < THIN_PX && !isSelected) strip.add(mark, box);
    else drawMark(brush, mark, box);
    if ((mark.shape === "task" || isStop(mark)) && (isSelected || isHovered)) rings.push([box, isSelected]);
  }
  strip.flush();
  string(brush, beads);
  for (const [box, isStrong] of rings) drawRing(brush, box, isStrong);
}

/** Beads that would hide each other are strung side by side. */
function string(brush: Brush, beads: readonly [Mark, Box][]): void {
  let end = -Infinity;
  for (const [mark, box] of beads) {
    if (mark.shape === "notch") {
      drawMark(brush, mark, box);
      continue;
    }
    const x = Math.max(box.x, BEAD_APART / 2, Math.min(end, box.x + 3 * BEAD_APART));
    drawMark(brush, mark, { ...box, x });
    end = x + BEAD_APART;
  }
}

/**
 * The bars of a track that are too thin for a shape. Those that share a pixel are drawn once, so that the cost follows the
 * pixels on screen and not the spans in the run; errors come last, on top, and none is left out.
 */
class Strip {
  readonly #brush: Brush;
  readonly #drawnTo = new Map<number, number>();
  readonly #boxes: Record<"llm" | "tool" | "wait" | "error", Box[]> = { llm: [], tool: [], wait: [], error: [] };

  constructor(brush: Brush) {
    this.#brush = brush;
  }

  add(mark: Mark, box: Box): void {
    const isError = mark.row.status === "error";
    const key = isError ? -mark.top - 1 : mark.top;
    const right = box.x + box.w;
    const drawn = this.#drawnTo.get(key) ?? -Infinity;
    if (right < drawn + 1) return;
    this.#drawnTo.set(key, right);
    const x = Math.max(box.x, Math.min(drawn, right - 1));
    this.#boxes[isError ? "error" : hueOf(mark)].push({ ...box, x, w: right - x });
  }

  flush(): void {
    const { ctx, skin } = this.#brush;
    for (const hue of ["llm", "tool", "wait", "error"] as const) {
      ctx.fillStyle = skin.hues[hue];
      for (const { x, y, w, h } of this.#boxes[hue]) ctx.fillRect(x, y, w, h);
    }
  }
}

const isPicked = (mark: Mark, span: string | null): boolean =>
  span !== null && (mark.row.span_id === span || (mark.shape === "attempt" && mark.row.parent_id === span));

/** Where a mark stands on screen, or null when it is outside. What runs ends at now. */
function place(scene: Scene, mark: Mark, top: number): Box | null {
  const to = mark.to === null || mark.to === Infinity ? Math.max(scene.now, mark.from) : mark.to;
  const left = toPixel(scene.window, scene.width, mark.from);
  const right = toPixel(scene.window, scene.width, to);
  if (right < -2 || left > scene.width + 2) return null;
  // Bars far wider than the screen are cut near its edges: canvases lose precision beyond some thousand pixels.
  const x = Math.max(left, -40);
  const end = Math.min(right, scene.width + 40);
  const least = mark.shape === "backoff" || mark.shape === "wait" ? 0 : 2;
  const gap = WHOLE.has(mark.shape) || mark.to === null ? 0 : 1;
  return { x, y: top + mark.top, w: Math.max(end - x - gap, least), h: mark.height };
}

/** Work on its way from row to row: faint, but strong for the span that is selected or under the pointer (W3). */
function drawHandovers(brush: Brush, scene: Scene): void {
  const top = scene.scrollTop;
  const bottom = top + scene.height - AXIS_HEIGHT;
  const seen = scene.layout.handovers.filter(({ from, to }) => to.y + to.height > top && from.y < bottom);
  const picked = (one: Handover): boolean =>
    [scene.selected, scene.hovered].some((span) => span !== null && (span === one.by.row.span_id || span === one.to.id));
  const faint = seen.length > MOST_HANDOVERS ? [] : seen.filter((one) => !picked(one));
  for (const one of [...faint, ...seen.filter(picked)]) {
    const frame = one.to.marks.find((mark) => mark.shape === "task" || mark.shape === "work");
    const by = place(scene, one.by, topOf(scene, one.from));
    const worker = frame && place(scene, { ...frame, height: LANE_HEIGHT }, topOf(scene, one.to));
    if (by && worker) drawHandover(brush, by, worker, one.by.to !== null && frame.to !== null, picked(one));
  }
}

function drawGhostOf(brush: Brush, scene: Scene, mark: Mark, top: number): void {
  const anchor = Number.isNaN(mark.from) ? scene.now : mark.from;
  const wanted = toPixel(scene.window, scene.width, anchor) + 10;
  // What is still to come stands right of now; what never came has the whole row for its reason.
  const least = scene.isRunning && mark.row.status === "pending" ? Math.min(Math.max(wanted, EDGE), scene.width - 32) : EDGE;
  drawGhost(brush, mark, ghostLabel(scene, mark.row), top + mark.top, { wanted, least, limit: scene.width - EDGE });
}

/** Why a row has no bar. */
function ghostLabel(scene: Scene, row: Row): string {
  if (row.status === "skipped") return /^condition/.test(row.reason ?? "") ? (row.reason as string) : row.reason ? `skipped: ${row.reason}` : "skipped";
  if (row.status === "cancelled") return "cancelled before it began";
  if (scene.isOver) return "never began";
  const waits = (row.depends_on ?? []).filter((name) => !scene.layout.done.has(name));
  return waits.length ? `after ${waits.join(", ")}` : "pending";
}

function drawAxis({ ctx, skin }: Brush, scene: Scene, labels: readonly { x: number; label: string }[]): void {
  ctx.fillStyle = skin.text;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(0, AXIS_HEIGHT - 1, scene.width, 1);
  for (const { x } of labels) ctx.fillRect(x, AXIS_HEIGHT - 7, 1, 6);
  ctx.globalAlpha = 1;
  ctx.font = labelFont(skin);
  ctx.fillStyle = skin.muted;
  for (const { x, label } of labels) {
    if (x + 5 + measure(ctx, label) < scene.width) ctx.fillText(label, x + 5, AXIS_HEIGHT / 2);
  }
}

function drawNow({ ctx, skin }: Brush, scene: Scene): void {
  const x = Math.round(toPixel(scene.window, scene.width, scene.now));
  if (x < 0 || x > scene.width) return;
  ctx.fillStyle = skin.accent;
  ctx.fillRect(x, AXIS_HEIGHT - 6, 1.5, scene.height);
  ctx.font = labelFont(skin);
  const text = clock(scene.now);
  const w = measure(ctx, text) + 12;
  const left = Math.max(0, Math.min(x - w / 2, scene.width - w));
  ctx.beginPath();
  ctx.roundRect(left, 4, w, 18, 9);
  ctx.fill();
  ctx.fillStyle = skin.background;
  ctx.fillText(text, left + 6, 13.5);
}
