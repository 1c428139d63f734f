// The run as this page knows it: a fold over the kernel's messages. No DOM, no clock of its own, no drawing; several
// views read one store. Rows are replaced whole, never changed in place, so a reader may keep what it was given.

import { signal } from "@preact/signals";
import type { Delta, Details, Saved, Snapshot } from "../wire/messages";
import { isFinal } from "../wire/predicates";
import type { Phase, Row, Run } from "../wire/rows";

/** What became of a message: `gap` means that something was missed, so the caller should say hello again. */
export type FoldResult = "folded" | "old" | "gap";

const LONGEST_OVERLAP = 2000;

export class Store {
  /** Grows by one with each change of rows, details or text: what a view compares to know whether to look again. */
  readonly version = signal(0);
  readonly run = signal<Run | null>(null);
  readonly phases = signal<readonly Phase[]>([]);
  /** Why the newest message could not be read, or null. */
  readonly fault = signal<string | null>(null);
  readonly savedAt = signal<string | null>(null);
  /** What a saved trace lacks, to stay small. */
  readonly leftOut = signal({ rows: 0, details: 0 });

  #n = -1;
  #textN = -1;
  #rows = new Map<string, Row>();
  #children = new Map<string, string[]>();
  #revisions = new Map<string, number>();
  #details = new Map<string, { details: Details; progress: string }>();
  #text = new Map<string, string>();
  #origin = Infinity;
  #frozenAt: number | null = null;

  /** The number of the newest message folded, -1 before the first. */
  get n(): number {
    return this.#n;
  }

  get isOver(): boolean {
    return isFinal(this.run.value?.status);
  }

