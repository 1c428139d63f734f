// Python for what is to be seen, which a person copies into a cell.

import type { TimeRange } from "../wire/messages";
import type { Store } from "./store";

/** What the notebook calls the output. */
export const variableOf = (store: Store): string => store.run.value?.variable ?? "_ensemble";

/** The rows of some spans: a list, since pandas takes a tuple as one label of several levels. */
export const spansExpression = (store: Store, spans: readonly string[]): string =>
  `${variableOf(store)}.frames.spans.loc[${JSON.stringify(spans).replaceAll('","', '", "')}]`;

/** The rows of the spans that were there at some time of a range. */
export const rangeExpression = (store: Store, { from, to }: TimeRange): string =>
  `${variableOf(store)}.frames.spans.query("start_ms < ${digits(to)} and start_ms + duration_ms > ${digits(from)}")`;

/** To the microsecond. */
const digits = (ms: number): string => String(Math.round(ms * 1000) / 1000);
