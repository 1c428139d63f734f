// An edge that can be dragged, and moved by the arrow keys: what lies on one side of it grows. A double-click, or Enter,
// gives back the size that fits by itself.

import { useRef } from "preact/hooks";

interface Props {
  /** What it resizes, for who listens. */
  label: string;
  /** The way it moves: across for a column, down for a row. */
  axis: "x" | "y";
  /** The size in pixels of what it resizes, now and at its limits. */
  size: number;
  least: number;
  most: number;
  /** Called with the wanted size; with null to have it fit by itself again. */
  resize: (size: number | null) => void;
}

const STEP_PX = 16;
const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

export function Splitter({ label, axis, size, least, most, resize }: Props) {
  const drag = useRef<{ at: number; size: number } | null>(null);
  const to = (wanted: number): void => resize(Math.round(Math.min(Math.max(wanted, least), most)));
  const placeOf = (event: PointerEvent): number => (axis === "x" ? event.clientX : event.clientY);
  return (
    <div class={`et-splitter et-splitter-${axis}`} role="separator" tabIndex={0} aria-label={label} title={`${label}: drag, or double-click to fit`}
      aria-orientation={axis === "x" ? "vertical" : "horizontal"} aria-valuenow={Math.round(size)} aria-valuemin={least} aria-valuemax={most}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        drag.current = { at: placeOf(event), size };
        event.currentTarget.setPointerCapture?.(event.pointerId);
      }}
      onPointerMove={(event) => drag.current && to(drag.current.size + placeOf(event) - drag.current.at)}
      onPointerUp={() => (drag.current = null)}
      onPointerCancel={() => (drag.current = null)}
      onDblClick={() => resize(null)}
      onKeyDown={(event) => {
        const step = STEPS[event.key];
        const isReset = event.key === "Enter";
        if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || (step === undefined && !isReset)) return;
        event.preventDefault();
        event.stopPropagation();
        if (step === undefined) resize(null);
        else to(size + step * STEP_PX);
      }} />
  );
}
