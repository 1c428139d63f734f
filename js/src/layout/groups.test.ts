// Holds W36: rows by agent, model, tool and status.

import { describe, expect, it } from "vitest";
import { delta, row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { arrangeBy, type Grouping, groupingsOf, packLanes } from "./groups";
import { LayoutBuilder, type Left } from "./layout-builder";
import { LANE_HEIGHT, PAD, PHASE_HEIGHT } from "./sizes";

const task = (span_id: string, agent: string | null, start_ms: number | null, end_ms: number | null, more: Partial<Row> = {}): Row =>
  row({ span_id, kind: "task", agent, start_ms, end_ms, status: start_ms === null ? "pending" : end_ms === null ? "running" : "ok", ...more });
const call = (span_id: string, parent_id: string, kind: "llm" | "tool", start_ms: number, end_ms: number, more: Partial<Row> = {}): Row =>
  row({ span_id, kind, parent_id, start_ms, end_ms, ...(kind === "llm" ? { model: "big" } : { tool: "search" }), ...more });

/** Ana does two tasks one after the other and one beside them; Bo one, which fails; plain code the last. 1,000 ms in all. */
const ROWS: Row[] = [
  row({ span_id: "p", kind: "phase", name: "work", start_ms: 0, end_ms: 1000 }),
  task("one", "Ana", 0, 300, { parent_id: "p" }), call("one.l", "one", "llm", 0, 200), call("one.t", "one", "tool", 200, 300),
  task("two", "Ana", 300, 500, { parent_id: "p" }), call("two.l", "two", "llm", 300, 500, { model: "small" }),
  task("three", "Ana", 100, 500, { parent_id: "p" }), call("three.l", "three", "llm", 100, 400),
  task("four", "Bo", 500, 900, { parent_id: "p", status: "error" }), call("four.l", "four", "llm", 500, 700, { status: "error", critical: true }),
  row({ span_id: "four.a", kind: "attempt", parent_id: "four.l", status: "error", start_ms: 500, end_ms: 700, critical: true }),
  task("five", "Handler", 900, 1000, { parent_id: "p" }),
];
const OVER = run({ status: "failed", elapsed_ms: 1000 });

const opened = (...ids: string[]): ReadonlySet<string> => new Set(ids);
function build(grouping: Grouping, { rows = ROWS, open = opened(), left = null, pinned = opened(), is = OVER }: { rows?: Row[]; open?: ReadonlySet<string>; left?: Left | null; pinned?: ReadonlySet<string>; is?: typeof OVER } = {}) {
  return new LayoutBuilder().build(stored({ rows, run: is }), open, left, pinned, arrangeBy(grouping));
}

describe("rows by agent", () => {
  it("have none for a task that is a run of its own, whose agents have theirs (W36)", () => {
    const rows = [
      task("whole", "Ensemble", 0, 900), row({ span_id: "r", kind: "nested", parent_id: "whole", start_ms: 0, end_ms: 900 }),
      task("inner", "Ana", 0, 900, { parent_id: "r" }), task("later", "Ensemble", null, null),
    ];
    expect(build("agent", { rows }).tracks.map((track) => track.row.name)).toEqual(["Ana"]);
    expect(groupingsOf(stored({ rows: rows.filter(({ agent }) => agent !== "Ana"), phases: [] }))).not.toContain("agent");
  });

  it("are one for each, in the order of the plan, with what they did and how much of the run they idled (W36)", () => {
    const { tracks } = build("agent");
    expect(tracks.map(({ row, told }) => [row.name, row.status, told])).toEqual([
      ["Ana", "ok", "500 ms · 50% idle"], ["Bo", "error", "200 ms · 80% idle"], ["Handlers", "ok", "100 ms · 90% idle"],
    ]);
    expect(tracks[1]?.toldInWords).toBe("1 task, 200 ms of work, 200 ms of it on the critical path, idle for 80% of the run");
    expect(tracks.map((track) => track.errors)).toEqual([0, 1, 0]);
  });

  it("leave what each task has been through to be looked at (W146)", () => {
    const builder = new LayoutBuilder();
    builder.build(stored({ rows: ROWS, run: OVER }), opened(), null, opened(), arrangeBy("agent"));
    expect(builder.look("four")).toMatchObject({ errors: 1 });
    expect(builder.look("one")?.marks.length).toBeGreaterThan(0);
    expect(builder.look("p")).toBeNull();
  });

  it("have the tasks in lanes, so that what was beside another stands below it, and free space is time without work (W36)", () => {
    const [ana] = build("agent").tracks;
    expect(ana?.height).toBe(2 * LANE_HEIGHT + 2 * PAD);
    const frames = ana?.marks.filter((mark) => mark.shape === "task").map((mark) => [mark.row.span_id, mark.top]);
    expect(frames).toEqual([["one", PAD], ["three", PAD + LANE_HEIGHT], ["two", PAD]]);
    expect(ana?.marks.find((mark) => mark.row.span_id === "three.l")?.top).toBeGreaterThan(LANE_HEIGHT);
  });

  it("are found by the spans in them, folded and open, and open onto their tasks (W36)", () => {
    const closed = build("agent");
    expect(closed.track("three")?.row.name).toBe("Ana");
    const open = build("agent", { open: opened("by:agent:Ana") });
    expect(open.tracks.map((track) => [track.id, track.depth])).toEqual([
      ["by:agent:Ana", 0], ["one", 1], ["two", 1], ["three", 1], ["by:agent:Bo", 0], ["by:agent:Handlers", 0],
    ]);
    expect(open.tracks[0]?.height).toBe(PHASE_HEIGHT);
    expect([...(open.tracks[0]?.heat?.from ?? [])].sort((a, b) => a - b)).toEqual([0, 100, 200, 300]);
    expect(open.track("three")?.id).toBe("three");
  });

  it("show how busy an agent was, where its tasks would take too many lanes (W36)", () => {
    const rows = Array.from({ length: 12 }, (_, k) => [task(`t${k}`, "Ana", 0, 100), call(`t${k}.l`, `t${k}`, "llm", 0, 100)]).flat();
    const [ana] = build("agent", { rows }).tracks;
    expect([ana?.height, ana?.heat?.from.length]).toEqual([PHASE_HEIGHT, 12]);
    expect(ana?.told).toBe("100 ms · 90% idle");
  });

  it("do not move while tasks begin and end (W36)", () => {
    const rows = [task("a", "Ana", 0, null), task("b", "Bo", null, null), task("c", "Ana", null, null)];
    const store = stored({ rows });
    const builder = new LayoutBuilder();
    const arrange = arrangeBy("agent");
    const look = () => builder.build(store, opened(), null, opened(), arrange).tracks.map(({ id, y }) => [id, y]);
    const before = look();
    store.fold(delta(1, 2, { rows: [task("a", "Ana", 0, 400), task("b", "Bo", 400, null), call("b.l", "b", "llm", 400, 500)] }), 0);
    expect(look()).toEqual(before);
  });

  it("leave out whoever only stands around the work of others (W36)", () => {
    const rows = [task("all", null, 0, 100, { item_count: 2 }), task("i1", "Ana", 0, 50, { parent_id: "all" }), task("i2", "Bo", 50, 100, { parent_id: "all" })];
    expect(build("agent", { rows }).tracks.map((track) => track.row.name)).toEqual(["Ana", "Bo"]);
  });

  it("keep only what a search leaves, open (W36)", () => {
    const left = { rows: opened("p", "two"), spans: opened("two.l") };
    const { tracks } = build("agent", { left });
    expect(tracks.map((track) => track.id)).toEqual(["by:agent:Ana", "two"]);
    expect(tracks[1]?.marks.map((mark) => mark.row.span_id)).toEqual(["two", "two.l"]);
  });

  it("count a task that is pinned, which stands on top (W36)", () => {
    const layout = build("agent", { pinned: opened("one"), open: opened("by:agent:Ana") });
    expect(layout.tracks.map((track) => track.id)).toEqual(["one", "by:agent:Ana", "two", "three", "by:agent:Bo", "by:agent:Handlers"]);
    expect(layout.pinnedHeight).toBe(layout.tracks[0]?.height);
    expect(layout.tracks[1]?.told).toBe("500 ms · 50% idle");
  });

  it("have no task twice: not what is open below a pinned phase or manager either (W36)", () => {
    const open = opened("by:agent:Ana", "by:agent:Bo", "by:agent:Handlers");
    const phase = build("agent", { pinned: opened("p"), open });
    expect(phase.tracks.map((track) => track.id)).toEqual(["p", "one", "two", "three", "four", "five", "by:agent:Ana", "by:agent:Bo", "by:agent:Handlers"]);
    expect(["one", "four"].map((span) => phase.track(span)?.id)).toEqual(["one", "four"]);
    const folded = build("agent", { pinned: opened("p") });
    expect(folded.track("three")?.id).toBe("three");
    const rows = [task("m", "Ana", 0, 100, { item_count: 2 }), task("i1", "Bo", 0, 50, { parent_id: "m" }), task("i2", "Bo", 50, 100, { parent_id: "m" })];
    expect(build("agent", { rows, pinned: opened("m"), open }).tracks.map((track) => track.id)).toEqual(["m", "i1", "i2", "by:agent:Bo"]);
    expect(build("model", { pinned: opened("p"), open: opened("by:model:big") }).track("one")?.id).toBe("one");
  });
});

describe("rows by model and by tool", () => {
  it("have the calls in lanes, wherever in a task they were made (W36)", () => {
    const [big, small] = build("model").tracks;
    expect([big?.row.name, small?.row.name]).toEqual(["big", "small"]);
    expect(big?.marks.map((mark) => [mark.row.span_id, Math.floor((mark.top - PAD) / LANE_HEIGHT)])).toEqual([["one.l", 0], ["three.l", 1], ["four.l", 0]]);
    expect(big?.toldInWords).toContain("3 calls, 600 ms of work");
    expect(build("tool").tracks.map(({ row, told }) => [row.name, told])).toEqual([["search", "100 ms · 90% idle"]]);
  });

  it("are found by their calls, attempts and tasks, and open onto the tasks with those calls alone (W36)", () => {
    const closed = build("model");
    expect(["four.l", "four.a", "four"].map((span) => closed.track(span)?.row.name)).toEqual(["big", "big", "big"]);
    const open = build("model", { open: opened("by:model:big") });
    expect(open.tracks.map((track) => [track.id, track.row.span_id])).toEqual([
      ["by:model:big", "by:model:big"], ["one.l", "one"], ["three.l", "three"], ["four.l", "four"], ["by:model:small", "by:model:small"],
    ]);
    expect(open.tracks[1]?.marks.map((mark) => mark.row.span_id)).toEqual(["one.l"]);
    expect(open.track("four.a")?.id).toBe("four.l");
  });

  it("have no row for the tool by which work is handed on (W36)", () => {
    const rows = [task("m", "Boss", 0, 100), call("d", "m", "tool", 0, 90, { tool: "delegate_task" }), row({ span_id: "e", kind: "delegation", parent_id: "d", start_ms: 0, end_ms: 90 })];
    expect(build("tool", { rows }).tracks).toEqual([]);
  });
});

describe("rows by status", () => {
  it("are there from the start while the run goes on, and those alone that it has when it is over (W36)", () => {
    const names = (layout: ReturnType<typeof build>) => layout.tracks.map(({ row, told }) => [row.name, told]);
    expect(names(build("status", { rows: [task("a", "Ana", 0, null)], is: run() }))).toEqual([["pending", "0 tasks"], ["running", "1 task"], ["done", "0 tasks"]]);
    expect(names(build("status"))).toEqual([["done", "4 tasks"], ["failed", "1 task"]]);
    const inside = [task("row", null, 0, 100), task("one", "Ana", 0, 50, { parent_id: "row" }), task("two", "Ana", 50, 100, { parent_id: "row", status: "error" })];
    expect(names(build("status", { rows: inside }))).toEqual([["done", "1 task"]]);
  });
});

it("only what a run has is offered to group it by (W36)", () => {
  const offered = (rows: Row[]) => groupingsOf(stored({ rows }));
  expect(offered(ROWS)).toEqual(["agent", "model", "tool", "status"]);
  expect(offered([task("a", "Handler", 0, 1)])).toEqual(["status"]);
  expect(offered([])).toEqual([]);
});

it("a lane is free once what stood in it has ended, and what comes later moves nothing (W36)", () => {
  const item = (start_ms: number, end_ms: number | null, lanes = 1) => ({ row: task("x", null, start_ms, end_ms), lanes });
  expect(packLanes([item(0, 10), item(5, null), item(10, 20)])).toEqual({ lanes: [0, 1, 0], count: 2 });
  expect(packLanes([item(0, 10), item(5, null), item(10, 20, 2)])).toEqual({ lanes: [0, 1, 2], count: 4 });
  expect(packLanes(Array.from({ length: 7 }, () => item(0, 10)))).toBeNull();
});
