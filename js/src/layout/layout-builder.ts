// Arranges the rows of a store: phases, their tasks, the workers below who handed work to them, to any depth. It looks
// again only at what changed since it was asked last, so that a batch costs what is in it and not what is in the run.

import type { Store } from "../store/store";
import { roundsOf } from "../store/rounds";
import { durationOf, isError, isStartup, isTask } from "../wire/predicates";
import type { Row, Work } from "../wire/rows";
import { stateOfMany } from "../wording/labels";
import { isAnswer, Together } from "./answers";
import { giverOf, phaseAround, rowAbove } from "./handed-on";
import { heatOf } from "./heat";
import { isOfAny, type Mark, markOf } from "./marks";
import { phaseMarks } from "./phase-marks";
import { SHAPES } from "./shapes";
import { LANE_HEIGHT, PAD, PHASE_HEIGHT } from "./sizes";
import { TaskMarks } from "./task-marks";
import { Layout, nameKey, type Track } from "./tracks";

/** Where the bars of a closed phase stand: its own line above, model calls and tools pressed together below. */
const COLLAPSED = { llm: 9, tool: 16, height: 6 };
/** More tasks than this below a closed row show how busy they were together, and no bars of their own. */
const MOST_PRESSED = 40;
/** From so many siblings on, those that are done can be folded into one row. */
const MANY_SIBLINGS = 100;
/** The items of a task that runs for more of them than these, and the rows of a map in it, are folded away, until a person opens their row. */
const MOST_ITEMS = 12;

/** The id of the row that stands for all rows of a map, where they are many. */
export const ALL_ROWS = "rows:";

/** Whether one row stands for all rows of a map, until a person opens it (W25). */
export function isMapOfMany(store: Store): boolean {
  const run = store.run.value;
  return run !== null && run.task_noun !== "task" && run.tasks_total > MOST_ITEMS;
}

/** The id of the row that stands for those below a row that are done. */
export const groupOf = (parent: string): string => `done:${parent}`;

const hasManyItems = (row: Row): boolean => Math.max(row.item_count ?? 0, row.map_rows ?? 0) > MOST_ITEMS;

/** What a search leaves of a run: rows, and what is shown in them. */
export interface Left {
  readonly rows: ReadonlySet<string>;
  readonly spans: ReadonlySet<string>;
}

/** What arranges the rows of tasks in another way than below their phases has to do with. */
export interface Arranging {
  readonly store: Store;
  /** What a person has closed, or opened. */
  readonly toggled: ReadonlySet<string>;
  readonly left: Left | null;
  /** What stands there by now: at first what is on top, pinned or open below what is. */
  readonly tracks: readonly Track[];
  task(span: string): TaskMarks;
  /** Adds a row below the last one. */
  add(made: Made, whole: Track["source"]): void;
}

export type Arrange = (rows: Arranging) => void;

type Made = Omit<Track, "y" | "marks" | "source">;
const NONE: ReadonlySet<string> = new Set();

/** Whether what is below a row is shown; `toggled` are the rows that a person has closed, or opened where many items are. */
export const isOpen = (row: Row, toggled: ReadonlySet<string>): boolean => toggled.has(row.span_id) === hasManyItems(row);

/** Keeps what did not change from one arrangement of a store's rows to the next. */
export class LayoutBuilder {
  #store: Store | null = null;
  #position = -1;
  #tasks = new Map<string, TaskMarks>();
  #roots = new Set<string>();
  #done = new Set<string>();
  #named = new Map<string, Row>();
  readonly #startups = new Set<string>();
  #kept = new Map<string, Track>();
  #tracks: Track[] = [];
  readonly #together = new Map<string, Together>();
  #collapsed: ReadonlySet<string> = new Set();
  #left: Left | null = null;
  #pinned = NONE;
  #y = 0;

