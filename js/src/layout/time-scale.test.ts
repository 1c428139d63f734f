// Holds W8: zooming and panning.

import { describe, expect, it } from "vitest";
import { bringIn, type Extent, fitRun, fitSpan, followEnd, pan, tickLabel, ticks, toPixel, toTime, within, zoom } from "./time-scale";

const WIDTH = 1000;
const extent = (end: number, more: Partial<Extent> = {}): Extent => ({ end, width: WIDTH, margin: 0, isOver: false, ...more });

it("turns time into pixels and back", () => {
  const window = { from: 200, to: 700 };
  expect(toPixel(window, WIDTH, 450)).toBe(500);
  expect(toTime(window, WIDTH, 500)).toBe(450);
});

it("fits the run so that its end stands the margin before the edge", () => {
  const window = fitRun(extent(8000, { margin: 200 }));
  expect(toPixel(window, WIDTH, 8000)).toBeCloseTo(800);
});

it("shows a second of an empty run, and of one that began just now", () => {
  expect(fitRun(extent(0))).toEqual({ from: 0, to: 1000 });
  expect(fitRun(extent(120))).toEqual({ from: 0, to: 1000 });
});

it("leaves no empty half behind a run that took less than a second", () => {
  expect(fitRun(extent(120, { isOver: true, margin: 20 })).to).toBeCloseTo(120 / 0.98);
});

it("follows the end at the same width of time", () => {
  const window = followEnd({ from: 0, to: 100 }, extent(5000, { margin: 100 }));
  expect(window.to - window.from).toBe(100);
  expect(toPixel(window, WIDTH, 5000)).toBeCloseTo(900);
});

describe("zooming", () => {
  it("keeps the moment under the cursor where it is", () => {
    const before = { from: 0, to: 10_000 };
    const after = zoom(before, 300, 0.5, extent(10_000));
    expect(toTime(after, WIDTH, 300)).toBeCloseTo(toTime(before, WIDTH, 300));
    expect(after.to - after.from).toBeCloseTo(5000);
  });

  it("ends at a millisecond and at the whole run", () => {
    let window = { from: 0, to: 10_000 };
    for (let k = 0; k < 100; k += 1) window = zoom(window, 500, 0.5, extent(10_000));
    expect(window.to - window.from).toBeCloseTo(1);
    for (let k = 0; k < 100; k += 1) window = zoom(window, 500, 2, extent(10_000, { margin: 100 }));
    expect(window).toEqual(fitRun(extent(10_000, { margin: 100 })));
  });
});

it("never pans past the run", () => {
  const all = extent(5000, { margin: 100 });
  const far = pan({ from: 0, to: 1000 }, 1e9, all);
  expect(toPixel(far, WIDTH, 5000)).toBeCloseTo(900);
  expect(pan({ from: 500, to: 1500 }, -1e9, all)).toEqual({ from: 0, to: 1000 });
  expect(within({ from: -7000, to: 9000 }, all)).toEqual(fitRun(all));
});

it("frames a span with a margin, as far as the run goes", () => {
  expect(fitSpan(100, 200, extent(5000))).toEqual({ from: 90, to: 210 });
  expect(fitSpan(0, 100, extent(5000))).toEqual({ from: 0, to: 120 });
});

describe("bringing a span in", () => {
  const window = { from: 1000, to: 2000 };
  const bring = (start: number, stop: number): number[] => Object.values(bringIn(window, start, stop, extent(9000)));

  it("moves nothing when all of it is in sight, or it fills the window", () => {
    expect(bring(1100, 1900)).toEqual([1000, 2000]);
    expect(bring(0, 5000)).toEqual([1000, 2000]);
  });

  it("moves no further than it must, either way", () => {
    expect(bring(2500, 2600)).toEqual([1700, 2700]);
    expect(bring(300, 400)).toEqual([200, 1200]);
    expect(bring(1950, 2050)).toEqual([1150, 2150]);
  });

  it("shows the nearer end of what is longer than the window", () => {
    expect(bring(3000, 6000)).toEqual([2900, 3900]);
    expect(bring(100, 950)).toEqual([50, 1050]);
  });
});

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
