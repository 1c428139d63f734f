// Holds W24: what a page saves of a run that has not ended.

import { expect, it } from "vitest";
import { run, stored } from "../testing/runs";
import type { Row, Run } from "../wire/rows";
import { storeToSaved } from "./saved-store";

const going = { tasks_done: 4, tasks_total: 8, cost: 0.021 };

function save(isLost: boolean): { run: Run; statuses: string[] } {
  const store = stored({ run: run({ ...going, elapsed_ms: 18_000 }) }, performance.now());
  if (isLost) store.freeze(performance.now());
  const saved = storeToSaved(store, "f") as { run: Run; rows: Row[] };
  return { run: saved.run, statuses: [...new Set(saved.rows.map((row) => row.status))].sort() };
}

it("is that it goes on, as long as its kernel is there, with its rows as they are", () => {
  const { run: saved, statuses } = save(false);
  expect([saved.status, saved.sentence]).toEqual(["running", null]);
  expect(statuses).toEqual(["error", "ok", "pending", "running"]);
});

it("is that it was interrupted, and when, once that is gone; what was to come stays so", () => {
  const { run: saved, statuses } = save(true);
  expect([saved.status, typeof saved.ended_at]).toEqual(["interrupted", "string"]);
  expect(saved.sentence).toMatch(/^interrupted, \d+:\d\d [AP]M · 4 of 8 tasks · 18 s · \$0\.021$/);
  expect(statuses).toEqual(["error", "interrupted", "ok", "pending"]);
});

it("is what it came to where it is over", () => {
  const store = stored({ run: run({ status: "completed", sentence: "2 tasks in 1.0 s" }) });
  store.freeze(2000);
  expect((storeToSaved(store, "f") as { run: Run }).run).toEqual(store.run.value);
});
