// What runs now, by name: one entry per task at work, with what it is busy with. Pure.

import { isTask } from "../wire/predicates";
import type { Row, Run } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import { nameOf, signOf, titleOf } from "../wording/labels";
import type { Store } from "./store";

export interface Activity {
  /** The span to jump to: the innermost that runs. */
  readonly span: string;
  readonly name: string;
  /** What the task is at: a model call, a tool, how many more; empty between two calls. */
  readonly doing: string;
  /** Before it, for the eye; empty where it has none. */
  readonly sign: string;
  /** When the task began, or the question that it waits for, in milliseconds from the start of the run. */
  readonly began: number | null;
}

// The kernel names the tool by which work is handed on; beside it, to whom says more.
const isBusy = (row: Row): boolean => traitsOf(row.kind).isActivity || row.kind === "delegation";

/** The tasks at work in the kernel's order, the first `most` of them with what they are at, and how many there are. */
export function activitiesOf(store: Store, run: Run, most: number): { shown: Activity[]; total: number } {
  const spans = run.active.filter((active) => active.kind !== "phase").map((active) => store.ownerOf(active.span_id));
  const owners = [...new Set(spans)];
  return { shown: owners.slice(0, most).map((owner) => activity(store, owner)), total: owners.length };
}

function activity(store: Store, owner: string): Activity {
  const task = store.row(owner);
  const open = store.descendants(owner, isTask).filter((row) => row.status === "running" || row.status === "waiting");
  const parents = new Set(open.map((row) => row.parent_id));
  const calls = open.filter((row) => row.kind === "llm" || (isBusy(row) && !parents.has(row.span_id)));
  const first = calls[0];
  return {
    span: first?.span_id ?? owner,
    name: task ? nameOf(task) : "",
    sign: first ? signOf(first) : "",
    doing: first ? titleOf(store, first) + (calls.length > 1 ? ` +${calls.length - 1}` : "") : "",
    began: (first?.kind === "review" ? first : task)?.start_ms ?? null,
  };
}
