import { describe, expect, it } from "vitest";
import { delta, row, ROWS, run, snapshot, stored } from "../testing/runs";
import { joinOverlapping, Store } from "./store";

describe("folding", () => {
  it("takes a snapshot, then the deltas that follow it", () => {
    const store = stored();
    const ended = row({ span_id: "t", kind: "task", parent_id: "p", name: "web", start_ms: 0, end_ms: 1200 });
    expect(store.fold(delta(1, 2, { rows: [ended], run: run({ tasks_done: 1 }) }), 1200)).toBe("folded");
    expect(store.row("t")).toBe(ended);
    expect(store.run.value?.tasks_done).toBe(1);
    expect(store.size).toBe(ROWS.length);
  });

  it("asks again when something is missing", () => {
    expect(new Store().fold(delta(0, 1), 0)).toBe("gap");
    expect(stored().fold(delta(4, 5), 0)).toBe("gap");
  });

  it("leaves out what it has", () => {
    const store = stored({ n: 7 });
    expect(store.fold(delta(5, 7), 0)).toBe("old");
    expect(store.fold(snapshot({ n: 6 }), 0)).toBe("old");
  });

  it("takes a delta that began before the snapshot in between, and counts its text once", () => {
    const store = stored();
    store.fold(delta(1, 3, { text: [["l", "Hel"]] }), 0);
    store.fold(snapshot({ n: 4 }), 0);
    expect(store.fold(delta(3, 6, { text: [["l", "lo"]] }), 0)).toBe("folded");
    expect(store.fold(delta(4, 7, { text: [["l", "lo"]] }), 0)).toBe("folded");
    expect(store.text("l")).toBe("Hello");
  });

  it("forgets one run when another begins", () => {
    const store = stored({ n: 9 });
    store.fold(delta(9, 10, { text: [["l", "old"]] }), 0);
    store.fold(snapshot({ n: 1, run: run({ run_id: "r2" }), rows: [] }), 0);
    expect([store.size, store.text("l"), store.n]).toEqual([0, "", 1]);
  });
});

describe("the clock", () => {
  it("runs between messages while the run does", () => {
    const store = stored({ run: run({ elapsed_ms: 1000 }) }, 50_000);
    expect(store.elapsed(50_700)).toBe(1700);
  });

  it("does not jump back when a message was late", () => {
    const store = stored({ run: run({ elapsed_ms: 1000 }) }, 50_000);
    store.fold(delta(1, 2, { run: run({ elapsed_ms: 2000 }) }), 51_900);
    expect(store.elapsed(51_900)).toBe(2900);
  });

  it("stands still at the end, at what the kernel said", () => {
    const store = stored({ run: run({ status: "completed", elapsed_ms: 1234 }) }, 50_000);
    expect(store.elapsed(99_000)).toBe(1234);
    expect(store.isTicking).toBe(false);
  });

  it("stands still when nobody is there any more", () => {
    const store = stored({ run: run({ elapsed_ms: 1000 }) }, 50_000);
    store.freeze(50_500);
    expect(store.elapsed(99_000)).toBe(1500);
    expect(store.isTicking).toBe(false);
  });
});

describe("the tree", () => {
  it("knows in which row a span is drawn", () => {
    const store = stored();
    expect(["a1", "x", "u", "t", "p"].map((span) => store.ownerOf(span))).toEqual(["t", "t", "t", "t", "p"]);
  });

  it("keeps an orphan at its topmost known ancestor", () => {
    const store = stored({ rows: [row({ span_id: "l", kind: "llm", parent_id: "lost" }), row({ span_id: "a", kind: "attempt", parent_id: "l" })] });
    expect(store.ownerOf("a")).toBe("l");
  });

  it("lists everything below a span, parents first, and survives a circle", () => {
    expect(stored().descendants("t").map((found) => found.span_id)).toEqual(["u", "l", "x", "y", "a1", "a2"]);
    const circle = stored({ rows: [row({ span_id: "a", kind: "turn", parent_id: "b" }), row({ span_id: "b", kind: "turn", parent_id: "a" })] });
    expect(circle.descendants("a").map((found) => found.span_id)).toEqual(["b"]);
    expect(circle.ownerOf("a")).toBeDefined();
  });

  it("changes the revision of a task when something inside it does, and no other's", () => {
    const store = stored();
    const before = [store.revision("t"), store.revision("g")];
    store.fold(delta(1, 2, { rows: [row({ span_id: "x", kind: "tool", parent_id: "u", start_ms: 500, end_ms: 900 })] }), 0);
    expect([store.revision("t"), store.revision("g")]).toEqual([(before[0] as number) + 1, before[1]]);
  });
});

it("puts a reply together from what was asked for and what streamed in", () => {
  expect(joinOverlapping("", "Once upon")).toBe("Once upon");
  expect(joinOverlapping("Once", "Once upon")).toBe("Once upon");
  expect(joinOverlapping("Once upon a", "on a time")).toBe("Once upon a time");
  expect(joinOverlapping("Once upon", " a time")).toBe("Once upon a time");
  expect(joinOverlapping("Once upon", "")).toBe("Once upon");
});

it("knows when details were loaded before the span ended", () => {
  const store = stored({ rows: [row({ span_id: "l", kind: "llm", status: "running" })] });
  expect(store.hasStaleDetails("l")).toBe(true);
  store.keepDetails({ span_id: "l", messages: [] });
  expect(store.hasStaleDetails("l")).toBe(false);
  store.fold(delta(1, 2, { rows: [row({ span_id: "l", kind: "llm", status: "ok" })] }), 0);
  expect(store.hasStaleDetails("l")).toBe(true);
});

it("knows when a call inside a span ended after its details were loaded", () => {
  const store = stored({ rows: [row({ span_id: "t", kind: "task", status: "running" })] });
  store.keepDetails({ span_id: "t", messages: [] });
  store.fold(delta(1, 2, { rows: [row({ span_id: "l", kind: "llm", parent_id: "t", status: "running" })] }), 0);
  expect(store.hasStaleDetails("t")).toBe(false);
  store.fold(delta(2, 3, { rows: [row({ span_id: "l", kind: "llm", parent_id: "t", end_ms: 5 })] }), 0);
  expect(store.hasStaleDetails("t")).toBe(true);
});
