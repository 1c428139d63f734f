// Mouse, pen and touch on the chart (W8): drag pans, drag with shift marks a range, a click selects, and with ctrl or cmd
// selects also; a double-click fits; ctrl or cmd with the wheel zooms at the cursor, and so do two fingers. A plain wheel is
// never taken: it scrolls the page.

import { markAt, trackAt } from "../layout/hit-test";
import { toTime } from "../layout/time-scale";
import type { View } from "../view/view";
import type { Row } from "../wire/rows";

const CLICK_PX = 4;
const REACH_PX = 5;

/** What lies under a point of the chart: a span, else the row. */
export interface Hit {
  readonly row: Row;
  readonly isBar: boolean;
}

export function hitAt(view: View, x: number, y: number, now: number): Hit | undefined {
  if (y < view.head.value) return undefined;
  const down = view.downAt(y);
  const track = trackAt(view.layout.value, down);
  if (!track) return undefined;
  const [at, beside] = [x, x + REACH_PX].map((each) => toTime(view.window.value, view.width.value, each)) as [number, number];
  const mark = markAt(track, at, down - track.y, now, beside - at);
  return mark ? { row: mark.row, isBar: true } : { row: track.row, isBar: false };
}

/** What a press that moves does. */
type Drag = { readonly kind: "pan" | "range"; readonly x: number; readonly y: number; readonly at: number; readonly isMoved: boolean };

interface Point {
  readonly x: number;
  readonly y: number;
}

export function listenToPointer(
  view: View,
  canvas: HTMLCanvasElement,
  hover: (hit: Hit | undefined, x: number, y: number) => void,
  signal: AbortSignal,
): void {
  let drag: Drag | null = null;
  /** Where a range was let go: its bar says nothing until the pointer has left it, since a person looks at the range. */
  let silent: string | null = null;
  const fingers = new Map<number, Point>();
  const place = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const timeAt = (x: number): number => toTime(view.window.value, view.width.value, x);
  const on = <K extends keyof HTMLElementEventMap>(
    type: K, act: (event: HTMLElementEventMap[K]) => void, options: AddEventListenerOptions = {},
  ): void => canvas.addEventListener(type, act, { ...options, signal });

  /** Two fingers zoom by how they part and pan by how they move; one finger of them alone does nothing. */
  const pinch = (event: PointerEvent): void => {
    const before = [...fingers.values()];
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const after = [...fingers.values()];
    const [apart, closer] = [distance(before), distance(after)];
    const { left } = canvas.getBoundingClientRect();
    if (apart > 0 && closer > 0) view.zoom(middle(after) - left, apart / closer, view.now);
    view.pan(middle(before) - middle(after), view.now);
  };
  const lift = (event: PointerEvent): void => {
    fingers.delete(event.pointerId);
  };

  on("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (event.pointerType === "touch") fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const [x] = place(event);
    drag = fingers.size > 1 ? null
      : { kind: event.shiftKey ? "range" : "pan", x: event.clientX, y: event.clientY, at: timeAt(x), isMoved: false };
    canvas.setPointerCapture?.(event.pointerId);
  });
  on("pointermove", (event) => {
    const [x, y] = place(event);
    if (fingers.size > 1) return pinch(event);
    if (!drag) {
      const hit = hitAt(view, x, y, view.now);
      view.hovered.value = hit?.isBar ? hit.row.span_id : null;
      if (hit?.isBar) view.isVisited.value = true;
      canvas.style.cursor = event.shiftKey ? "crosshair" : hit?.isBar ? "pointer" : "";
      if (hit?.row.span_id !== silent) silent = null;
      hover(hit?.isBar && silent === null ? hit : undefined, x, y);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.isMoved && Math.hypot(dx, dy) < CLICK_PX) return;
    hover(undefined, x, y);
    if (drag.kind === "range") {
      drag = { ...drag, isMoved: true };
      canvas.style.cursor = "crosshair";
      return view.mark(drag.at, timeAt(Math.min(Math.max(x, 0), view.width.value)), view.now);
    }
    drag = { ...drag, x: event.clientX, y: event.clientY, isMoved: true };
    canvas.style.cursor = "grabbing";
    if (dx !== 0) view.pan(-dx, view.now);
    // A finger that moves up or down scrolls the page.
    if (dy !== 0 && event.pointerType !== "touch") view.scroll(view.scrollTop.value - dy);
  });
  on("pointerup", (event) => {
    lift(event);
    const click = drag !== null && !drag.isMoved ? drag.kind : null;
    if (drag?.kind === "range" && drag.isMoved) silent = hitAt(view, ...place(event), view.now)?.row.span_id ?? null;
    drag = null;
    canvas.style.cursor = "";
    if (click === "range") view.range.value = null;
    if (click !== "pan") return;
    const hit = hitAt(view, ...place(event), view.now);
    if (!hit) return;
    if (event.ctrlKey || event.metaKey) return view.selectAlso(hit.row.span_id);
    view.select(hit.row.span_id);
    if (hit.isBar) view.isDrawerOpen.value = true;
  });
  on("pointercancel", (event) => {
    lift(event);
    drag = null;
  });
  on("pointerleave", () => {
    view.hovered.value = null;
    hover(undefined, 0, 0);
  });
  on("dblclick", (event) => {
    const hit = hitAt(view, ...place(event), view.now);
    if (hit?.isBar) view.focus(hit.row, view.now);
    else view.fit();
  });
  on("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const [x] = place(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    view.zoom(x, Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.004), view.now);
  }, { passive: false });
}

const distance = ([one, other]: readonly Point[]): number => (one && other ? Math.hypot(one.x - other.x, one.y - other.y) : 0);
const middle = ([one, other]: readonly Point[]): number => (one && other ? (one.x + other.x) / 2 : (one?.x ?? 0));
