// What is known of the state of a row by now. What went on when the kernel was lost may have ended since, so that nothing
// of it may look as if it went on still (W15).

import type { Row, Status } from "../wire/rows";
import { STATUS_NAMES } from "../wording/labels";
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
  return lost !== null && isOpen(row) ? { key: "unknown", name: unknownSince(lost) } : { key: row.status, name: STATUS_NAMES[row.status] };
}

/** What is said of all that went on at the moment, an ISO time, from which on nothing is known. */
export function unknownSince(lost: string): string {
  const time = formatTimeOfDay(lost);
  return time === null ? "unknown" : `unknown since ${time}`;
}
