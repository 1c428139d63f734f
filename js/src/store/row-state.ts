// What is known of the state of a row by now. What went on when the kernel was lost may have ended since, so that nothing
// of it may look as if it went on still (W15).

import type { Row, Status } from "../wire/rows";
import { RUN_STATUS_NAMES, WHEN_SAVED } from "../wire/words";
import { nameOfState, standingOf } from "../wording/labels";
import { formatTimeOfDay } from "../wording/text";
import type { Store } from "./store";

export interface RowState {
  readonly key: Status | "unknown";
  readonly name: string;
}

const isOpen = (row: Row): boolean => row.status === "running" || row.status === "waiting";

/** The state that a row is shown in, and what it is called: `running`, `unknown since 14:03`. */
export function stateOfRow(store: Store, row: Row): RowState {
  const lost = store.lostAt.value;
  return lost !== null && isOpen(row) ? { key: "unknown", name: unknownSince(lost) } : { key: row.status, name: nameOfState(row) };
}

/** What is said of all that went on at the moment, an ISO time, from which on nothing is known. */
export function unknownSince(lost: string): string {
  const time = formatTimeOfDay(lost);
  return time === null ? "unknown" : `unknown since ${time}`;
}

/**
 * How far a run had come of which nothing more is known, because it was saved before its end, or its kernel went: `running
 * when saved, 10:51 PM · 4 of 8 tasks · 18 s · $0.021`; null for one that goes on or has ended.
 */
export function sayBreak(store: Store): string | null {
  const run = store.run.value;
  const lost = store.lostAt.value;
  if (!run || store.isOver || lost === null) return null;
  const word = store.savedAt.value === null ? RUN_STATUS_NAMES.interrupted : WHEN_SAVED;
  const elapsed_ms = store.elapsed(performance.now());
  return [[word, formatTimeOfDay(lost)].filter(Boolean).join(", "), ...standingOf({ ...run, elapsed_ms })].join(" · ");
}
