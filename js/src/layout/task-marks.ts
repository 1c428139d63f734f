// The marks in the row of one task, kept up to date call by call: what a batch changed is made anew, the rest stays. They are
// made when somebody asks for them, which is never done for most rows of a large run. It must not know what stands above or
// below that row.

import type { Store } from "../store/store";
import { roundsOf } from "../store/rounds";
import { isError, isTask } from "../wire/predicates";
import type { Round, Row } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import { ANSWERS } from "../wire/words";
import { CALL_TOP, laneOf, type Mark, marksOf, taskMark } from "./marks";
import { LEAST_BETWEEN_MS, notches } from "./notches";
import { SHAPES } from "./shapes";
import { LANE_HEIGHT, PAD } from "./sizes";
import { startupMarks } from "./startup-marks";

const LEAST_QUEUE_MS = 10;

/** What is in the row of a task, and what stands below it. */
export class TaskMarks {
  /** How many errors arose here. */
  errors = 0;
  /** The tasks that were handed on from here, in order of appearance: each has a row of its own, below this one. */
  readonly workers: string[] = [];

  #marks: readonly Mark[] = [];
  #lanes = 1;
  #calls: Mark[] = [];
  /** What the marks do not show yet. */
  readonly #changed = new Set<string>();
  #isUpToDate = false;
  /** No mark can be in another lane than the first. */
  #hasOneLane = true;
  /** By the span that the marks were made from; an attempt's are made from its call. */
  readonly #made = new Map<string, readonly Mark[]>();
  /** How many marks each lane has, and how many of all are no beads. */
  readonly #inLane: number[] = [];
  #bars = 0;
  readonly #failed = new Set<string>();
  /** The first of what another agent does. */
  #takeover: Row | null = null;
  /** How often the task was sent back when its calls were named. */
  #goes = 0;

  /** `startups`: of the run, as it goes on. */
  constructor(readonly store: Store, readonly id: string, readonly startups: ReadonlySet<string>) {
    for (const row of store.descendants(id, isTask)) this.#take(row);
    this.workers.sort((a, b) => store.taskNumber(a) - store.taskNumber(b));
    this.#note();
  }

  get marks(): readonly Mark[] {
    if (!this.#isUpToDate) this.#catchUp();
    return this.#marks;
  }

  get lanes(): number {
    if (!this.#hasOneLane && !this.#isUpToDate) this.#catchUp();
    return this.#lanes;
  }

  /** Takes in that these spans, which are the task or in it, are new or changed. */
  update(spans: Iterable<string>): void {
    for (const span of spans) {
      const row = this.store.row(span);
      if (row && span !== this.id) this.#take(row);
    }
    this.#note();
  }

  #take(row: Row): void {
    const { span_id } = row;
    if (isTask(row)) {
      if (!this.workers.includes(span_id)) this.workers.push(span_id);
      return;
    }
    // The phases of a nested run have rows of their own, with the reviews that look at them.
    if (this.store.ownerOf(span_id) !== this.id) return;
    if (isError(row) && !traitsOf(row.kind).isLeaf) this.#failed.add(span_id);
    else this.#failed.delete(span_id);
    if (row.lane) this.#hasOneLane = false;
    this.#changed.add(span_id);
  }

  #note(): void {
    this.errors = this.#countErrors(this.store.row(this.id) as Row);
    this.#isUpToDate = false;
  }

