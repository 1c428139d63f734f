// What is drawn in the row of one task or phase: pure, from the rows below it to rectangles in milliseconds across and
// pixels down. It must not know what stands above or below that row.

import type { Store } from "../store/store";
import type { KnownKind } from "../wire/kinds";
import { isError, isHandler, isTask } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { entryOf, traitsOf } from "../wire/traits";
import { type Shape, SHAPES } from "./shapes";
import { LANE_HEIGHT, PAD, PHASE_HEIGHT } from "./sizes";

export interface Mark {
  readonly row: Row;
  readonly shape: Shape;
  /** Milliseconds from the start of the run; `to` is null while it grows by the clock. */
  readonly from: number;
  readonly to: number | null;
  /** Pixels from the top of its track. */
  readonly top: number;
  readonly height: number;
  /** What a notch says. */
  readonly label?: string;
}

/** What is in the row of a task. */
export interface TaskMarks {
  readonly lanes: number;
  readonly marks: readonly Mark[];
  readonly errors: number;
  /** The tasks that were handed on from here: each has a row of its own, below this one. */
  readonly workers: readonly Row[];
}

const LLM = { top: 2, height: 15 };
const TOOL = { top: 7, height: 15 };
const WORK = { top: 4, height: 16 };
const BEAD = { top: 13, height: 11 };

/** True for what can be pointed at and walked along, which the rest only frames. */
export const isSelectableMark = (mark: Mark): boolean => SHAPES[mark.shape].isSelectable;

export function marksInTask(store: Store, task: Row): TaskMarks {
  const rows = store.descendants(task.span_id, isTask);
  const marks: Mark[] = [];
  let lanes = 1;
  for (const row of rows) {
    if (isTask(row) || row.start_ms == null) continue;
    const lane = laneOf(store, row);
    const found = marksOf(store, row, PAD + lane * LANE_HEIGHT);
    if (found.length) lanes = Math.max(lanes, lane + 1);
    marks.push(...found);
  }
  const hasCalls = marks.some((mark) => !SHAPES[mark.shape].isBead);
  marks.push(...notches(rows, 0, lanes * LANE_HEIGHT + 2 * PAD));
  marks.sort((a, b) => a.from - b.from);
  const own = taskMark(task, hasCalls, lanes);
  return { lanes, marks: own ? [own, ...marks] : marks, errors: errorsIn(store, task, rows), workers: rows.filter(isTask) };
}

/** How many errors arose here: a span that failed because of one inside it is not counted again. */
function errorsIn(store: Store, task: Row, rows: readonly Row[]): number {
  const failed = rows.filter((row) => isError(row) && !traitsOf(row.kind).isLeaf && !isTask(row));
  const around = new Set<string>();
  for (const row of failed) {
    for (let at = row.parent_id; at && at !== task.span_id && !around.has(at); at = store.row(at)?.parent_id) around.add(at);
  }
  return failed.length ? failed.filter((row) => !around.has(row.span_id)).length : Number(isError(task));
}

/** The sub-lane of a call, which whatever happens inside it shares. */
function laneOf(store: Store, row: Row): number {
  let at: Row | undefined = row;
  for (let steps = 0; at && steps < 16; steps += 1) {
    if (at.kind === "llm" || at.kind === "tool") return Math.max(0, at.lane ?? 0);
    if (isTask(at)) break;
    at = at.parent_id ? store.row(at.parent_id) : undefined;
  }
  return 0;
}

/** What each kind is drawn as, from the top of its lane on; the kinds that are not here are drawn as their traits say. */
const MARKS: Partial<Record<KnownKind, (store: Store, row: Row, top: number) => Mark[]>> = {
  llm: (store, row, top) => callMarks(row, store.children(row.span_id), top + LLM.top),
  // The attempts and waits of a call are drawn with it, and tasks have rows of their own.
  attempt: () => [],
  wait: () => [],
  task: () => [],
  phase: () => [],
  // Turns only frame what is in them.
  turn: () => [],
  // The tool by which work is handed on is no work of its own.
  tool: (store, row, top) => store.children(row.span_id).some((child) => child.kind === "delegation")
    ? [] : [markOf(row, "tool", top + TOOL.top, TOOL.height)],
  delegation: (_, row, top) => [markOf(row, "delegation", top + TOOL.top, TOOL.height)],
  review: (_, row, top) => [markOf(row, "review", top + WORK.top, WORK.height)],
};

