// Python for what is to be seen, which a person copies into a cell.

import type { TimeRange } from "../wire/messages";
import type { Store } from "./store";

/** What the notebook calls the output. */
export const variableOf = (store: Store): string => store.run.value?.variable ?? "_ensemble";

const isMap = (store: Store): boolean => (store.run.value?.task_noun ?? "task") !== "task";

/** The rows of some spans: a list, since pandas takes a tuple as one label of several levels. Rows of a map go by their own labels. */
export function spansExpression(store: Store, spans: readonly string[]): string {
  if (isMap(store) && spans.every((span) => isOwnTask(store, span))) return `${variableOf(store)}.frame.loc[${variableOf(store)}.selection]`;
  const { frame, ids } = placeOf(store, spans);
  return `${frame}.loc[${JSON.stringify(ids).replaceAll('","', '", "')}]`;
}

export function spanExpression(store: Store, span: string): string {
  const { frame, ids } = placeOf(store, [span]);
  return `${frame}.loc["${ids[0]}"]`;
}

/**
 * Where the rows of some spans are. Tasks of the run, unless they are rows, and work that was handed on, are in frames of their
 * own, which have the sums of their tokens and cost; other spans only have their own.
 */
function placeOf(store: Store, spans: readonly string[]): { frame: string; ids: readonly string[] } {
  const [name, ids] = spans.length > 0 && !isMap(store) && spans.every((span) => isOwnTask(store, span)) ? ["tasks", spans] : handedOn(store, spans);
  return { frame: `${variableOf(store)}.frames.${name}`, ids };
}

/** The delegations of it, where all of it was handed on. */
function handedOn(store: Store, spans: readonly string[]): [string, readonly string[]] {
  const delegations = spans.flatMap((span) => {
    const row = store.row(span);
    return [row, store.row(row?.parent_id ?? "")].find((each) => each?.kind === "delegation")?.span_id ?? [];
  });
  return spans.length > 0 && delegations.length === spans.length ? ["delegations", [...new Set(delegations)]] : ["spans", spans];
}

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
