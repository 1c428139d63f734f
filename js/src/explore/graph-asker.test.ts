// Holds W32 for the questions about the graph: when the kernel is asked, and asked again.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { KernelConnection } from "../kernel/connection";
import { RECORDED } from "../testing/recorded";
import { delta, row } from "../testing/runs";
import { GraphAsker } from "./graph-asker";

let connection: KernelConnection;
let asker: GraphAsker;
let asked = 0;
const report = RECORDED.find(({ name }) => name === "report");
if (!report) throw new Error("no such run");
const { snapshot, saved } = report;

beforeEach(() => {
  vi.useFakeTimers();
  asked = 0;
  connection = new KernelConnection((message) => void (asked += Number(message.kind === "graph")));
  connection.receive(snapshot);
  asker = new GraphAsker(connection.store, connection);
  pass(0);
});
afterEach(() => {
  asker.end();
  connection.close();
  vi.useRealTimers();
});

function pass(ms: number): void {
  vi.advanceTimersByTime(ms);
  asker.look();
  vi.advanceTimersByTime(0);
}

const answer = (graphs: unknown = saved.graphs): void => {
  connection.receive({ kind: "graph", n: 1, graphs });
  asker.look();
};

it("asks once where the answer comes, and again, ever more rarely, where it does not", () => {
  expect(asked).toBe(1);
  vi.advanceTimersByTime(3000);
  expect(asked).toBe(1);
  vi.advanceTimersByTime(2000);
  expect(asked).toBe(2);
  vi.advanceTimersByTime(6000);
  expect(asked).toBe(2);
  vi.advanceTimersByTime(4000);
  expect(asked).toBe(3);
  answer();
  vi.advanceTimersByTime(200_000);
  expect(asked).toBe(3);
});

it("asks again where the answer cannot be read", () => {
  answer({ aggregated: 7 });
  expect([asked, asker.model(false)]).toEqual([1, null]);
  vi.advanceTimersByTime(6000);
  expect(asked).toBe(2);
});

it("asks again when the kernel is back", () => {
  connection.suspectLoss();
  pass(60_000);
  expect(asked).toBe(1);
  connection.receive({ kind: "pong", nonce: 1 });
  pass(0);
  pass(1000);
  expect(asked).toBe(2);
});

it("asks again for what came before the first graph did", () => {
  const { n } = connection.store;
  connection.receive(delta(n, n + 1, { run: snapshot.run as never, rows: [row({ span_id: "new", kind: "task", name: "new", start_ms: 1 })] }));
  pass(300);
  expect(connection.store.row("new")).toBeDefined();
  answer();
  pass(1000);
  expect(asked).toBe(2);
});

it("asks again once work that was handed on is answered (W149)", () => {
  answer();
  const tell = (status: "running" | "ok"): void => {
    const { n } = connection.store;
    const work = row({ span_id: "handed", kind: "delegation", name: "Ana", parent_id: null, status, start_ms: 1, end_ms: status === "ok" ? 2 : null });
    connection.receive(delta(n, n + 1, { run: snapshot.run as never, rows: [work] }));
    pass(300);
  };
  tell("running");
  pass(1000);
  const before = asked;
  tell("ok");
  pass(1000);
  expect(asked).toBe(before + 1);
});
