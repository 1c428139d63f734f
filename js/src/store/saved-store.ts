// A saved view made from what a page knows, for a run whose kernel has gone before its end: nobody else can save it.

import type { Row, Run } from "../wire/rows";
import { countTasks } from "../wording/labels";
import type { Store } from "./store";

/** Of the form that has rows as objects; all later views read it. */
const VERSION_OF_ROWS = 2;

/** The content of our MIME type; null where the page knows nothing. What ran is interrupted. */
export function storeToSaved(store: Store, feedId: string): Record<string, unknown> | null {
  const run = store.run.value;
  if (!run) return null;
  const now = store.elapsed(performance.now());
  const rows = [...store.rows()];
  const details = rows.map((row) => store.details(row.span_id)).filter((each) => each !== undefined);
  return {
    kind: "saved",
    version: VERSION_OF_ROWS,
    feed_id: feedId,
    n: store.n,
    saved_at: new Date().toISOString(),
    run: store.isOver ? run : { ...run, status: "interrupted", sentence: describeEnd(run), elapsed_ms: now, active: [], phases_now: [], waiting: [] },
    phases: store.phases.value,
    rows: rows.map((row) => endRow(row, now)),
    details: Object.fromEntries(details.map((each) => [each.span_id, each])),
    rows_left_out: 0,
    details_left_out: 0,
  };
}

const describeEnd = (run: Run): string => `The kernel went before the end; ${run.tasks_done} of ${countTasks(run, run.tasks_total)} done`;

function endRow(row: Row, now: number): Row {
  if (row.status === "pending") return { ...row, status: "skipped" };
  return row.status === "running" || row.status === "waiting" ? { ...row, status: "interrupted", end_ms: now } : row;
}
