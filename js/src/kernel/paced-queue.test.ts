// @vitest-environment jsdom
// A page that is slower than its kernel shows what is now, not what was.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { delta, run, snapshot, wire } from "../testing/runs";
import { KernelConnection } from "./connection";

let connection: KernelConnection;
let time: number;

describe("a page that is slower than its kernel", () => {
  /** Drawing takes so long. */
  let drawMs: number;
  let drawn: number[];

  beforeEach(() => {
    vi.useFakeTimers();
    time = 0;
    connection = new KernelConnection(() => undefined, () => time);
    drawMs = 40;
    drawn = [];
    connection.receive(wire(snapshot({ n: 0 })));
    connection.store.version.subscribe(() => {
      drawn.push(connection.store.n);
      time += drawMs;
    });
    drawn = [];
  });

  afterEach(() => vi.useRealTimers());

  const pass = (ms: number): void => {
    time += ms;
    vi.advanceTimersByTime(ms);
  };

  it("draws what came while it was busy as one change", () => {
    for (let n = 0; n < 5; n += 1) connection.receive(delta(n, n + 1));
    expect([drawn, connection.store.n]).toEqual([[1], 1]);
    pass(2000);
    expect([drawn, connection.store.n]).toEqual([[1, 5], 5]);
  });

  it("rests for as long as it has drawn, and then takes part again", () => {
    connection.receive(delta(0, 1));
    connection.receive(delta(1, 2));
    pass(30);
    expect(drawn).toEqual([1]);
    pass(300);
    expect(drawn).toEqual([1, 2]);
    pass(2000);
    connection.receive(delta(2, 3));
    expect(drawn).toEqual([1, 2, 3]);
  });

  it("shows how the run ended, and leaves nothing behind", () => {
    connection.receive(delta(0, 1));
    connection.receive(delta(1, 2, { run: run({ status: "completed" }) }));
    pass(2000);
    expect([connection.store.isOver, drawn, vi.getTimerCount()]).toEqual([true, [1, 2], 0]);
  });

  it("says what it knew when the kernel died", () => {
    connection.receive(delta(0, 1));
    connection.receive(delta(1, 2));
    connection.markLost();
    expect([connection.store.n, connection.isLost.value]).toEqual([2, true]);
  });

  it("draws every message where drawing is quick", () => {
    drawMs = 2;
    for (let n = 0; n < 5; n += 1) connection.receive(delta(n, n + 1));
    expect(drawn).toEqual([1, 2, 3, 4, 5]);
  });
});
