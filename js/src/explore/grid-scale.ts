// What the cells of the grid are coloured by, in steps that a legend can name. Pure.

import { stateOfRow } from "../store/row-state";
import type { Store } from "../store/store";
import { durationOf, hasCost } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { STATUS_NAMES } from "../wire/words";
import { formatDuration, formatExactCount, formatMoney } from "../wording/numbers";
import { formatScore } from "../wording/scores";
import { boundsOf, lookOfStep, placeIn } from "./amount-steps";
import { type GridLine, scoreOf } from "./grid-lines";

/** How a cell looks: its state, or a step from 0 to 4 of those that the legend has; `failed` is a score. */
export type Look = string | number;

export interface Key {
  readonly look: Look;
  readonly words: string;
}

export interface GridScale {
  readonly lookOf: (row: Row | undefined) => Look;
  readonly legend: readonly Key[];
}

const STEPS = 5;
/** Never a step: a cell of these says more by its state. */
const STATES = new Set(["error", "running", "waiting", "pending", "skipped", "cancelled", "interrupted", "unknown"]);

/** What a person can choose: the states, time, cost where there is any, and each score by its name. */
export function coloursOf(store: Store, lines: readonly GridLine[]): [key: string, name: string][] {
  const colours: [string, string][] = [["status", "Status"], ["time", "Time"]];
  if (lines.some(({ cells }) => cells.some((row) => row && hasCost(row)))) colours.push(["cost", "Cost"]);
  return [...colours, ...(store.run.value?.score_names ?? []).map((name): [string, string] => [`score ${name}`, name])];
}

export function makeScale(store: Store, lines: readonly GridLine[], colour: string): GridScale {
  const stateOf = (row: Row): string => (row.reused && row.status === "ok" ? "reused" : stateOfRow(store, row).key);
  const valueOf = readerOf(store, colour);
  const counts = new Map<Look, number>();
  const values: number[] = [];
  const words = new Map<string, number>();
  for (const { cells } of lines) {
    for (const row of cells) {
      if (!row) continue;
      const value = valueOf(row);
      if (typeof value === "number") values.push(value);
      else if (typeof value === "string") words.set(value, (words.get(value) ?? 0) + 1);
      const look = value === undefined || typeof value === "boolean" || STATES.has(stateOf(row)) ? lookOfState(value, stateOf(row), colour) : null;
      if (look !== null) counts.set(look, (counts.get(look) ?? 0) + 1);
    }
  }
  const bounds = boundsOf(values, STEPS);
  const common = [...words].sort((a, b) => b[1] - a[1]).slice(0, STEPS).map(([word]) => word);
  const step = (place: number, of: number): number => lookOfStep(place, of, STEPS);
  const stepOf = (value: number | string): number => {
    if (typeof value === "number") return step(placeIn(bounds, value), bounds.length);
    const place = common.indexOf(value);
    return step(place < 0 ? common.length - 1 : place, common.length);
  };
  const currency = store.run.value?.currency;
  const format = (value: number): string => (colour === "time" ? formatDuration(value) : colour === "cost" ? formatMoney(value, currency) : formatScore(value));
  const known = bounds.length > 1 ? bounds.map((bound, k): Key => ({ look: step(k, bounds.length), words: `≤ ${format(bound)}` }))
    : bounds.map((bound): Key => ({ look: STEPS - 1, words: format(bound) }));
  const named = common.map((word, k): Key => ({ look: step(k, common.length), words: k === STEPS - 1 && words.size > STEPS ? `${word}, others` : word }));
  const states = [...counts].map(([look, count]): Key => ({ look, words: `${wordsOf(look)} ${formatExactCount(count)}` }));
  return {
    legend: [...known, ...named, ...states],
    lookOf: (row) => {
      if (!row) return "none";
      const value = valueOf(row);
      const state = stateOf(row);
      return value === undefined || typeof value === "boolean" || STATES.has(state) ? lookOfState(value, state, colour) : stepOf(value);
    },
  };
}

function lookOfState(value: unknown, state: string, colour: string): Look {
  if (colour === "status" || STATES.has(state)) return state;
  return value === true ? "passed" : value === false ? "failed" : "none";
}

function wordsOf(look: Look): string {
  if (look === "none" || look === "failed") return look === "none" ? "no value" : "not passed";
  return (STATUS_NAMES as Readonly<Record<string, string>>)[look] ?? String(look);
}

type Value = number | string | boolean | undefined;

function readerOf(store: Store, colour: string): (row: Row) => Value {
  if (colour === "status") return () => undefined;
  if (colour === "time") return (row) => durationOf(row) ?? undefined;
  if (colour === "cost") return (row) => (hasCost(row) ? (row.cost as number) : undefined);
  const name = colour.slice("score ".length);
  return (row) => scoreOf(row, store.run.value, name);
}

/** What a cell says of itself in words, where there is room. */
export function sayValue(store: Store, row: Row, colour: string): string {
  const value = readerOf(store, colour)(row);
  if (colour === "cost") return value === undefined ? "" : formatMoney(value as number, row.currency);
  if (colour === "time" || colour === "status") return row.end_ms != null ? formatDuration(durationOf(row)) : "";
  return value === undefined ? "" : formatScore(value);
}
