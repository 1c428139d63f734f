import { expect, it } from "vitest";
import { stored } from "../testing/runs";
import { markAt, trackAt } from "./hit-test";
import { PHASE_HEIGHT } from "./sizes";
import { LayoutBuilder } from "./layout-builder";

const layout = new LayoutBuilder().build(stored(), new Set());

it("finds the row at a height", () => {
  expect([0, PHASE_HEIGHT - 1, PHASE_HEIGHT, layout.height - 1].map((y) => trackAt(layout, y)?.id)).toEqual(["p", "p", "t", "g"]);
  expect(trackAt(layout, layout.height)).toBeUndefined();
  expect(trackAt(layout, -1)).toBeUndefined();
});

it("finds the innermost bar, and one that is a little too thin to hit", () => {
  const track = layout.tracks[1];
  if (!track) throw new Error("the task has a row");
  expect(markAt(track, 100, 6, 1000, 5)?.row.span_id).toBe("a1");
  expect(markAt(track, 650, 15, 1000, 5)?.row.span_id).toBe("x");
  expect(markAt(track, 803, 15, 1000, 5)?.row.span_id).toBe("x");
  expect(markAt(track, 950, 15, 1000, 5)?.row.span_id).toBe("t");
  expect(markAt(track, 1050, 15, 1000, 5)).toBeUndefined();
});
