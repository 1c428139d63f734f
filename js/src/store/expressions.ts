// Python for what is to be seen, which a person copies into a cell.

import type { TimeRange } from "../wire/messages";
import type { Store } from "./store";

/** What the notebook calls the output. */
export const variableOf = (store: Store): string => store.run.value?.variable ?? "_ensemble";

const isMap = (store: Store): boolean => (store.run.value?.task_noun ?? "task") !== "task";

/** The rows of some spans: a list, since pandas takes a tuple as one label of several levels. Rows of a map go by their own labels. */
export const spansExpression = (store: Store, spans: readonly string[]): string => isMap(store) && spans.every((span) => isOwnTask(store, span))
  ? `${variableOf(store)}.frame.loc[${variableOf(store)}.selection]`
  : `${frameOf(store, spans)}.loc[${JSON.stringify(spans).replaceAll('","', '", "')}]`;

export const spanExpression = (store: Store, span: string): string => `${frameOf(store, [span])}.loc["${span}"]`;

/** Tasks of the run, unless they are rows, are in a frame of their own, which has the sums of their tokens and cost. */
const frameOf = (store: Store, spans: readonly string[]): string =>
  `${variableOf(store)}.frames.${!isMap(store) && spans.length > 0 && spans.every((span) => isOwnTask(store, span)) ? "tasks" : "spans"}`;

function isOwnTask(store: Store, span: string): boolean {
  const row = store.row(span);
  let around = store.row(row?.parent_id ?? "");
  while (around?.kind === "phase") around = store.row(around.parent_id ?? "");
  return row?.kind === "task" && around === undefined;
}

/** The rows of the spans that were there at some time of a range. */
export const rangeExpression = (store: Store, { from, to }: TimeRange): string =>
  `${variableOf(store)}.frames.spans.query("start_ms < ${digits(to)} and start_ms + duration_ms > ${digits(from)}")`;

/** To the microsecond. */
const digits = (ms: number): string => String(Math.round(ms * 1000) / 1000);
