// Holds W135: where the names of times stand above the chart.

import { expect, it } from "vitest";
import type { Range } from "../wire/rows";
import { placeRanges, titleOf } from "./named-ranges";

const range = (from_ms: number, to_ms: number, more: Partial<Range> = {}): Range => ({ from_ms, to_ms, name: "label", value: "slow", ...more });
const place = (ranges: readonly Range[], scale = 1): [number, number, number, number][] =>
  placeRanges(ranges, 500, (ms) => (ms - 100) * scale).map(({ left, lane, from, to }) => [left, lane, from, to]);

it("says what a person said, and of another score than a mark its name too (W135)", () => {
  expect(titleOf(range(0, 1))).toBe("slow");
  expect(titleOf(range(0, 1, { name: "mark", value: false }))).toBe("bad");
  expect(titleOf(range(0, 1, { name: "pace", value: 0.5 }))).toBe("pace: 0.5");
  expect(titleOf(range(0, 1, { name: "mark", value: null }))).toBe("mark");
});

it("puts names that would lie over each other in lanes of their own (W135)", () => {
  expect(place([range(100, 200), range(150, 180), range(300, 310)])).toEqual([[0, 0, 0, 100], [50, 1, 50, 80], [200, 0, 200, 210]]);
});

it("keeps the name of a time that is out of sight at the edge, so that it leads back there (W135)", () => {
  const room = 4 * 7 + 26;
  expect(place([range(0, 50), range(900, 950)])).toEqual([[0, 0, 0, 0], [500 - room, 0, 500, 500]]);
});
