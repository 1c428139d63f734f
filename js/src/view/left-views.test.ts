// Holds W5: a view that takes the place of another one of its run shows what that one showed.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { togglePin } from "../explore/pins";
import { run, stored } from "../testing/runs";
import { keepView, takeOverView } from "./left-views";
import { View } from "./view";

const viewOf = (run_id: string): View => new View(stored({ run: run({ run_id }) }), new AbortController().signal);

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

it("hands on selection, drawer, window, scroll, search and focus", () => {
  const old = viewOf("one");
  old.viewport.value = 40;
  old.select("x");
  old.isDrawerOpen.value = true;
  old.zoom(100, 0.5, 1000);
  old.toggle("p");
  old.search.words.value = "fetch";
  old.grouping.value = "agent";
  togglePin(old, "g");
  keepView(old, true);
  const next = viewOf("one");
  expect(takeOverView(next)).toBe(true);
  expect([next.selected.value, next.isDrawerOpen.value, next.follow.value, next.search.words.value]).toEqual(["x", true, "off", "fetch"]);
  expect(next.window.value).toEqual(old.window.value);
  expect(next.layout.value.tracks.map((track) => track.id)).toEqual(["g", "p"]);
  expect([next.grouping.value, [...next.pinned.value]]).toEqual(["agent", ["g"]]);
});

it("hands on nothing to another run, to a second view, or after a while", () => {
  const old = viewOf("one");
  old.select("x");
  const isTaken = (run_id: string): boolean => {
    const next = viewOf(run_id);
    takeOverView(next);
    return next.selected.value === "x";
  };
  keepView(old, false);
  expect([isTaken("two"), isTaken("one"), isTaken("one")]).toEqual([false, true, false]);
  keepView(old, false);
  vi.advanceTimersByTime(10_000);
  expect(isTaken("one")).toBe(false);
});