  /** Folds a snapshot or delta that arrived at `now` (a monotonic clock of this page, in milliseconds). */
  fold(message: Snapshot | Delta | Saved, now: number): FoldResult {
    if (message.kind === "delta") {
      if (this.#n < 0) return "gap";
      if (message.n <= this.#n) return "old";
      if (message.from > this.#n) return "gap";
      // A snapshot may have come in between, so a delta may repeat rows, which does no harm because they are whole. Text
      // is appended, and snapshots have none, so it counts from the last delta on.
      for (const row of message.rows) this.#put(row);
      if (message.from >= this.#textN) this.#append(message);
    } else {
      const isOther = this.run.value !== null && this.run.value.run_id !== message.run.run_id;
      if (message.n <= this.#n && !isOther) return "old";
      this.#rows.clear();
      this.#children.clear();
      if (isOther) this.#forget();
      for (const row of message.rows) this.#put(row);
      this.phases.value = message.phases;
    }
    if (message.kind === "saved") {
      for (const details of Object.values(message.details)) this.#keep(details);
      this.savedAt.value = message.saved_at;
      this.leftOut.value = { rows: message.rows_left_out, details: message.details_left_out };
    }
    this.#n = message.n;
    // The earliest arrival had the least delay, so the smallest difference is the best guess of the run's start on this
    // page's clock, and the clock shown never runs backwards because one message came late.
    this.#origin = Math.min(this.#origin, now - message.run.elapsed_ms);
    this.run.value = message.run;
    this.version.value += 1;
    return "folded";
  }

  /** The run's age at `now`: by the clock while it runs, what the kernel said once it is over. */
  elapsed(now: number): number {
    const run = this.run.value;
    if (!run) return 0;
    return run.status === "running" ? Math.max(run.elapsed_ms, (this.#frozenAt ?? now) - this.#origin) : run.elapsed_ms;
  }

  /** Stops the clock at `now`, because nobody is there any more who could say that the run goes on; null starts it again. */
  freeze(now: number | null): void {
    this.#frozenAt = now;
    this.version.value += 1;
  }

  /** True while bars grow by the clock. */
  get isTicking(): boolean {
    return this.run.value?.status === "running" && this.#frozenAt === null;
  }

  row(span: string): Row | undefined {
    return this.#rows.get(span);
  }

  get size(): number {
    return this.#rows.size;
  }

  rows(): IterableIterator<Row> {
    return this.#rows.values();
  }

  /** The direct children of a span in order of first appearance. */
  children(span: string): Row[] {
    const found: Row[] = [];
    for (const id of this.#children.get(span) ?? []) {
      const row = this.#rows.get(id);
      if (row) found.push(row);
    }
    return found;
  }

  /** Everything below a span, parents before children; nothing below a row where `stops` holds. */
  descendants(span: string, stops: (row: Row) => boolean = () => false): Row[] {
    const found: Row[] = [];
    const open = [span];
    const seen = new Set(open);
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      const children = this.children(id).filter((row) => !seen.has(row.span_id));
      for (const row of children) seen.add(row.span_id);
      found.push(...children);
      for (let k = children.length - 1; k >= 0; k -= 1) {
        const child = children[k] as Row;
        if (!stops(child)) open.push(child.span_id);
      }
    }
    return found;
  }

  /** The row that a span is drawn in: its task, the phase that a review looks at, or else its topmost known ancestor. */
  ownerOf(span: string): string {
    let row = this.#rows.get(span);
    for (let steps = 0; row && row.kind !== "task" && row.kind !== "phase" && steps < 64; steps += 1) {
      const parent: Row | undefined = row.parent_id ? this.#rows.get(row.parent_id) : undefined;
      if (!parent || (parent.kind === "phase" && row.kind !== "review")) break;
      row = parent;
    }
    return row?.span_id ?? span;
  }

  /** Grows whenever something inside the row of a task changes: the key of whatever is cached for it. */
  revision(owner: string): number {
    return this.#revisions.get(owner) ?? 0;
  }

  keepDetails(details: Details): void {
    this.#keep(details);
    this.version.value += 1;
  }

  details(span: string): Details | undefined {
    return this.#details.get(span)?.details;
  }

  /** How far a span has come: changes when it, or a call inside it, ends. */
  progress(span: string): string {
    const ended = this.descendants(span).filter((row) => row.end_ms != null).length;
    return `${this.#rows.get(span)?.status ?? ""} ${ended}`;
  }

  /** True when there are no details, or none of how far the span has come by now. */
  hasStaleDetails(span: string): boolean {
    return this.#details.get(span)?.progress !== this.progress(span);
  }

  /** What has streamed in of a reply: what the kernel had when it was asked, and what came since this page was there. */
  text(span: string): string {
    return joinOverlapping(this.details(span)?.output ?? "", this.#text.get(span) ?? "");
  }

  #append(delta: Delta): void {
    for (const [span, piece] of delta.text) this.#text.set(span, (this.#text.get(span) ?? "") + piece);
    this.#textN = delta.n;
  }

  #put(row: Row): void {
    if (!this.#rows.has(row.span_id) && row.parent_id) {
      const siblings = this.#children.get(row.parent_id);
      if (siblings) siblings.push(row.span_id);
      else this.#children.set(row.parent_id, [row.span_id]);
      // A worker has a row of its own, and the row that it stands below has one worker more.
      if (row.kind === "task") this.#revise(this.ownerOf(row.parent_id));
    }
    this.#rows.set(row.span_id, row);
    this.#revise(this.ownerOf(row.span_id));
  }

  #revise(owner: string): void {
    this.#revisions.set(owner, this.revision(owner) + 1);
  }

  #keep(details: Details): void {
    this.#details.set(details.span_id, { details, progress: this.progress(details.span_id) });
  }

  #forget(): void {
    this.#details.clear();
    this.#text.clear();
    this.#textN = -1;
    this.#origin = Infinity;
  }
}

/**
 * Two pieces of one text that may overlap, because the end of the first can be the beginning of the second: it was asked
 * for and came by itself at about the same time. A page that saw the reply begin has all of it in the second.
 */
export function joinOverlapping(first: string, second: string): string {
  if (second.startsWith(first)) return second;
  for (let size = Math.min(first.length, second.length, LONGEST_OVERLAP); size > 0; size -= 1) {
    if (first.endsWith(second.slice(0, size))) return first + second.slice(size);
  }
  return first + second;
}
