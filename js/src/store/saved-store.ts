// A saved view made from what a page knows, for a run that has not ended: of one whose kernel has gone nobody else can save
// it.

import type { Row } from "../wire/rows";
import { sayBreak } from "./row-state";
import type { Store } from "./store";

/** Of the form that has rows as objects; all later views read it. */
const VERSION_OF_ROWS = 2;

/** The content of our MIME type; null where the page knows nothing. What ran as its kernel went is interrupted. */
export function storeToSaved(store: Store, feedId: string): Record<string, unknown> | null {
  const run = store.run.value;
  if (!run) return null;
  const now = store.elapsed(performance.now());
  const lost = store.isOver ? null : store.lostAt.value;
  const said = store.isOver ? run : { ...run, elapsed_ms: now, waiting: [] };
  const rows = [...store.rows()];
  const details = rows.map((row) => store.details(row.span_id)).filter((each) => each !== undefined);
  return {
    kind: "saved",
    version: VERSION_OF_ROWS,
    feed_id: feedId,
    n: store.n,
    saved_at: new Date().toISOString(),
    run: lost === null ? said : { ...said, status: "interrupted", sentence: sayBreak(store), ended_at: lost, active: [], phases_now: [] },
    phases: store.phases.value,
    rows: lost === null ? rows : rows.map((row) => endRow(row, now)),
    details: Object.fromEntries(details.map((each) => [each.span_id, each])),
    rows_left_out: 0,
    details_left_out: 0,
  };
}

const endRow = (row: Row, now: number): Row =>
  row.status === "running" || row.status === "waiting" ? { ...row, status: "interrupted", end_ms: now } : row;
