// Mouse, pen and touch on the chart (W8): drag pans, a click selects, a double-click fits, ctrl or cmd with the wheel
// zooms at the cursor. A plain wheel is never taken: it scrolls the page.

import { markAt, trackAt } from "../layout/hit-test";
import { AXIS_HEIGHT } from "../layout/sizes";
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
  if (y < AXIS_HEIGHT) return undefined;
  const down = y - AXIS_HEIGHT + view.scrollTop.value;
  const track = trackAt(view.layout.value, down);
  if (!track) return undefined;
  const { from, to } = view.window.value;
  const width = view.width.value;
  const slack = ((to - from) / width) * REACH_PX;
  const mark = markAt(track, toTime(view.window.value, width, x), down - track.y, now, slack);
  return mark ? { row: mark.row, isBar: true } : { row: track.row, isBar: false };
}

export function listenToPointer(
  view: View,
  canvas: HTMLCanvasElement,
  hover: (hit: Hit | undefined, x: number, y: number) => void,
  signal: AbortSignal,
): void {
  let drag: { x: number; y: number; isMoved: boolean } | null = null;
  const now = (): number => view.store.elapsed(performance.now());
  const place = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const on = <K extends keyof HTMLElementEventMap>(
    type: K, act: (event: HTMLElementEventMap[K]) => void, options: AddEventListenerOptions = {},
  ): void => canvas.addEventListener(type, act, { ...options, signal });

  on("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, y: event.clientY, isMoved: false };
    canvas.setPointerCapture?.(event.pointerId);
  });
  on("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) {
      const hit = hitAt(view, x, y, now());
      view.hovered.value = hit?.isBar ? hit.row.span_id : null;
      canvas.style.cursor = hit?.isBar ? "pointer" : "";
      hover(hit?.isBar ? hit : undefined, x, y);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.isMoved && Math.hypot(dx, dy) < CLICK_PX) return;
    drag = { x: event.clientX, y: event.clientY, isMoved: true };
    hover(undefined, x, y);
    canvas.style.cursor = "grabbing";
    if (dx !== 0) view.pan(-dx, now());
    if (dy !== 0) view.scroll(view.scrollTop.value - dy);
  });
  on("pointerup", (event) => {
    const wasClick = drag !== null && !drag.isMoved;
    drag = null;
    canvas.style.cursor = "";
    if (!wasClick) return;
    const hit = hitAt(view, ...place(event), now());
    if (!hit) return;
    view.select(hit.row.span_id);
    if (hit.isBar) view.isDrawerOpen.value = true;
  });
  on("pointercancel", () => {
    drag = null;
  });
  on("pointerleave", () => {
    view.hovered.value = null;
    hover(undefined, 0, 0);
  });
  on("dblclick", (event) => {
    const hit = hitAt(view, ...place(event), now());
    if (hit?.isBar) view.focus(hit.row, now());
    else view.fit();
  });
  on("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const [x] = place(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    view.zoom(x, Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.004), now());
  }, { passive: false });
}
