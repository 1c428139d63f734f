// Where the errors and retries of a run are, in the order of time, and what it was warned of: what the chips of the status
// line jump to, and list.

import { isTask } from "../wire/predicates";
import type { Row, Run } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import { pluralize } from "../wording/numbers";
import type { Store } from "./store";

const MOST_NAMED = 12;

/** The next span with a problem after `from`, around to the first; null when there is none. */
export function nextProblem(store: Store, what: "error" | "retry", from: string | null): string | null {
  const found = what === "error" ? errors(store) : [...store.rows()].filter(isRetried);
  found.sort((a, b) => (a.start_ms ?? Infinity) - (b.start_ms ?? Infinity));
  const at = found.findIndex((row) => row.span_id === from);
  return found[(at + 1) % found.length]?.span_id ?? null;
}

/** What the run was warned of, and for what it "completed with warnings", a sentence each. */
export function listWarnings(store: Store): string[] {
  const run = store.run.value;
  if (run?.status !== "completed_with_warnings") return [...(run?.warnings ?? [])];
  const tasks = [...store.rows()].filter(isTask);
  const fallbacks = tasks.filter((row) => row.status === "ok" && row.is_fallback).map((row) => `In ${row.name} the fallback ${row.agent ?? ""} took over.`);
  const found = [...run.warnings, ...fallbacks, ...listFailures(store, run, tasks)];
  return found.length ? found : ["A phase went on although its review would have sent it back."];
}

/** The tasks that failed, without those inside; as one where they are many, since the sign of errors leads to each (W25). */
function listFailures(store: Store, run: Run, tasks: readonly Row[]): string[] {
  const all = tasks.filter((row) => row.status === "error");
  const ids = new Set(all.map((row) => row.span_id));
  const failed = all.filter((row) => !ancestors(store, row).some((above) => ids.has(above)));
  if (failed.length <= MOST_NAMED) return failed.map((row) => `The task ${row.name} failed${row.error_type ? `: ${row.error_type}` : ""}.`);
  const areItems = failed.every((row) => store.row(row.parent_id ?? "")?.item_count != null);
  return [`${pluralize(failed.length, areItems ? "item" : run.task_noun)} failed.`];
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
