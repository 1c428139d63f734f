// Holds W9: keys.

import { beforeEach, expect, it } from "vitest";
import { row, stored } from "../testing/runs";
import * as finder from "../view/finder";
import { View } from "../view/view";
import { WORDS } from "../explore/keys-panel";
import { DEEDS, handleKey } from "./keys";

let view: View;
let deeds: string[];
const page = { focusSearch: () => void deeds.push("search"), leave: () => void deeds.push("leave") };

beforeEach(() => {
  deeds = [];
  view = new View(stored(), new AbortController().signal);
  view.search.finder.value = finder;
  view.width.value = 1000;
  view.viewport.value = 60;
});

const type = (...keys: string[]): (string | null)[] => {
  for (const key of keys) handleKey(view, key, 1000, page);
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
  expect(deeds).toEqual([]);
  type("Escape");
  expect(deeds).toEqual(["leave"]);
});

it("leave alone what is not theirs", () => {
  expect(handleKey(view, "F5", 0, page)).toBe(false);
  expect(handleKey(view, "Tab", 0, page)).toBe(false);
});

it("fold the rows of workers away and show them again", () => {
  const rows = [
    row({ span_id: "m", kind: "task", name: "manager", start_ms: 0 }),
    row({ span_id: "d", kind: "delegation", parent_id: "m", start_ms: 0 }),
    row({ span_id: "w", kind: "task", parent_id: "d", start_ms: 0 }),
  ];
  view = new View(stored({ rows, phases: [] }), new AbortController().signal);
  view.select("m");
  handleKey(view, "ArrowLeft", 0, page);
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["m"]);
  handleKey(view, "ArrowRight", 0, page);
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["m", "w"]);
});

it("zoom and pan as in viewers of traces, and never off the run", () => {
  type("w", "w");
  const closer = view.window.value;
  expect(closer.to - closer.from).toBeCloseTo(490);
  type("d");
  expect(view.window.value.from).toBeGreaterThan(closer.from);
  type("a", "a", "a", "a", "a", "a", "a");
  expect(view.window.value.from).toBe(0);
  type("s", "s", "s", "s", "s", "s");
  expect(view.window.value.from).toBe(0);
});

it("step through the spans of all rows in time, both ways", () => {
  expect(type(".")).toEqual(["a1"]);
  expect(type(".", ".", ".")).toEqual(["y"]);
  expect(type(".")).toEqual(["y"]);
  expect(type(",")).toEqual(["x"]);
});

it("go to the next error, or to the next match while something is looked for", () => {
  expect(type("n")).toEqual(["y"]);
  view.search.words.value = "tool search";
  expect(type("n")).toEqual(["x"]);
  expect(type("n")).toEqual(["x"]);
  type("/");
  expect(deeds).toEqual(["search"]);
});

it("mark a range from and to the selection", () => {
  view.select("x");
  type("[");
  expect(view.range.value).toEqual({ from: 500, to: 1000 });
  view.select("y");
  type("]");
  expect(view.range.value).toEqual({ from: 500, to: 900 });
  type("Escape");
  expect([view.range.value, view.selected.value]).toEqual([null, null]);
});

it("stand in one table, each once, with words for the panel that lists them", () => {
  const all = DEEDS.flatMap(([, row]) => row);
  const keys = all.flatMap((deed) => deed.keys);
  expect(new Set(keys).size).toBe(keys.length);
  expect(Object.keys(WORDS).sort()).toEqual(all.map((deed) => deed.keys[0]).sort());
  for (const key of "wsad.,n/f0lct[]?") expect(keys).toContain(key);
});
