// What is said to people who listen instead of look: at most one sentence in five seconds, but errors and the end at once
// (W10). Pure: from two states of the run to a sentence or none.

import { isFinal } from "../wire/predicates";
import type { Run } from "../wire/rows";
import { countMany, countTasks } from "../wording/labels";
import { formatDuration, formatExactCount, pluralize } from "../wording/numbers";

const APART_MS = 5000;

export class Announcer {
  #said: Run | null = null;
  #at = -Infinity;

  /**
   * The sentence to say at `now` about the newest state of the run, or null; `tasks` are at work. `broken`: how far it had come,
   * where nothing more is known of it.
   */
  next(run: Run, now: number, tasks: readonly string[] = [], broken: string | null = null): string | null {
    if (broken !== null) return `${run.name}: ${broken}.`;
    const before = this.#said;
    const urgent = describeChange(before, run);
    const sentence = urgent ?? (now - this.#at >= APART_MS ? describeProgress(before, run, tasks) : null);
    if (sentence === null) return null;
    this.#said = run;
    this.#at = now;
    return sentence;
  }
}

function describeChange(before: Run | null, run: Run): string | null {
  if (before?.run_id === run.run_id && before.status === run.status && run.error_count <= before.error_count) return null;
  if (isFinal(run.status)) return describeEnd(run);
  return before && run.error_count > before.error_count ? `${pluralize(run.error_count, "error")} so far in ${run.name}.` : null;
}

/** How a run that is over ended. */
export function describeEnd(run: Run): string {
  const end = formatDuration(run.elapsed_ms);
  switch (run.status) {
    case "completed":
      return `${run.name} completed in ${end}: ${countTasks(run, run.tasks_done)}.`;
    case "completed_with_warnings":
      return `${run.name} completed with warnings in ${end}: ${countTasks(run, run.tasks_done)}.`;
    case "budget_exceeded":
      return `${run.name} was stopped by its budget after ${end}.`;
    case "exited_early":
      if (run.exit_reason === "nobody_to_ask") return `${run.name} was ended early after ${end}, since nobody could be asked.`;
      return `${run.name} was ended early after ${end}, as you wished.`;
    case "failed":
      return `${run.name} failed after ${end}${run.error ? `: ${run.error.message.replace(/\.$/, "")}` : ""}.`;
    default:
      return `${run.name} was interrupted after ${end}.`;
  }
}

function describeProgress(before: Run | null, run: Run, tasks: readonly string[]): string | null {
  if (run.status === "pending") return null;
  if (before?.run_id !== run.run_id || before.status !== run.status) return `${run.name} is running.`;
  if (run.many) {
    if (before.many?.done === run.many.done) return null;
    return `${formatExactCount(run.many.done + run.many.failed)} of ${countMany(run, run.many)} ended.`;
  }
  if (before.tasks_done === run.tasks_done && before.tasks_skipped === run.tasks_skipped) return null;
  const now = tasks.join(", ");
  return `${formatExactCount(run.tasks_done)} of ${countTasks(run, run.tasks_total)} done${now ? `; now ${now}` : ""}.`;
}
