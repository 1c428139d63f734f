// The whole run above the axis, once there is more of it than fits (W36): how much was done at once, errors as ticks, and the
// part of the time that the chart shows, to be dragged by its middle or its edges.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { heatColumns, heatOf } from "../layout/heat";
import { type TimeWindow, toPixel, toTime } from "../layout/time-scale";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import { isBusy, isError, isTask } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { formatDuration } from "../wording/numbers";

export const HEIGHT = 24;
/** Free above the highest column. */
const TOP = 4;
const COLUMN_PX = 2;
/** So near to an edge of the window it is the edge that is dragged. */
const REACH_PX = 6;
const REACH_BY_TOUCH_PX = 16;
const LEAST_DRAWN_PX = 4;
/** By how much of itself a key moves the window. */
const STEPS: Record<string, number> = {
  ArrowLeft: -0.1, ArrowDown: -0.1, ArrowRight: 0.1, ArrowUp: 0.1, PageDown: -1, PageUp: 1, Home: -Infinity, End: Infinity,
};

/** What a press that moves does: moves the window, one of its edges, or marks out a new one. */
interface Drag {
  readonly kind: "move" | "from" | "to" | "new";
  /** Where it began, in milliseconds, and with what window. */
  readonly at: number;
  readonly window: TimeWindow;
}

export function Minimap({ view }: { view: View; change: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  // All of the run, also where it is shown as it was: what the playhead moves over stays as it is.
  const { present: store, width: { value: width } } = view;
  const now = store.isTicking ? view.age.value : view.now;
  const whole = view.whole(now);
  // Folded or not, it is all of the run.
  const window = view.window.value.folds ? whole : view.window.value;
  const isWhole = window.to - window.from > whole.to * 0.999;
  const isShown = view.shape.value === "chart" && store.size > 0 && (view.isScrolling.value || !isWhole || drag !== null);
  useLayoutEffect(() => {
    // It stands over the bars, and not over their names.
    const stage = box.current?.closest(".ensemble-timeline")?.querySelector<HTMLElement>(".et-stage");
    if (box.current && stage) box.current.style.marginLeft = `${stage.offsetLeft}px`;
  }, [width, isShown]);
  const version = store.version.value;
  const paths = useMemo(() => (isShown ? pathsOf(store, whole, width, now) : null), [version, whole.to, width, isShown]);
  if (!paths) return null;

  const xOf = (ms: number): number => Math.min(Math.max(toPixel(whole, width, ms), 0), width);
  const [left, right] = [xOf(window.from), xOf(window.to)];
  const timeAt = (event: PointerEvent): number => {
    const x = event.clientX - (box.current as HTMLElement).getBoundingClientRect().left;
    return Math.min(Math.max(toTime(whole, width, x), 0), whole.to);
  };
  const press = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const at = timeAt(event);
    const [x, reach] = [xOf(at), event.pointerType === "touch" ? REACH_BY_TOUCH_PX : REACH_PX];
    const isInside = x >= left && x <= right;
    const isNear = (edge: number): boolean => Math.abs(x - edge) <= (isInside ? Math.min(reach, (right - left) / 3) : reach);
    let kind: Drag["kind"] = isNear(left) ? "from" : isNear(right) ? "to" : isWhole ? "new" : "move";
    let from = window;
    if (kind === "move" && !isInside) {
      // A press beside the window brings it there.
      const half = (window.to - window.from) / 2;
      from = { from: at - half, to: at + half };
      view.show(from, now);
    }
    if (isWhole && kind === "move") kind = "new";
    box.current?.setPointerCapture?.(event.pointerId);
    setDrag({ kind, at, window: from });
  };
  const move = (event: PointerEvent): void => {
    if (!drag) return;
    const [at, old] = [timeAt(event), drag.window];
    if (drag.kind === "move") return view.show({ from: old.from + at - drag.at, to: old.to + at - drag.at }, now);
    const fixed = drag.kind === "from" ? old.to : drag.kind === "to" ? old.from : drag.at;
    if (Math.abs(xOf(at) - xOf(fixed)) < LEAST_DRAWN_PX) return;
    view.show({ from: Math.min(at, fixed), to: Math.max(at, fixed) }, now);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const span = window.to - window.from;
    const from = step === -Infinity ? 0 : step === Infinity ? whole.to - span : window.from + step * span;
    if (!isWhole) view.show({ from, to: from + span }, now);
  };
  const end = store.elapsed(performance.now());
  const said = isWhole ? `all ${formatDuration(end)}` : `${formatDuration(Math.min(window.to, end) - window.from)} of ${formatDuration(end)}`;
  return (
    <div class="et-overview">
      <span class="et-overview-name" aria-hidden="true">{said}</span>
      <div ref={box} class="et-minimap" style={{ width: `${width}px` }} data-drag={drag?.kind}
        onPointerDown={press} onPointerMove={move} onPointerUp={() => setDrag(null)} onPointerCancel={() => setDrag(null)}
        onDblClick={() => view.fit()}>
        <svg width={width} height={HEIGHT} aria-hidden="true">
          <path class="et-minimap-work" d={paths.work} /><path class="et-minimap-errors" d={paths.errors} />
        </svg>
        <i class="et-minimap-rest" style={{ left: 0, width: `${left}px` }} />
        <i class="et-minimap-rest" style={{ left: `${right}px`, right: 0 }} />
        <div class="et-minimap-window" role="slider" tabIndex={0} aria-label="Time on screen" aria-valuemin={0}
          aria-valuemax={Math.round(Math.max(end * (1 - (window.to - window.from) / whole.to), window.from))} aria-valuenow={Math.round(window.from)}
          aria-valuetext={isWhole ? `the whole run, ${formatDuration(end)}` : `${formatDuration(window.from)} to ${formatDuration(Math.min(window.to, end))} of ${formatDuration(end)}`}
          title="Time on screen: drag it, or its edges; a double-click shows the whole run" style={{ left: `${left}px`, width: `${Math.max(right - left, 2)}px` }} onKeyDown={onKey} />
      </div>
    </div>
  );
}

/** How much was done at once, as high as its share in the most that ever was; and where something failed. */
export function pathsOf(store: Store, whole: TimeWindow, width: number, now: number): { work: string; errors: string } {
  const rows: Row[] = [];
  const failed = new Set<number>();
  for (const row of store.rows()) {
    const isAtWork = isBusy(row) && row.kind !== "review";
    if (isAtWork) rows.push(row);
    if (isError(row) && (isTask(row) || isAtWork)) failed.add(Math.round(toPixel(whole, width, row.end_ms ?? row.start_ms ?? 0)));
  }
  const columns = heatColumns(heatOf(rows), whole, width / COLUMN_PX, now);
  const most = columns.reduce((found, value) => Math.max(found, value), 0);
  let work = `M0 ${HEIGHT}`;
  let y = HEIGHT;
  columns.forEach((value, k) => {
    // What is there at all is seen.
    const next = value < 0.01 ? HEIGHT : Math.min(HEIGHT - 2, HEIGHT - Math.round((value / most) * (HEIGHT - TOP)));
    if (next !== y) work += `H${k * COLUMN_PX}V${next}`;
    y = next;
  });
  const errors = [...failed].sort((a, b) => a - b).filter((x, k, all) => k === 0 || x - (all[k - 1] as number) >= 2);
  // A tick has a thick head, so that it is no work of another colour.
  return { work: `${work}H${width}V${HEIGHT}Z`, errors: errors.map((x) => `M${x - 2} 1h4v3h-1v${HEIGHT - 5}h-2v${5 - HEIGHT}h-1z`).join("") };
}
