// Where work began anew in a row: a review or guardrail sent it back, or a fallback agent took over. Pure.

import type { Row } from "../wire/rows";
import type { Mark } from "./marks";

/** True for a row that may be a reason to begin anew: the only ones that `notches` looks at. */
export const mayBeginAnew = (row: Row): boolean => row.review != null || row.guardrail === "output" || row.is_fallback === true;

/**
 * The notches of a row of this height, from what may have begun anew in it, in order of appearance; `lastTurn` is when the
 * last turn of the agent that it was given to began. From a notch on it is another attempt.
 */
export function notches(rows: readonly Row[], lastTurn: number, height: number): Mark[] {
  const returns = rows.filter((row) => row.end_ms != null && (row.review?.decision === "retry" || isSentBack(row, lastTurn)))
    .sort((a, b) => (a.end_ms as number) - (b.end_ms as number));
  const marks = returns.map((row, k) => notch(row, row.end_ms as number, String(k + 2), height));
  const takeover = rows.find((row) => row.is_fallback && row.start_ms != null);
  return takeover ? [...marks, notch(takeover, takeover.start_ms as number, "↳", height)] : marks;
}

/** A guardrail objected, and the same agent went on; a fallback that took over has a mark of its own. */
const isSentBack = (row: Row, lastTurn: number): boolean =>
  row.guardrail === "output" && row.status === "error" && lastTurn >= (row.end_ms as number);

const notch = (row: Row, at: number, label: string, height: number): Mark =>
  ({ row, shape: "notch", from: at, to: at, top: 0, height, label });
