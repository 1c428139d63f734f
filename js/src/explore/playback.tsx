// The playhead (W35): a handle over the axis by which a run that is over is shown as it was at a time, and what plays it.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon } from "../elements/icon";
import { type TimeWindow, toPixel, toTime } from "../layout/time-scale";
import { type PastStore, pastOf } from "../store/past-store";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import { formatDuration, formatExactCount, pluralize } from "../wording/numbers";

const SPEEDS = [1, 4, 16];
const STEP_PX = 8;
/** Half as wide as the handle is at least. */
const PILL_PX = 28;
/** By how many pixels a key moves the playhead; a page is a tenth of the chart. */
const STEPS: Record<string, (width: number) => number> = {
  ArrowLeft: () => -STEP_PX, ArrowRight: () => STEP_PX, ArrowDown: () => -STEP_PX, ArrowUp: () => STEP_PX,
  PageDown: (width) => -width / 10, PageUp: (width) => width / 10, Home: () => -Infinity, End: () => Infinity,
};

const pasts = new WeakMap<Store, { past: PastStore; version: number }>();

const isLookedBack = (view: View): boolean => (view.hasPlayhead.value || view.time.value !== null) && view.hasPast;

export const lengthOf = (whole: Store): number => whole.run.value?.elapsed_ms ?? 0;

/** Has all views of the run show it as it was at the time that is selected. */
export function followTime(view: View): void {
  const { present: whole, time } = view;
  time.value;
  whole.version.value;
  // What is shown is changed once whoever notes what is read here has gone.
  queueMicrotask(() => {
    const ms = time.peek();
    if (ms === null || ms >= lengthOf(whole) || !view.hasPast) {
      whole.past.value = null;
      return;
    }
    let kept = pasts.get(whole);
    if (!kept) pasts.set(whole, (kept = { past: pastOf(whole), version: whole.version.peek() }));
    kept.past.goTo(Math.max(0, ms));
    if (kept.version !== whole.version.peek()) kept.past.refresh();
    kept.version = whole.version.peek();
    whole.past.value = kept.past;
  });
}

/** At its end a run is shown as it is. */
export function goTo(view: View, ms: number): void {
  view.time.value = ms >= lengthOf(view.present) ? null : Math.max(0, ms);
}

/** The handle, and the axis, on which it goes to where a person presses. */
export function Playhead({ view }: { view: View; change: number }): VNode | null {
  const [{ value: window }, { value: width }] = [view.window, view.width];
  if (view.shape.value !== "chart" || !isLookedBack(view)) return null;
  return <TimeSlider view={view} window={window} width={width} />;
}

/** Where in a stretch of time the run is shown, to be dragged, pressed and moved by keys. */
export function TimeSlider({ view, window, width }: { view: View; window: TimeWindow; width: number }): VNode {
  const length = lengthOf(view.present);
  const ms = Math.min(view.time.value ?? length, length);
  const x = toPixel(window, width, ms);
  const isInSight = x >= -2 && x <= width + 2;
  const onKey = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    view.isPlaying.value = false;
    goTo(view, toTime(window, width, x + step(width)));
  };
  const drag = (event: PointerEvent & { currentTarget: HTMLElement }): void => {
    goTo(view, toTime(window, width, event.clientX - event.currentTarget.getBoundingClientRect().left));
  };
  return (
    <>
      <div class="et-playhead-track" title="Shows the run as it was then"
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture?.(event.pointerId);
          view.isPlaying.value = false;
          drag(event);
        }}
        onPointerMove={(event) => event.currentTarget.hasPointerCapture?.(event.pointerId) && drag(event)} />
      {isInSight && <div class="et-playhead-line" style={{ left: `${x}px` }} />}
      <div class="et-playhead" role="slider" tabIndex={0} aria-label="Playhead" title="Drag, or arrow keys"
        aria-valuemin={0} aria-valuemax={Math.round(length)} aria-valuenow={Math.round(ms)} aria-valuetext={describeTime(view, ms)}
        style={{ left: `${Math.min(Math.max(x, PILL_PX), width - PILL_PX)}px`, display: isInSight ? undefined : "none" }} onKeyDown={onKey}>{formatDuration(ms)}</div>
    </>
  );
}

