// The lane under the axis (W33): one value over time, on a canvas of its own, with its limit, its scale, and what it is under the
// pointer, else at the end of the span that is selected.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { fill, labelFont, stroke } from "../draw/strokes";
import { type TimeWindow, toPixel, toTime } from "../layout/time-scale";
import { readPoints } from "../store/series";
import type { Store } from "../store/store";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import type { Run } from "../wire/rows";
import { formatCount, formatDuration, formatExactCount, formatMoney } from "../wording/numbers";
import { costSteps, largestIn, requestSteps, type Steps, tokenSteps, valueAt, workSteps } from "./lane-series";
import type { LaneName } from "./look";
import { settled } from "./kept-values";

export const LANE_HEIGHT = 52;
const TOP = 14;
const BOTTOM = 3;
/** Of each value that is drawn. */
const STEP_PX = 2;
/** Lines go on beyond what is in sight. */
const EDGE = 4;
/** The limit is in sight from this share of it on; before, the values would be a flat line. */
const LEAST_SHARE = 0.15;

export interface Lane {
  readonly name: LaneName;
  /** Among the switches. */
  readonly short: string;
  title(run: Run): string;
  has(run: Run): boolean;
  stepsOf(view: View, run: Run): Steps;
  limitOf?(run: Run): number | null | undefined;
  readonly limitName?: string;
  write(value: number, run: Run): string;
  /** What it has come to by now, where that is not the most it was. */
  nowOf?(run: Run): string;
}

export const LANES: readonly Lane[] = [
  {
    name: "cost", short: "Cost", title: () => "Cost so far", has: (run) => Boolean(run.cost), limitName: "budget",
    stepsOf: ({ present }) => costOf(present), limitOf: (run) => run.budget?.max_cost, write: (value, run) => formatMoney(value, run.currency),
    nowOf: (run) => `${run.cost_complete ? "" : "≥ "}${formatMoney(run.cost, run.currency)}`,
  },
  {
    name: "tokens", short: "Tokens a second", title: () => "Tokens out a second", has: (run) => Boolean(run.output_tokens),
    stepsOf: ({ present: store }) => tokenSteps(store.rows()), write: (value) => `${formatCount(value)}/s`,
  },
  {
    name: "work", short: "Side by side", title: () => "Tasks side by side", has: (run) => run.tasks_total > 0, limitName: "limit",
    stepsOf: ({ present: store }) => workSteps(store), limitOf: (run) => run.max_concurrency, write: formatExactCount,
  },
  {
    name: "requests", short: "Requests", title: (run) => `Requests in ${formatDuration(run.rate_limit_ms)}`, has: (run) => run.rate_limit != null && run.llm_call_count > 0,
    limitName: "rate limit", stepsOf: ({ present: store }, run) => requestSteps(store.rows(), run.rate_limit_ms ?? 0), limitOf: (run) => run.rate_limit, write: formatExactCount,
  },
];

/** Where rows were left out, the kernel has told how it went with all of them (W35). */
export function costOf(store: Store): Steps {
  const points = store.leftOut.value.rows > 0 ? readPoints(store.series) : null;
  return points ? { times: points.map(({ at_ms }) => at_ms), values: points.map(({ cost }) => cost) } : costSteps(store.rows());
}

interface Props {
  view: View;
  lane: Lane;
  theme: Theme;
  /** Another number whenever something may have changed. */
  change: number;
}

export function LaneView({ view, lane, theme }: Props) {
  const { present: store } = view;
  const canvas = useRef<HTMLCanvasElement>(null);
  const pointer = usePointer(canvas);
  const run = store.run.value;
  const steps = run && settled(view, "lane", lane.name, () => lane.stepsOf(view, run));
  view.age.value;
  const now = view.time.value ?? view.now;
  const [width, window] = [view.width.value, view.window.value];
  const selected = view.selectedRow.value;
  const isPointed = pointer !== null && pointer <= width;
  const at = isPointed ? toTime(window, width, pointer) : view.time.value !== null ? view.time.value : selected?.start_ms == null ? null : (selected.end_ms ?? now);
  const isInside = at !== null && at >= 0 && at <= now;
  const value = steps && isInside ? valueAt(steps, at) : null;
  const left = lane.name === "cost" && store.series ? 0 : store.leftOut.value.rows;
  useLayoutEffect(() => {
    if (canvas.current && steps && run) draw(canvas.current, { lane, run, steps, width, window, now, theme, at: isInside ? at : null, value });
  });
  if (!run || !steps) return null;
  return (
    <>
      <div class="et-lane-name">
        <b>{lane.title(run)}</b>
        <span>{value === null ? sumUp(lane, run, steps) : `${lane.write(value, run)} at ${formatDuration(at)}`}</span>
        {left > 0 && <span class="et-lane-left" title={`The saved view has left ${formatExactCount(left)} spans out, to stay small`}>{`without ${formatExactCount(left)} spans`}</span>}
      </div>
      <canvas ref={canvas} class="et-lane" aria-hidden="true" />
    </>
  );
}

