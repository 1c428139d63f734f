// Messages of real runs (T28): whoever follows a run from its plan on knows in the end what one who came last is told.

import { describe, expect, it } from "vitest";
import { LayoutBuilder } from "../layout/tracks";
import { readRecorded, RECORDED, type Recorded } from "../testing/recorded";
import { durationOf, isTask } from "../wire/predicates";
import { Store } from "./store";

const rowsOf = (store: Store) => [...store.rows()].sort((a, b) => (a.span_id < b.span_id ? -1 : 1));

function follow(recorded: Recorded, look: (store: Store) => void = () => undefined): Store {
  const store = new Store();
  for (const message of [recorded.snapshot, ...recorded.deltas]) {
    expect(store.fold(readRecorded(message), 0)).toBe("folded");
    look(store);
  }
  return store;
}

function catchUp(recorded: Recorded): Store {
  const store = new Store();
  expect(store.fold(readRecorded(recorded.final), 0)).toBe("folded");
  return store;
}

it("knows the runs", () => {
  expect(RECORDED.map((one) => one.name)).toEqual(["flat", "report"]);
});

describe.each(RECORDED.map((one): [string, Recorded] => [one.name, one]))("%s", (_, recorded) => {
  it("is the same after a snapshot and all deltas as after the last snapshot", () => {
    const [followed, late] = [follow(recorded), catchUp(recorded)];
    expect(rowsOf(followed)).toEqual(rowsOf(late));
    expect(followed.run.value).toEqual(late.run.value);
    expect(followed.phases.value).toEqual(late.phases.value);
    expect(followed.n).toBe(late.n);
  });

  it("loses no row in reading", () => {
    const sent = (recorded.final.rows as { span_id: string }[]).map((row) => row.span_id);
    expect(rowsOf(catchUp(recorded)).map((row) => row.span_id)).toEqual([...sent].sort());
  });

  it("has a track for every phase and every planned task from the plan on, in an order that does not change", () => {
    const planned: string[] = [];
    const builder = new LayoutBuilder();
    follow(recorded, (store) => {
      const ids = builder.build(store, new Set()).tracks.map((track) => track.id);
      if (planned.length === 0) planned.push(...ids);
      expect(ids.filter((id) => planned.includes(id))).toEqual(planned);
    });
    const first = (recorded.snapshot.rows as { span_id: string }[]).map((row) => row.span_id);
    expect([...planned].sort()).toEqual(first.sort());
    expect(planned.length).toBeGreaterThan(0);
  });

  it("is arranged step by step as it is at once", () => {
    const builder = new LayoutBuilder();
    const followed = follow(recorded, (store) => void builder.build(store, new Set()));
    const [late, once] = [catchUp(recorded), new LayoutBuilder()];
    const ids = (layout: { tracks: readonly { id: string; y: number; height: number }[] }) => layout.tracks.map(({ id, y, height }) => [id, y, height]);
    expect(ids(builder.build(followed, new Set()))).toEqual(ids(once.build(late, new Set())));
  });

  it("says of a task how long it took, which is never more than from start to end", () => {
    for (const row of catchUp(recorded).rows()) {
      if (!isTask(row) || row.start_ms == null || row.end_ms == null) continue;
      expect(durationOf(row)).toBeGreaterThanOrEqual(0);
      expect(durationOf(row)).toBeLessThanOrEqual(row.end_ms - row.start_ms + 0.001);
    }
  });
});

it("does not count the time in which a task was over, until its phase was sent back (E50)", () => {
  const report = catchUp(RECORDED.find((one) => one.name === "report") as Recorded);
  const look = [...report.rows()].find((row) => row.name === "look" && isTask(row));
  expect(look?.attempt).toBe(2);
  expect(durationOf(look as never)).toBeLessThan((look?.end_ms ?? 0) - (look?.start_ms ?? 0) - 900);
});
