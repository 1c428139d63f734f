// Which lines of the table of a map are shown, and in which order (W154): what a filter says, and by what they are sorted. Pure.

import { compareValues } from "../details/span-order";
import type { Store } from "../store/store";
import { durationOf } from "../wire/predicates";
import type { Row, Status } from "../wire/rows";
import { scoresOf } from "../wording/scores";
import type { CellText, Given } from "./cell-asker";
import type { GridLine } from "./grid-lines";
import { valueOf } from "./measures";

export interface Sight {
  readonly store: Store;
  /** What a cell is marked by: `status`, `time`, `cost` or `score NAME`. */
  readonly measure: string;
  readonly textOf: (row: Row) => CellText;
}

export interface Order {
  /** The place of an input, or of a cell. */
  readonly by: "input" | "cell";
  readonly at: number;
  readonly isDescending: boolean;
}

type Condition = (line: GridLine, sight: Sight) => boolean;

export interface Filter {
  readonly conditions: readonly Condition[];
  /** It looks at texts, also of cells that are not seen. */
  readonly needsTexts: boolean;
  /** What can't be read, for a person; null where all of it can. */
  readonly fault: string | null;
}

const STATES: Readonly<Record<string, (row: Row) => boolean>> = {
  ...Object.fromEntries((["running", "pending", "waiting", "skipped", "cancelled"] satisfies Status[]).map((status) => [status, (row: Row) => row.status === status])),
  failed: (row) => row.status === "error", done: (row) => row.status === "ok", reused: (row) => row.reused === true,
};

const COMPARED = /^(.*?)\s*(<=|>=|!=|=|<|>)\s*(.*)$/;

/** Reads `failed`, `differs`, `right < 0.5, city = Paris`: a line stays that has for each of them a cell that fits. */
export function readFilter(text: string, { store, measure }: Pick<Sight, "store" | "measure">): Filter {
  const run = store.run.value;
  const [scores, inputs] = [run?.score_names ?? [], run?.row_inputs ?? []];
  let [needsTexts, fault]: [boolean, string | null] = [false, null];
  const conditions: Condition[] = [];
  for (const part of text.split(/,|\band\b/).map((each) => each.trim()).filter(Boolean)) {
    const [, before = "", sign = "", than = ""] = COMPARED.exec(part) ?? [];
    const name = before.toLowerCase();
    const [state, differing] = [Object.hasOwn(STATES, part.toLowerCase()) && STATES[part.toLowerCase()], /^(?:(.+) )?differs$/i.exec(part)];
    const score = find(scores, differing?.[1] ?? (name === "score" ? (measure.startsWith("score ") ? measure.slice(6) : scores[0]) : before));
    const input = sign ? inputs.indexOf(find(inputs, before) ?? "") : -1;
    if (state) conditions.push(({ cells }) => cells.some((row) => row && state(row)));
    else if (differing && (!differing[1] || score)) {
      needsTexts ||= !differing[1];
      const key = (row: Row, sight: Sight): unknown => (differing[1] ? scoreOf(sight.store, row, score as string) : sight.textOf(row).digest);
      conditions.push(({ cells }, sight) => new Set(cells.flatMap((row) => (row ? (key(row, sight) ?? []) : []))).size > 1);
    } else if (sign && (score || name === "time" || name === "cost")) {
      const read = (row: Row): Given | undefined => (name === "time" && !score ? (durationOf(row) ?? NaN) / 1000 : name === "cost" && !score ? row.cost : scoreOf(store, row, score as string));
      conditions.push(({ cells }) => cells.some((row) => row && row.status === "ok" && compares(read(row), sign, than)));
    } else if (input >= 0) {
      needsTexts = true;
      conditions.push(({ cells }, sight) => compares(cells.flatMap((row) => (row ? [sight.textOf(row).inputs[input]] : []))[0], sign, than));
    } else fault ??= part;
  }
  if (fault !== null) fault = `“${fault}” is no filter: write failed, differs, or ${[...scores, "time", "cost", ...inputs].slice(0, 6).join(", ")} with <, > or = and a value.`;
  return { conditions, needsTexts, fault };
}

const find = (names: readonly string[], name: string | undefined): string | undefined => names.find((each) => each.toLowerCase() === name?.toLowerCase());

const scoreOf = (store: Store, row: Row, name: string): Given | undefined => scoresOf(row, store.run.value).find(([each]) => each === name)?.[1];

/** Passed is 1, not passed 0; what is no number is compared as words. */
function compares(value: Given | undefined, sign: string, than: string): boolean {
  if (value == null) return false;
  const words = than.replace(/^["']|["']$/g, "").toLowerCase();
  const number = Number({ true: 1, passed: 1, false: 0, "not passed": 0 }[words] ?? (words.replace(/^\$|s$/g, "") || NaN));
  const own = typeof value === "string" ? Number(value || NaN) : Number(value);
  const order = Number.isNaN(number) || Number.isNaN(own) ? String(value).toLowerCase().localeCompare(words) : own - number;
  return sign === "=" ? order === 0 : sign === "!=" ? order !== 0 : (sign.startsWith("<") && order < 0) || (sign.startsWith(">") && order > 0) || (sign.length > 1 && order === 0);
}

/** The lines that fit, in order: unknown values come last, and equal ones stay as they were. */
export function arrange(lines: readonly GridLine[], filter: Filter, order: Order | null, found: ReadonlySet<string> | null, sight: Sight): readonly GridLine[] {
  const kept = lines.filter((line) => (!found || line.cells.some((row) => row && found.has(row.span_id))) && filter.conditions.every((fits) => fits(line, sight)));
  if (!order) return kept;
  const valueIn = ({ cells }: GridLine): Given => {
    const row = order.by === "cell" ? cells[order.at] : cells.find(Boolean);
    if (!row) return null;
    if (order.by === "input") return sight.textOf(row).inputs[order.at] ?? null;
    const value = sight.measure === "status" ? (row.status === "ok" ? sight.textOf(row).answer : null) : valueOf(sight.store, row, sight.measure);
    return value ?? null;
  };
  return kept.map((line) => ({ line, value: valueIn(line) })).sort((one, other) => compareValues(one.value, other.value, order.isDescending)).map(({ line }) => line);
}

/** The mean of what the cells of a column are marked by, and of how many; null where that is none of numbers. */
export function meanOf(lines: readonly GridLine[], column: number, { store, measure }: Sight): { mean: number; count: number; isShare: boolean } | null {
  let [sum, count, isShare] = [0, 0, true];
  for (const { cells } of measure === "status" ? [] : lines) {
    const value = cells[column] && cells[column].status === "ok" ? valueOf(store, cells[column], measure) : undefined;
    if (value === undefined || typeof value === "string") continue;
    sum += Number(value);
    count += 1;
    isShare &&= typeof value === "boolean";
  }
  return count === 0 ? null : { mean: sum / count, count, isShare };
}
