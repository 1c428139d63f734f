// What runs now, by name: one entry per task at work, with what it is busy with. Pure.

import type { Store } from "./store";
import type { Row, Run } from "./wire";

export interface Activity {
  /** The span to jump to: the innermost that runs. */
  readonly span: string;
  readonly name: string;
  /** What the task is at: a model, a tool, how many more; empty between two calls. */
  readonly means: string;
  /** When the task began, in milliseconds from the start of the run. */
  readonly began: number | null;
}

/** The tasks at work in the kernel's order, the first `most` of them with what they are at, and how many there are. */
export function activitiesOf(store: Store, run: Run, most: number): { shown: Activity[]; total: number } {
  const spans = run.active.filter((active) => active.kind !== "phase").map((active) => store.home(active.span_id));
  const homes = [...new Set(spans)];
  return { shown: homes.slice(0, most).map((home) => activity(store, home)), total: homes.length };
}

function activity(store: Store, home: string): Activity {
  const task = store.row(home);
  const calls = store.below(home).filter((row) => row.status === "running" && (row.kind === "llm" || row.kind === "tool"));
  const first = calls[0];
  return {
    span: first?.span_id ?? home,
    name: task?.name ?? "",
    means: first ? meansOf(first) + (calls.length > 1 ? ` +${calls.length - 1}` : "") : "",
    began: task?.start_ms ?? null,
  };
}

const meansOf = (row: Row): string => (row.kind === "tool" ? `▪ ${row.tool ?? row.name}` : `◆ ${row.model ?? "model"}`);
