// Where the errors and retries of a run are, in the order of time: what the chips of the status line jump to.

import type { Row } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import type { Store } from "./store";

/** The next span with a problem after `from`, around to the first; null when there is none. */
export function nextProblem(store: Store, what: "error" | "retry", from: string | null): string | null {
  const found = what === "error" ? errors(store) : [...store.rows()].filter(isRetried);
  found.sort((a, b) => (a.start_ms ?? Infinity) - (b.start_ms ?? Infinity));
  const at = found.findIndex((row) => row.span_id === from);
  return found[(at + 1) % found.length]?.span_id ?? null;
}

const isRetried = (row: Row): boolean =>
  (row.kind === "attempt" && row.status === "error" && row.backoff_ms != null) || row.review?.decision === "retry";

/** Failed spans where the failure arose: a parent that failed because of its child is not told twice. */
function errors(store: Store): Row[] {
  const failed = [...store.rows()].filter((row) => row.status === "error" && !traitsOf(row.kind).isLeaf);
  const parents = new Set(failed.flatMap((row) => ancestors(store, row)));
  return failed.filter((row) => !parents.has(row.span_id));
}

function ancestors(store: Store, row: Row): string[] {
  const found: string[] = [];
  for (let at = row.parent_id; at && found.length < 64; at = store.row(at)?.parent_id) found.push(at);
  return found;
}