function marksOf(store: Store, row: Row, top: number): Mark[] {
  const draw = entryOf(MARKS, row.kind);
  if (draw) return draw(store, row, top);
  return traitsOf(row.kind).isBead ? [markOf(row, "bead", top + BEAD.top, BEAD.height)] : [markOf(row, "plain", top + TOOL.top, TOOL.height)];
}

/** A model call: one bar, or its attempts and what lies between them when there was more than one, or a wait. */
function callMarks(call: Row, children: readonly Row[], top: number): Mark[] {
  const attempts = children.filter((row) => row.kind === "attempt" && row.start_ms != null);
  const waits = children.filter((row) => row.kind === "wait" && row.start_ms != null);
  const isSimple = attempts.length < 2 && attempts[0]?.backoff_ms == null && !waits.length;
  if (isSimple) return [markOf(call, "llm", top, LLM.height)];
  const marks = waits.map((wait) => markOf(wait, "wait", top, LLM.height));
  attempts.forEach((attempt, k) => {
    marks.push(markOf(attempt, "attempt", top, LLM.height));
    const next = attempts[k + 1];
    if (attempt.end_ms == null || (next === undefined && attempt.backoff_ms == null)) return;
    const after = next?.start_ms ?? Math.min(attempt.end_ms + (attempt.backoff_ms ?? 0), call.end_ms ?? Infinity);
    // A limit may hold the next attempt back after the back-off is over.
    const wait = waits.find((one) => (one.start_ms ?? 0) >= (attempt.end_ms ?? 0));
    const to = Math.min(after, wait?.start_ms ?? Infinity);
    if (to > attempt.end_ms) {
      marks.push({ row: attempt, shape: "backoff", from: attempt.end_ms, to, top, height: LLM.height });
    }
  });
  return marks;
}

function taskMark(task: Row, hasCalls: boolean, lanes: number): Mark | null {
  if (task.start_ms == null) {
    if (task.status !== "pending" && task.status !== "skipped" && task.status !== "cancelled") return null;
    return { row: task, shape: "ghost", from: task.end_ms ?? NaN, to: null, top: PAD + 3, height: LANE_HEIGHT - 6 };
  }
  // A startup has a row of its own, since no task's time goes into it (E57).
  if (task.kind === "wait") return markOf(task, "wait", PAD + LLM.top, LLM.height);
  // A handler is plain code, which has no calls of its own to show.
  if (!hasCalls && isHandler(task)) return markOf(task, "work", PAD + WORK.top, WORK.height);
  return markOf(task, "task", PAD, lanes * LANE_HEIGHT);
}

/** Where a review or guardrail sent the work back, and where a fallback agent took over: from there on it is another attempt. */
function notches(rows: readonly Row[], top: number, height: number): Mark[] {
  const returns = rows.filter((row) => row.end_ms != null && (row.review?.decision === "retry" || isSentBack(row, rows)))
    .sort((a, b) => (a.end_ms as number) - (b.end_ms as number));
  const marks = returns.map((row, k) => notch(row, row.end_ms as number, String(k + 2), top, height));
  const takeover = rows.find((row) => row.is_fallback && row.start_ms != null);
  return takeover ? [...marks, notch(takeover, takeover.start_ms as number, "↳", top, height)] : marks;
}

/** A guardrail objected, and the same agent went on; a fallback that took over has a mark of its own. */
const isSentBack = (row: Row, rows: readonly Row[]): boolean =>
  row.guardrail === "output" && row.status === "error" &&
  rows.some((next) => next.kind === "turn" && !next.is_fallback && (next.start_ms ?? -1) >= (row.end_ms as number));

const notch = (row: Row, at: number, label: string, top: number, height: number): Mark =>
  ({ row, shape: "notch", from: at, to: at, top, height, label });

/** What the row of a phase itself shows: its time, and the reviews that looked at it. */
export function phaseMarks(row: Row, reviews: readonly Row[]): Mark[] {
  if (row.start_ms == null) {
    return [{ row, shape: "ghost", from: row.end_ms ?? NaN, to: null, top: 3, height: PHASE_HEIGHT - 6 }];
  }
  const asked = reviews.filter((review) => review.start_ms != null);
  return [
    markOf(row, "phase", 0, PHASE_HEIGHT),
    ...asked.map((review) => markOf(review, "review", 5, WORK.height)),
    ...notches(asked, 0, PHASE_HEIGHT),
  ];
}

export function markOf(row: Row, shape: Shape, top: number, height: number): Mark {
  const from = row.start_ms ?? 0;
  return { row, shape, from, to: row.end_ms == null ? null : Math.max(row.end_ms, from), top, height };
}
