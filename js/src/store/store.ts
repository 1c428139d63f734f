// The run as this page knows it: a fold over the kernel's messages. No DOM, no clock of its own, no drawing; several
// views read one store. Rows are replaced whole, never changed in place, so a reader may keep what it was given.

import { signal } from "@preact/signals";
import type { Delta, Details, Kept, Piece, Saved, Snapshot, TextHits, TextPiece } from "../wire/messages";
import { isFinal, isStartup, roundAt } from "../wire/predicates";
import type { Phase, Row, Run } from "../wire/rows";
import { Journal } from "./journal";
import { roundsOf } from "./rounds";
import { Selection } from "./selection";

/** The longest chain of spans in spans that is believed, as the kernel does (E71). */
const DEEPEST = 300;

/** Of so many searches the answers are kept: views of one run may look for different words. */
const MOST_SEARCHES = 8;

/** What became of a message: `gap` means that something was missed, so the caller should say hello again. */
export type FoldResult = "folded" | "old" | "gap";

export class Store {
  /** Grows by one with each change of rows, details or text: what a view compares to know whether to look again. */
  readonly version = signal(0);
  readonly run = signal<Run | null>(null);
  readonly phases = signal<readonly Phase[]>([]);
  /** Why the newest message could not be read, or null. */
  readonly fault = signal<string | null>(null);
  readonly savedAt = signal<string | null>(null);
  /** Since when, as an ISO time, nobody can say how the run goes on; null while somebody can. */
  readonly lostAt = signal<string | null>(null);
  /** What a saved trace lacks, to stay small. */
  readonly leftOut = signal({ rows: 0, details: 0 });
  /** By kind, how many rows a saved trace keeps, and of how many. */
  readonly kept = signal<Readonly<Record<string, Kept>>>({});

  /** The run as a graph (W32), as the kernel sent it, or the saved view has it: read where it is shown. */
  readonly graphs = signal<unknown>(null);

  /** What stands in the cells of the table of a map (W153), as it came: read where it is shown. */
  readonly cells: unknown[] = [];
  /** Grows with what came of them alone, since rows, layout and chart are as they were. */
  readonly cellPages = signal(0);

  readonly selection = new Selection();
  /** The run as it was at the time that is selected: what views show in place of it (W35); null: they show it as it is. */
  readonly past = signal<Store | null>(null);
  /** What a saved trace says it had come to at which times. */
  series: unknown = null;

  /** Where it begins on the axis that it is shown on, in milliseconds: a fork stands on that of its origin. */
  at = 0;

  #n = -1;
  #rows = new Map<string, Row>();
  #children = new Map<string, string[]>();
  #taskNumbers = new Map<string, number>();
  readonly #startups = new Set<string>();
  /** Of which there is a row. */
  readonly kinds = new Set<string>();
  /** Some task of it works on a list. */
  #hasLists = false;
  readonly #journal = new Journal();
  #details = new Map<string, { details: Details; progress: string }>();
  #text = new Map<string, Streamed>();
  #pieces = new Map<string, { from: number; text: string }>();
  #hits = new Map<string, TextHits>();
  #origin = Infinity;
  /** When the oldest message came that is not taken in yet, on this page's clock: no clock runs ahead of its data. */
  heldAt: number | null = null;
  /** On this page's clock. */
  readonly #frozenAt = signal<number | null>(null);

  /** The number of the newest message folded, -1 before the first. */
  get n(): number {
    return this.#n;
  }

