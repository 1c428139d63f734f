// What is drawn in the row of one phase: pure, from the phase and the reviews that looked at it.

import type { Row } from "../wire/rows";
import { type Mark, markOf, WORK } from "./marks";
import { notches } from "./notches";
import { PHASE_HEIGHT } from "./sizes";

/** What the row of a phase itself shows: its time, and the reviews that looked at it. */
export function phaseMarks(row: Row, reviews: readonly Row[]): Mark[] {
  if (row.start_ms == null) {
    return [{ row, shape: "ghost", from: row.end_ms ?? NaN, to: null, top: 3, height: PHASE_HEIGHT - 6 }];
  }
  const asked = reviews.filter((review) => review.start_ms != null);
  return [
    markOf(row, "phase", 0, PHASE_HEIGHT),
    ...asked.map((review) => markOf(review, "review", 5, WORK.height)),
    ...notches(asked, -Infinity, PHASE_HEIGHT),
  ];
}