function describeTime(view: View, ms: number): string {
  const run = view.store.run.value;
  const done = run ? `, ${formatExactCount(run.tasks_done)} of ${pluralize(run.tasks_total, run.task_noun)} done` : "";
  return `${formatDuration(ms)} of ${formatDuration(lengthOf(view.present))}${done}`;
}

/** What plays the run, and how it is shown meanwhile: above the chart, or in the strip below the graph. */
export function Playback({ view, isStrip = false }: { view: View; change: number; isStrip?: boolean }): VNode | null {
  const isHere = (view.shape.value === "graph") === isStrip;
  const [speed, setSpeed] = useState(1);
  const isPlaying = view.isPlaying.value;
  const length = lengthOf(view.present);
  const canPlay = view.hasPast;
  const close = (): void => {
    view.time.value = null;
    view.hasPlayhead.value = view.isPlaying.value = false;
  };
  useEffect(() => {
    if (!isHere) return undefined;
    if (isPlaying && canPlay) return play(view, speed);
    if (isPlaying) close();
    return undefined;
  }, [view, isHere, isPlaying, canPlay, speed]);
  const isBack = isLookedBack(view);
  if (!isHere || !(isBack || (isStrip && canPlay))) return null;
  const notes = listNotes(view);
  return (
    <div class="et-playback" role="group" aria-label="Playhead">
      <button class="et-play" aria-label={isPlaying ? "Pause" : "Play"} title={isPlaying ? "Pause (space)" : "Play (space)"} onClick={() => view.togglePlay()}>
        <Icon name={isPlaying ? "waiting" : "resume"} />
      </button>
      {isBack && (
        <span class="et-speeds" role="group" aria-label="Speed">
          {SPEEDS.map((each) => <button aria-pressed={each === speed} title={`${each} times as fast as it was`} onClick={() => setSpeed(each)}>{each}x</button>)}
        </span>
      )}
      {!isStrip && <span class="et-play-time"><b>{formatDuration(view.time.value ?? length)}</b> of {formatDuration(length)}</span>}
      {isBack && notes.length > 0 && <span class="et-play-notes" title={notes.join("\n")}>{notes.join(" ")}</span>}
      {!isStrip && <span class="et-spring" />}
      {view.time.value !== null && <button class="et-choice" title="Shows the run as it ended" onClick={() => (view.time.value = null)}>End</button>}
      {!isStrip && <button class="et-button" aria-label="Put the playhead away" title="Put the playhead away" onClick={close}><Icon name="error" size={12} /></button>}
    </div>
  );
}

/** Moves on frame by frame, from the beginning where the end is shown; gives what stops that. */
function play(view: View, speed: number): () => void {
  const length = lengthOf(view.present);
  let before: number | null = null;
  let isStopped = false;
  const step = (now: number): void => {
    if (isStopped || !view.isPlaying.peek()) return;
    const next = (view.time.peek() ?? (before === null ? 0 : length)) + (before === null ? 0 : (now - before) * speed);
    before = now;
    goTo(view, next);
    if (next >= length) view.isPlaying.value = false;
    else if (view.follow.peek() !== "fit") view.bring(next, next);
    // The move itself may be noticed by who stops it.
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
  return () => void (isStopped = true);
}

/** What of the past is not known, and how it is shown all the same. */
function listNotes(view: View): string[] {
  const { store, present: whole } = view;
  const { rows: missing } = whole.leftOut.value;
  const isPieced = store !== whole && (store as PastStore).isPieced;
  const notes: string[] = [];
  if (missing > 0) {
    notes.push(`Bars are those of ${formatExactCount(whole.size)} of ${pluralize(whole.size + missing, "span")} kept here, ${isPieced ? "and so are the sums." : "sums those of all."}`);
  }
  if (whole.kinds.has("llm") && whole.run.value?.capture_mode !== "metadata") notes.push("Replies grow by their share of the time.");
  return notes;
}
