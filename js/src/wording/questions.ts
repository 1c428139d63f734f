// What a person is asked, and what happens without an answer, in words. Pure.

import type { Review, Row } from "../wire/rows";

const ENDS: Record<string, string> = {
  exit_early: "then the run ends early", continue: "then it goes on as it is", fail: "then it counts as failed",
};

/** What happens when nobody answers. */
export const describeTimeout = (review: Review): string => review.otherwise ? `then ${review.otherwise}` : ENDS[review.on_timeout ?? ""] ?? "then it is decided without you";

/** What is asked, in a sentence; of which row of a map. */
export function describeQuestion(row: Row, review: Review): string {
  return review.row == null ? describeSubject(row, review) : `${describeSubject(row, review)} (${review.row})`;
}

function describeSubject(row: Row, review: Review): string {
  const who = row.agent ?? "The agent";
  switch (review.subject) {
    case "task":
      return `May ${row.task ?? "the task"} begin?`;
    case "tool":
      return `May ${who} call ${review.tool ?? "a tool"}?`;
    case "question":
      return `${who} asks you`;
    case "phase":
      return `Is the phase ${row.phase ?? ""} done?`;
    default:
      return `Is the output of ${row.task ?? "the task"} good?`;
  }
}
