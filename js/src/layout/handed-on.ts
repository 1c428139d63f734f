// Who handed work on, and below whom it stands: what the rows say of each other, wherever between them a run may be.

import type { Store } from "../store/store";
import { isTask } from "../wire/predicates";
import type { Row } from "../wire/rows";

const GIVERS: ReadonlySet<string> = /* @__PURE__ */ new Set(["delegation", "review", "nested"]);

/** The row of a task below which another one stands: of the task around it, or as far up as is known. */
export function rowAbove(store: Store, task: Row): string {
  let above = task;
  do above = store.row(above.parent_id ?? "") ?? above;
  while (!isTask(above) && store.row(above.parent_id ?? ""));
  return above.span_id;
}

/** The outermost phase between a task and the row below which it stands: of the task that began its run. */
export function phaseAround(store: Store, task: Row, top: string): Row | undefined {
  let found: Row | undefined;
  for (let at = store.row(task.parent_id ?? ""); at && at.kind !== "task" && at.span_id !== top; at = store.row(at.parent_id ?? "")) {
    if (at.kind === "phase") found = at;
  }
  return found;
}

/** By what a worker's row was handed on, or a phase of a nested run: between the two may be that run. */
export function giverOf(store: Store, worker: Row): string | null {
  for (let at = worker.parent_id; at; at = store.row(at)?.parent_id) {
    const kind = store.row(at)?.kind;
    if (kind === undefined || kind === "task") return null;
    if (GIVERS.has(kind)) return at;
  }
  return null;
}
