// Holds W8: where no bar is in sight, the view says where they are.

import { beforeEach, expect, it } from "vitest";
import { run, stored } from "../testing/runs";
import { View } from "../view/view";
import { nearestOutside } from "./sight-hint";

let view: View;

beforeEach(() => {
  view = new View(stored({ run: run({ status: "completed", elapsed_ms: 9000 }) }), new AbortController().signal);
  view.width.value = 1000;
  view.viewport.value = 400;
  view.toggle("p");
});

const side = (from: number, to: number): string | undefined => {
  view.window.value = { from, to };
  return nearestOutside(view, 9000)?.side;
};

it("says nothing as long as a bar is in sight", () => {
  expect(side(0, 100)).toBeUndefined();
});

it("points to the nearest bar of the rows on screen, and leads there", () => {
  view.toggle("p");
  view.scroll(1e6);
  const rows = view.layout.value.tracks;
  view.viewport.value = (rows[1]?.height ?? 0) / 2;
  view.scroll(rows[1]?.y ?? 0);
  view.store.fold({ kind: "delta", from: 1, n: 2, run: run({ status: "completed", elapsed_ms: 9000 }), rows: [
    { span_id: "t", kind: "task", parent_id: "p", name: "web", agent: "Ana", status: "ok", start_ms: 0, end_ms: 900 },
  ], text: [] }, 0);
  expect(side(5000, 6000)).toBe("left");
  const nearest = nearestOutside(view, 9000);
  view.bring(nearest?.mark.from ?? 0, nearest?.mark.to ?? 0);
  expect(nearestOutside(view, 9000)).toBeNull();
});
