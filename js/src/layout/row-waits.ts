// What a row waits for right now, in a word or two. Pure, from what is open among its marks.

import { answerOf, waitTitle } from "../wording/labels";
import { shortCause } from "../wording/text";
import type { Mark } from "./marks";
import { isGap } from "./shapes";
import { firstAtLeast, stripsOf } from "./strips";

export interface RowWait {
  readonly cause: string;
  /** In milliseconds from the start of the run. */
  readonly since: number;
}

/** What is waited through a gap, or a question, for. */
export function causeOfWait({ shape, row, label }: Mark): string {
  if (label !== undefined) return label;
  if (shape === "review") return answerOf(row);
  if (shape === "queue") return "no free place";
  return shape === "wait" ? waitTitle(row) : `retry after ${shortCause(row.retry_reason ?? row.error_type)}`;
}

/** What a row waits for at `now`; null where any of its calls goes on, or nothing is open. */
export function waitAt(marks: readonly Mark[], now: number): RowWait | null {
  let first: RowWait | null = null;
  for (const strip of stripsOf(marks).bars) {
    for (let k = firstAtLeast(strip.latest, now); k < strip.marks.length; k += 1) {
      const mark = strip.marks[k] as Mark;
      if ((mark.to !== null && mark.to <= now) || mark.from > now) continue;
      if (!isGap(mark.shape) && mark.shape !== "review") return null;
      if (!first || mark.from < first.since) first = { cause: causeOfWait(mark), since: mark.from };
    }
  }
  return first;
}
