// What the cells of a table are marked by: their state, time, cost, or a score by its name. Pure.

import type { Store } from "../store/store";
import { durationOf, hasCost } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { formatDuration, formatMoney } from "../wording/numbers";
import { formatScore, type ScoreValue, scoresOf } from "../wording/scores";

/** What a person can choose: the states, time, cost where there is any, and each score by its name. */
export function listMeasures(store: Store): [key: string, name: string][] {
  const run = store.run.value;
  return [["status", "Status"], ["time", "Time"], ...(run?.cost ? [["cost", "Cost"] as [string, string]] : []), ...(run?.score_names ?? []).map((name): [string, string] => [`score ${name}`, name])];
}

/** What a cell is measured by; undefined where that is not known. */
export function valueOf(store: Store, row: Row, colour: string): ScoreValue | undefined {
  if (colour === "cost") return hasCost(row) ? (row.cost ?? undefined) : undefined;
  if (colour === "time" || colour === "status") return durationOf(row) ?? undefined;
  return scoresOf(row, store.run.value).find(([name]) => `score ${name}` === colour)?.[1];
}

/** The same in words. */
export function sayValue(store: Store, value: ScoreValue | undefined, colour: string): string {
  if (value === undefined) return "";
  if (colour === "cost") return formatMoney(value as number, store.run.value?.currency);
  return colour.startsWith("score ") ? formatScore(value) : formatDuration(value as number);
}
