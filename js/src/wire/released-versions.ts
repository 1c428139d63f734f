// What released versions called otherwise, so that their saved views read like those of today. Version 1 is that of 0.1.0.
// What is of today stays the very object that it was.

import type { Row, Run } from "./rows";

interface Row1 {
  wait?: string | null;
}

/** Of version 1: a wait told its reason as `wait`, and money had its currency in the run alone. */
export function upgradeRow(row: Row & Row1, run: Run): Row {
  const isOfToday = row.wait === undefined && (row.cost == null || row.currency != null);
  if (isOfToday) return row;
  const upgraded: Row & Row1 = { ...row };
  if (row.wait != null) upgraded.wait_kind = row.wait;
  if (row.cost != null && row.currency == null) upgraded.currency = run.currency;
  delete upgraded.wait;
  return upgraded;
}

/** Of version 1: counts of errors and retries had no `_count` in their names. */
export const upgradeRun = (run: Record<string, unknown>): Record<string, unknown> =>
  "error_count" in run ? run : { ...run, error_count: run.errors, retry_count: run.retries };
