// Which rows there are, how high they stand and what is drawn in each: pure, from the store to rectangles in milliseconds
// across and pixels down. Time becomes pixels only in `draw`, so zooming and the clock never come back here.

import { isHandler, type Row } from "./wire";
import type { Store } from "./store";

/** What a mark looks like; the row says the rest. `work` is a handler's own time, `ghost` what has no time yet. */
export type Shape = "phase" | "task" | "work" | "llm" | "attempt" | "tool" | "backoff" | "ghost";

export interface Mark {
  readonly row: Row;
  readonly shape: Shape;
  /** Milliseconds from the start of the run; `to` is null while it grows by the clock. */
  readonly from: number;
  readonly to: number | null;
  /** Pixels from the top of its track. */
  readonly top: number;
  readonly height: number;
}

/** A row of the chart and of the gutter beside it. */
export interface Track {
  readonly id: string;
  readonly row: Row;
  readonly kind: "phase" | "task";
  readonly depth: number;
  readonly isOpen: boolean;
  readonly hasChildren: boolean;
  readonly y: number;
  readonly height: number;
  readonly marks: readonly Mark[];
  /** Errors anywhere inside, so that a closed phase still shows them. */
  readonly errors: number;
}

export interface Layout {
  readonly tracks: readonly Track[];
  readonly height: number;
  /** The names of the tasks and phases that are done: what the others no longer wait for. */
  readonly done: ReadonlySet<string>;
}

export const EMPTY: Layout = { tracks: [], height: 0, done: new Set() };
export const PHASE_HEIGHT = 26;
export const LANE_HEIGHT = 24;
const PAD = 2;
const LLM = { top: 2, height: 15 };
const TOOL = { top: 7, height: 15 };
const WORK = { top: 4, height: 16 };
/** Where the bars of a closed phase stand: its own line above, model calls and tools pressed together below. */
const FOLDED = { llm: 9, tool: 16, height: 6 };

/** The shapes that stand for work done; the others frame it. */
const BARS: ReadonlySet<Shape> = new Set<Shape>(["work", "llm", "attempt", "tool"]);

interface Cached {
  revision: number;
  row: Row;
  lanes: number;
  marks: Mark[];
  errors: number;
}

/** Arranges a store's rows; keeps what did not change from one arrangement to the next. */
export class Arranger {
  #cache = new Map<string, Cached>();

  arrange(store: Store, closed: ReadonlySet<string>): Layout {
    const tracks: Track[] = [];
    const done = new Set<string>();
    let y = 0;
    const add = (track: Omit<Track, "y">): void => {
      tracks.push({ ...track, y });
      y += track.height;
    };
    const addTask = (row: Row, depth: number): void => {
      const inside = this.#task(store, row);
      add({
        id: row.span_id, row, kind: "task", depth, isOpen: false, hasChildren: false,
        height: inside.lanes * LANE_HEIGHT + 2 * PAD, marks: inside.marks, errors: inside.errors,
      });
    };
    for (const row of roots(store)) {
      if (row.kind !== "phase") {
        addTask(row, 0);
        if (row.status === "ok") done.add(row.name);
        continue;
      }
      const tasks = store.children(row.span_id);
      const isOpen = !closed.has(row.span_id);
      const insides = tasks.map((task) => this.#task(store, task));
      for (const task of [row, ...tasks]) if (task.status === "ok") done.add(task.name);
      const errors = insides.reduce((sum, inside) => sum + inside.errors, 0);
      add({
        id: row.span_id, row, kind: "phase", depth: 0, isOpen, hasChildren: tasks.length > 0, height: PHASE_HEIGHT,
        marks: isOpen ? [phaseMark(row, false)] : [phaseMark(row, true), ...folded(insides)], errors,
      });
      if (isOpen) for (const task of tasks) addTask(task, 1);
    }
    return { tracks, height: y, done };
  }

  #task(store: Store, row: Row): Cached {
    const revision = store.revision(row.span_id);
    const kept = this.#cache.get(row.span_id);
    if (kept && kept.revision === revision && kept.row === row) return kept;
    const made = inside(store, row, revision);
    this.#cache.set(row.span_id, made);
    return made;
  }
}

/** Phases and loose tasks in the order of the plan; a span whose parent is unknown stands as a row of its own. */
function roots(store: Store): Row[] {
  const phases: Row[] = [];
  const seen = new Set<string>();
  for (const phase of store.phases.value) {
    const row = store.row(phase.span_id);
    if (row && !seen.has(row.span_id)) {
      seen.add(row.span_id);
      phases.push(row);
    }
  }
  const loose: Row[] = [];
  for (const row of store.rows()) {
    if (seen.has(row.span_id)) continue;
    const hasParent = row.parent_id != null && store.row(row.parent_id) !== undefined;
    if (!hasParent) (row.kind === "phase" ? phases : loose).push(row);
  }
  return [...phases, ...loose];
}