  /**
   * @param left What alone is shown, with all that is around it; everything is where it is null.
   * @param pinned The rows that stand on top, each with what is open below it.
   * @param arrange What adds the rows of the tasks; null: they stand below their phases.
   */
  build(store: Store, collapsed: ReadonlySet<string>, left: Left | null = null, pinned = NONE, arrange: Arrange | null = null): Layout {
    this.#catchUp(store);
    this.#kept = new Map(left === null && this.#left === null ? this.#tracks.map((track) => [track.id, track]) : []);
    this.#left = left;
    this.#tracks = [];
    this.#collapsed = collapsed;
    this.#pinned = pinned;
    this.#y = 0;
    for (const span of pinned) {
      const row = store.row(span);
      if (!row || (left && !left.rows.has(span))) continue;
      if (row.kind === "phase") this.#addPhase(store, row, 0, null, null);
      else this.#addTask(store, row, 0, rowAbove(store, row), giverOf(store, row));
    }
    const pinnedHeight = this.#y;
    const roots = this.#listRoots(store);
    const add = (row: Row, depth: number): void =>
      row.kind === "phase" ? this.#addPhase(store, row, depth, null, null) : this.#addTask(store, row, depth, null);
    if (arrange) {
      arrange({ store, toggled: collapsed, left, tracks: this.#tracks, task: (span) => this.#task(store, span), add: (made, whole) => this.#add(made, whole) });
      for (const row of roots) if (row.kind !== "phase" && !isTask(row) && this.#isLeft(row)) add(row, 0);
    } else if (isMapOfMany(store) && left === null) this.#addMap(store, roots, add);
    else this.#addSiblings(null, roots, 0, add);
    return new Layout(this.#tracks, this.#y, this.#done, this.#named, pinnedHeight);
  }

  // --- What changed ---------------------------------------------------------------------------------------------------

  #catchUp(store: Store): void {
    const changes = store === this.#store ? store.changesSince(this.#position) : null;
    this.#store = store;
    this.#position = store.position;
    if (changes === null) {
      this.#tasks.clear();
      this.#roots.clear();
      this.#startups.clear();
      this.#together.clear();
      this.#done = new Set();
      this.#named = new Map();
      for (const row of store.rows()) this.#note(store, row);
      return;
    }
    const byOwner = new Map<string, Set<string>>();
    const add = (owner: string, span: string): void => {
      const spans = byOwner.get(owner);
      if (spans) spans.add(span);
      else byOwner.set(owner, new Set([span]));
    };
    for (const span of new Set(changes)) {
      const row = store.row(span);
      if (!row) continue;
      this.#note(store, row);
      add(store.ownerOf(span), span);
      // The row above has one worker more.
      if (isTask(row)) add(rowAbove(store, row), span);
      // Who answers a review is named by what it came to.
      if (row.kind === "review") {
        for (const task of store.children(row.parent_id ?? "").filter((each) => each.review_id === span)) {
          for (const call of store.descendants(task.span_id)) if (call.kind === "llm") add(task.span_id, call.span_id);
        }
      }
    }
    // A startup stands in the rows of all that wait for it.
    if ([...byOwner.keys()].some((owner) => this.#startups.has(owner))) for (const task of this.#tasks.keys()) add(task, task);
    for (const [owner, spans] of byOwner) this.#tasks.get(owner)?.update(spans);
  }

  #note(store: Store, row: Row): void {
    const parent = row.parent_id == null ? undefined : store.row(row.parent_id);
    if (!parent) this.#roots.add(row.span_id);
    if (!parent && isStartup(row)) this.#startups.add(row.span_id);
    if (!isTask(row) && row.kind !== "phase") return;
    if (parent && parent.kind !== "phase") return;
    this.#named.set(nameKey(row.kind, row.name), row);
    if (row.status === "ok") this.#done.add(row.name);
    else this.#done.delete(row.name);
  }

  /** Phases and loose tasks in the order of the plan; a span whose parent is unknown stands as a row of its own. */
  #listRoots(store: Store): Row[] {
    const planned = new Set(store.phases.value.map((phase) => phase.span_id));
    const rows = [...planned, ...this.#roots].map((span) => store.row(span)).filter((row) => row !== undefined);
    const unique = [...new Set(rows)];
    return [...unique.filter((row) => row.kind === "phase"), ...unique.filter((row) => row.kind !== "phase")];
  }

  #task(store: Store, span: string): TaskMarks {
    let task = this.#tasks.get(span);
    if (!task) this.#tasks.set(span, (task = new TaskMarks(store, span, this.#startups)));
    return task;
  }

  // --- Rows -----------------------------------------------------------------------------------------------------------

  #addPhase(store: Store, row: Row, depth: number, parent: string | null, giver: string | null): void {
    const children = store.children(row.span_id);
    const reviews = children.filter((child) => child.kind === "review");
    const answers = [...children, ...reviews.flatMap((review) => store.children(review.span_id))].filter((child) => isAnswer(row, child) && this.#isLeft(child));
    const tasks = children.filter((child) => child.kind !== "review" && !isAnswer(row, child));
    const reviewers = reviews.flatMap((review) =>
      tasksBelow(store, review.span_id).filter((task) => !isAnswer(row, task) && this.#isLeft(task)).map((task) => ({ task, review: review.span_id })));
    const isExpanded = !this.#collapsed.has(row.span_id);
    const rounds = roundsOf(store, row);
    // A task that answers has a row of its own, where its verdicts stand.
    const own = phaseMarks(row, answers.length ? [] : reviews, rounds);
    const all = isExpanded ? [] : [...tasks, ...answers, ...reviewers.map(({ task }) => task)];
    const isHot = all.length > MOST_PRESSED;
    this.#add({
      id: row.span_id, row, kind: "phase", depth, isWorker: false, isExpanded, hasChildren: tasks.length > 0, height: PHASE_HEIGHT,
      heat: isHot ? heatOf(all) : null, errors: this.#errorsIn(store, tasks), members: [], rounds, parent, giver,
    }, { marks: isExpanded || isHot ? own : this.#press(store, row, own, all) });
    if (!isExpanded) return;
    this.#addSiblings(row.span_id, tasks, depth + 1, (task, inner) => this.#addTask(store, task, inner, row.span_id, giver));
    if (answers.length) this.#addAnswers(store, answers, depth + 1, row.span_id);
    for (const { task, review } of reviewers) this.#addTask(store, task, depth + 1, row.span_id, review);
  }

  /** One row for all tasks that answered the reviews of a phase: they are one task, asked once a round. */
  #addAnswers(store: Store, answers: readonly Row[], depth: number, parent: string): void {
    const first = answers[0] as Row;
    if (answers.length === 1) return this.#addTask(store, first, depth, parent);
    const parts = answers.map((row) => this.#task(store, row.span_id));
    const kept = this.#together.get(first.span_id);
    const together = kept && kept.isOf(answers) ? kept : new Together(answers, parts);
    this.#together.set(first.span_id, together);
    this.#add({
      id: first.span_id, row: together.row, kind: "task", depth, isWorker: false, isExpanded: false, hasChildren: false, heat: null,
      height: Math.max(...parts.map((part) => part.lanes)) * LANE_HEIGHT + 2 * PAD, errors: parts.reduce((sum, part) => sum + part.errors, 0),
      members: answers.map((row) => row.span_id), rounds: [], parent, giver: null,
    }, together);
  }

  #addTask(store: Store, row: Row, depth: number, parent: string | null, giver: string | null = null): void {
    const task = this.#task(store, row.span_id);
    const { lanes, errors, workers } = task;
    const hasChildren = workers.length > 0 || row.work != null;
    const isExpanded = hasChildren && this.#isOpen(row);
    const below = workers.map((span) => store.row(span) as Row);
    const heat = hasManyItems(row) && !isExpanded ? heatOf(below) : null;
    this.#add({
      id: row.span_id, row, kind: "task", depth, isWorker: giver !== null, isExpanded, hasChildren, heat,
      height: lanes * LANE_HEIGHT + 2 * PAD, errors: isExpanded ? errors : errors + this.#errorsIn(store, below),
      members: [], rounds: roundsOf(store, row), parent, giver,
    }, task);
    if (!isExpanded) return;
    const rest = row.work ? this.#addWork(store, row, row.work, below, depth + 1) : below;
    // The tasks of a nested run stand in its phases.
    const rows = [...new Set(rest.map((worker) => phaseAround(store, worker, row.span_id) ?? worker))];
    const add = (each: Row, inner: number): void => {
      const by = giverOf(store, each) ?? row.span_id;
      if (each.kind === "phase") this.#addPhase(store, each, inner, row.span_id, by);
      else this.#addTask(store, each, inner, row.span_id, by);
    };
    if (hasManyItems(row)) this.#addMany(rows, depth + 1, row.end_ms != null, add);
    else this.#addSiblings(row.span_id, rows, depth + 1, add);
  }

