// The few words beside the pointer: what the bar under it is, how long, how much.

import { AXIS_HEIGHT } from "../layout/sizes";
import type { View } from "../view/view";
import { durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { answerOf, modelOf, signOf, STATUS_NAMES, titleOf } from "../wording/labels";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";

export interface Hover {
  readonly row: Row;
  readonly x: number;
  readonly y: number;
}

const WIDE = 260;
const HIGH = 110;

export function Tooltip({ hover, view }: { hover: Hover | null; view: View }) {
  if (!hover) return null;
  const row = view.store.row(hover.row.span_id) ?? hover.row;
  const [width, height] = [view.width.value, view.viewport.value + AXIS_HEIGHT];
  // Towards the middle of the chart, which would cut it off at its edges.
  const across = hover.x > width - WIDE ? { right: `${width - hover.x + 12}px` } : { left: `${hover.x + 14}px` };
  const down = hover.y > height - HIGH ? { bottom: `${height - hover.y + 10}px` } : { top: `${hover.y + 16}px` };
  return (
    <div class="et-tooltip" aria-hidden="true" style={{ ...across, ...down }}>
      <b>{row.kind === "task" ? row.name : `${signOf(row)} ${row.kind === "attempt" ? modelOf(row) : titleOf(row)}`.trim()}</b>
      <span>{facts(row, view).join(" · ")}</span>
      {(row.error_message ?? row.error_type) && <span class="et-tooltip-error">{row.error_message ?? row.error_type}</span>}
    </div>
  );
}

function facts(row: Row, view: View): string[] {
  const length = durationOf(row) ?? (row.start_ms == null ? null : view.age.value - row.start_ms);
  return [
    length === null ? "" : formatDuration(Math.max(0, length)),
    row.kind === "attempt" && row.attempt != null ? `attempt ${row.attempt}` : "",
    row.input_tokens != null || row.output_tokens != null ? `${formatCount(row.input_tokens)} in, ${formatCount(row.output_tokens)} out` : "",
    row.cost ? formatMoney(row.cost, row.currency) : "",
    row.agent ?? "",
    row.is_fallback ? "fallback agent" : "",
    row.review ? answerOf(row) : row.status === "ok" ? "" : STATUS_NAMES[row.status],
  ].filter(Boolean);
}
