// Where a task waited for a model to be made ready: pure, from the startups of the run and the task's own calls. The
// kernel tells of a startup once, for all that wait for it, and beside all tasks (E57). An agent's task in which no call
// has begun yet, or none of the agent that takes over, has nothing else to do than to wait for its model.

import { isHandler } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { CALL_TOP, type Mark } from "./marks";

const LEAST_MS = 1;

/** The waits of a task for startups, each a mark of the startup; `calls` are the marks of its calls in order of time. */
export function startupMarks(task: Row, calls: readonly Mark[], startups: Iterable<Row>): Mark[] {
  if (isHandler(task) || task.start_ms == null) return [];
  const end = task.end_ms ?? Infinity;
  const bars = calls.filter((mark) => mark.shape !== "bead");
  const gaps: [number, number][] = [[task.start_ms, bars[0]?.from ?? end]];
  const takeover = bars.findIndex((mark) => mark.row.is_fallback);
  const before = bars[takeover - 1];
  if (before) gaps.push([before.to ?? Infinity, (bars[takeover] as Mark).from]);
  else if (task.is_fallback && takeover < 0) gaps.push([bars.at(-1)?.to ?? Infinity, end]);
  const marks: Mark[] = [];
  for (const [begin, until] of gaps) {
    let free = begin;
    for (const startup of startups) {
      // Of two at once the later one follows, so that their words do not lie over each other.
      const from = Math.max(free, startup.start_ms ?? Infinity);
      const to = Math.min(until, startup.end_ms ?? Infinity);
      // Of one that is still to come the length is no number.
      if (!(to - from > LEAST_MS)) continue;
      // What is being made ready stands in the row of the startup itself, and is not told twice.
      marks.push({ row: startup, shape: "wait", label: "waits for its model", from, to: to === Infinity ? null : to, ...CALL_TOP });
      free = to;
    }
  }
  return marks;
}