  /** One row for all rows of a map, and these below it, once it is opened. */
  #addMap(store: Store, roots: readonly Row[], add: (row: Row, depth: number) => void): void {
    const rows = roots.filter(isTask);
    const isExpanded = this.#collapsed.has(ALL_ROWS);
    this.#add({
      id: ALL_ROWS, row: { span_id: ALL_ROWS, kind: "group", ...stateOfMany(rows), parent_id: null }, kind: "group",
      depth: 0, isWorker: false, isExpanded, hasChildren: true, height: PHASE_HEIGHT, heat: heatOf(rows), errors: 0, members: [], rounds: [],
      parent: null, giver: null,
    }, { marks: [] });
    if (isExpanded) this.#addMany(rows, 1, store.isOver, add);
    for (const row of roots) if (!isTask(row)) add(row, 0);
  }

  /** Items, or rows of a map: in their order while they are at work, so that none moves, and what failed first after that. */
  #addMany(all: readonly Row[], depth: number, isOver: boolean, add: (row: Row, depth: number) => void): void {
    const rows = all.filter((row) => this.#isLeft(row));
    for (const row of isOver ? worstFirst(rows) : rows) add(row, depth);
  }

  /**
   * What a manager saw to: the written tasks by time, and what else was handed on by worker, with rows of their own where no
   * worker has one. Gives back who is not among them.
   */
  #addWork(store: Store, manager: Row, work: readonly Work[], below: readonly Row[], depth: number): Row[] {
    const shown = new Set<string>();
    work.forEach(({ title, span_id, note }, k) => {
      const row = store.row(span_id ?? "");
      shown.add(span_id ?? "");
      if (row && isTask(row)) {
        if (this.#isLeft(row)) this.#addTask(store, row, depth, manager.span_id, giverOf(store, row) ?? manager.span_id);
      } else if (this.#left === null || (row && this.#isLeft(row))) {
        const id = span_id ?? `work:${manager.span_id}:${k}`;
        // As long as the manager is at work, nobody knows more of it than that nobody was asked for it.
        const status = manager.end_ms == null ? "pending" : manager.status;
        const told: Row = { ...(row ?? { kind: "group", status, start_ms: manager.start_ms ?? null }), span_id: id, name: title, reason: note ?? "", agent: null };
        const from = told.start_ms ?? NaN;
        told.start_ms = told.end_ms = null;
        this.#add({
          id, row: told, kind: row ? "task" : "group", depth, isWorker: true, isExpanded: false, hasChildren: false, heat: null, errors: 0,
          height: PHASE_HEIGHT, members: [], rounds: [], parent: manager.span_id, giver: null,
        }, { marks: note ? [{ row: told, shape: "ghost", from, to: null, top: 3, height: PHASE_HEIGHT - 6 }] : [] });
      }
    });
    return below.filter((row) => !shown.has(row.span_id));
  }

  /** Rows below a row, or the outermost ones; where they are many, those that are done can be folded away together. */
  #addSiblings(parent: string | null, all: readonly Row[], depth: number, add: (row: Row, depth: number) => void): void {
    const rows = all.filter((row) => this.#isLeft(row));
    if (rows.length < MANY_SIBLINGS) {
      for (const row of rows) add(row, depth);
      return;
    }
    const id = groupOf(parent ?? "");
    const done = rows.filter((row) => row.status === "ok");
    const isExpanded = !this.#collapsed.has(id);
    const row: Row = { span_id: id, kind: "group", ...stateOfMany(rows), parent_id: parent };
    this.#add({
      id, row, kind: "group", depth, isWorker: false, isExpanded, hasChildren: true, height: PHASE_HEIGHT,
      heat: heatOf(isExpanded ? rows : done), errors: 0, members: [], rounds: [], parent, giver: null,
    }, { marks: [] });
    for (const each of rows) if (isExpanded || each.status !== "ok") add(each, depth);
  }

  /** Whether a search leaves a row, and in its place. */
  #isLeft(row: Row): boolean {
    return !this.#pinned.has(row.span_id) && (this.#left === null || this.#left.rows.has(row.span_id));
  }

  /** What a search leaves is open, however many rows it is. */
  #isOpen(row: Row): boolean {
    return this.#left === null ? isOpen(row, this.#collapsed) : !this.#collapsed.has(row.span_id);
  }

  /** Adds a row below the last one; the very row of last time where it would be the same. */
  #add(made: Made, whole: Track["source"]): void {
    const source = this.#left === null ? whole : leftOf(whole, this.#left.spans);
    const kept = this.#kept.get(made.id);
    const track: Track = { ...made, y: this.#y, source, get marks() { return source.marks; } };
    // What is not compared follows from the id.
    const isSame = kept !== undefined && kept.row === track.row && kept.source === source && kept.y === track.y && kept.height === track.height
      && kept.errors === track.errors && kept.heat === track.heat && kept.isExpanded === track.isExpanded && kept.hasChildren === track.hasChildren
      && kept.parent === track.parent && kept.giver === track.giver && kept.depth === track.depth && kept.rounds.length === track.rounds.length;
    this.#tracks.push(isSame ? kept : track);
    this.#y += track.height;
  }

  /** What a task of the last layout has been through, whether a row shows it or not, as while rows are grouped. */
  look(span: string): Pick<TaskMarks, "marks" | "errors"> | null {
    const row = this.#store?.row(span);
    return this.#store && row && isTask(row) ? this.#task(this.#store, span) : null;
  }

  /** Errors in tasks, and in the workers below them. */
  #errorsIn(store: Store, tasks: readonly Row[]): number {
    let sum = 0;
    for (const row of tasks) {
      const task = this.#task(store, row.span_id);
      sum += task.errors;
      if (task.workers.length) sum += this.#errorsIn(store, task.workers.map((span) => store.row(span) as Row));
    }
    return sum;
  }

  /** The bars of all tasks pressed into the row of their closed phase; errors come last, so that nothing covers them. */
  #press(store: Store, row: Row, own: readonly Mark[], tasks: readonly Row[]): readonly Mark[] {
    if (row.start_ms == null) return own;
    const pressed = this.#marksIn(store, tasks).flatMap(compress).sort((a, b) => a.from - b.from);
    const frame = markOf(row, "phase", 0, COLLAPSED.llm);
    return [frame, ...pressed.filter((mark) => !isError(mark.row)), ...pressed.filter((mark) => isError(mark.row))];
  }

  /** Of tasks, and of the workers below them. */
  #marksIn(store: Store, tasks: readonly Row[]): Mark[] {
    return tasks.flatMap((row) => {
      const { marks, workers } = this.#task(store, row.span_id);
      return [...marks, ...this.#marksIn(store, workers.map((span) => store.row(span) as Row))];
    });
  }
}

