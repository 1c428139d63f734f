// Holds W8: zooming and panning.

import { describe, expect, it } from "vitest";
import { fitRun, fitSpan, followEnd, pan, tickLabel, ticks, toPixel, toTime, zoom } from "./time-scale";

const WIDTH = 1000;

it("turns time into pixels and back", () => {
  const window = { from: 200, to: 700 };
  expect(toPixel(window, WIDTH, 450)).toBe(500);
  expect(toTime(window, WIDTH, 500)).toBe(450);
});

it("fits the run so that its end stands the margin before the edge", () => {
  const window = fitRun(8000, WIDTH, 200);
  expect(toPixel(window, WIDTH, 8000)).toBeCloseTo(800);
});

it("shows a second of an empty run", () => expect(fitRun(0, WIDTH, 0)).toEqual({ from: 0, to: 1000 }));

it("follows the end at the same width of time", () => {
  const window = followEnd({ from: 0, to: 100 }, 5000, WIDTH, 100);
  expect(window.to - window.from).toBe(100);
  expect(toPixel(window, WIDTH, 5000)).toBeCloseTo(900);
});

describe("zooming", () => {
  it("keeps the moment under the cursor where it is", () => {
    const before = { from: 0, to: 10_000 };
    const after = zoom(before, WIDTH, 300, 0.5, 10_000);
    expect(toTime(after, WIDTH, 300)).toBeCloseTo(toTime(before, WIDTH, 300));
    expect(after.to - after.from).toBeCloseTo(5000);
  });

  it("ends at a millisecond and at four times the run", () => {
    let window = { from: 0, to: 10_000 };
    for (let k = 0; k < 100; k += 1) window = zoom(window, WIDTH, 500, 0.5, 10_000);
    expect(window.to - window.from).toBeCloseTo(1);
    for (let k = 0; k < 100; k += 1) window = zoom(window, WIDTH, 500, 2, 10_000);
    expect(window.to - window.from).toBeCloseTo(40_000);
  });
});

it("never pans the run out of sight", () => {
  const far = pan({ from: 0, to: 1000 }, WIDTH, 1e9, 5000);
  expect(far.from).toBeLessThan(5000);
  const early = pan({ from: 0, to: 1000 }, WIDTH, -1e9, 5000);
  expect(early.to).toBeGreaterThan(0);
});

it("frames a span with a margin", () => expect(fitSpan(100, 200)).toEqual({ from: 90, to: 210 }));

describe("ticks", () => {
  it("stand at round moments, at least as far apart as asked", () => {
    for (const to of [3, 70, 900, 5_000, 61_000, 3_600_000, 1e9]) {
      const found = ticks({ from: 0, to }, WIDTH, 80);
      const apart = ((found[1]?.at ?? 0) / to) * WIDTH;
      expect(found.length).toBeGreaterThan(1);
      expect(found.length).toBeLessThanOrEqual(13);
      expect(apart).toBeGreaterThanOrEqual(80);
    }
  });

  it("begin at the start of the run, never before it", () => {
    expect(ticks({ from: -500, to: 1500 }, WIDTH, 80)[0]?.at).toBe(0);
  });

  it.each([[0, 1000, "0 s"], [350, 50, "350 ms"], [1200, 200, "1.2 s"], [20_000, 5000, "20 s"], [80_000, 10_000, "1:20"],
    [60_500, 500, "1:00.5"], [3_720_000, 60_000, "1:02:00"]])(
    "label %s ms in steps of %s as %s", (ms, step, text) => expect(tickLabel(ms, step)).toBe(text),
  );
});
