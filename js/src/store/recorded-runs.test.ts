// Messages of real runs (T28): whoever follows a run from its plan on knows in the end what one who came last is told.

import { describe, expect, it } from "vitest";
import { LayoutBuilder } from "../layout/layout-builder";
import { readRecorded, RECORDED, type Recorded } from "../testing/recorded";
import { readSaved } from "../wire/reader";
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
  expect(RECORDED.map((one) => one.name)).toEqual(["flat", "nested", "report"]);
});

describe.each(RECORDED.map((one): [string, Recorded] => [one.name, one]))("%s", (_, recorded) => {
  it("is the same after a snapshot and all deltas as after the last snapshot", () => {
    const [followed, late] = [follow(recorded), catchUp(recorded)];
    expect(rowsOf(followed)).toEqual(rowsOf(late));
    expect(followed.run.value).toEqual(late.run.value);
    expect(followed.phases.value).toEqual(late.phases.value);
    expect(followed.n).toBe(late.n);
  });

  it("is the same in columns, in a buffer and as a notebook's file has it", () => {
    const late = catchUp(recorded);
    const packed = new Store();
    packed.fold(readRecorded(recorded.packed.head, recorded.packed.buffers), 0);
    expect([...packed.rows()]).toEqual([...late.rows()]);
    expect(packed.phases.value).toEqual(late.phases.value);
    const saved = readSaved(recorded.saved);
    if (saved.kind === "bad") throw new Error(saved.why);
    expect(saved.rows).toEqual([...late.rows()]);
    expect([saved.rows_left_out, saved.details_left_out]).toEqual([0, 0]);
    expect(Object.values(saved.kept).every(([kept, all]) => kept === all)).toBe(true);
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

it("has the phases and tasks of nested runs as rows below the task that began these, and their startup as a row of its own (E52)", () => {
  const nested = catchUp(RECORDED.find((one) => one.name === "nested") as Recorded);
  const layout = new LayoutBuilder().build(nested, new Set());
  const { tracks } = layout;
  expect(tracks.map((track) => [track.row.name, track.depth, track.isWorker])).toEqual([
    ["make", 0, false], ["compose", 1, false], ["think", 2, true], ["write", 2, true], ["weigh", 2, true], ["read", 2, true],
    ["ask", 1, false], ["one", 2, false], ["first", 3, true], ["two", 2, false], ["second", 3, true], ["judge", 1, true],
    ["Loading a model", 0, false], ["Loading a model", 0, false],
  ]);
  expect(layout.arrowsTo(tracks).map(({ by, to }) => [by.row.name, to.row.name])).toEqual([
    ["haiku", "think"], ["haiku", "write"], ["critic", "weigh"], ["proof", "read"], ["others", "one"], ["others", "two"], ["phase", "judge"],
  ]);
  const compose = tracks[1]?.row as never;
  expect(durationOf(compose)).toBe(3500);
  expect(nested.run.value?.tasks_total).toBe(2);
});
