// The columns beside the names (W33): what each says of a row, and over the whole run. A row has its own sums, in which the work
// that it handed on is counted; the sums over the run are those of the run, so that nothing is counted twice.

import type { Track } from "../layout/tracks";
import type { Cell, View } from "../view/view";
import { durationOf, hasCost, hasTokens } from "../wire/predicates";
import type { Row, Run } from "../wire/rows";
import { UNKNOWN } from "../wire/words";
import { formatCount, formatDuration, formatExactCount, formatGrowingDuration, formatMoney } from "../wording/numbers";
import { formatScore } from "../wording/scores";
import { settled } from "./kept-values";
import type { ColumnName, Look } from "./look";

export interface Column {
  readonly name: ColumnName;
  readonly title: string;
  /** In full, for who points at it. */
  readonly help: string;
  readonly width: number;
  /** What it says of a row; empty where that has nothing here. */
  textOf(row: Row): string;
  sumOf(view: View, run: Run): string;
}

/** A known part says so, and what nobody knows, too. */
const known = (isAll: boolean, value: number | null | undefined, write: (value: number) => string): string =>
  value == null ? UNKNOWN : `${isAll ? "" : "≥ "}${write(value)}`;

const tokens = (name: "input" | "output", title: string): Column => ({
  name, title, help: `Tokens ${title.toLowerCase()}`, width: 56,
  textOf: (row) => (hasTokens(row) || row.lacks_tokens ? known(!row.lacks_tokens, row[`${name}_tokens`], formatCount) : ""),
  sumOf: (_, run) => known(run.tokens_complete, run[`${name}_tokens`], formatCount),
});

export const COLUMNS: readonly Column[] = [
  tokens("input", "In"),
  tokens("output", "Out"),
  {
    name: "cost", title: "Cost", help: "Cost", width: 68,
    textOf: (row) => (hasCost(row) || row.lacks_cost ? known(!row.lacks_cost, row.cost, (cost) => formatMoney(cost, row.currency)) : ""),
    sumOf: (_, run) => known(run.cost_complete, run.cost, (cost) => formatMoney(cost, run.currency)),
  },
  {
    name: "calls", title: "Calls", help: "Model calls", width: 48,
    textOf: (row) => (row.llm_call_count ? formatExactCount(row.llm_call_count) : ""), sumOf: (_, run) => formatExactCount(run.llm_call_count),
  },
  {
    name: "score", title: "Score", help: "Score, and the mean of all", width: 60,
    textOf: (row) => (row.score == null ? "" : formatScore(row.score)), sumOf: (view) => {
      const { store, present } = view;
      const key = store === present ? "" : `${store.version.value}`;
      return settled(view, "scores", key, () => meanOf([...store.rows()].flatMap(({ score }) => score ?? [])));
    },
  },
  {
    name: "time", title: "Time", help: "Time, and that of the whole run", width: 92,
    textOf: (row) => (row.start_ms == null ? "" : formatDuration(durationOf(row))),
    sumOf: ({ store, age }, run) => (store.isTicking ? formatGrowingDuration(age.value) : formatDuration(run.elapsed_ms)),
  },
];

const meanOf = (scores: readonly number[]): string =>
  scores.length > 0 ? `⌀ ${formatScore(Number((scores.reduce((sum, score) => sum + score, 0) / scores.length).toPrecision(3)))}` : UNKNOWN;

/** The columns that a run has something for. */
export const columnsFor = (view: View): Column[] => settled(view, "columns", "", () => {
  const tasks = [...view.present.rows()].filter((row) => row.kind === "task");
  return COLUMNS.filter((column) => tasks.some((row) => column.textOf(row) !== ""));
});

/** Those of them that are wanted; time alone stands there without a head. */
export function wantedColumns(offered: readonly Column[], { columns }: Look): Column[] {
  const wanted = offered.filter(({ name }) => columns.includes(name));
  return wanted.some(isCell) ? wanted : [];
}

/** The time of a row is said by the row itself. */
const isCell = ({ name }: Column): boolean => name !== "time";

/** The one that stays where there is no room for more: what was wanted last. Times stand there only as long as there is room. */
export const keptColumn = (wanted: readonly Column[], { columns }: Look): ColumnName | undefined =>
  columns.filter((each) => wanted.some((column) => isCell(column) && column.name === each)).at(-1);

/** What the columns say of a row. */
export const cellsOf = (columns: readonly Column[], kept: ColumnName | undefined, { row, kind, isWorker }: Track): Cell[] =>
  columns.filter(isCell).map(({ name, title, width, textOf }) => {
    const text = kind === "group" ? "" : textOf(row);
    const isInner = isWorker && name !== "score";
    return {
      class: `et-amount${name === kept ? " et-kept" : ""}${isInner ? " et-inner" : ""}`, style: `width:${width}px`,
      title: text && `${title}: ${text}${isInner ? ", counted in the row above, too" : ""}`, children: text,
    };
  });
