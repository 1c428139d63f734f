// The two edges of the marked range, to be dragged or moved by the arrow keys.

import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { toPixel, toTime } from "../layout/time-scale";
import type { View } from "../view/view";
import { formatDuration } from "../wording/numbers";

type Side = "from" | "to";
const NAMES: Record<Side, string> = { from: "Start of the range", to: "End of the range" };
const STEP_PX = 8;
const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };

export function RangeHandles({ view, change }: { view: View; change: number }): VNode | null {
  if (!view.range.value || view.shape.value !== "chart") return null;
  const { range: { value: { from, to } }, window: { value: window }, width: { value: width } } = view;
  const [left, right] = [from, to].map((ms) => Math.min(Math.max(toPixel(window, width, ms), -4), width + 4)) as [number, number];
  return (
    <>
      <div class="et-range"><i style={{ left: `${left - 1}px`, width: `${right - left + 2}px` }} /></div>
      <Handle view={view} side="from" change={change} /><Handle view={view} side="to" change={change} />
    </>
  );
}

function Handle({ view, side }: { view: View; side: Side; change: number }): VNode | null {
  /** Where the other edge stands while this one is dragged, maybe past it. */
  const fixed = useRef<number | null>(null);
  const range = view.range.value;
  if (!range) return null;
  const [{ value: window }, { value: width }] = [view.window, view.width];
  const x = toPixel(window, width, range[side]);
  const other = side === "from" ? range.to : range.from;
  const move = (at: number, end: number): void => {
    if (at !== end) view.mark(at, end, view.now);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const at = toTime(window, width, x + step * STEP_PX);
    // By keys an edge stops at the other one.
    if (side === "from" ? at < other : at > other) move(at, other);
  };
  return (
    <div class="et-range-handle" role="slider" tabIndex={0} data-side={side} aria-label={NAMES[side]} title={`${NAMES[side]}: drag, or arrow keys`}
      aria-valuemin={0} aria-valuemax={Math.round(view.now)} aria-valuenow={Math.round(range[side])} aria-valuetext={formatDuration(range[side])}
      style={{ left: `${x}px`, display: x < -2 || x > width + 2 ? "none" : undefined }}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        fixed.current = other;
        event.currentTarget.setPointerCapture?.(event.pointerId);
      }}
      onPointerMove={(event) => {
        const stage = event.currentTarget.parentElement;
        if (fixed.current === null || !stage) return;
        move(toTime(window, width, event.clientX - stage.getBoundingClientRect().left), fixed.current);
      }}
      onPointerUp={() => (fixed.current = null)}
      onPointerCancel={() => (fixed.current = null)}
      onKeyDown={onKey} />
  );
}