/** The marks of spans that are left, and the frames that show where they stand. */
function leftOf(whole: Track["source"], spans: ReadonlySet<string>): Track["source"] {
  let marks: readonly Mark[] | undefined;
  return {
    get marks() {
      return (marks ??= whole.marks.filter((mark) => mark.shape === "task" || mark.shape === "phase" || mark.shape === "round" || isOfAny(mark, spans)));
    },
  };
}

/** What failed, then the others, in each the longest first. */
function worstFirst(rows: readonly Row[]): Row[] {
  const rank = (row: Row): number => (isError(row) ? 0 : 1);
  return [...rows].sort((a, b) => rank(a) - rank(b) || (durationOf(b) ?? -1) - (durationOf(a) ?? -1));
}

/** The outermost tasks below a span, in order of appearance. */
const tasksBelow = (store: Store, span: string): Row[] =>
  store.descendants(span, isTask).filter(isTask).sort((a, b) => store.taskNumber(a.span_id) - store.taskNumber(b.span_id));

function compress(mark: Mark): Mark[] {
  const { height } = COLLAPSED;
  const { collapsed } = SHAPES[mark.shape];
  return collapsed === null ? [] : [{ ...mark, top: collapsed === "upper" ? COLLAPSED.llm : COLLAPSED.tool, height }];
}
