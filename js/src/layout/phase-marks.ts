// What is drawn in the row of one phase: pure, from the phase and the reviews that looked at it.

import type { Round, Row } from "../wire/rows";
import { type Mark, markOf, WORK } from "./marks";
import { PHASE_HEIGHT } from "./sizes";

/** The line of a phase that was sent back stands under the words of its rounds. */
const LINE = { top: 17, height: 8 };
const REVIEW_TOP = 3;

/** What the row of a phase itself shows: its time, its rounds where it was sent back, and the reviews that looked at it. */
export function phaseMarks(row: Row, reviews: readonly Row[], rounds: readonly Round[]): Mark[] {
  if (row.start_ms == null) {
    return [{ row, shape: "ghost", from: row.end_ms ?? NaN, to: null, top: 3, height: PHASE_HEIGHT - 6 }];
  }
  const asked = reviews.filter((review) => review.start_ms != null);
  if (rounds.length === 0) return [markOf(row, "phase", 0, PHASE_HEIGHT), ...asked.map((review) => markOf(review, "review", 5, WORK.height))];
  const bands = rounds.map(({ start_ms, end_ms, verdict }, k): Mark => {
    // Words stand before the question at the end.
    const to = asked.find((review) => end_ms != null && review.end_ms === end_ms)?.start_ms ?? end_ms ?? null;
    return { row, shape: "round", from: start_ms, to, top: 0, height: LINE.top, label: `round ${k + 1}`, names: verdict ? [verdict] : [] };
  });
  // What they came to is said by the rounds.
  const pills = asked.map((review): Mark => ({ ...markOf(review, "review", REVIEW_TOP, WORK.height - 2), label: "" }));
  return [...bands, markOf(row, "phase", LINE.top, LINE.height), ...pills];
}
