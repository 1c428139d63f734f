// The times of a run of which a person has said something (W135), by name: above the chart where they were, and over it as bands. One
// leads back to its time, and says what was noted.

import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { toPixel } from "../layout/time-scale";
import type { View } from "../view/view";
import { isObject } from "../wire/guards";
import type { Range } from "../wire/rows";
import { formatDuration } from "../wording/numbers";

const LANE = 24;
const LETTER = 7;
const ROOM = 26;
const LONGEST = 220;
const APART = 4;
/** Times are told to the microsecond. */
const ROUNDED = 0.001;

export interface PlacedRange {
  readonly range: Range;
  readonly title: string;
  /** Where its name begins, and in which lane. */
  readonly left: number;
  readonly lane: number;
  /** Where its time is, in pixels; both are at an edge where it is out of sight. */
  readonly from: number;
  readonly to: number;
}

export function NamedRanges({ view }: { view: View; change: number }): VNode | null {
  const box = useRef<HTMLDivElement>(null);
  const [around, setAround] = useState({ left: 0, height: 0 });
  const ranges = rangesOf(view);
  const [{ value: width }, { value: window }, { value: marked }] = [view.width, view.window, view.range];
  const isChart = view.shape.value === "chart";
  useLayoutEffect(() => {
    const stage = box.current?.closest(".ensemble-timeline")?.querySelector<HTMLElement>(".et-stage");
    const next = { left: stage?.offsetLeft ?? 0, height: stage?.offsetHeight ?? 0 };
    if (next.left !== around.left || next.height !== around.height) setAround(next);
  });
  if (ranges.length === 0) return null;
  const placed = placeRanges(ranges, width, (ms) => toPixel(window, width, ms));
  const isMarked = ({ from_ms, to_ms }: Range): boolean => !!marked && Math.abs(marked.from - from_ms) < ROUNDED && Math.abs(marked.to - to_ms) < ROUNDED;
  const lead = (range: Range): void => {
    if (isMarked(range)) return void (view.range.value = null);
    view.showAs("chart");
    view.range.value = { from: range.from_ms, to: range.to_ms };
    if (range.from_ms < window.from || range.to_ms > window.to) view.fitRange(view.now);
  };
  const lanes = placed.reduce((most, { lane }) => Math.max(most, lane + 1), 0);
  return (
    <div ref={box} class="et-named" data-shape={view.shape.value} role="group" aria-label="Named ranges">
      <span class="et-named-head" aria-hidden="true">Named</span>
      <div class="et-named-names" style={isChart ? { marginLeft: `${around.left}px`, width: `${width}px` } : undefined}>
        <div style={isChart ? { height: `${lanes * LANE}px` } : undefined}>
          {placed.map(({ range, title, left, lane, from, to }) => (
            <div class="et-named-range" data-said={saidOf(range)} style={isChart ? { top: `${lane * LANE}px` } : undefined}>
              {isChart && <i style={{ left: `${from}px`, width: `${Math.max(to - from, 2)}px` }} />}
              <button aria-pressed={isMarked(range)} aria-label={`${title}, ${timesOf(range)}`} title={[`${title}: ${timesOf(range)}`, range.reason].filter(Boolean).join("\n")}
                style={isChart ? { left: `${left}px` } : undefined} onClick={() => lead(range)}>{title}</button>
            </div>
          ))}
        </div>
      </div>
      {isChart && (
        <div class="et-named-bands" aria-hidden="true" style={{ left: `${around.left}px`, width: `${width}px`, height: `${around.height}px` }}>
          {placed.filter(({ from, to }) => to > from).map(({ range, from, to }) => <i data-said={saidOf(range)} style={{ left: `${from}px`, width: `${to - from}px` }} />)}
        </div>
      )}
      <div role="status">
        {placed.filter(({ range }) => isMarked(range)).map(({ range, title }) => (
          <p class="et-named-note"><b>{title}</b> {range.reason}{range.author && <span> {range.author}</span>}</p>
        ))}
      </div>
    </div>
  );
}

/** What a page may be told is not trusted: what is no range of time is left out. */
function rangesOf({ present }: View): readonly Range[] {
  const told: unknown = present.run.value?.ranges;
  return Array.isArray(told) ? told.filter(isRange) : [];
}

const isRange = (value: unknown): value is Range =>
  isObject(value) && typeof value.name === "string" && Number.isFinite(value.from_ms) && Number.isFinite(value.to_ms)
  && [value.reason ?? "", value.author ?? ""].every((text) => typeof text === "string") && ["boolean", "number", "string", "undefined"].includes(typeof (value.value ?? undefined));

/** What a person said, in a word or two. */
export function titleOf({ name, value }: Range): string {
  const said = typeof value === "boolean" ? (value ? "good" : "bad") : String(value ?? "");
  if (name === "mark" || name === "label") return said || name;
  return `${name}: ${said}`;
}

const saidOf = ({ value }: Range): string => (value === true ? "good" : value === false ? "bad" : "word");

const timesOf = ({ from_ms, to_ms }: Range): string => `${from_ms < 1 ? "0 s" : formatDuration(from_ms)} to ${formatDuration(to_ms)}`;

/** Each in the first lane in which neither its name nor its time lies over another one. `xOf` gives the pixel of a time. */
export function placeRanges(ranges: readonly Range[], width: number, xOf: (ms: number) => number): PlacedRange[] {
  const within = (x: number, most = width): number => Math.max(0, Math.min(x, most));
  const ends: number[] = [];
  const wanted = ranges.map((range) => {
    const title = titleOf(range);
    const room = Math.min(title.length * LETTER + ROOM, LONGEST);
    const [from, to] = [within(xOf(range.from_ms)), within(xOf(range.to_ms))];
    const left = within(from, width - room);
    return { range, title, left, from, to, begins: Math.min(left, from), ends: Math.max(left + room, to) };
  });
  return wanted.sort((one, other) => one.begins - other.begins).map(({ begins, ends: end, ...place }) => {
    const free = ends.findIndex((taken) => taken + APART <= begins);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = end;
    return { ...place, lane };
  });
}
