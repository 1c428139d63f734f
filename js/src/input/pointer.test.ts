// @vitest-environment jsdom

// Holds W8: wheel, drag and click.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AXIS_HEIGHT, PHASE_HEIGHT } from "../layout/sizes";
import { run, stored } from "../testing/runs";
import { View } from "../view/view";
import { hitAt, listenToPointer } from "./pointer";

const TASK_Y = AXIS_HEIGHT + PHASE_HEIGHT + 10;
let view: View;
let canvas: HTMLCanvasElement;
let end: AbortController;

beforeEach(() => {
  end = new AbortController();
  view = new View(stored({ run: run({ status: "completed", elapsed_ms: 1000 }) }), end.signal);
  view.width.value = 1000;
  view.viewport.value = 40;
  view.window.value = { from: 0, to: 1000 };
  canvas = document.body.appendChild(document.createElement("canvas"));
  canvas.getBoundingClientRect = () => new DOMRect(0, 0, 1000, 68);
  listenToPointer(view, canvas, () => undefined, end.signal);
});

afterEach(() => {
  end.abort();
  canvas.remove();
});

const point = (type: string, x: number, y: number): void => {
  canvas.dispatchEvent(new MouseEvent(type, { clientX: x, clientY: y, button: 0 }));
};

function wheel(more: WheelEventInit): boolean {
  const event = new WheelEvent("wheel", { clientX: 500, clientY: 50, deltaY: 100, cancelable: true, ...more });
  canvas.dispatchEvent(event);
  return event.defaultPrevented;
}

it("finds the bar under a point, else its row, and nothing in the axis", () => {
  expect(hitAt(view, 100, TASK_Y, 1000)).toMatchObject({ row: { span_id: "a1" }, isBar: true });
  expect(hitAt(view, 100, AXIS_HEIGHT + 3, 1000)).toMatchObject({ row: { span_id: "p" } });
  expect(hitAt(view, 100, 5, 1000)).toBeUndefined();
});

describe("the wheel", () => {
  it("stays the page's", () => {
    const before = view.window.value;
    expect(wheel({})).toBe(false);
    expect(view.window.value).toBe(before);
  });

  it("zooms at the cursor with ctrl or cmd", () => {
    expect(wheel({ ctrlKey: true, deltaY: -100 })).toBe(true);
    const { from, to } = view.window.value;
    expect(to - from).toBeLessThan(1000);
    expect((from + to) / 2).toBeCloseTo(500);
    expect(wheel({ metaKey: true })).toBe(true);
  });
});

describe("a press", () => {
  it("selects the bar under it and opens the drawer when it doesn't move", () => {
    point("pointerdown", 100, TASK_Y);
    point("pointerup", 100, TASK_Y);
    expect([view.selected.value, view.isDrawerOpen.value]).toEqual(["a1", true]);
  });

  it("pans and scrolls when it moves, and selects nothing", () => {
    point("pointerdown", 500, TASK_Y);
    point("pointermove", 400, TASK_Y - 15);
    point("pointerup", 400, TASK_Y - 15);
    expect(view.window.value).toEqual({ from: 100, to: 1100 });
    expect([view.selected.value, view.scrollTop.value, view.follow.value]).toEqual([null, 15, "off"]);
  });
});

it("fits a span on a double-click, and the run beside one", () => {
  point("dblclick", 600, TASK_Y + 4);
  expect(view.window.value).toEqual({ from: 470, to: 830 });
  point("dblclick", 990, 5);
  expect(view.follow.value).toBe("fit");
});

it("marks what is under the pointer", () => {
  point("pointermove", 100, TASK_Y);
  expect(view.hovered.value).toBe("a1");
  point("pointerleave", 0, 0);
  expect(view.hovered.value).toBeNull();
});
