// Below the graph, 48 pixels high: how much was done at once, what it had cost, and when in the run it is.

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type TimeWindow, toPixel, toTime } from "../layout/time-scale";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import { formatClock, formatDuration, formatMoney } from "../wording/numbers";
import { settled } from "./kept-values";
import { costOf } from "./lane";
import { largestIn, valueAt } from "./lane-series";
import { HEIGHT as WORK_HEIGHT, pathsOf } from "./minimap";
import { lengthOf, Playback, TimeSlider } from "./playback";

const HEIGHT = 48;
const TOP = 6;
const STEP_PX = 2;
/** A run that goes on has room for what comes, and is at first shown as if it took so long. */
const LEAST_MS = 10_000;
const NOW_AT = 0.9;
/** The budget is in sight from this share of it on. */
const LEAST_SHARE = 0.15;

export function Strip({ view, change }: { view: View; change: number }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element || typeof ResizeObserver === "undefined") return undefined;
    const sizes = new ResizeObserver(() => setWidth(element.clientWidth));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  const { present, store } = view;
  const run = store.run.value;
  const now = present.isTicking ? view.age.value : view.now;
  const drawn = width > 0 && run ? settled(view, "strip", `${width}`, () => draw(present, width, now)) : null;
  const at = view.time.value;
  const limit = run?.budget?.max_cost;
  return (
    <div class="et-strip" role="group" aria-label="Time and cost">
      <Playback view={view} change={change} isStrip />
      <div ref={box} class="et-strip-times">
        {drawn && (
          <>
            <svg width={width} height={HEIGHT} aria-hidden="true">
              <g transform={`translate(0 ${HEIGHT - WORK_HEIGHT})`}><path class="et-minimap-work" d={drawn.work} /><path class="et-minimap-errors" d={drawn.errors} /></g>
              {drawn.limit !== null && <path class="et-strip-limit" d={`M0 ${drawn.limit}H${width}`} />}
              {drawn.cost && <path class="et-strip-cost" d={drawn.cost} />}
            </svg>
            {view.hasPast ? <TimeSlider view={view} window={drawn.window} width={width} /> : <div class="et-playhead-line" style={{ left: `${toPixel(drawn.window, width, now)}px` }} />}
          </>
        )}
      </div>
      <div class="et-strip-said">
        <span>{present.isTicking ? formatClock(now) : `${at === null ? "" : `${formatDuration(at)} of `}${formatDuration(lengthOf(present))}`}</span>
        {run?.cost != null && <span title="Cost so far">{run.cost_complete ? "" : "≥ "}<b>{formatMoney(run.cost, run.currency)}</b>{limit ? ` of ${formatMoney(limit, run.currency)}` : ""}</span>}
      </div>
    </div>
  );
}

/** The lines of the strip, over the whole run. */
function draw(store: Store, width: number, now: number): { window: TimeWindow; work: string; errors: string; cost: string; limit: number | null } {
  const window = { from: 0, to: store.isOver ? Math.max(1, lengthOf(store)) : Math.max(LEAST_MS, now / NOW_AT) };
  const steps = costOf(store);
  const [most, budget] = [valueAt(steps, Infinity), store.run.value?.budget?.max_cost ?? Infinity];
  const isNear = most >= budget * LEAST_SHARE;
  const top = Math.max(most, isNear ? budget : 0) || 1;
  const yOf = (value: number): number => Math.round(HEIGHT - 1 - (value / top) * (HEIGHT - 1 - TOP));
  const end = Math.min(width, toPixel(window, width, now));
  let cost = `M0 ${yOf(0)}`;
  largestIn(steps, Array.from({ length: Math.floor(end / STEP_PX) + 1 }, (_, k) => toTime(window, width, k * STEP_PX))).forEach((value, k, all) => {
    if (value !== (all[k - 1] ?? 0)) cost += `H${k * STEP_PX}V${yOf(value)}`;
  });
  return { window, ...pathsOf(store, window, width, now), cost: most ? `${cost}H${Math.round(end)}` : "", limit: isNear ? yOf(budget) : null };
}
