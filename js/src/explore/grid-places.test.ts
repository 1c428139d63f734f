// Holds W37: where cells stand, which one is under a point, and where keys lead.

import { expect, it } from "vitest";
import { boxOf, cellAt, placeCells, stepFrom } from "./grid-places";

const middleOf = ({ x, y, w, h }: ReturnType<typeof boxOf>): [number, number] => [x + w / 2, y + h / 2];

it.each([[20, 3, true], [20, 3, false], [2500, 4, false], [10_000, 1, false], [300, 1, true]])("finds each of %d lines of %d cells under its own middle (named: %s)", (lines, columns, isNamed) => {
  const places = placeCells(lines, columns, 1100, 400, isNamed);
  for (const line of [0, 1, Math.floor(lines / 2), lines - 1]) {
    for (let column = 0; column < columns; column += 1) {
      const box = boxOf(places, { line, column });
      expect(cellAt(places, ...middleOf(box))).toEqual({ line, column });
      expect(box.x + box.w).toBeLessThanOrEqual(1100);
      expect(box.y + box.h).toBeLessThanOrEqual(places.height + 1);
    }
  }
});

it("makes cells as large as they may be for all to be in sight, and no smaller than a person can point at", () => {
  expect(placeCells(50, 1, 1100, 400, false).cell.w).toBe(20);
  expect(placeCells(10_000, 1, 1100, 400, false)).toMatchObject({ cell: { w: 6 } });
  expect(placeCells(100_000, 1, 1100, 400, false)).toMatchObject({ cell: { w: 9 } });
  expect(placeCells(10_000, 1, 1100, 400, false).height).toBeLessThanOrEqual(400);
});

it("finds nothing above, beside or below the cells", () => {
  const places = placeCells(5, 2, 1100, 400, false);
  expect([cellAt(places, 20, 3), cellAt(places, 2, 20), cellAt(places, 1099, 20), cellAt(places, 20, 399)]).toEqual([null, null, null, null]);
  const named = placeCells(5, 2, 1100, 400, true);
  expect(cellAt(named, 20, 30)).toEqual({ line: 0, column: 0 });
  expect(cellAt(named, 20, 10)).toBeNull();
});

it("walks by keys, along lines with names and through the text of those without", () => {
  const named = placeCells(5, 2, 1100, 400, true);
  const at = { line: 1, column: 1 };
  const go = (key: string) => stepFrom(named, at, key, 3);
  expect(["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "End", "PageDown", "PageUp"].map(go)).toEqual([
    { line: 2, column: 1 }, { line: 0, column: 1 }, { line: 1, column: 0 }, at, { line: 0, column: 1 }, { line: 4, column: 1 }, { line: 4, column: 1 }, { line: 0, column: 1 },
  ]);
  const dense = placeCells(100, 2, 400, 400, false);
  expect(stepFrom(dense, at, "ArrowRight", 3)).toEqual({ line: 2, column: 0 });
  expect(stepFrom(dense, at, "ArrowDown", 3)).toEqual({ line: 1 + dense.across, column: 1 });
  expect([stepFrom(dense, null, "ArrowDown", 3), stepFrom(dense, at, "x", 3), stepFrom(placeCells(0, 1, 9, 9, true), null, "End", 3), stepFrom(dense, at, "constructor", 3)]).toEqual([{ line: 0, column: 0 }, undefined, undefined, undefined]);
});
