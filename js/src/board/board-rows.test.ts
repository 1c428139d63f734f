import { describe, expect, it } from "vitest";
import { BoardConnection } from "./board-connection";
import { type BoardRow, filterRuns, NO_FILTER, readBoardRows, readPicture, sortRuns } from "./board-rows";

const DAY = 86_400_000;
const NOW = 100 * DAY;
const rowOf = (run_id: string, facts: Partial<BoardRow> = {}): BoardRow => ({ run_id, status: "completed", start_ms: NOW, family: run_id, name: run_id, ...facts });
const ids = (rows: readonly BoardRow[]): string[] => rows.map(({ run_id }) => run_id);

describe("rows of the board", () => {
  it("are those that are some, without what is of another type", () => {
    const rows = readBoardRows([null, 7, { run_id: "a" }, { run_id: "b", status: "failed", start_ms: 1, name: 5, cost: "much", tokens: 3, scores: [["s", "1", 1], [2], "x"], is_forkable: "yes" }]);
    expect(rows).toEqual([{ run_id: "b", status: "failed", start_ms: 1, family: "b", tokens: 3, scores: [["s", "1", 1]] }]);
    expect(readBoardRows("no rows")).toEqual([]);
  });

  it("are found by every word, in quotes together, and by state, age and family", () => {
    const rows = [rowOf("tides", { inputs: "topic: sea foam" }), rowOf("moons", { status: "failed", start_ms: NOW - 9 * DAY, family: "tides" })];
    const find = (some: Partial<typeof NO_FILTER>): string[] => ids(filterRuns(rows, { ...NO_FILTER, ...some }, NOW));
    expect(find({ words: "FOAM sea" })).toEqual(["tides"]);
    expect(find({ words: '"foam sea"' })).toEqual([]);
    expect(find({ words: "failed" })).toEqual(["moons"]);
    expect(find({ status: "failed" })).toEqual(["moons"]);
    expect(find({ days: 7 })).toEqual(["tides"]);
    expect(find({ family: "tides" })).toEqual(["tides", "moons"]);
  });

  it("are sorted with the unknown last, whichever way", () => {
    const rows = [rowOf("a", { cost: 1 }), rowOf("b"), rowOf("c", { cost: 3 })];
    expect(sortRuns(rows, "cost", true).map(({ row }) => row.run_id)).toEqual(["c", "a", "b"]);
    expect(sortRuns(rows, "cost", false).map(({ row }) => row.run_id)).toEqual(["a", "c", "b"]);
  });

  it("stand by families, each run once, also where a file says that they go round in a circle", () => {
    const rows = [
      rowOf("origin", { start_ms: 1 }), rowOf("other", { start_ms: 2 }), rowOf("fork", { start_ms: 3, family: "origin", parent: "origin" }),
      rowOf("again", { start_ms: 4, family: "origin", parent: "fork" }), rowOf("late", { start_ms: 5, family: "forgotten", parent: "forgotten" }),
      rowOf("x", { start_ms: 0, family: "y", parent: "z" }), rowOf("z", { start_ms: 0, family: "y", parent: "x" }),
    ];
    const placed = sortRuns(rows, "family", false).map(({ row, depth }) => [row.run_id, depth]);
    expect(placed.slice(0, 5)).toEqual([["late", 0], ["origin", 0], ["fork", 1], ["again", 2], ["other", 0]]);
    expect(placed.map(([id]) => id).sort()).toEqual(ids(rows).sort());
  });

  it("have pictures of bars that are in them", () => {
    expect(readPicture("0,0,500,ok;1,500,1000,error")).toEqual([{ lane: 0, from: 0, to: 500, state: "ok" }, { lane: 1, from: 500, to: 1000, state: "error" }]);
    expect(readPicture("0,5,3,ok;99,0,1,ok;0,0,1,<b>;,,,;x")).toEqual([]);
    expect(readPicture(undefined)).toEqual([]);
  });
});

describe("the board's connection", () => {
  it("takes changes in, once it knows the runs, and says what went wrong", async () => {
    const sent: Record<string, unknown>[] = [];
    const board = new BoardConnection((message) => sent.push(message));
    board.receive({ kind: "changed", rows: [rowOf("early")], gone: [] });
    expect(board.rows.value).toEqual([]);
    board.receive({ kind: "runs", rows: [rowOf("a"), rowOf("b")] });
    board.receive({ kind: "changed", rows: [rowOf("c"), rowOf("a", { status: "failed" })], gone: ["b"] });
    expect(board.rows.value.map(({ run_id, status }) => [run_id, status])).toEqual([["c", "completed"], ["a", "failed"]]);
    const asked = board.ask("forget", { run_id: "a" });
    board.receive({ kind: "failed", text: "It goes on.", nonce: sent.at(-1)?.nonce });
    await expect(asked).rejects.toThrow("It goes on.");
    const lost = board.ask("open", { run_id: "a" });
    board.markLost();
    await expect(lost).rejects.toThrow("The kernel is gone.");
    board.close();
    expect(sent.at(-1)).toEqual({ kind: "bye" });
  });
});
