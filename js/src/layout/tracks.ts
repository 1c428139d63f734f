// Which rows there are, and how high they stand: pure, from the store to tracks with their marks. Time becomes pixels only
// in `draw`, so zooming and the clock never come back here.

import type { Store } from "../store/store";
import { isError, isTask } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { type Mark, markOf, marksInTask, phaseMarks, type TaskMarks } from "./marks";
import { SHAPES } from "./shapes";
import { LANE_HEIGHT, PAD, PHASE_HEIGHT } from "./sizes";

/** A row of the chart and of the gutter beside it. */
export interface Track {
  readonly id: string;
  readonly row: Row;
  readonly kind: "phase" | "task";
  readonly depth: number;
  /** True where the work was handed on by the task above. */
  readonly isWorker: boolean;
  readonly isExpanded: boolean;
  readonly hasChildren: boolean;
  readonly y: number;
  readonly height: number;
  readonly marks: readonly Mark[];
  /** Errors anywhere inside, so that a closed row still shows them. */
  readonly errors: number;
}

/** Work handed from one row to another, and back. */
export interface WorkArrow {
  readonly by: Mark;
  readonly from: Track;
  readonly to: Track;
}

export interface Layout {
  readonly tracks: readonly Track[];
  readonly arrows: readonly WorkArrow[];
  readonly height: number;
  /** The names of the tasks and phases that are done: what the others no longer wait for. */
  readonly done: ReadonlySet<string>;
}

export const EMPTY: Layout = { tracks: [], arrows: [], height: 0, done: new Set() };
/** Where the bars of a closed phase stand: its own line above, model calls and tools pressed together below. */
const COLLAPSED = { llm: 9, tool: 16, height: 6 };

interface Cached extends TaskMarks {
  readonly revision: number;
  readonly row: Row;
}

/** Arranges a store's rows; keeps what did not change from one arrangement to the next. */
export class LayoutBuilder {
  #cache = new Map<string, Cached>();

  build(store: Store, collapsed: ReadonlySet<string>): Layout {
    const tracks: Track[] = [];
    const done = new Set<string>();
    let y = 0;
    const add = (track: Omit<Track, "y">): void => {
      tracks.push({ ...track, y });
      y += track.height;
    };
    const addTask = (row: Row, depth: number, isWorker = false): void => {
      const { marks, lanes, errors, workers } = this.#task(store, row);
      const isExpanded = workers.length > 0 && !collapsed.has(row.span_id);
      add({
        id: row.span_id, row, kind: "task", depth, isWorker, isExpanded, hasChildren: workers.length > 0, marks,
        height: lanes * LANE_HEIGHT + 2 * PAD, errors: isExpanded ? errors : errors + this.#errorsIn(store, workers),
      });
      if (isExpanded) for (const worker of workers) addTask(worker, depth + 1, true);
    };
    for (const row of roots(store)) {
      if (row.status === "ok") done.add(row.name);
      if (row.kind !== "phase") {
        addTask(row, 0);
        continue;
      }
      const children = store.children(row.span_id);
      const reviews = children.filter((child) => child.kind === "review");
      const tasks = children.filter((child) => child.kind !== "review");
      const reviewers = reviews.flatMap((review) => store.descendants(review.span_id, isTask).filter(isTask));
      for (const task of tasks) if (task.status === "ok") done.add(task.name);
      const isExpanded = !collapsed.has(row.span_id);
      const own = phaseMarks(row, reviews);
      add({
        id: row.span_id, row, kind: "phase", depth: 0, isWorker: false, isExpanded, hasChildren: tasks.length > 0, height: PHASE_HEIGHT,
        marks: isExpanded ? own : this.#collapsed(store, row, own, [...tasks, ...reviewers]), errors: this.#errorsIn(store, tasks),
      });
      if (!isExpanded) continue;
      for (const task of tasks) addTask(task, 1);
      for (const reviewer of reviewers) addTask(reviewer, 1, true);
    }
    return { tracks, arrows: arrows(tracks), height: y, done };
  }

  #task(store: Store, row: Row): Cached {
    const revision = store.revision(row.span_id);
    const kept = this.#cache.get(row.span_id);
    if (kept && kept.revision === revision && kept.row === row) return kept;
    const made = { ...marksInTask(store, row), revision, row };
    this.#cache.set(row.span_id, made);
    return made;
  }

  /** Tasks, and the workers below them. */
  #all(store: Store, tasks: readonly Row[]): Cached[] {
    return tasks.flatMap((task) => {
      const found = this.#task(store, task);
      return [found, ...this.#all(store, found.workers)];
    });
  }

  #errorsIn(store: Store, tasks: readonly Row[]): number {
    return this.#all(store, tasks).reduce((sum, task) => sum + task.errors, 0);
  }

  /** The bars of all tasks pressed into the row of their closed phase; errors come last, so that nothing covers them. */
  #collapsed(store: Store, row: Row, own: readonly Mark[], tasks: readonly Row[]): readonly Mark[] {
    if (row.start_ms == null) return own;
    const pressed = this.#all(store, tasks).flatMap((task) => task.marks.flatMap(compress));
    const frame = markOf(row, "phase", 0, COLLAPSED.llm);
    return [frame, ...pressed.filter((mark) => !isError(mark.row)), ...pressed.filter((mark) => isError(mark.row))];
  }
}

function compress(mark: Mark): Mark[] {
  const { height } = COLLAPSED;
  const { collapsed } = SHAPES[mark.shape];
  return collapsed === null ? [] : [{ ...mark, top: collapsed === "upper" ? COLLAPSED.llm : COLLAPSED.tool, height }];
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

/** Each worker's row with the mark by which its work was handed on: the nearest one above that has it. */
function arrows(tracks: readonly Track[]): WorkArrow[] {
  const givers = new Map<string, [Track, Mark]>();
  const found: WorkArrow[] = [];
  for (const track of tracks) {
    if (track.isWorker && track.row.parent_id) {
      const giver = givers.get(track.row.parent_id);
      if (giver) found.push({ by: giver[1], from: giver[0], to: track });
    }
    if (!track.isExpanded) continue;
    for (const mark of track.marks) {
      if (mark.shape === "delegation" || mark.shape === "review") givers.set(mark.row.span_id, [track, mark]);
    }
  }
  return found;
}
