import { describe, expect, it } from "vitest";
import { delta, row, ROWS, run, snapshot, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { joinPieces, Store } from "./store";

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
    expect(store.fold(delta(3, 6, { text: [["l", "lo", 3]] }), 0)).toBe("folded");
    expect(store.fold(delta(4, 7, { text: [["l", "o", 4]] }), 0)).toBe("folded");
    expect(store.text("l")).toBe("Hello");
  });

  it("forgets one run when another begins", () => {
    const store = stored({ n: 9 });
    store.fold(delta(9, 10, { text: [["l", "old"]] }), 0);
    store.fold(snapshot({ n: 1, run: run({ run_id: "r2" }), rows: [] }), 0);
    expect([store.size, store.text("l"), store.n]).toEqual([0, "", 1]);
  });
});

describe("rows that are in themselves", () => {
  const inside = (span_id: string, parent_id: string | null): Row => row({ span_id, kind: "task", parent_id });
  const rootOf = (store: Store, span: string): number => {
    let steps = 0;
    for (let at = store.row(span)?.parent_id; at && steps < 10_000; at = store.row(at)?.parent_id) steps += 1;
    return steps;
  };

  it("are taken out of what they are in", () => {
    const store = stored({ rows: [inside("a", "c"), inside("b", "a"), inside("c", "b"), inside("self", "self")] });
    expect(["a", "b", "c", "self"].map((span) => store.row(span)?.parent_id)).toEqual([null, "a", "b", null]);
    expect(store.children("c")).toEqual([]);
    store.fold(delta(1, 2, { rows: [inside("x", "y"), inside("y", "x")] }), 0);
    expect(rootOf(store, "x") + rootOf(store, "y")).toBe(1);
  });

  it.each([1, -1])("and those that are too deep, in whatever order they come (%i)", (order) => {
    const chain = Array.from({ length: 2000 }, (_, k) => inside(`${k}`, k ? `${k - 1}` : null));
    const store = stored({ rows: order > 0 ? chain : chain.reverse() });
    expect(Math.max(...chain.map((each) => rootOf(store, each.span_id)))).toBe(300);
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

  it("tells which spans changed after a position, and that all may have after a snapshot", () => {
    const store = stored();
    const before = store.position;
    const x = ROWS.find((one) => one.span_id === "x") as Row;
    store.fold(delta(1, 2, { rows: [{ ...x, end_ms: 801 }] }), 0);
    expect(store.changesSince(before)).toEqual(["x"]);
    expect(store.changesSince(store.position)).toEqual([]);
    store.fold(snapshot({ n: 3 }), 0);
    expect(store.changesSince(before)).toBeNull();
    expect(store.changesSince(-1)).toBeNull();
  });

  it("has every row looked at anew when a row comes after what is in it", () => {
    const store = stored({ rows: [row({ span_id: "l", kind: "llm", parent_id: "t" })] });
    const before = store.position;
    store.fold(delta(1, 2, { rows: [row({ span_id: "t", kind: "task" })] }), 0);
    expect(store.changesSince(before)).toBeNull();
    expect(store.ownerOf("l")).toBe("t");
  });
});

it("puts a reply together from parts that say where they begin", () => {
  const piece = (start: number, text: string) => ({ start, text });
  expect(joinPieces(piece(0, ""), piece(0, "Once upon"))).toEqual(piece(0, "Once upon"));
  expect(joinPieces(piece(0, "Once upon a"), piece(5, "upon a time"))).toEqual(piece(0, "Once upon a time"));
  expect(joinPieces(piece(5, "upon"), piece(0, "Once upon a time"))).toEqual(piece(0, "Once upon a time"));
  expect(joinPieces(piece(0, "Once"), piece(4, " upon"))).toEqual(piece(0, "Once upon"));
  expect(joinPieces(piece(0, "Once"), piece(10, "a time"))).toEqual(piece(10, "a time"));
});

it("joins the end of a long reply that came with the details and what streamed in", () => {
  const store = stored({ rows: [row({ span_id: "l", kind: "llm", status: "running" })], text: [["l", "a time", 10]] });
  expect(store.text("l")).toBe("…a time");
  store.keepDetails({ span_id: "l", messages: [], output: "upon a", lengths: { output: 11 } });
  store.fold(delta(1, 2, { text: [["l", "time there", 12]] }), 0);
  expect(store.text("l")).toBe("…upon a time there");
});

it("puts a long text together from its pieces, and drops one that does not follow", () => {
  const store = stored();
  const piece = (from: number, text: string) => store.keepPiece({ span_id: "l", field: "output", from, text, length: 9 });
  expect(store.textOf("l", "output", "abc")).toBe("abc");
  piece(3, "def");
  piece(3, "def");
  piece(7, "h");
  expect(store.textOf("l", "output", "abc")).toBe("abcdef");
  piece(6, "ghi");
  expect(store.textOf("l", "output", "abc")).toBe("abcdefghi");
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

it("has a clock that does not run ahead of what has come and is not taken in yet", () => {
  const store = stored({}, 1000);
  expect(store.elapsed(6000)).toBe(6000);
  store.heldAt = 2500;
  expect(store.elapsed(6000)).toBe(2500);
  store.heldAt = null;
  expect(store.elapsed(6000)).toBe(6000);
});
