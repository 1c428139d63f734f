// What the grid has of a run: a line for each row of a map, or each item, and a cell for each task of it, or for each variant.
// Pure.

import type { Store } from "../store/store";
import type { Row, Run } from "../wire/rows";
import { nameOf } from "../wording/labels";

export interface Cell {
  readonly line: number;
  readonly column: number;
}

export interface GridLine {
  readonly name: string;
  /** The same without what it is about. */
  readonly title: string;
  /** As many as there are columns; undefined where nothing is known of it. */
  readonly cells: readonly (Row | undefined)[];
}

export interface GridTable {
  readonly columns: readonly string[];
  readonly lines: readonly GridLine[];
  /** What a line is called: row, run, variant or item. */
  readonly noun: string;
  /** A column is a variant, and all cells of a line are the same row. */
  readonly isCompared?: boolean;
}

const isMap = (run: Run | null): boolean => run !== null && run.task_noun !== "task";
const isList = (row: Row): boolean => row.kind === "task" && row.item_count != null;

export const tabulate = (store: Store): GridTable => (isMap(store.run.value) ? tabulateMap(store) : tabulateItems(store));

/** The rows of a map side by side under its variants, each repeat a line; of any other run what `tabulate` has. */
export function tabulateAnswers(store: Store): GridTable {
  const noun = store.run.value?.task_noun ?? "task";
  const rows = noun === "run" ? [...listRows(store)] : [];
  const variants = [...new Set(rows.flatMap(({ variant }) => variant ?? []))];
  if (variants.length < 2 || rows.some(({ line, variant }) => line == null || variant == null)) return withAnswers(tabulate(store));
  const lines = new Map<string, { line: number; repeat: number; title: string; cells: (Row | undefined)[] }>();
  for (const row of rows) {
    const [line, repeat, variant] = [row.line as number, row.repeat ?? 0, row.variant as string];
    const found = lines.get(`${line} ${repeat}`) ?? { line, repeat, title: nameOf(row).replace(`${variant}/`, ""), cells: variants.map(() => undefined) };
    lines.set(`${line} ${repeat}`, found);
    found.cells[variants.indexOf(variant)] = row;
  }
  const sorted = [...lines.values()].sort((one, other) => one.line - other.line || one.repeat - other.repeat);
  return { noun: "row", columns: variants, isCompared: true, lines: sorted.map(({ title, cells }) => ({ name: title, title, cells })) };
}

/** What a row came to is its answer. */
const withAnswers = (table: GridTable): GridTable => ({ ...table, columns: table.columns.map((name) => (name === table.noun ? "answer" : name)) });

/** The rows of a map. */
function* listRows(store: Store): Generator<Row> {
  for (const row of store.rows()) if (row.kind === "task" && !store.row(row.parent_id ?? "")) yield row;
}

/** The rows of a map, and the tasks of their runs: not what judges did, nor workers. */
function tabulateMap(store: Store): GridTable {
  const noun = store.run.value?.task_noun ?? "row";
  const found: { row: Row; tasks: Map<string, Row> }[] = [];
  const names = new Map<string, string>();
  for (const row of listRows(store)) {
    const tasks = tasksIn(store, row);
    for (const [name, task] of tasks) if (!names.has(name)) names.set(name, nameOf(task));
    found.push({ row, tasks });
  }
  found.sort(({ row: one }, { row: other }) => (one.line ?? 0) - (other.line ?? 0) || (one.repeat ?? 0) - (other.repeat ?? 0));
  // A row with one task is that task.
  const keys = names.size > 1 ? [...names.keys()] : [];
  const [only] = names.values();
  return {
    noun,
    columns: keys.length ? [noun, ...keys.map((key) => names.get(key) as string)] : [only ?? noun],
    lines: found.map(({ row, tasks }) => ({ name: describe(row), title: nameOf(row), cells: [row, ...keys.map((key) => tasks.get(key))] })),
  };
}

/** The items of each list in their order; what was done of the same list stands side by side. */
function tabulateItems(store: Store): GridTable {
  const columns: { key: string; name: string }[] = [];
  const places = new Map<string, number>();
  const place = (key: string, name: string): number => {
    if (!places.has(key)) places.set(key, columns.push({ key, name }) - 1);
    return places.get(key) as number;
  };
  const lists = new Map<string, { name: string; cells: Row[] }[]>();
  for (const list of store.rows()) {
    if (!isList(list)) continue;
    const source = String(list.settings?.for_each ?? list.span_id);
    const lines = lists.get(source) ?? [];
    lists.set(source, lines);
    for (let k = lines.length; k < (list.item_count ?? 0); k += 1) lines.push({ name: `${list.name}[${k}]`, cells: [] });
    const column = place(list.span_id, nameOf(list));
    for (const item of store.children(list.span_id)) {
      const number = /\[(\d+)\]$/.exec(item.name)?.[1];
      const line = item.kind === "task" && number !== undefined ? lines[Number(number)] : undefined;
      if (!line) continue;
      if (line.cells.length === 0) line.name = item.title ?? describe(item);
      line.cells[column] = item;
      for (const [name, task] of tasksIn(store, item)) line.cells[place(`${list.span_id} ${name}`, nameOf(task))] = task;
    }
  }
  return { noun: "item", columns: columns.map(({ name }) => name), lines: [...lists.values()].flat().map(({ name, cells }) => ({ name, title: name, cells: columns.map((_, k) => cells[k]) })) };
}

const NO_TASKS = new Map<string, Row>();

/** The tasks of the runs inside a task, by name. */
function tasksIn(store: Store, row: Row): Map<string, Row> {
  if (store.children(row.span_id).length === 0) return NO_TASKS;
  const inside = store.descendants(row.span_id, (each) => each.kind === "task" || each.kind === "score");
  return new Map(inside.filter((each) => each.kind === "task" && store.row(each.parent_id ?? "")?.kind !== "delegation").map((each) => [each.name, each]));
}

/** Where each cell is, by its span. */
export type Index = ReadonlyMap<string, Cell>;

export const indexCells = (lines: readonly GridLine[]): Index =>
  new Map(lines.flatMap(({ cells }, line) => cells.flatMap((row, column) => (row ? [[row.span_id, { line, column }] as const] : []))));

/** The cell that a span is, or is in. */
export function findCell(store: Store, index: Index, span: string): Cell | null {
  for (let at: string | null | undefined = span, steps = 0; at && steps < 64; at = store.row(at)?.parent_id, steps += 1) {
    const cell = index.get(at);
    if (cell) return cell;
  }
  return null;
}

/** `row 3 · city: Paris`. */
function describe(row: Row): string {
  const about = row.description?.split("\n")[0] ?? "";
  return about === "" || about === row.name ? nameOf(row) : `${nameOf(row)} · ${about}`;
}
