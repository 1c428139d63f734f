// What a row was scored, in words. Scores come from a saved file, too: what is none is left out.

import type { Row, Run } from "../wire/rows";

export type ScoreValue = number | boolean | string;

/** Its scores by name, in the order of the run's. */
export function scoresOf(row: Row, run: Run | null): [name: string, value: ScoreValue][] {
  const values: readonly unknown[] = Array.isArray(row.scores) ? row.scores : [];
  return (run?.score_names ?? []).flatMap((name, k) => (isScore(values[k]) ? [[name, values[k]]] : []));
}

const isScore = (value: unknown): value is ScoreValue =>
  typeof value === "boolean" || (typeof value === "string" && value !== "") || (typeof value === "number" && Number.isFinite(value));

/** `passed`, `not passed`, `0.5`, `warm`. */
export const formatScore = (value: ScoreValue): string =>
  value === true ? "passed" : value === false ? "not passed" : typeof value === "number" ? String(Number(value.toPrecision(6))) : value;
