// What the cells of the grid are coloured by, in steps that a legend can name. Pure.

import { stateOfRow } from "../store/row-state";
import type { Store } from "../store/store";
import { durationOf, hasCost } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { STATUS_NAMES } from "../wire/words";
import { formatDuration, formatExactCount, formatMoney } from "../wording/numbers";
import { formatScore, type ScoreValue, scoresOf } from "../wording/scores";
import { boundsOf, lookOfStep, placeIn } from "./amount-steps";
import type { GridLine } from "./grid-lines";

/** How a cell looks: its state, `passed` or `failed` of a score, `none`, or a step from 0 on, of which the last is the most. */
export type Look = string | number;

export interface Key {
  readonly look: Look;
  readonly words: string;
}

export interface GridScale {
  readonly lookOf: (row: Row | undefined) => Look;
  readonly legend: readonly Key[];
}

export const STEPS = 5;

/** What a person can choose: the states, time, cost where there is any, and each score by its name. */
export function coloursOf(store: Store, lines: readonly GridLine[]): [key: string, name: string][] {
  const hasAny = lines.some(({ cells }) => cells.some((row) => row && hasCost(row)));
  const scores = (store.run.value?.score_names ?? []).map((name): [string, string] => [`score ${name}`, name]);
  return [["status", "Status"], ["time", "Time"], ...(hasAny ? [["cost", "Cost"] as [string, string]] : []), ...scores];
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

export function makeScale(store: Store, lines: readonly GridLine[], colour: string): GridScale {
  /** A number, or a word behind `=`, where a cell is measured; else what its look is. */
  const readCell = (row: Row): string | number => {
    const state = row.reused && row.status === "ok" ? "reused" : stateOfRow(store, row).key;
    if (colour === "status" || row.status !== "ok") return state;
    const value = valueOf(store, row, colour) ?? "none";
    return typeof value === "boolean" ? (value ? "passed" : "failed") : typeof value === "number" || value === "none" ? value : `=${value}`;
  };
  const counts = new Map<string | number, number>();
  for (const { cells } of lines) for (const row of cells) if (row) counts.set(readCell(row), (counts.get(readCell(row)) ?? 0) + 1);
  const found = [...counts];
  const isWord = (read: string | number): boolean => typeof read === "string" && read.startsWith("=");
  const isOfMany = found.filter(([read]) => isWord(read)).length > STEPS;
  const words = found.filter(([read]) => isWord(read)).sort((a, b) => b[1] - a[1]).slice(0, STEPS).map(([read]) => read);
  const bounds = boundsOf(found.flatMap(([read, count]) => (typeof read === "number" ? new Array<number>(count).fill(read) : [])), STEPS);
  const steps = bounds.length > 0 ? bounds : words;
  const lookAt = (place: number): number => lookOfStep(place, steps.length, STEPS);
  return {
    lookOf: (row) => {
      const read = row ? readCell(row) : "none";
      if (typeof read === "number") return lookAt(placeIn(bounds, read));
      return isWord(read) ? lookAt(words.includes(read) ? words.indexOf(read) : words.length - 1) : read;
    },
    legend: [
      ...steps.map((step, k) => ({ look: lookAt(k), words: typeof step === "number" ? `≤ ${sayValue(store, step, colour)}` : `${step.slice(1)}${isOfMany && k === STEPS - 1 ? " and others" : ""}` })),
      ...found.flatMap(([look, count]) => (typeof look === "number" || isWord(look) ? [] : [{ look, words: `${NAMES[look] ?? look} ${formatExactCount(count)}` }])),
    ],
  };
}

const NAMES: Readonly<Record<string, string>> = { ...STATUS_NAMES, none: "no value", failed: "not passed" };