  /** Makes the marks of what changed since they were asked for last. */
  #catchUp(): void {
    const stale = new Set<string>();
    for (const span of this.#changed) {
      const row = this.store.row(span) as Row;
      stale.add(span);
      if (row.start_ms == null && this.#takeover?.span_id === span) this.#takeover = null;
      if (row.is_fallback && row.start_ms != null && row.start_ms < (this.#takeover?.start_ms ?? Infinity)) this.#takeover = row;
      const parent = row.parent_id == null ? undefined : this.store.row(row.parent_id);
      if (parent && parent.span_id !== this.id && (parent.kind === "llm" || parent.kind === "tool")) stale.add(parent.span_id);
      // A call is named by what its reply asked for.
      const turn = parent?.kind === "tool" ? this.store.row(parent.parent_id ?? "") : parent;
      if (turn?.kind !== "turn" || row.kind === "llm") continue;
      for (const call of this.store.children(turn.span_id)) if (call.kind === "llm") stale.add(call.span_id);
    }
    this.#changed.clear();
    const goes = roundsOf(this.store, this.store.row(this.id) as Row).length;
    // Calls are named by the go that they are in, once there are several.
    if (goes !== this.#goes) for (const [span, marks] of this.#made) if (marks.some((mark) => mark.names)) stale.add(span);
    this.#goes = goes;
    if (stale.size) this.#remake(stale);
    this.#finish();
    this.#isUpToDate = true;
  }

  /** Puts the marks of these spans where they belong now: each costs a search, however many others there are. */
  #remake(stale: ReadonlySet<string>): void {
    // Those who have the old array, such as the picture of it, may keep it.
    this.#calls = this.#calls.slice();
    for (const span of stale) {
      for (const mark of this.#made.get(span) ?? []) this.#calls.splice(this.#calls.indexOf(mark, this.#placeOf(mark.from)), 1);
      this.#count(this.#made.get(span) ?? [], -1);
      const row = this.store.row(span) as Row;
      const lane = laneOf(this.store, row);
      const made = row.start_ms == null ? [] : marksOf(this.store, row, PAD + lane * LANE_HEIGHT);
      for (const mark of made) this.#calls.splice(this.#placeOf(mark.from, true), 0, mark);
      this.#count(made, 1);
      this.#made.set(span, made);
    }
    this.#lanes = this.#inLane.length;
    while (this.#lanes > 1 && !this.#inLane[this.#lanes - 1]) this.#lanes -= 1;
    this.#lanes = Math.max(this.#lanes, 1);
  }

  /** Where the marks begin that begin at a moment or later, or `isAfter` it. */
  #placeOf(ms: number, isAfter = false): number {
    let [low, high] = [0, this.#calls.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const { from } = this.#calls[middle] as Mark;
      if (from < ms || (isAfter && from === ms)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #count(marks: readonly Mark[], by: 1 | -1): void {
    for (const { shape, top } of marks) {
      if (!SHAPES[shape].isBead) this.#bars += by;
      const lane = Math.floor((top - PAD) / LANE_HEIGHT);
      this.#inLane[lane] = (this.#inLane[lane] ?? 0) + by;
    }
  }

  #finish(): void {
    const task = this.store.row(this.id) as Row;
    const own = taskMark(task, this.#bars > 0, this.#lanes);
    const rounds = roundsOf(this.store, task);
    const more = [...notches(task, rounds, this.#takeover, this.#lanes * LANE_HEIGHT + 2 * PAD), ...this.#waits(task), ...betweenRounds(task, rounds)];
    const inside = more.length ? [...this.#calls, ...more].sort((a, b) => a.from - b.from) : this.#calls;
    this.#marks = own ? [...framesOf(own, rounds), ...inside] : inside;
  }

  /** What held the task up before and between its calls: no free place, and models that were made ready. */
  #waits(task: Row): Mark[] {
    const startups = isTask(task) ? [...this.startups].map((span) => this.store.row(span)).filter((row) => row !== undefined) : [];
    const waits = startups.length ? startupMarks(task, this.#calls, startups) : [];
    const queue_ms = task.queue_ms ?? 0;
    if (task.start_ms == null || queue_ms < LEAST_QUEUE_MS) return waits;
    const queue: Mark = { row: task, shape: "queue", from: task.start_ms - queue_ms, to: task.start_ms, ...CALL_TOP };
    // Where many wait for a place, that is how it should be, and needs no words in each row.
    return [this.#isOneOfMany(task) ? { ...queue, label: "" } : queue, ...waits];
  }

  #isOneOfMany(task: Row): boolean {
    return this.store.run.value?.task_noun !== "task" || this.store.row(task.parent_id ?? "")?.item_count != null;
  }

  /** A span that failed because of one inside it is not counted again. */
  #countErrors(task: Row): number {
    if (this.#failed.size === 0) return Number(isError(task));
    const around = new Set<string>();
    for (const span of this.#failed) {
      for (let at = this.store.row(span)?.parent_id; at && at !== this.id && !around.has(at); at = this.store.row(at)?.parent_id) around.add(at);
    }
    let count = 0;
    for (const span of this.#failed) if (!around.has(span)) count += 1;
    return count;
  }
}

/** The frame of a task: one for each go at it, where they are apart. */
function framesOf(own: Mark, rounds: readonly Round[]): Mark[] {
  if (own.shape !== "task" && own.shape !== "work") return [own];
  const frames: Mark[] = [];
  for (const { start_ms, end_ms } of rounds) {
    const last = frames.at(-1);
    if (last && last.to !== null && start_ms - last.to <= LEAST_BETWEEN_MS) frames[frames.length - 1] = { ...last, to: end_ms ?? null };
    else frames.push({ ...own, from: start_ms, to: end_ms ?? null });
  }
  return frames.length ? frames : [own];
}

/** The time between two goes at a task. */
function betweenRounds(task: Row, rounds: readonly Round[]): Mark[] {
  return rounds.flatMap((round, k) => {
    const before = rounds[k - 1]?.end_ms;
    if (before == null || round.start_ms - before <= LEAST_BETWEEN_MS) return [];
    return [{ row: task, shape: "between" as const, from: before, to: round.start_ms, label: (rounds[k - 1]?.verdict ?? ANSWERS.retry ?? "").replace(/:.*/s, ""), ...CALL_TOP }];
  });
}