  /** It has rows, or items. */
  get hasGrid(): boolean {
    const noun = this.run.value?.task_noun ?? "task";
    return noun !== "task" || this.#hasLists;
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
      // A snapshot may have come in between, so a delta may repeat rows and text. That does no harm: rows are whole, and
      // text says where it begins.
      for (const row of message.rows) {
        this.#put(row);
        this.#journal.add(row.span_id);
      }
      this.#untangle(message.rows);
    } else {
      const isOther = this.run.value !== null && this.run.value.run_id !== message.run.run_id;
      if (message.n <= this.#n && !isOther) return "old";
      this.#rows.clear();
      this.#children.clear();
      this.#taskNumbers.clear();
      this.#startups.clear();
      this.kinds.clear();
      this.#hasLists = false;
      this.#journal.clear();
      if (isOther) this.#forget();
      for (const row of message.rows) this.#put(row);
      this.#untangle(message.rows);
      this.phases.value = message.phases;
    }
    if (message.kind === "saved") {
      for (const details of Object.values(message.details)) this.#keep(details);
      this.savedAt.value = message.saved_at;
      this.kept.value = message.kept;
      this.graphs.value = message.graphs;
      this.cells.push(message.cells);
      this.series = message.series;
      this.leftOut.value = { rows: message.rows_left_out, details: message.details_left_out };
    }
    for (const piece of message.text ?? []) this.#append(piece);
    this.#n = message.n;
    // The earliest arrival had the least delay, so the smallest difference is the best guess of the run's start on this
    // page's clock, and the clock shown never runs backwards because one message came late.
    this.#origin = Math.min(this.#origin, now - message.run.elapsed_ms);
    this.run.value = message.run;
    // Of what was saved before its end nobody can say how it went on.
    if (message.kind === "saved" && message.run.status === "running") {
      this.#frozenAt.value = now;
      this.lostAt.value = message.saved_at;
    }
    this.version.value += 1;
    return "folded";
  }

