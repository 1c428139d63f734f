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
let told: (string | undefined)[];

beforeEach(() => {
  end = new AbortController();
  view = new View(stored({ run: run({ status: "completed", elapsed_ms: 1000 }) }), end.signal);
  view.width.value = 1000;
  view.viewport.value = 40;
  view.window.value = { from: 0, to: 1000 };
  canvas = document.body.appendChild(document.createElement("canvas"));
  canvas.getBoundingClientRect = () => new DOMRect(0, 0, 1000, 68);
  told = [];
  listenToPointer(view, canvas, (hit) => told.push(hit?.row.span_id), end.signal);
});

afterEach(() => {
  end.abort();
  canvas.remove();
});

const point = (type: string, x: number, y: number, more: MouseEventInit & { pointerId?: number; pointerType?: string } = {}): void => {
  const event = new MouseEvent(type, { clientX: x, clientY: y, button: 0, ...more });
  canvas.dispatchEvent(Object.assign(event, { pointerId: more.pointerId ?? 1, pointerType: more.pointerType ?? "mouse" }));
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

it("tells of no bar where a range was let go, until the pointer has left that bar", () => {
  point("pointerdown", 150, TASK_Y, { shiftKey: true });
  point("pointermove", 100, TASK_Y, { shiftKey: true });
  point("pointerup", 100, TASK_Y);
  for (const x of [102, 600, 100]) point("pointermove", x, TASK_Y);
  expect(told.slice(-3)).toEqual([undefined, "x", "a1"]);
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
    view.window.value = { from: 0, to: 500 };
    point("pointerdown", 500, TASK_Y);
    point("pointermove", 400, TASK_Y - 15);
    point("pointerup", 400, TASK_Y - 15);
    expect(view.window.value).toEqual({ from: 50, to: 550 });
    expect([view.selected.value, view.scrollTop.value, view.follow.value]).toEqual([null, 15, "off"]);
  });
});

it("fits a span on a double-click, and the run beside one", () => {
  point("dblclick", 600, TASK_Y + 4);
  expect(view.window.value).toEqual({ from: 470, to: 830 });
  point("dblclick", 990, 5);
  expect(view.follow.value).toBe("fit");
});

describe("a press with shift", () => {
  it("marks the time that it is dragged over, and leaves the window where it is", () => {
    const before = view.window.value;
    point("pointerdown", 600, TASK_Y, { shiftKey: true });
    point("pointermove", 250, TASK_Y, { shiftKey: true });
    point("pointerup", 250, TASK_Y, { shiftKey: true });
    expect([view.range.value, view.window.value, view.selected.value]).toEqual([{ from: 250, to: 600 }, before, null]);
    point("pointerdown", 300, TASK_Y, { shiftKey: true });
    point("pointerup", 300, TASK_Y, { shiftKey: true });
    expect(view.range.value).toBeNull();
  });

  it("marks nothing outside of the run", () => {
    view.window.value = { from: 500, to: 1500 };
    point("pointerdown", 200, TASK_Y, { shiftKey: true });
    point("pointermove", 990, TASK_Y, { shiftKey: true });
    expect(view.range.value).toEqual({ from: 700, to: 1000 });
  });
});

describe("two fingers", () => {
  const touch = (type: string, pointerId: number, x: number): void => point(type, x, TASK_Y, { pointerId, pointerType: "touch" });

  it("zoom around the middle between them, and select nothing", () => {
    touch("pointerdown", 1, 400);
    touch("pointerdown", 2, 600);
    touch("pointermove", 1, 300);
    touch("pointermove", 2, 700);
    const { from, to } = view.window.value;
    expect(to - from).toBeCloseTo(500);
    expect((from + to) / 2).toBeCloseTo(500, -2);
    touch("pointerup", 1, 300);
    touch("pointerup", 2, 700);
    expect(view.selected.value).toBeNull();
  });

  it("leave scrolling to the page", () => {
    view.window.value = { from: 0, to: 500 };
    point("pointerdown", 400, TASK_Y, { pointerType: "touch" });
    point("pointermove", 300, TASK_Y - 20, { pointerType: "touch" });
    expect([view.scrollTop.value, view.window.value.from]).toEqual([0, 50]);
  });
});

it("marks what is under the pointer", () => {
  point("pointermove", 100, TASK_Y);
  expect(view.hovered.value).toBe("a1");
  point("pointerleave", 0, 0);
  expect(view.hovered.value).toBeNull();
});
