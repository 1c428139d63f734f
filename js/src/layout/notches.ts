// Where work began anew in a row: a review or guardrail sent it back, or a fallback agent took over. Pure.

import type { Round, Row } from "../wire/rows";
import type { Mark } from "./marks";

/** Goes at a task that are further apart than this have words between them. */
export const LEAST_BETWEEN_MS = 1;

/**
 * The notches of a row of this height: where a further go at its work follows at once, and where another agent takes over,
 * of which `takeover` is the first row. From a notch on it is another attempt.
 */
export function notches(task: Row, rounds: readonly Round[], takeover: Row | null, height: number): Mark[] {
  const marks = rounds.flatMap((round, k) => {
    const before = rounds[k - 1]?.end_ms;
    return before != null && round.start_ms - before <= LEAST_BETWEEN_MS ? [notch(task, round.start_ms, String(k + 1), height)] : [];
  });
  return takeover ? [...marks, notch(takeover, takeover.start_ms as number, "↳", height)] : marks;
}

const notch = (row: Row, at: number, label: string, height: number): Mark =>
  ({ row, shape: "notch", from: at, to: at, top: 0, height, label });
