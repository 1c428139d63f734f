// Time to pixels and back: the window over the run that is on screen, how it zooms, pans and follows, and where its ticks
// are. Pure arithmetic on milliseconds; knows nothing of rows or canvases.

/** The stretch of time on screen, in milliseconds from the start of the run. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** How the window moves by itself: `fit` shows the whole run, `now` keeps its width and stays at the end. */
export type FollowMode = "fit" | "now" | "off";

const SHORTEST_MS = 1;
const EMPTY_MS = 1000;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  900_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 21_600_000, 43_200_000, 86_400_000,
];

export const toPixel = (window: TimeWindow, width: number, ms: number): number =>
  ((ms - window.from) / (window.to - window.from)) * width;

export const toTime = (window: TimeWindow, width: number, x: number): number =>
  window.from + (x / width) * (window.to - window.from);

/** The whole run from 0 to `end`, with `margin` of the `width` pixels left free after it. */
export function fitRun(end: number, width: number, margin: number): TimeWindow {
  const length = Math.max(end, EMPTY_MS);
  const used = Math.max(0.5, 1 - margin / Math.max(width, 1));
  return { from: 0, to: length / used };
}

/** The same width of time, moved so that `end` stands `margin` pixels before the right edge. */
export function followEnd(window: TimeWindow, end: number, width: number, margin: number): TimeWindow {
  const span = window.to - window.from;
  const to = end + span * Math.min(0.5, margin / Math.max(width, 1));
  return { from: to - span, to };
}

/** Zooms by `factor` (below 1 is closer) so that the moment under `x` stays under it. */
export function zoom(window: TimeWindow, width: number, x: number, factor: number, end: number): TimeWindow {
  const at = toTime(window, width, x);
  const span = window.to - window.from;
  const longest = Math.max(end, EMPTY_MS) * 4;
  const next = Math.min(Math.max(span * factor, SHORTEST_MS), longest);
  const from = at - (at - window.from) * (next / span);
  return within({ from, to: from + next }, end);
}

/** Moves by `pixels` to the right (the content goes left). */
export function pan(window: TimeWindow, width: number, pixels: number, end: number): TimeWindow {
  const shift = (pixels / width) * (window.to - window.from);
  return within({ from: window.from + shift, to: window.to + shift }, end);
}

/** Around one span, with a tenth of its length to either side. */
export function fitSpan(start: number, stop: number): TimeWindow {
  const length = Math.max(stop - start, SHORTEST_MS);
  return { from: start - length * 0.1, to: stop + length * 0.1 };
}

/** Keeps at least a fifth of the window over the run, so that nobody gets lost in the empty. */
function within(window: TimeWindow, end: number): TimeWindow {
  const span = window.to - window.from;
  const lowest = -span * 0.8;
  const highest = Math.max(end, EMPTY_MS) - span * 0.2;
  const from = Math.min(Math.max(window.from, lowest), Math.max(highest, lowest));
  return { from, to: from + span };
}

/** Round moments at least `apart` pixels from each other. Nothing before the start of the run is labelled. */
export function ticks(window: TimeWindow, width: number, apart: number): Tick[] {
  const least = ((window.to - window.from) / Math.max(width, 1)) * apart;
  const largest = STEPS[STEPS.length - 1] as number;
  const step = STEPS.find((candidate) => candidate >= least) ?? Math.ceil(least / largest) * largest;
  const found: Tick[] = [];
  for (let k = Math.max(0, Math.ceil(window.from / step)); k * step <= window.to; k += 1) {
    found.push({ at: k * step, label: tickLabel(k * step, step) });
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
