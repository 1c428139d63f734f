// The few words beside the pointer: what the bar under it is, how long, how much.

import { useLayoutEffect, useRef } from "preact/hooks";
import { boxOfSpan } from "../draw/placement";
import type { Box } from "../draw/strokes";
import type { Track } from "../layout/tracks";
import { roundsOf, startupTimeOf } from "../store/rounds";
import { stateOfRow } from "../store/row-state";
import type { View } from "../view/view";
import { durationOf, hasTokens } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { answerOf, describeLength, describeRounds, modelNameOf, nameOf, reuseOf, savingOf, signOf, titleOf } from "../wording/labels";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";
import { formatScore } from "../wording/scores";
import { fullCause } from "../wording/text";

export interface Hover {
  readonly row: Row;
  readonly x: number;
  readonly y: number;
}

const GAP = 7;
const EDGE = 4;

/** What is pointed at: by the pointer, at a place in the chart, or by the keys, which have none. */
interface Target {
  readonly row: Row;
  readonly track: Track;
  readonly x: number | null;
}

/** The tooltip of what is under the pointer, else of the span that the keys have come to while its details are closed. */
function targetOf(hover: Hover | null, view: View): Target | null {
  if (hover) {
    const layout = view.layout.value;
    const track = layout.tracks[layout.indexAt(view.downAt(hover.y))];
    return track ? { row: view.store.row(hover.row.span_id) ?? hover.row, track, x: hover.x } : null;
  }
  // What is marked has a panel of its own, and bars that a person looks at.
  const isElsewhere = view.isDrawerOpen.value || view.range.value !== null || view.areKeysShown.value;
  const row = isElsewhere ? undefined : view.selectedRow.value;
  const track = view.selectedTrack;
  return row && track && row.start_ms != null ? { row, track, x: null } : null;
}

export function Tooltip({ hover, view }: { hover: Hover | null; view: View; change: number }) {
  const element = useRef<HTMLDivElement>(null);
  const target = targetOf(hover, view);
  view.window.value;
  const box = target && boxOfSpan(view, target.track, target.row.span_id);
  useLayoutEffect(() => {
    if (element.current && box) place(element.current, box, target.x, view.width.value, view.viewport.value + view.head.value);
  });
  if (!target || !box) return null;
  const { row } = target;
  return (
    <div ref={element} class="et-tooltip" aria-hidden="true" data-by={hover ? "pointer" : "keys"}>
      <b>{row.kind === "task" ? nameOf(row) : `${signOf(row)} ${titleOf(view.store, row)}`.trim()}</b>
      <span>{facts(row, view).join(" · ")}</span>
      {describeRounds(row, roundsOf(view.store, row)).map((words) => <span>{words}</span>)}
      {row.reuse_reason && <span>{reuseOf(row)}</span>}
      {(row.error_message ?? row.error_type) && <span class="et-tooltip-error">{row.error_message ?? row.error_type}</span>}
    </div>
  );
}

/** Under the span or over it, wherever there is room, else beside it, else in a line of its own; never on it, nor outside of the chart. */
function place(element: HTMLElement, box: Box, at: number | null, width: number, height: number): void {
  const [left, right, end] = [Math.max(box.x, 0), box.x + box.w, box.y + box.h];
  const fit = (isLine: boolean): boolean => {
    element.dataset.line = String(isLine);
    const [w, h] = [element.offsetWidth, element.offsetHeight];
    const isOver = end + h > height;
    let x = Math.min(at === null ? left : at - w / 2, width - w - EDGE);
    let y = isOver ? box.y - h - GAP : Math.min(end + GAP, height - h);
    if (isOver && box.y < h) {
      x = right + w + EDGE < width - GAP ? right + GAP : left - w - GAP;
      if (x < 0 && !isLine) return false;
      y = Math.min(box.y, height - h);
    }
    element.style.transform = `translate(${Math.round(Math.max(x, EDGE))}px, ${Math.round(Math.max(y, 0))}px)`;
    return true;
  };
  if (!fit(false)) fit(true);
}

function facts(row: Row, view: View): string[] {
  const isUnknown = stateOfRow(view.store, row).key === "unknown";
  const length = durationOf(row) ?? (row.start_ms == null || isUnknown ? null : view.age.value - row.start_ms);
  return [
    length === null ? "" : durationOf(row) === null ? formatDuration(Math.max(0, length)) : describeLength(row),
    startupTimeOf(view.store, row) > 0 ? `and ${formatDuration(startupTimeOf(view.store, row))} while a model was made ready` : "",
    row.kind === "llm" || row.kind === "attempt" ? (modelNameOf(row) ?? "") : "",
    (row.queue_ms ?? 0) >= 10 ? `waited ${formatDuration(row.queue_ms as number)} for a free place` : "",
    row.backoff_ms != null ? `then waited ${formatDuration(row.backoff_ms)}: ${fullCause(row.retry_reason ?? row.error_type)}` : "",
    hasTokens(row) ? `${formatCount(row.input_tokens)} in, ${formatCount(row.output_tokens)} out` : "",
    row.cost ? formatMoney(row.cost, row.currency) : "",
    row.score == null ? "" : `score ${formatScore(row.score)}`,
    row.reused ? savingOf(row) : "",
    row.agent ?? "",
    row.is_fallback ? "fallback agent" : "",
    row.review && !isUnknown ? answerOf(row) : row.status === "ok" ? "" : stateOfRow(view.store, row).name,
  ].filter(Boolean);
}
