// Holds W5, W8 and W9: following, selection, keys.

import { beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../store/store";
import { togglePin } from "../explore/pins";
import { foldRun } from "../layout/folds";
import { delta, row, ROWS, run, stored } from "../testing/runs";
import { View } from "./view";

let store: Store;
let view: View;

beforeEach(() => {
  store = stored();
  view = new View(store, new AbortController().signal);
  view.width.value = 1000;
  view.viewport.value = 60;
});

describe("following", () => {
  it("shows the whole run as it grows, until a person pans", () => {
    view.followRun(1000);
    const before = view.window.value;
    view.followRun(2000);
    expect(view.window.value.to).toBeCloseTo(before.to * 2);
    view.pan(10, 2000);
    const taken = view.window.value;
    view.followRun(9000);
    expect(view.window.value).toBe(taken);
  });

  it("folds what the late part folds, and unfolds it when the whole run is asked for again", () => {
    view.fold.value = (extent) => foldRun([{ from: 0, to: 8000 }], extent);
    view.followRun(10_000);
    expect(view.window.value.folds).toHaveLength(1);
    view.fit();
    view.followRun(11_000);
    expect(view.window.value).toEqual(view.whole(11_000));
    view.zoom(500, 0.5, 11_000);
    view.fit();
    view.followRun(11_000);
    expect(view.window.value.folds).toHaveLength(1);
  });

  it("comes back to now at the zoom that was chosen", () => {
    view.followRun(10_000);
    view.zoom(500, 0.1, 10_000);
    const width = view.window.value.to - view.window.value.from;
    view.goLive();
    view.followRun(20_000);
    expect(view.window.value.to - view.window.value.from).toBeCloseTo(width);
    expect(view.window.value.to).toBeGreaterThan(20_000);
  });

  it("leaves less room right of the end once nothing more can come", () => {
    const running = view.freePixels;
    store.fold(delta(1, 2, { run: run({ status: "completed" }) }), 0);
    expect(view.freePixels).toBeLessThan(running);
  });
});

describe("updates", () => {
  it("never move the selection or the scroll", () => {
    view.viewport.value = 40;
    view.select("x");
    view.scroll(20);
    const more = row({ span_id: "z", kind: "tool", parent_id: "u", tool: "more", lane: 2, start_ms: 900 });
    store.fold(delta(1, 2, { rows: [more] }), 0);
    expect([view.selected.value, view.scrollTop.value]).toEqual(["x", 20]);
    expect(view.layout.value.tracks[1]?.marks.some((mark) => mark.row === more)).toBe(true);
  });
});

describe("jumping to a span", () => {
  it("opens its phase, selects it, opens the drawer and pans to it", () => {
    view.toggle("p");
    view.zoom(0, 0.1, 1000);
    view.goTo("y");
    expect([view.collapsed.value.size, view.selected.value, view.isDrawerOpen.value]).toEqual([0, "y", true]);
    const { from, to } = view.window.value;
    expect(from).toBeLessThanOrEqual(510);
    expect(to).toBeGreaterThan(510);
  });

  it("scrolls no further than it must", () => {
    view.goTo("g");
    const last = view.layout.value.tracks.at(-1);
    expect(view.scrollTop.value + view.viewport.value).toBe((last?.y ?? 0) + (last?.height ?? 0));
  });
});

it("scrolls within its rows", () => {
  view.scroll(1e6);
  expect(view.scrollTop.value).toBe(view.layout.value.height - 60);
  view.scroll(-5);
  expect(view.scrollTop.value).toBe(0);
});

it("shows the row of a closed phase for a selection inside it", () => {
  view.select("x");
  view.toggle("p");
  expect(view.selectedTrack?.id).toBe("p");
});

it("fits one span", () => {
  view.focus(ROWS[6] as (typeof ROWS)[number], 1000);
  expect(view.window.value).toEqual({ from: 470, to: 830 });
});

describe("a worker", () => {
  beforeEach(() => {
    const rows = [
      row({ span_id: "m", kind: "task", name: "manager", start_ms: 0 }),
      row({ span_id: "d", kind: "delegation", parent_id: "m", start_ms: 0 }),
      row({ span_id: "w", kind: "task", parent_id: "d", start_ms: 0 }),
      row({ span_id: "l", kind: "llm", parent_id: "w", start_ms: 0 }),
    ];
    view = new View(stored({ rows, phases: [] }), new AbortController().signal);
  });

  it("that is folded away is selected in the row above, and shown again by a jump to it", () => {
    view.toggle("m");
    view.select("l");
    expect(view.selectedTrack?.id).toBe("m");
    view.goTo("l");
    expect([view.selectedTrack?.id, view.collapsed.value.size]).toEqual(["w", 0]);
  });
});

describe("pinned rows", () => {
  beforeEach(() => {
    view.viewport.value = 100;
    store.fold(delta(1, 2, { rows: Array.from({ length: 20 }, (_, k) => row({ span_id: `t${k}`, kind: "task", parent_id: "p", start_ms: k })) }), 0);
    togglePin(view, "t5");
  });

  it("stay while the others scroll, which end below them (W36)", () => {
    expect([view.fixed.value, view.layout.value.tracks[0]?.id]).toEqual([28, "t5"]);
    view.scroll(200);
    const shown = view.shownTracks;
    expect(shown[0]?.id).toBe("t5");
    expect((shown[1]?.y ?? 0) - 200 + (shown[1]?.height ?? 0)).toBeGreaterThan(28);
    // The same place of the chart is the pinned row above, and below it one that has scrolled.
    expect([view.downAt(view.head.value + 10), view.downAt(view.head.value + 40)]).toEqual([10, 240]);
    togglePin(view, "t5");
    expect([view.fixed.value, view.layout.value.tracks[0]?.id]).toEqual([0, "p"]);
  });

  it("cover no row that a step leads to, and need no scrolling themselves (W36)", () => {
    view.scroll(300);
    view.select("t0");
    view.reveal();
    const track = view.selectedTrack;
    expect((track?.y ?? 0) - view.scrollTop.value).toBe(view.fixed.value);
    view.scroll(300);
    view.select("t5");
    view.reveal();
    expect(view.scrollTop.value).toBe(300);
  });

  it("leave room for others: what is too much scrolls with them (W36)", () => {
    for (const id of ["t6", "t7", "t8"]) togglePin(view, id);
    expect([view.layout.value.pinnedHeight, view.fixed.value]).toEqual([112, 56]);
  });
});