function inside(store: Store, task: Row, revision: number): Cached {
  const marks: Mark[] = [];
  let lanes = 1;
  let errors = isError(task) ? 1 : 0;
  for (const row of store.below(task.span_id)) {
    if (isError(row) && row.kind !== "attempt") errors += 1;
    if (row.start_ms == null || (row.kind !== "llm" && row.kind !== "tool")) continue;
    const lane = Math.max(0, row.lane ?? 0);
    lanes = Math.max(lanes, lane + 1);
    const top = PAD + lane * LANE_HEIGHT;
    if (row.kind === "tool") marks.push(markOf(row, "tool", top + TOOL.top, TOOL.height));
    else marks.push(...callMarks(row, store.children(row.span_id), top + LLM.top));
  }
  marks.sort((a, b) => a.from - b.from);
  const own = taskMark(task, marks.length > 0, lanes);
  return { revision, row: task, lanes, marks: own ? [own, ...marks] : marks, errors };
}

/** A model call: one bar, or its attempts with the waits between them when there was more than one. */
function callMarks(call: Row, children: readonly Row[], top: number): Mark[] {
  const attempts = children.filter((row) => row.kind === "attempt" && row.start_ms != null);
  const isSimple = attempts.length < 2 && attempts[0]?.backoff_ms == null;
  if (isSimple) return [markOf(call, "llm", top, LLM.height)];
  const marks: Mark[] = [];
  attempts.forEach((attempt, k) => {
    marks.push(markOf(attempt, "attempt", top, LLM.height));
    const next = attempts[k + 1];
    if (attempt.end_ms == null || (next === undefined && attempt.backoff_ms == null)) return;
    const to = next?.start_ms ?? Math.min(attempt.end_ms + (attempt.backoff_ms ?? 0), call.end_ms ?? Infinity);
    if (to > attempt.end_ms) {
      marks.push({ row: attempt, shape: "backoff", from: attempt.end_ms, to, top, height: LLM.height });
    }
  });
  return marks;
}

function taskMark(task: Row, hasCalls: boolean, lanes: number): Mark | null {
  const height = lanes * LANE_HEIGHT;
  if (task.start_ms == null) {
    if (task.status !== "pending" && task.status !== "skipped" && task.status !== "cancelled") return null;
    return { row: task, shape: "ghost", from: task.end_ms ?? NaN, to: null, top: PAD + 3, height: LANE_HEIGHT - 6 };
  }
  // A handler is plain code, which has no calls of its own to show.
  if (!hasCalls && isHandler(task)) return markOf(task, "work", PAD + WORK.top, WORK.height);
  return markOf(task, "task", PAD, height);
}

function phaseMark(row: Row, isClosed: boolean): Mark {
  if (row.start_ms == null) {
    return { row, shape: "ghost", from: row.end_ms ?? NaN, to: null, top: 3, height: PHASE_HEIGHT - 6 };
  }
  return isClosed ? markOf(row, "phase", 0, FOLDED.llm) : markOf(row, "phase", 0, PHASE_HEIGHT);
}

/** The bars of all tasks pressed into the row of their closed phase; errors come last, so that nothing covers them. */
function folded(insides: readonly Cached[]): Mark[] {
  const bars = insides.flatMap((inside) => inside.marks).filter((mark) => BARS.has(mark.shape));
  const pressed = bars.map((mark) => {
    const isLower = mark.shape === "tool" || mark.shape === "work";
    return { ...mark, top: isLower ? FOLDED.tool : FOLDED.llm, height: FOLDED.height };
  });
  return [...pressed.filter((mark) => !isError(mark.row)), ...pressed.filter((mark) => isError(mark.row))];
}

function markOf(row: Row, shape: Shape, top: number, height: number): Mark {
  const from = row.start_ms ?? 0;
  return { row, shape, from, to: row.end_ms == null ? null : Math.max(row.end_ms, from), top, height };
}

export const isError = (row: Row): boolean => row.status === "error";

/** The track at a height, by bisection; undefined outside. */
export function trackAt(layout: Layout, y: number): Track | undefined {
  let [low, high] = [0, layout.tracks.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const track = layout.tracks[middle] as Track;
    if (y < track.y) high = middle - 1;
    else if (y >= track.y + track.height) low = middle + 1;
    else return track;
  }
  return undefined;
}

/** The innermost mark of a track at a moment and height; `slack` (ms) widens bars that are too thin to hit. */
export function markAt(track: Track, ms: number, y: number, now: number, slack: number): Mark | undefined {
  let best: Mark | undefined;
  let distance = Infinity;
  for (const mark of track.marks) {
    if (mark.shape === "ghost" || mark.shape === "backoff") continue;
    if (y < mark.top - 1 || y > mark.top + mark.height + 1) continue;
    const to = mark.to ?? Math.max(now, mark.from);
    const away = ms < mark.from ? mark.from - ms : ms > to ? ms - to : 0;
    if (away > slack) continue;
    // Later marks lie on top of earlier ones, so the last of the nearest is what a person sees.
    const isInner = mark.shape !== "task" && mark.shape !== "phase";
    const rank = away + (isInner ? 0 : slack * 2 + 1);
    if (rank <= distance) [best, distance] = [mark, rank];
  }
  return best;
}
