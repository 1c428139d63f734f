// Holds W8: a startup in which nothing else went on is folded, and times stay true.

import { describe, expect, it } from "vitest";
import { row, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { foldRun, idleTimes } from "./folds";
import { heatColumns, heatOf } from "./heat";
import { bringIn, type Extent, fitRun, followEnd, pan, type Stretch, ticks, toPixel, toTime, zoom } from "./time-scale";

const WIDTH = 1000;
const extent = (end: number, more: Partial<Extent> = {}): Extent => ({ end, width: WIDTH, margin: 20, isOver: true, ...more });
const STARTUP: Stretch = { from: 5, to: 8005 };

describe("idle times", () => {
  const startup = (from: number, to: number | null): Row =>
    row({ span_id: `s${from}`, kind: "wait", wait_kind: "startup", name: "Starting", start_ms: from, end_ms: to, status: to === null ? "running" : "ok" });
  const call = (from: number, to: number | null, more: Partial<Row> = {}): Row =>
    row({ span_id: `c${from}`, kind: "llm", parent_id: "t", start_ms: from, end_ms: to, status: to === null ? "running" : "ok", ...more });
  const task = row({ span_id: "t", kind: "task", agent: "Writer", status: "ok", start_ms: 0, end_ms: 9000 });
  const found = (...rows: Row[]): Stretch[] => idleTimes(stored({ rows: [task, ...rows] }));

  it("are those of a startup, whose tasks only wait", () => {
    expect(found(startup(5, 8005), call(8005, 9000))).toEqual([STARTUP]);
    expect(found(call(0, 9000))).toEqual([]);
  });

  it("leave out when anything else is done, or a person is asked", () => {
    expect(found(startup(0, 8000), call(3000, 5000))).toEqual([{ from: 0, to: 3000 }, { from: 5000, to: 8000 }]);
    expect(found(startup(0, 8000), call(1000, null))).toEqual([{ from: 0, to: 1000 }]);
    expect(found(startup(0, 8000), call(3000, 9000, { kind: "review" }))).toEqual([{ from: 0, to: 3000 }]);
    const handler = row({ span_id: "h", kind: "task", agent: "Handler", status: "ok", start_ms: 2000, end_ms: 8500 });
    expect(found(startup(0, 8000), handler)).toEqual([{ from: 0, to: 2000 }]);
  });

  it("are one where startups go on side by side, or one after the other", () => {
    expect(found(startup(0, 4000), startup(1000, 6000), startup(6000, 8000), call(8000, 9000))).toEqual([{ from: 0, to: 8000 }]);
  });

  it("have no startup that goes on, and none after which nothing was done, or rows are missing", () => {
    expect(found(call(0, 1000), startup(1000, null))).toEqual([]);
    expect(found(startup(0, 8000))).toEqual([]);
    const store = stored({ rows: [task, startup(0, 8000), call(8000, 9000)] });
    expect(idleTimes(store)).toHaveLength(1);
    store.leftOut.value = { rows: 3, details: 0 };
    expect(idleTimes(store)).toEqual([]);
  });
});

describe("a folded run", () => {
  const window = foldRun([STARTUP], extent(10_005));
  const at = (ms: number): number => toPixel(window, WIDTH, ms);

  it("gives the width to what was done", () => {
    expect(window.folds).toHaveLength(1);
    expect(at(8005) - at(5)).toBeCloseTo(104);
    expect(at(10_005)).toBeCloseTo(980);
    expect(at(10_005) - at(8005)).toBeGreaterThan(870);
  });

  it("has each time in one place, and each place at one time", () => {
    const runs: [Stretch[], number][] = [
      [[STARTUP], 10_005], [[{ from: 0, to: 9_000 }], 9_001], [[{ from: 0, to: 4_000 }, { from: 5_000, to: 9_000 }], 10_000], [[], 500], [[{ from: 700, to: 60_000 }], 61_000],
    ];
    for (const [idle, end] of runs) {
      const folded = foldRun(idle, extent(end));
      let before = -Infinity;
      for (let k = -50; k <= 1050; k += 1) {
        const ms = (folded.to * k) / 1000;
        const x = toPixel(folded, WIDTH, ms);
        expect(x).toBeGreaterThan(before);
        expect(toTime(folded, WIDTH, x)).toBeCloseTo(ms, 6);
        expect(toPixel(folded, WIDTH, toTime(folded, WIDTH, k))).toBeCloseTo(k, 6);
        before = x;
      }
    }
  });

  it("is the whole run where a startup takes little of it, or there is no room", () => {
    expect(foldRun([STARTUP], extent(100_000))).toEqual(fitRun(extent(100_000)));
    expect(foldRun([STARTUP], extent(10_005, { width: 200 }))).toEqual(fitRun(extent(10_005, { width: 200 })));
    expect(foldRun([], extent(10_005))).toEqual(fitRun(extent(10_005)));
  });

  it("does not race in the moment after a startup", () => {
    const soon = foldRun([STARTUP], extent(8010, { isOver: false }));
    expect(toTime(soon, WIDTH, 980) - 8005).toBeCloseTo(995);
  });

  it("has no times on the axis inside the fold, and as many as fit beside it", () => {
    const marks = ticks(window, WIDTH, 84);
    expect(marks.map(({ label }) => label)).toContain("9.0 s");
    expect(marks.every(({ at: ms }) => ms >= STARTUP.to)).toBe(true);
    const long = ticks(foldRun([{ from: 0, to: 3_600_000 }], extent(3_601_000)), WIDTH, 84);
    expect(long.length).toBeGreaterThan(4);
  });

  it("unfolds when a person zooms in, at the same scale, and stays when there is nothing to pan or to zoom out", () => {
    const closer = zoom(window, 700, 0.5, extent(10_005));
    expect(closer.folds).toBeUndefined();
    expect(toTime(closer, WIDTH, 700)).toBeCloseTo(toTime(window, WIDTH, 700));
    expect(toPixel(closer, WIDTH, 9000) - toPixel(closer, WIDTH, 8900)).toBeCloseTo(2 * (at(9000) - at(8900)));
    expect(zoom(window, 700, 2, extent(10_005))).toBe(window);
    expect(pan(window, 300, extent(10_005))).toBe(window);
    expect(bringIn(window, 100, 200, extent(10_005))).toBe(window);
    expect(followEnd(window, extent(10_005)).folds).toBeUndefined();
  });

  it("has the strip of many rows where their bars are", () => {
    const heat = heatOf([row({ span_id: "t", kind: "task", status: "ok", start_ms: 9000, end_ms: 9500 })]);
    const columns = [...heatColumns(heat, window, WIDTH, 10_005)];
    expect(columns.findIndex((value) => value > 0)).toBe(Math.floor(at(9000)));
    expect(columns[Math.floor(at(9500)) - 1]).toBeCloseTo(1);
    expect(columns[Math.ceil(at(9500)) + 1]).toBeCloseTo(0);
  });
});
