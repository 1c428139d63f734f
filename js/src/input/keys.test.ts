// Holds W9: keys.

import { beforeEach, expect, it } from "vitest";
import { row, stored } from "../testing/runs";
import { View } from "../view/view";
import { handleKey } from "./keys";

let view: View;

beforeEach(() => {
  view = new View(stored(), new AbortController().signal);
  view.width.value = 1000;
  view.viewport.value = 60;
});

const type = (...keys: string[]): (string | null)[] => {
  for (const key of keys) handleKey(view, key, 1000);
  return [view.selected.value];
};

it("walk down and up the rows and stop at the ends", () => {
  expect(type("ArrowDown")).toEqual(["p"]);
  expect(type("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")).toEqual(["g"]);
  expect(type("Home")).toEqual(["p"]);
  expect(type("End", "ArrowUp")).toEqual(["t"]);
});

it("walk along the spans of a row in the order of time", () => {
  expect(type("ArrowDown", "ArrowDown", "ArrowRight")).toEqual(["a1"]);
  expect(type("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")).toEqual(["y"]);
  expect(type("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft")).toEqual(["t"]);
});

it("close and open a phase as in any tree", () => {
  type("Home", "ArrowLeft");
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["p"]);
  type("ArrowRight");
  expect(view.layout.value.tracks.length).toBe(3);
});

it("open and close the drawer, then let go of the selection", () => {
  type("Home", "Enter");
  expect(view.isDrawerOpen.value).toBe(true);
  expect(type("Escape")).toEqual(["p"]);
  expect(view.isDrawerOpen.value).toBe(false);
  expect(type("Escape")).toEqual([null]);
});

it("leave alone what is not theirs", () => {
  expect(handleKey(view, "F5", 0)).toBe(false);
  expect(handleKey(view, "Tab", 0)).toBe(false);
});

it("fold the rows of workers away and show them again", () => {
  const rows = [
    row({ span_id: "m", kind: "task", name: "manager", start_ms: 0 }),
    row({ span_id: "d", kind: "delegation", parent_id: "m", start_ms: 0 }),
    row({ span_id: "w", kind: "task", parent_id: "d", start_ms: 0 }),
  ];
  view = new View(stored({ rows, phases: [] }), new AbortController().signal);
  view.select("m");
  handleKey(view, "ArrowLeft", 0);
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["m"]);
  handleKey(view, "ArrowRight", 0);
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["m", "w"]);
});
