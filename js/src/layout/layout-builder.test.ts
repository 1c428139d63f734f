// Holds W1: rows and lanes.

import { describe, expect, it } from "vitest";
import { delta, row, ROWS, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { LANE_HEIGHT, PHASE_HEIGHT } from "./sizes";
import { LayoutBuilder } from "./layout-builder";
import { Links } from "./task-links";

const arrange = (rows: Row[] = ROWS, closed: string[] = []) => new LayoutBuilder().build(stored({ rows }), new Set(closed));

describe("rows", () => {
  it("are phases, their tasks below them, and tasks that have not begun, from the start", () => {
    const { tracks } = arrange();
    expect(tracks.map((track) => [track.id, track.depth])).toEqual([["p", 0], ["t", 1], ["g", 1]]);
  });

  it("do not jump when a planned task begins", () => {
    const before = arrange();
    const began = ROWS.map((one) => (one.span_id === "g" ? { ...one, status: "running" as const, start_ms: 1000 } : one));
    expect(arrange(began).tracks.map((track) => track.y)).toEqual(before.tracks.map((track) => track.y));
  });

  it("stand one under the other without gaps", () => {
    const { tracks, height } = arrange();
    let y = 0;
    for (const track of tracks) {
      expect(track.y).toBe(y);
      y += track.height;
    }
    expect(height).toBe(y);
  });

  it("grow by one lane for calls that overlap", () => {
    const [phase, web, draft] = arrange().tracks;
    expect([phase?.height, web?.height, draft?.height]).toEqual([PHASE_HEIGHT, 2 * LANE_HEIGHT + 4, LANE_HEIGHT + 4]);
  });

  it("are in the order of the plan even when no phase is known", () => {
    const loose = [row({ span_id: "b", kind: "task" }), row({ span_id: "a", kind: "task" })];
    expect(arrange(loose).tracks.map((track) => track.id)).toEqual(["b", "a"]);
  });

  it("keep a call whose task is unknown", () => {
    const { tracks } = arrange([row({ span_id: "l", kind: "llm", parent_id: "lost", start_ms: 0, end_ms: 1 })]);
    expect(tracks.map((track) => track.id)).toEqual(["l"]);
  });
});

it("a written task that its manager has given nobody is pending while the manager works, and ends with it (W27)", () => {
  const statusOf = (more: Partial<Row>): unknown =>
    arrange([row({ span_id: "m", kind: "task", agent: "Manager", start_ms: 0, work: [{ title: "Write a brief" }], ...more })]).tracks.map((track) => track.row.status);
  expect(statusOf({ status: "running" })).toEqual(["running", "pending"]);
  expect(statusOf({ status: "ok", end_ms: 900 })).toEqual(["ok", "ok"]);
});

describe("bands", () => {
  const rounds = [{ start_ms: 0, end_ms: 400, verdict: 'sent back: "shorter"' }, { start_ms: 400, end_ms: 900, verdict: "approved" }];
  const bandsOf = (...sentBack: string[]): readonly unknown[] =>
    arrange(ROWS.map((one) => (sentBack.includes(one.span_id) ? { ...one, rounds } : one))).bands.map(({ top, bottom }) => [top, bottom]);

  it("of a task that was sent back alone lie over its row (W23)", () => {
    const [, task] = arrange().tracks;
    expect(bandsOf("t")).toEqual([[task?.y, (task?.y ?? 0) + (task?.height ?? 0)]]);
  });

  it("of a phase lie over its rows once, though its tasks were done again with it", () => {
    expect(bandsOf("p", "t")).toEqual([[0, arrange().height]]);
  });
});

describe("a closed phase", () => {
  it("hides its tasks, keeps their bars and counts their errors", () => {
    const [phase, ...rest] = arrange(ROWS, ["p"]).tracks;
    expect(rest).toEqual([]);
    expect(phase?.errors).toBe(1);
    expect(phase?.marks.filter((mark) => mark.row.status === "error" && mark.shape === "tool").map((mark) => mark.row.span_id)).toEqual(["y"]);
  });
});

describe("marks", () => {
  const web = () => arrange().tracks[1]?.marks ?? [];

  it("are the attempts of a retried call, and the waits between them", () => {
    const shapes = web().filter((mark) => mark.shape === "attempt" || mark.shape === "backoff");
    expect(shapes.map((mark) => [mark.shape, mark.from, mark.to])).toEqual([
      ["attempt", 0, 200], ["backoff", 200, 310], ["attempt", 310, 500],
    ]);
  });

  it("are one bar for a call that needed one attempt", () => {
    const simple = ROWS.filter((one) => one.span_id !== "a1");
    expect(arrange(simple).tracks[1]?.marks.filter((mark) => mark.shape === "llm").length).toBe(1);
  });

  it("wait as long as the kernel said while the next attempt has not begun", () => {
    const waiting = ROWS.filter((one) => one.span_id !== "a2").map((one) =>
      one.span_id === "l" ? { ...one, end_ms: null, status: "running" as const } : one);
    const gap = arrange(waiting).tracks[1]?.marks.find((mark) => mark.shape === "backoff");
    expect([gap?.from, gap?.to]).toEqual([200, 300]);
  });

  it("put model calls above tools in the same lane, and other lanes below", () => {
    const top = (span: string): number => web().find((mark) => mark.row.span_id === span)?.top ?? NaN;
    expect(top("a1")).toBeLessThan(top("x"));
    expect(top("y")).toBe(top("x") + LANE_HEIGHT);
  });

  it("are open to the right while they run", () => {
    expect(web().find((mark) => mark.shape === "task")?.to).toBeNull();
  });

  it("show a handler's own time, because it has no calls", () => {
    const handler = arrange([row({ span_id: "h", kind: "task", start_ms: 0, end_ms: 5 })]).tracks[0];
    expect(handler?.marks.map((mark) => mark.shape)).toEqual(["work"]);
    const named = arrange([row({ span_id: "h", kind: "task", agent: "Handler", start_ms: 0, end_ms: 5 })]).tracks[0];
    expect(named?.marks.map((mark) => mark.shape)).toEqual(["work"]);
  });

  it("show a ghost for what has no time, and nothing for what was running unseen", () => {
    expect(arrange().tracks[2]?.marks.map((mark) => mark.shape)).toEqual(["ghost"]);
    const skipped = arrange([row({ span_id: "s", kind: "task", status: "skipped", end_ms: 7 })]).tracks[0];
    expect(skipped?.marks.map((mark) => [mark.shape, mark.from])).toEqual([["ghost", 7]]);
  });
});

it("gives a startup a row of its own, below what was planned, with a wait in it (E57)", () => {
  const startup = row({ span_id: "s", kind: "wait", parent_id: "run", name: "Starting the local model X", wait_kind: "startup", start_ms: 0, end_ms: 300 });
  const last = arrange([...ROWS, startup]).tracks.at(-1);
  expect([last?.id, last?.row.name, last?.depth]).toEqual(["s", "Starting the local model X", 0]);
  expect(last?.marks.map((mark) => [mark.shape, mark.from, mark.to])).toEqual([["wait", 0, 300]]);
});

it("keeps what did not change from one arrangement to the next", () => {
  const store = stored();
  const builder = new LayoutBuilder();
  const before = builder.build(store, new Set()).tracks.map((track) => track.marks);
  store.fold(delta(1, 2, { rows: [row({ span_id: "x", kind: "tool", parent_id: "u", start_ms: 500, end_ms: 901 })], run: run() }), 0);
  const after = builder.build(store, new Set()).tracks.map((track) => track.marks);
  expect(after[2]).toBe(before[2]);
  expect(after[1]).not.toBe(before[1]);
});

it("knows what is done, so that nobody is shown to wait for it", () => {
  const done = ROWS.map((one) => (one.span_id === "t" ? { ...one, status: "ok" as const, end_ms: 900 } : one));
  expect([...arrange(done, ["p"]).done]).toEqual(["web"]);
});

it("tells of some rows what they wait for and what waits for them, each once, as of all", () => {
  const layout = arrange([...ROWS, row({ span_id: "h", kind: "task", parent_id: "p", name: "check", status: "pending", depends_on: ["draft"] })]);
  const ways = (links: readonly { from: { id: string }; to: { id: string } }[]): string[] => links.map(({ from, to }) => `${from.id} ${to.id}`);
  const known = new Links(layout);
  expect(ways(known.all)).toEqual(["t g", "g h"]);
  expect(ways(known.of(["g", null]))).toEqual(["t g", "g h"]);
  expect(ways(known.of(["t", "g"]))).toEqual(["t g", "g h"]);
  expect(ways(known.of([null, "p"]))).toEqual([]);
});

describe("a pinned row", () => {
  const pinned = (ids: string[], closed: string[] = []) => new LayoutBuilder().build(stored({ rows: ROWS }), new Set(closed), null, new Set(ids));

  it("stands on top, with what is open below it, and nowhere else (W36)", () => {
    const task = pinned(["g"]);
    expect(task.tracks.map((track) => [track.id, track.depth])).toEqual([["g", 0], ["p", 0], ["t", 1]]);
    expect(task.pinnedHeight).toBe(task.tracks[0]?.height);
    const both = pinned(["p", "g"]);
    expect(both.tracks.map((track) => track.id)).toEqual(["p", "t", "g"]);
    expect(both.pinnedHeight).toBe(both.height);
  });

  it("stays where what it was in is closed, and where it is unknown it is nowhere (W36)", () => {
    expect(pinned(["g", "lost"], ["p"]).tracks.map((track) => track.id)).toEqual(["g", "p"]);
  });

  it("knows who handed the work on (W36)", () => {
    const rows = [...ROWS, row({ span_id: "d", kind: "delegation", parent_id: "u", start_ms: 500 }), row({ span_id: "w", kind: "task", parent_id: "d", start_ms: 500 })];
    const [worker] = new LayoutBuilder().build(stored({ rows }), new Set(), null, new Set(["w"])).tracks;
    expect([worker?.id, worker?.isWorker, worker?.parent, worker?.giver]).toEqual(["w", true, "t", "d"]);
  });
});
