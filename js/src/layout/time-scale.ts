// Time to pixels and back: the window over the run that is on screen, how it zooms, pans and follows, and where its ticks
// are. Pure arithmetic on milliseconds; knows nothing of rows or canvases.

/** A part of the run, in milliseconds from its start. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** A stretch that is drawn shorter than it was: of each of its milliseconds the share `cut` is left out. */
export interface Fold extends Stretch {
  readonly cut: number;
}

/** The stretch of time on screen, and what in it is folded, in order of time. Windows over a part of the run fold nothing. */
export interface TimeWindow extends Stretch {
  readonly folds?: readonly Fold[];
}

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** How the window moves by itself: `fit` shows the whole run, `all` too and folds nothing, `now` keeps its width and stays at the end. */
export type FollowMode = "fit" | "all" | "now" | "off";

export const SHORTEST_MS = 1;
const EMPTY_MS = 1000;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  900_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 43_200_000, 86_400_000,
];

/** How far along the axis a moment stands, in milliseconds of what is not folded. */
const along = ({ folds }: TimeWindow, ms: number): number =>
  folds ? folds.reduce((at, { from, to, cut }) => at - cut * Math.min(Math.max(ms - from, 0), to - from), ms) : ms;

const spanOf = (window: TimeWindow): number => along(window, window.to) - along(window, window.from);

export const toPixel = (window: TimeWindow, width: number, ms: number): number =>
  ((along(window, ms) - along(window, window.from)) / spanOf(window)) * width;

export const toTime = (window: TimeWindow, width: number, x: number): number =>
  (window.folds ?? []).reduce(
    (ms, { from, to, cut }) => ms + cut * Math.min(Math.max((ms - from) / (1 - cut), 0), to - from),
    along(window, window.from) + (x / width) * spanOf(window),
  );

/** How far the run goes, and on how many pixels it is shown: what no window may leave. */
export interface Extent {
  /** The end of the run, or its age, in milliseconds from the start. */
  readonly end: number;
  readonly width: number;
  /** Pixels that stay free right of the end. */
  readonly margin: number;
  /** False while more may come: then a second is the least that is shown, so that a run's first moments don't race. */
  readonly isOver: boolean;
}

/** How much time the whole run is shown as. */
export const lengthOf = ({ end, isOver }: Extent): number => Math.max(end, isOver && end > 0 ? SHORTEST_MS : EMPTY_MS);

/** The share of a window that the run may fill. */
export const shareOf = ({ width, margin }: Extent): number => Math.max(0.5, 1 - margin / Math.max(width, 1));

/** The whole run from 0 to its end. */
export const fitRun = (extent: Extent): TimeWindow => ({ from: 0, to: lengthOf(extent) / shareOf(extent) });

/** The same width of time, moved so that the end stands at its margin. */
export function followEnd(window: TimeWindow, extent: Extent): TimeWindow {
  const span = window.to - window.from;
  const to = extent.end + span * (1 - shareOf(extent));
  return { from: to - span, to };
}

/** Zooms by `factor` (below 1 is closer) so that the moment under `x` stays under it, and nothing is folded any more. */
export function zoom(window: TimeWindow, x: number, factor: number, extent: Extent): TimeWindow {
  // What is folded is in a window over the whole run, than which none is wider.
  if (window.folds && factor >= 1) return window;
  const next = Math.max(spanOf(window) * factor, SHORTEST_MS);
  const from = toTime(window, extent.width, x) - (x / extent.width) * next;
  return within({ from, to: from + next }, extent);
}

/** Moves by `pixels` to the right (the content goes left). */
export function pan(window: TimeWindow, pixels: number, extent: Extent): TimeWindow {
  if (window.folds) return window;
  const shift = (pixels / extent.width) * (window.to - window.from);
  return within({ from: window.from + shift, to: window.to + shift }, extent);
}

/** Around one span, with a tenth of its length to either side. */
export function fitSpan(start: number, stop: number, extent: Extent): TimeWindow {
  const length = Math.max(stop - start, SHORTEST_MS);
  return within({ from: start - length * 0.1, to: stop + length * 0.1 }, extent);
}

/** Moved no further than it must so that the span is in sight: all of it where it fits, else its nearer end. */
export function bringIn(window: TimeWindow, start: number, stop: number, extent: Extent): TimeWindow {
  const span = window.to - window.from;
  const space = span * 0.1;
  const isIn = start >= window.from && stop <= window.to;
  const isAcross = start <= window.from + space && stop >= window.to - space;
  if (isIn || isAcross) return window;
  let from = window.from;
  if (stop - start > span - 2 * space) from = start < window.from && stop < window.to ? stop + space - span : start - space;
  else if (start < window.from) from = start - space;
  else from = stop + space - span;
  return within({ from, to: from + span }, extent);
}

/** Keeps the window on the run: it is never wider than the run, and never shows what is before or after it. */
export function within(window: TimeWindow, extent: Extent): TimeWindow {
  const all = fitRun(extent);
  const span = window.to - window.from;
  if (span >= all.to) return all;
  const highest = lengthOf(extent) - span * shareOf(extent);
  const from = Math.max(0, Math.min(window.from, highest));
  return { from, to: from + span };
}

/** Round moments at least `apart` pixels from each other, and before a fold. Nothing before the start of the run is labelled. */
export function ticks(window: TimeWindow, width: number, apart: number): Tick[] {
  const least = (spanOf(window) / Math.max(width, 1)) * apart;
  const largest = STEPS[STEPS.length - 1] as number;
  const step = STEPS.find((candidate) => candidate >= least) ?? Math.ceil(least / largest) * largest;
  const found: Tick[] = [];
  for (let k = Math.max(0, Math.ceil(window.from / step)); k * step <= window.to; k += 1) {
    const fold = window.folds?.find(({ from, to }) => k * step > from - least && k * step < to);
    if (fold) k = Math.ceil(fold.to / step) - 1;
    else found.push({ at: k * step, label: tickLabel(k * step, step) });
  }
  return found;
}

/**
 * A moment in the unit its step calls for: `350 ms`, `1.2 s`, `20 s`, `1:20`, `1:02:00`. `formatDuration` rounds to what a
 * person takes in, which would give two ticks of a deep zoom the same label.
 */
export function tickLabel(ms: number, step: number): string {
  if (ms === 0) return "0 s";
  if (ms < 1000) return `${ms} ms`;
  const digits = step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
  if (ms < 60_000) return `${(ms / 1000).toFixed(digits)} s`;
  const seconds = ms / 1000;
  const h = Math.floor(seconds / 3600);
  const m = Math.floor(seconds / 60) % 60;
  const rest = (seconds % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${rest}` : `${m}:${rest}`;
}
