// Holds W13 and W16: buttons promise nothing before the kernel has answered; views share one line.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { delta, row, run, snapshot, wire } from "../testing/runs";
import type { Outgoing } from "../wire/messages";
import { KernelConnection } from "./connection";

let sent: Outgoing[];
let connection: KernelConnection;
let time: number;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  time = 0;
  connection = new KernelConnection((message) => sent.push(message), () => time);
});
afterEach(() => vi.useRealTimers());

const kinds = (): string[] => sent.map((message) => message.kind);

describe("meeting", () => {
  it("says hello with what it has, and asks whether somebody answers", () => {
    connection.catchUp();
    expect(sent).toEqual([{ kind: "hello", have: -1 }, { kind: "ping", nonce: 1 }]);
  });

  it("repeats its hello until there is an answer, because comms may wait for a busy cell", () => {
    connection.catchUp();
    connection.receive({ kind: "pong", nonce: 1 });
    vi.advanceTimersByTime(250 + 500);
    expect(kinds().filter((kind) => kind === "hello").length).toBe(3);
    connection.receive(wire(snapshot({ n: 5 })));
    vi.advanceTimersByTime(1e7);
    expect([kinds().filter((kind) => kind === "hello").length, vi.getTimerCount()]).toEqual([3, 0]);
  });

  it("takes a delta without news for an answer", () => {
    connection.receive(wire(snapshot({ n: 5 })));
    connection.catchUp();
    expect(sent[0]).toEqual({ kind: "hello", have: 5 });
    connection.receive({ kind: "pong", nonce: 1 });
    connection.receive(delta(5, 5));
    vi.advanceTimersByTime(1e7);
    expect(kinds()).toEqual(["hello", "ping"]);
  });

  it("stops saying hello in the end", () => {
    connection.catchUp();
    vi.advanceTimersByTime(1e7);
    expect(kinds().filter((kind) => kind === "hello").length).toBeLessThan(12);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("asks nobody anything about a run that is over, except for what is missing", () => {
    connection.receive(wire(snapshot({ run: run({ status: "completed" }) })));
    connection.catchUp();
    expect(kinds()).toEqual(["hello"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("says hello again after a gap, but not with every message of it", () => {
    connection.receive(wire(snapshot({ n: 1 })));
    time = 5000;
    for (let n = 3; n < 8; n += 1) connection.receive(delta(n, n + 1));
    expect(sent).toEqual([{ kind: "hello", have: 1 }]);
  });

  it("leaves what the cell shows at its end to the page", () => {
    connection.receive(wire(snapshot()));
    connection.receive({ kind: "ended", outputs: [] });
    expect(connection.store.fault.value).toBeNull();
  });

  it("shows why a message could not be read, until one can", () => {
    connection.receive({ kind: "snapshot", version: 9 });
    expect(connection.store.fault.value).toContain("version 9");
    connection.receive(wire(snapshot()));
    expect(connection.store.fault.value).toBeNull();
  });
});

describe("Stop", () => {
  beforeEach(() => {
    connection.receive(wire(snapshot()));
    connection.catchUp();
    connection.receive(delta(1, 1));
    sent.length = 0;
  });

  it("works only after a pong", () => {
    connection.stop();
    expect(kinds()).toEqual([]);
    connection.receive({ kind: "pong", nonce: 1 });
    expect(connection.control.value).toBe("live");
    connection.stop();
    expect(kinds()).toEqual(["stop"]);
    expect(connection.isStopping.value).toBe(true);
  });

  it("is sent once", () => {
    connection.receive({ kind: "pong", nonce: 1 });
    connection.stop();
    connection.stop();
    expect(kinds()).toEqual(["stop"]);
  });

  it("gives up hope after a second and a half, and takes it up again with a late pong", () => {
    vi.advanceTimersByTime(1500);
    expect(connection.control.value).toBe("silent");
    connection.receive({ kind: "pong", nonce: 1 });
    expect(connection.control.value).toBe("live");
  });

  it("asks again, ever more rarely, because a first message may come too early to be heard", () => {
    vi.advanceTimersByTime(250 + 500);
    expect(sent).toEqual([{ kind: "ping", nonce: 2 }, { kind: "ping", nonce: 3 }]);
    connection.receive({ kind: "pong", nonce: 2 });
    vi.advanceTimersByTime(1e7);
    expect([kinds().length, vi.getTimerCount()]).toEqual([2, 0]);
  });

  it("gives up asking in the end", () => {
    vi.advanceTimersByTime(1e7);
    expect([connection.control.value, vi.getTimerCount()]).toEqual(["silent", 0]);
    expect(kinds().length).toBeLessThan(10);
  });

  it("is asked for by all views together", () => {
    connection.catchUp();
    connection.catchUp();
    expect(kinds()).toEqual(["hello", "hello"]);
  });
});

describe("details", () => {
  const running = row({ span_id: "l", kind: "llm", status: "running" });
  const asked = (): Outgoing[] => sent.filter((message) => message.kind === "details");
  beforeEach(() => connection.receive(wire(snapshot({ rows: [running] }))));

  it("are asked for once, and again when the span has ended", () => {
    connection.wantDetails("l");
    connection.wantDetails("l");
    connection.receive({ kind: "details", span_id: "l", messages: [] });
    connection.wantDetails("l");
    expect(asked().length).toBe(1);
    connection.receive(delta(1, 2, { rows: [{ ...running, status: "ok" }] }));
    connection.wantDetails("l");
    expect(asked().length).toBe(2);
  });

  it("are called late when they don't come", () => {
    connection.wantDetails("l");
    vi.advanceTimersByTime(2000);
    expect(connection.overdueDetails.value).toBe("l");
    connection.receive({ kind: "details", span_id: "l", messages: [] });
    expect(connection.overdueDetails.value).toBeNull();
  });
});

describe("a kernel that is gone", () => {
  it("is told by the comm, and stops the clock", () => {
    connection.receive(wire(snapshot()));
    time = 300;
    connection.markLost();
    expect([connection.isLost.value, connection.control.value, connection.store.isTicking]).toEqual([true, "silent", false]);
  });

  it("is believed to be back when it says anything", () => {
    connection.receive(wire(snapshot()));
    connection.markLost();
    connection.receive(delta(1, 2));
    expect([connection.isLost.value, connection.store.isTicking]).toEqual([false, true]);
  });

  it("is asked when its line changed, and believed when it answers", () => {
    connection.receive(wire(snapshot()));
    connection.suspectLoss();
    expect([connection.isLost.value, sent.at(-1)]).toEqual([true, { kind: "ping", nonce: 1 }]);
    connection.receive({ kind: "pong", nonce: 1 });
    expect(connection.isLost.value).toBe(false);
  });

  it("is noticed when sending fails", () => {
    const dead = new KernelConnection(() => {
      throw new Error("disposed");
    });
    dead.receive(wire(snapshot()));
    dead.catchUp();
    expect(dead.isLost.value).toBe(true);
  });

  it("is no loss after the end", () => {
    connection.receive(wire(snapshot({ run: run({ status: "failed" }) })));
    connection.markLost();
    expect(connection.isLost.value).toBe(false);
  });
});

it("leaves no timer behind when the run ends", () => {
  connection.receive(wire(snapshot()));
  connection.catchUp();
  connection.wantDetails("l");
  connection.receive(delta(1, 2, { run: run({ status: "completed" }) }));
  expect(vi.getTimerCount()).toBe(0);
});
