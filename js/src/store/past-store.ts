// A run that is over as it was at a time in it (W35): a store like that of a run that goes on, so that whatever shows a run shows
// this one, too. Its rows follow from those of the whole run; from one time to the next only those are made anew that changed in
// between. Loaded with the playhead.

import type { Details, TextHits } from "../wire/messages";
import type { ActiveSpan, Row } from "../wire/rows";
import type { Point } from "../wire/playhead";
import { traitsOf } from "../wire/traits";
import { rowAt } from "./row-at";
import { readPoints, runAt, seriesOf } from "./series";
import type { Store } from "./store";

const MOST_ACTIVE = 20;
const OPEN: ReadonlySet<string> = new Set(["running", "waiting"]);

export interface PastStore extends Store {
  /** Whether the sums are those of the rows that are here, since nobody has told those of the whole run. */
  readonly isPieced: boolean;
  /** Shows the run as it was at a time, in milliseconds since its start. */
  goTo(ms: number): void;
  /** Takes in that the whole run is known better. */
  refresh(): void;
}

/**
 * The past of a run, at no time yet. The file that this is loaded with has copies of its own of the libraries, and whoever reads
 * this store has other ones: so it is made of the class that the whole run is of.
 */
export function pastOf(whole: Store): PastStore {
  const Base = whole.constructor as typeof Store;

  class Past extends Base implements PastStore {
    override readonly selection = whole.selection;
    isPieced = false;
    #ms = -1;
    #isGoingDown = false;
    #position = -1;
    /** When rows change, in order, and which. */
    #times = new Float64Array();
    #spans: string[] = [];
    #points: readonly Point[] = [];
    readonly #open = new Map<string, Row>();

    goTo(ms: number): void {
      const run = whole.run.peek();
      if (!run) return;
      const isNew = this.#position !== whole.position;
      if (isNew) this.#prepare();
      if (!isNew && ms === this.#ms) return;
      const changed = isNew ? [...whole.rows()] : this.#changedBetween(Math.min(this.#ms, ms), Math.max(this.#ms, ms));
      this.#ms = ms;
      const rows = changed.map((row) => rowAt(row, ms) ?? toCome(row));
      for (const row of rows) {
        if (OPEN.has(row.status)) this.#open.set(row.span_id, row);
        else this.#open.delete(row.span_id);
      }
      const open = [...this.#open.values()].sort((a, b) => (a.start_ms ?? 0) - (b.start_ms ?? 0) || (a.span_id < b.span_id ? -1 : 1));
      const phases_now = open.filter((row) => row.kind === "phase").map((row) => row.name);
      const past = { ...runAt(run, this.#points, ms), active: listActive(whole, open), phases_now };
      if (isNew) this.fold({ kind: "snapshot", n: this.n + 1, run: past, phases: [...whole.phases.peek()], rows }, 0);
      else this.fold({ kind: "delta", from: this.n, n: this.n + 1, run: past, rows, text: [] }, 0);
    }

    refresh(): void {
      if (this.#position === whole.position) this.version.value = this.version.peek() + 1;
      else this.goTo(this.#ms);
    }

    #prepare(): void {
      this.#position = whole.position;
      this.#open.clear();
      this.savedAt.value = whole.savedAt.peek();
      this.leftOut.value = whole.leftOut.peek();
      this.kept.value = whole.kept.peek();
      this.graphs.value = whole.graphs.peek();
      const points = readPoints(whole.series);
      this.isPieced = points === null && this.leftOut.peek().rows > 0;
      this.#points = points ?? seriesOf(whole.rows(), (row) => isOfPlan(whole, row));
      const changes: [number, string][] = [];
      for (const row of whole.rows()) for (const ms of changesOf(row)) changes.push([ms, row.span_id]);
      changes.sort((a, b) => a[0] - b[0]);
      this.#times = Float64Array.from(changes, ([ms]) => ms);
      this.#spans = changes.map(([, span]) => span);
    }

    /** The rows that say something else at one of the times than at the other. */
    #changedBetween(from: number, to: number): Row[] {
      const spans = new Set(this.#spans.slice(firstAfter(this.#times, from), firstAfter(this.#times, to)));
      return [...spans].flatMap((span) => whole.row(span) ?? []);
    }

    override elapsed(): number {
      return this.run.value?.elapsed_ms ?? 0;
    }

    override get isTicking(): boolean {
      return false;
    }

    override rows(): IterableIterator<Row> {
      return [...super.rows()].filter(isThere).values();
    }

    override children(span: string): Row[] {
      const children = super.children(span);
      return this.#isGoingDown ? children : children.filter(isThere);
    }

    /** The tasks, too, that are in something that was not there yet. */
    override descendants(span: string, stops?: (row: Row) => boolean): Row[] {
      this.#isGoingDown = true;
      const found = super.descendants(span, stops).filter(isThere);
      this.#isGoingDown = false;
      return found;
    }

    override details(span: string): Details | undefined {
      const row = this.row(span);
      const details = whole.details(span);
      return details && row && row.end_ms == null && whole.row(span)?.end_ms != null ? beginningOf(details, row) : details;
    }

    override hasStaleDetails(span: string): boolean {
      return whole.hasStaleDetails(span);
    }

    override textHits(words: readonly string[]): TextHits | undefined {
      return whole.textHits(words);
    }

    override textOf(span: string, field: string, beginning: string): string {
      return this.row(span)?.end_ms == null ? beginning : whole.textOf(span, field, beginning);
    }

    /** A reply that was being written: as much of it as of its time was over, since nobody has kept when each word came. */
    override text(span: string): string {
      const text = whole.text(span);
      const row = whole.row(span);
      if (row?.start_ms == null || row.end_ms == null || this.#ms >= row.end_ms) return text;
      const began = row.start_ms + (row.time_to_first_token_ms ?? 0);
      return beginningOfText(text, (this.#ms - began) / (row.end_ms - began));
    }

    override textTail(span: string, length: number): string {
      return this.text(span).slice(-length);
    }
  }

  return new Past();
}

/** What has a row of its own keeps it, so that rows do not jump. */
const WITH_ROWS: ReadonlySet<string> = new Set(["phase", "task", "wait", "score"]);
const isThere = (row: Row): boolean => row.status !== "pending" || WITH_ROWS.has(row.kind);

/** What was at work: calls, and tasks that were in no call. */
function listActive(store: Store, open: readonly Row[]): ActiveSpan[] {
  const isCall = (row: Row): boolean => traitsOf(row.kind).isActivity;
  const calling = new Set(open.filter(isCall).map((row) => store.ownerOf(row.span_id)));
  return open.filter((row) => isCall(row) || (row.kind === "task" && !calling.has(row.span_id))).slice(0, MOST_ACTIVE);
}

/** What was not there yet has a place in the store all the same, and is in no list of it. */
const toCome = ({ span_id, parent_id = null, kind, name }: Row): Row => ({ span_id, parent_id, kind, name, status: "pending" });

function* changesOf(row: Row): Generator<number> {
  const { start_ms: start, end_ms: end, time_to_first_token_ms: first } = row;
  if (start != null) yield start;
  if (end != null) yield end;
  if (row.settled_ms != null) yield row.settled_ms;
  if (start != null && first != null) yield start + first;
  for (const round of Array.isArray(row.rounds) ? row.rounds : []) {
    if (typeof round?.start_ms === "number") yield round.start_ms;
    if (typeof round?.end_ms === "number") yield round.end_ms;
  }
}

/** A task that the run's own plan counts: neither handed on nor of a nested run, and no item of another one. */
function isOfPlan(store: Store, row: Row): boolean {
  const parent = store.row(row.parent_id ?? "");
  return !row.delegation_id && !row.review_id && (!parent || (parent.kind === "phase" && !store.row(parent.parent_id ?? "")));
}

/** The first place from which on times are later than one. */
function firstAfter(times: Float64Array, ms: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Of what a span was given and gave what it had been given when it began. */
function beginningOf(details: Details, row: Row): Details {
  const { messages } = details;
  const firstReply = messages.findIndex(({ role }) => role === "assistant");
  const isReplied = messages.at(-1)?.role === "assistant";
  const known = row.status === "pending" ? [] : row.kind === "llm" ? messages.slice(0, isReplied ? -1 : undefined) : messages.slice(0, firstReply < 0 ? undefined : firstReply);
  const { output, ...lengths } = details.lengths ?? {};
  return { ...details, messages: known, input: row.status === "pending" ? null : (details.input ?? null), output: null, error: null, lengths, handovers: [] };
}

/** A share of a text, from its beginning; no character is cut in two. */
export function beginningOfText(text: string, share: number): string {
  const length = Math.floor(text.length * Math.min(1, Math.max(0, share)));
  const isCut = /[\uD800-\uDBFF]/.test(text.charAt(length - 1));
  return text.slice(0, isCut ? length - 1 : length);
}
