// Brings a fork onto the time axis of the run that it forks (F4): what was kept stands where it was in that run, and what is
// new begins at the point of the fork.

import type { Store } from "../store/store";
import type { Delta, Saved, Snapshot } from "../wire/messages";
import type { Row, Run } from "../wire/rows";

type Told = Snapshot | Delta | Saved;

/** What is the same in a run and in a fork of it: the first call of a task, the second, and so on. */
export class Places {
  readonly #ids = new Map<string, string>();
  readonly #keys = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  constructor(rows: Iterable<Row> = []) {
    for (const row of rows) this.add(row);
  }

  /** What a row is, the same each time that it is asked. */
  add(row: Row): string {
    const known = this.#keys.get(row.span_id);
    if (known) return known;
    const what = JSON.stringify([row.kind, row.task, row.kind === "task" ? row.name : row.kind === "tool" ? row.tool : null]);
    const count = (this.#counts.get(what) ?? 0) + 1;
    this.#counts.set(what, count);
    const key = `${what} ${count}`;
    this.#keys.set(row.span_id, key);
    this.#ids.set(key, row.span_id);
    return key;
  }

  /** The span that is what a span is in other places. */
  find(span: string, other: Places): string | undefined {
    const key = other.#keys.get(span);
    return key === undefined ? undefined : this.#ids.get(key);
  }
}

/** Has a store of a fork take in what it is told on the axis of its origin; `at` is the point, in milliseconds there. */
export function alignStore(store: Store, origin: Store, point: string, at: number): { own: Places; origins: Places } {
  const [own, origins] = [new Places(), new Places(origin.rows())];
  const around = new Set<string>();
  for (let row = origin.row(point); row; row = row.parent_id ? origin.row(row.parent_id) : undefined) around.add(row.span_id);
  const alignRow = (row: Row): Row => {
    const key = own.add(row);
    const before = origin.row(origins.find(row.span_id, own) ?? "");
    const moved = move(row, at);
    if (!before || before.start_ms == null || row.start_ms == null) return moved;
    if (row.reused) return { ...moved, start_ms: before.start_ms, end_ms: row.end_ms == null ? null : (before.end_ms ?? before.start_ms) };
    // What the point is in had begun before it.
    return key && around.has(before.span_id) ? { ...moved, start_ms: Math.min(before.start_ms, moved.start_ms ?? Infinity) } : moved;
  };
  store.at = at;
  const fold = store.fold.bind(store);
  store.fold = (message: Told, now: number) => fold({ ...message, run: moveRun(message.run, at), rows: message.rows.map(alignRow) } as Told, now);
  return { own, origins };
}

const later = <T extends number | null | undefined>(ms: T, at: number): T => (typeof ms === "number" ? ((ms + at) as T) : ms);

function move(row: Row, at: number): Row {
  const { review } = row;
  return {
    ...row,
    start_ms: later(row.start_ms, at),
    end_ms: later(row.end_ms, at),
    settled_ms: later(row.settled_ms, at),
    ...(review && { review: { ...review, deadline_ms: later(review.deadline_ms, at) } }),
    ...(row.rounds && { rounds: row.rounds.map((round) => ({ ...round, start_ms: round.start_ms + at, end_ms: later(round.end_ms, at) })) }),
  };
}

function moveRun(run: Run, at: number): Run {
  return {
    ...run,
    elapsed_ms: run.elapsed_ms + at,
    ...(run.many && { many: { ...run.many, start_ms: run.many.start_ms + at } }),
  };
}
