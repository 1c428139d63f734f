// What is drawn in the row of one task or phase: pure, from the rows below it to rectangles in milliseconds across and
// pixels down. It must not know what stands above or below that row.

import type { Store } from "../store/store";
import { roundsOf } from "../store/rounds";
import type { KnownKind } from "../wire/kinds";
import { isHandler, isTask } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { entryOf, traitsOf } from "../wire/traits";
import { namesOfCall, verdictOf } from "../wording/labels";
import { type Shape, SHAPES } from "./shapes";
import { LANE_HEIGHT, PAD } from "./sizes";

export interface Mark {
  readonly row: Row;
  readonly shape: Shape;
  /** Milliseconds from the start of the run; `to` is null while it grows by the clock. */
  readonly from: number;
  readonly to: number | null;
  /** Pixels from the top of its track. */
  readonly top: number;
  readonly height: number;
  /** What a notch says, or a round, or in place of its cause a wait. */
  readonly label?: string;
  /** What a model call is called, the fullest name first; of a round, and of the review at its end, what became of it. */
  readonly names?: readonly string[];
}

const LLM = { top: 2, height: 15 };
const TOOL = { top: 7, height: 15 };
/** Where a model call stands in the row of its task, and what is waited for before one. */
export const CALL_TOP = { top: PAD + LLM.top, height: LLM.height };
export const WORK = { top: 4, height: 16 };
const BEAD = { top: 13, height: 11 };

/** True for what can be pointed at and walked along, which the rest only frames. */
export const isSelectableMark = (mark: Mark): boolean => SHAPES[mark.shape].isSelectable;

/** True for the marks of some spans, and for the attempts of a call that is one of them. */
export const isOfAny = ({ row, shape }: Mark, spans: ReadonlySet<string>): boolean =>
  spans.has(row.span_id) || (shape === "attempt" && spans.has(row.parent_id ?? ""));

/** The sub-lane of a call, which whatever happens inside it shares. */
export function laneOf(store: Store, row: Row): number {
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
  llm: (store, row, top) => {
    const names = namesOfCall(store, row);
    return callMarks(row, store.children(row.span_id), top + LLM.top).map((mark) => (SHAPES[mark.shape].hue === "llm" ? { ...mark, names } : mark));
  },
  // The attempts and waits of a call are drawn with it, and tasks have rows of their own.
  attempt: () => [],
  wait: (store, row, top) => store.row(row.parent_id ?? "")?.kind === "llm" ? [] : [markOf(row, "wait", top + LLM.top, LLM.height)],
  task: () => [],
  phase: () => [],
  // Turns only frame what is in them.
  turn: () => [],
  // The tool by which work is handed on is no work of its own.
  tool: (store, row, top) => {
    const children = store.children(row.span_id);
    return children.some((child) => child.kind === "delegation") ? [] : toolMarks(row, children, top + TOOL.top);
  },
  delegation: (_, row, top) => [markOf(row, "delegation", top + TOOL.top, TOOL.height)],
  // Its tasks have rows of their own below, as delegated work has.
  nested: (_, row, top) => [markOf(row, "delegation", top + TOOL.top, TOOL.height)],
  review: (store, row, top) => {
    const work = store.row(row.parent_id ?? "");
    const verdict = work && verdictOf(work, roundsOf(store, work), row);
    return [{ ...markOf(row, "review", top + WORK.top, WORK.height), names: verdict ? [verdict] : [] }];
  },
};

/** What a span that has begun is drawn as in the row of its task, in the lane that begins at `top`. */
export function marksOf(store: Store, row: Row, top: number): Mark[] {
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

/** A tool call: its bar leaves out the time in which a person is asked about it, or by it, since the question stands there. */
function toolMarks(tool: Row, children: readonly Row[], top: number): Mark[] {
  const whole = markOf(tool, "tool", top, TOOL.height);
  const reviews = children.filter((row) => row.kind === "review" && row.start_ms != null)
    .sort((a, b) => (a.start_ms as number) - (b.start_ms as number));
  const parts: Mark[] = [];
  let from: number | null = whole.from;
  for (const { start_ms, end_ms } of reviews) {
    if (from !== null && (start_ms as number) > from) parts.push({ ...whole, from, to: start_ms as number });
    from = from === null || end_ms == null ? null : Math.max(from, end_ms);
  }
  if (from !== null && from < (whole.to ?? Infinity)) parts.push({ ...whole, from });
  // The call can be walked to also where all of its time is the question's.
  return parts.length ? parts : [{ ...whole, to: whole.from }];
}

export function taskMark(task: Row, hasCalls: boolean, lanes: number): Mark | null {
  if (task.start_ms == null) {
    if (task.status !== "pending" && task.status !== "skipped" && task.status !== "cancelled") return null;
    return { row: task, shape: "ghost", from: task.end_ms ?? NaN, to: null, top: PAD + 3, height: LANE_HEIGHT - 6 };
  }
  // A startup has a row of its own, since no task's time goes into it (E57).
  if (task.kind === "wait") return markOf(task, "wait", CALL_TOP.top, CALL_TOP.height);
  if (task.reused) return markOf(task, "reused", PAD + WORK.top, WORK.height);
  // A handler is plain code, which has no calls of its own to show; of items it is the items that work.
  if (!hasCalls && isHandler(task) && task.item_count == null) return markOf(task, "work", PAD + WORK.top, WORK.height);
  return markOf(task, "task", PAD, lanes * LANE_HEIGHT);
}

export function markOf(row: Row, shape: Shape, top: number, height: number): Mark {
  const from = row.start_ms ?? 0;
  return { row, shape, from, to: row.end_ms == null ? null : Math.max(row.end_ms, from), top, height };
}