function sumUp(lane: Lane, run: Run, { values }: Steps): string {
  const limit = lane.limitOf?.(run);
  const most = values.reduce((found, value) => Math.max(found, value), 0);
  return `${lane.nowOf?.(run) ?? `up to ${lane.write(most, run)}`}${limit == null ? "" : ` of ${lane.write(limit, run)}`}`;
}

/** Where the pointer is over the chart, in pixels from its left; null where it is elsewhere. */
function usePointer(canvas: { current: HTMLCanvasElement | null }): number | null {
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const stage = canvas.current?.closest(".et-chart")?.querySelector<HTMLElement>(".et-stage");
    if (!stage) return undefined;
    const move = (event: PointerEvent): void => setAt(event.clientX - stage.getBoundingClientRect().left);
    const leave = (): void => setAt(null);
    stage.addEventListener("pointermove", move);
    stage.addEventListener("pointerleave", leave);
    return () => {
      stage.removeEventListener("pointermove", move);
      stage.removeEventListener("pointerleave", leave);
    };
  }, []);
  return at;
}

interface Drawn {
  readonly lane: Lane;
  readonly run: Run;
  readonly steps: Steps;
  readonly width: number;
  readonly window: TimeWindow;
  readonly now: number;
  readonly theme: Theme;
  readonly at: number | null;
  readonly value: number | null;
}

function draw(canvas: HTMLCanvasElement, { lane, run, steps, width, window, now, theme, at, value }: Drawn): void {
  const ctx = canvas.getContext("2d");
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(LANE_HEIGHT * ratio)];
  if (!ctx || width === 0) return;
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, LANE_HEIGHT);
  const edges = Array.from({ length: Math.ceil(width / STEP_PX) + 1 }, (_, k) => toTime(window, width, k * STEP_PX));
  const values = largestIn(steps, edges);
  const most = Math.max(...values);
  const limit = lane.limitOf?.(run) ?? null;
  const isLimitShown = limit !== null && most >= limit * LEAST_SHARE;
  const top = Math.max(most, isLimitShown ? limit : 0) || 1;
  const yOf = (amount: number): number => LANE_HEIGHT - BOTTOM - (amount / top) * (LANE_HEIGHT - BOTTOM - TOP);
  ctx.font = labelFont(theme);
  ctx.textBaseline = "middle";
  ctx.lineJoin = "round";
  /** With the background around it, since there are lines below. */
  const say = (words: string, x: number, y: number, color: string): void => {
    ctx.lineWidth = 4;
    ctx.strokeStyle = theme.background;
    ctx.strokeText(words, x, y);
    ctx.fillStyle = color;
    ctx.fillText(words, x, y);
  };
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, 0, toPixel(window, width, now), LANE_HEIGHT);
  ctx.clip();
  ctx.beginPath();
  ctx.moveTo(-EDGE, yOf(0));
  values.forEach((each, k) => {
    ctx.lineTo(k === 0 ? -EDGE : k * STEP_PX, yOf(each));
    ctx.lineTo((k + 1) * STEP_PX, yOf(each));
  });
  ctx.lineTo(width + EDGE, yOf(values.at(-1) ?? 0));
  ctx.lineTo(width + EDGE, yOf(0));
  fill(ctx, theme.hues.llm, 0.16);
  ctx.lineWidth = 1.5;
  stroke(ctx, theme.hues.llm, 1);
  ctx.restore();
  ctx.fillStyle = theme.muted;
  ctx.fillRect(0, LANE_HEIGHT - 0.5, width, 0.5);
  if (limit !== null) {
    const words = `${lane.limitName} ${lane.write(limit, run)}${isLimitShown ? "" : " ↑"}`;
    const y = isLimitShown ? Math.round(yOf(limit)) + 0.5 : TOP;
    if (isLimitShown) {
      ctx.setLineDash([5, 4]);
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.moveTo(0, y);
      ctx.lineTo(width, y);
      stroke(ctx, theme.hues.wait, 1);
      ctx.setLineDash([]);
    }
    say(words, width - ctx.measureText(words).width - 6, y - 7, theme.text);
  }
  // The scale: what the top of the lane stands for, where that is no limit.
  if (most === top) say(lane.write(top, run), 6, TOP - 7, theme.muted);
  if (at === null || value === null) return;
  const x = toPixel(window, width, at);
  const words = lane.write(value, run);
  const w = ctx.measureText(words).width + 7;
  ctx.fillStyle = theme.text;
  ctx.fillRect(Math.round(x), TOP, 1, LANE_HEIGHT);
  ctx.beginPath();
  ctx.arc(x, yOf(value), 3, 0, 2 * Math.PI);
  ctx.fill();
  // Below the words of scale and limit.
  say(words, x + w < width ? x + 7 : x - w, Math.min(Math.max(yOf(value) - 8, TOP + 7), LANE_HEIGHT - 9), theme.text);
}
