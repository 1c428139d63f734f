// Holds W13 and W16: buttons promise nothing before the kernel has answered; views share one line.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { delta, row, run, snapshot, wire } from "../testing/runs";
import type { Outgoing } from "../wire/messages";
import { Link } from "./connection";

let sent: Outgoing[];
let link: Link;
let time: number;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  time = 0;
  link = new Link((message) => sent.push(message), () => time);
});
afterEach(() => vi.useRealTimers());

const kinds = (): string[] => sent.map((message) => message.kind);

describe("meeting", () => {
  it("says hello with what it has, and asks whether somebody answers", () => {
    link.greet();
    expect(sent).toEqual([{ kind: "hello", have: -1 }, { kind: "ping", nonce: 1 }]);
  });

  it("draws from the synced snapshot first", () => {
    link.adopt(wire(snapshot({ n: 5 })));
    link.greet();
    expect(sent[0]).toEqual({ kind: "hello", have: 5 });
    expect(link.store.size).toBeGreaterThan(0);
  });

  it("does not mind a trait that is still empty", () => {
    link.adopt({});
    expect(link.store.fault.value).toBeNull();
  });

  it("asks nobody anything about a run that is over, except for what is missing", () => {
    link.adopt(wire(snapshot({ run: run({ status: "completed" }) })));
    link.greet();
    expect(kinds()).toEqual(["hello"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("says hello again after a gap, but not with every message of it", () => {
    link.receive(wire(snapshot({ n: 1 })));
    time = 5000;
    for (let n = 3; n < 8; n += 1) link.receive(delta(n, n + 1));
    expect(sent).toEqual([{ kind: "hello", have: 1 }]);
  });

  it("shows why a message could not be read, until one can", () => {
    link.receive({ kind: "snapshot", version: 9 });
    expect(link.store.fault.value).toContain("version 9");
    link.receive(wire(snapshot()));
    expect(link.store.fault.value).toBeNull();
  });
});

describe("Stop", () => {
  beforeEach(() => {
    link.receive(wire(snapshot()));
    link.greet();
    sent.length = 0;
  });

  it("works only after a pong", () => {
    link.stop();
    expect(kinds()).toEqual([]);
    link.receive({ kind: "pong", nonce: 1 });
    expect(link.control.value).toBe("live");
    link.stop();
    expect(kinds()).toEqual(["stop"]);
    expect(link.isStopping.value).toBe(true);
  });

  it("is sent once", () => {
    link.receive({ kind: "pong", nonce: 1 });
    link.stop();
    link.stop();
    expect(kinds()).toEqual(["stop"]);
  });

  it("gives up hope after a second and a half, and takes it up again with a late pong", () => {
    vi.advanceTimersByTime(1500);
    expect(link.control.value).toBe("silent");
    link.receive({ kind: "pong", nonce: 1 });
    expect(link.control.value).toBe("live");
  });

  it("asks again, ever more rarely, because a first message may come too early to be heard", () => {
    vi.advanceTimersByTime(250 + 500);
    expect(sent).toEqual([{ kind: "ping", nonce: 2 }, { kind: "ping", nonce: 3 }]);
    link.receive({ kind: "pong", nonce: 2 });
    vi.advanceTimersByTime(1e7);
    expect([kinds().length, vi.getTimerCount()]).toEqual([2, 0]);
  });

  it("gives up asking in the end", () => {
    vi.advanceTimersByTime(1e7);
    expect([link.control.value, vi.getTimerCount()]).toEqual(["silent", 0]);
    expect(kinds().length).toBeLessThan(10);
  });

  it("is asked for by all views together", () => {
    link.greet();
    link.greet();
    expect(kinds()).toEqual(["hello", "hello"]);
  });
});

describe("details", () => {
  const running = row({ span_id: "l", kind: "llm", status: "running" });
  const asked = (): Outgoing[] => sent.filter((message) => message.kind === "details");
  beforeEach(() => link.receive(wire(snapshot({ rows: [running] }))));

  it("are asked for once, and again when the span has ended", () => {
    link.wantDetails("l");
    link.wantDetails("l");
    link.receive({ kind: "details", span_id: "l", messages: [] });
    link.wantDetails("l");
    expect(asked().length).toBe(1);
    link.receive(delta(1, 2, { rows: [{ ...running, status: "ok" }] }));
    link.wantDetails("l");
    expect(asked().length).toBe(2);
  });

  it("are called late when they don't come", () => {
    link.wantDetails("l");
    vi.advanceTimersByTime(2000);
    expect(link.late.value).toBe("l");
    link.receive({ kind: "details", span_id: "l", messages: [] });
    expect(link.late.value).toBeNull();
  });
});

describe("a kernel that is gone", () => {
  it("is told by the comm, and stops the clock", () => {
    link.receive(wire(snapshot()));
    time = 300;
    link.lose();
    expect([link.isGone.value, link.control.value, link.store.isTicking]).toEqual([true, "silent", false]);
  });

  it("is believed to be back when it says anything", () => {
    link.receive(wire(snapshot()));
    link.lose();
    link.receive(delta(1, 2));
    expect([link.isGone.value, link.store.isTicking]).toEqual([false, true]);
  });

  it("is asked when its line changed, and believed when it answers", () => {
    link.receive(wire(snapshot()));
    link.doubt();
    expect([link.isGone.value, sent.at(-1)]).toEqual([true, { kind: "ping", nonce: 1 }]);
    link.receive({ kind: "pong", nonce: 1 });
    expect(link.isGone.value).toBe(false);
  });

  it("is noticed when sending fails", () => {
    const dead = new Link(() => {
      throw new Error("disposed");
    });
    dead.receive(wire(snapshot()));
    dead.greet();
    expect(dead.isGone.value).toBe(true);
  });

  it("is no loss after the end", () => {
    link.receive(wire(snapshot({ run: run({ status: "failed" }) })));
    link.lose();
    expect(link.isGone.value).toBe(false);
  });
});

it("leaves no timer behind when the run ends", () => {
  link.receive(wire(snapshot()));
  link.greet();
  link.wantDetails("l");
  link.receive(delta(1, 2, { run: run({ status: "completed" }) }));
  expect(vi.getTimerCount()).toBe(0);
});