  /** The run's age at `now`: by the clock while it runs, what the kernel said once it is over. */
  elapsed(now: number): number {
    const run = this.run.value;
    if (!run) return 0;
    return run.status === "running" ? Math.max(run.elapsed_ms, Math.min(this.#frozenAt.value ?? now, this.heldAt ?? Infinity) - this.#origin) : run.elapsed_ms;
  }

  /** Stops the clock at `now`, because nobody is there any more who could say that the run goes on. */
  freeze(now: number): void {
    this.#frozenAt.value = now;
    this.lostAt.value = new Date().toISOString();
    this.version.value += 1;
  }

  /** Starts the clock again. */
  thaw(): void {
    this.#frozenAt.value = this.lostAt.value = null;
    this.version.value += 1;
  }

  /** True while bars grow by the clock. */
  get isTicking(): boolean {
    return this.run.value?.status === "running" && this.#frozenAt.value === null;
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
      const first = found.length;
      for (const row of this.children(id)) {
        if (seen.has(row.span_id)) continue;
        seen.add(row.span_id);
        found.push(row);
      }
      for (let k = found.length - 1; k >= first; k -= 1) {
        const child = found[k] as Row;
        if (this.#children.has(child.span_id) && !stops(child)) open.push(child.span_id);
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

  /** The place of a task among all, in order of first appearance: the same for who saw it come and who came later. */
  taskNumber(span: string): number {
    return this.#taskNumbers.get(span) ?? Infinity;
  }

  /** The models that were made ready, in order of first appearance. */
  get startups(): Row[] {
    return [...this.#startups].flatMap((span) => this.#rows.get(span) ?? []);
  }

  /** How often the work of a span's task was begun when that span began: once more each time it was sent back; 0 where it never was. */
  draftOf(span: Row): number {
    const task = this.#rows.get(this.ownerOf(span.span_id));
    const rounds = task ? roundsOf(this, task) : [];
    return rounds.length > 0 ? Math.max(1, roundAt(rounds, span.start_ms ?? Infinity)) : 0;
  }

  /** How much has changed by now: what `changesSince` is asked with the next time. */
  get position(): number {
    return this.#journal.end;
  }

  /** The spans whose rows changed after a position, some more than once; null where everything may have changed. */
  changesSince(position: number): readonly string[] | null {
    return this.#journal.since(position);
  }

  keepDetails(details: Details): void {
    this.#keep(details);
    this.version.value += 1;
  }

  keepCells(cells: unknown): void {
    this.cells.push(cells);
    this.cellPages.value += 1;
  }

  /** Takes in more of a text; a piece that does not follow what is here is dropped. */
  keepPiece({ span_id, field, from, text }: Piece): void {
    const key = `${span_id} ${field}`;
    const known = this.#pieces.get(key);
    const start = known?.from ?? from;
    if (known && from !== start + known.text.length) return;
    this.#pieces.set(key, { from: start, text: (known?.text ?? "") + text });
    this.version.value += 1;
  }

  /** Takes in where the kernel has found words. */
  keepHits(hits: TextHits): void {
    const key = keyOf(hits.words);
    this.#hits.delete(key);
    this.#hits.set(key, hits);
    const [oldest] = this.#hits.keys();
    if (this.#hits.size > MOST_SEARCHES && oldest !== undefined) this.#hits.delete(oldest);
    this.version.value += 1;
  }

  /** Where the kernel has found these words; undefined until it has looked. */
  textHits(words: readonly string[]): TextHits | undefined {
    return this.#hits.get(keyOf(words));
  }

  /** A text of the details as far as it is here: what came with them, and the pieces that were asked for. */
  textOf(span: string, field: string, beginning: string): string {
    const more = this.#pieces.get(`${span} ${field}`);
    return more && more.from <= beginning.length ? beginning.slice(0, more.from) + more.text : beginning;
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
    const streamed = this.#text.get(span);
    const { output, lengths } = this.details(span) ?? {};
    // Of a long text that is still being streamed, details have the end.
    const asked = output == null ? streamed : { start: Math.max(0, (lengths?.output ?? 0) - output.length), text: output };
    const known = asked && streamed ? joinPieces(asked, streamed) : asked;
    return known ? `${known.start ? "…" : ""}${known.text}` : "";
  }

  /** The end of that, as far as this page saw it come. */
  textTail(span: string, length: number): string {
    return (this.#text.get(span)?.text ?? this.details(span)?.output ?? "").slice(-length);
  }

  #append([span, text, start]: TextPiece): void {
    const known = this.#text.get(span);
    const piece = { start: start ?? (known ? endOf(known) : 0), text };
    this.#text.set(span, known ? joinPieces(known, piece) : piece);
  }

  #put(row: Row): void {
    if (row.kind === "task" && row.item_count != null) this.#hasLists = true;
    if (!this.#rows.has(row.span_id)) {
      // What came before its parent was taken for a row of its own, so that more than this row is another one now.
      if (this.#children.has(row.span_id)) this.#journal.clear();
      if (row.parent_id) {
        const siblings = this.#children.get(row.parent_id);
        if (siblings) siblings.push(row.span_id);
        else this.#children.set(row.parent_id, [row.span_id]);
      }
    }
    if (row.kind === "task" && !this.#taskNumbers.has(row.span_id)) this.#taskNumbers.set(row.span_id, this.#taskNumbers.size);
    this.kinds.add(row.kind);
    if (isStartup(row)) this.#startups.add(row.span_id);
    this.#rows.set(row.span_id, row);
  }

  /** Takes rows that are inside themselves, or too deep, out of what they are in: all who go up or down rely on an end. */
  #untangle(rows: readonly Row[]): void {
    for (const { span_id } of rows) {
      const row = this.#rows.get(span_id) as Row;
      let above: Row | undefined = row;
      for (let steps = 0; above?.parent_id; steps += 1) {
        if (steps === DEEPEST || above.parent_id === span_id) {
          const siblings = this.#children.get(row.parent_id as string);
          siblings?.splice(siblings.indexOf(span_id), 1);
          this.#rows.set(span_id, { ...row, parent_id: null });
          break;
        }
        above = this.#rows.get(above.parent_id);
      }
    }
  }

  #keep(details: Details): void {
    this.#details.set(details.span_id, { details, progress: this.progress(details.span_id) });
  }

  #forget(): void {
    this.#details.clear();
    this.#pieces.clear();
    this.#hits.clear();
    this.#text.clear();
    this.cells.length = 0;
    this.#origin = Infinity;
    this.selection.clear();
  }
}

const keyOf = (words: readonly string[]): string => words.join("\0");

/** A part of a text, and where in the whole it begins. */
interface Streamed {
  readonly start: number;
  readonly text: string;
}

const endOf = (piece: Streamed): number => piece.start + piece.text.length;

/** Two parts of one text as one; where something is missing between them, the later one. */
export function joinPieces(one: Streamed, other: Streamed): Streamed {
  const [first, second] = one.start <= other.start ? [one, other] : [other, one];
  if (endOf(second) <= endOf(first)) return first;
  if (second.start > endOf(first)) return second;
  return { start: first.start, text: first.text + second.text.slice(endOf(first) - second.start) };
}
