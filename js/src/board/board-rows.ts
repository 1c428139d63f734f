// The remembered runs as the board lists them: what lets nothing else in, and what sorts, filters and searches them. Pure.

import { isObject } from "../wire/guards";
import { RUN_STATUS_NAMES } from "../wire/words";

/** A score of a run: its name, its text, the number by which it is sorted, and whether more of it is better. */
export type BoardScore = readonly [name: string, text: string, value: number | null, isMoreBetter?: boolean];

/** A remembered run. What is unknown is absent; times are milliseconds, `start_ms` since 1970. */
export interface BoardRow {
  readonly run_id: string;
  readonly status: string;
  readonly start_ms: number;
  readonly family: string;
  readonly name?: string;
  readonly kind?: string;
  /** The run that it forks, calls again or goes on with. */
  readonly parent?: string;
  readonly changed?: readonly string[];
  readonly notebook?: string;
  /** That its output is bound to. */
  readonly variable?: string;
  readonly cell?: string;
  /** What told of it, where another framework ran it. */
  readonly framework?: string;
  readonly inputs?: string;
  readonly tasks?: number;
  readonly tasks_done?: number;
  readonly wall_ms?: number;
  readonly tokens?: number;
  readonly cost?: number;
  readonly currency?: string;
  readonly scores?: readonly BoardScore[];
  readonly picture?: string;
  readonly is_resumable?: boolean;
  readonly is_forkable?: boolean;
}

export type SortKey = "family" | "name" | "status" | "start" | "time" | "tokens" | "cost" | "scores";

export interface BoardFilter {
  readonly words: string;
  /** A status; empty for all. */
  readonly status: string;
  /** Not older than so many days; 0 for all. */
  readonly days: number;
  /** The id of a family; empty for all. */
  readonly family: string;
}

export const NO_FILTER: BoardFilter = { words: "", status: "", days: 0, family: "" };

const DAY_MS = 86_400_000;
const TEXTS = ["name", "kind", "parent", "notebook", "variable", "cell", "framework", "inputs", "currency", "picture"] as const;
const NUMBERS = ["tasks", "tasks_done", "wall_ms", "tokens", "cost"] as const;
const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isScore = (value: unknown): value is BoardScore =>
  Array.isArray(value) && typeof value[0] === "string" && typeof value[1] === "string" && (value[2] === null || isNumber(value[2]));

/** The rows that are some: a file may say anything. What is of another type in one is left out. */
export function readBoardRows(value: unknown): BoardRow[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((each): BoardRow[] => {
    if (!isObject(each) || typeof each.run_id !== "string" || typeof each.status !== "string" || !isNumber(each.start_ms)) return [];
    const known: Record<string, unknown> = { run_id: each.run_id, status: each.status, start_ms: each.start_ms };
    known.family = typeof each.family === "string" ? each.family : each.run_id;
    for (const name of TEXTS) if (typeof each[name] === "string") known[name] = each[name];
    for (const name of NUMBERS) if (isNumber(each[name])) known[name] = each[name];
    for (const name of ["is_resumable", "is_forkable"]) if (each[name] === true) known[name] = true;
    if (Array.isArray(each.changed)) known.changed = each.changed.filter((one) => typeof one === "string");
    if (Array.isArray(each.scores)) known.scores = each.scores.filter(isScore);
    return [known as unknown as BoardRow];
  });
}

export const statusName = (status: string): string => (RUN_STATUS_NAMES as Record<string, string>)[status] ?? status.replace(/_/g, " ");

/** A run's name as it is shown, whoever gave it one. */
export const nameOf = (row: BoardRow): string => row.name ?? "unnamed run";

/** Where a person's words are looked for, in lower case. */
const textOf = (row: BoardRow): string =>
  [row.name, row.run_id, row.kind, statusName(row.status), row.notebook, row.cell, row.framework, row.inputs, row.changed?.join(" "),
    row.scores?.map(([name, text]) => `${name} ${text}`).join(" ")].filter(Boolean).join("\n").toLowerCase();

/** The runs that fit: every word stands somewhere, in quotes together. */
export function filterRuns(rows: readonly BoardRow[], filter: BoardFilter, now: number): BoardRow[] {
  const words = [...filter.words.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)].map(([, quoted, plain]) => (quoted ?? plain) as string);
  return rows.filter((row) => {
    if (filter.status && row.status !== filter.status) return false;
    if (filter.family && row.family !== filter.family) return false;
    if (filter.days && now - row.start_ms > filter.days * DAY_MS) return false;
    if (words.length === 0) return true;
    const text = textOf(row);
    return words.every((word) => text.includes(word));
  });
}

/** What a run is sorted by; a text or a number. Unknown comes last, whichever way. */
const VALUES: Record<Exclude<SortKey, "family">, (row: BoardRow) => string | number | null | undefined> = {
  name: (row) => row.name?.toLowerCase(),
  status: (row) => statusName(row.status),
  start: (row) => row.start_ms,
  time: (row) => row.wall_ms,
  tokens: (row) => row.tokens,
  cost: (row) => row.cost,
  scores: (row) => row.scores?.find(([, , value]) => value !== null)?.[2],
};

/** A run and how far in it stands: 0 but among its family, where it is how many runs stand between it and the first. */
export interface Placed {
  readonly row: BoardRow;
  readonly depth: number;
}

export function sortRuns(rows: readonly BoardRow[], key: SortKey, isDescending: boolean): Placed[] {
  if (key === "family") return placeFamilies(rows);
  const value = VALUES[key];
  const sorted = rows.map((row) => ({ row, value: value(row) })).sort((a, b) => {
    if (a.value == null || b.value == null) return Number(a.value == null) - Number(b.value == null) || b.row.start_ms - a.row.start_ms;
    const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
    return (isDescending ? -order : order) || b.row.start_ms - a.row.start_ms;
  });
  return sorted.map(({ row }) => ({ row, depth: 0 }));
}

/** Families by their newest run: each run behind the one that it came of, the newest first of several. */
function placeFamilies(rows: readonly BoardRow[]): Placed[] {
  const newest = [...rows].sort((a, b) => b.start_ms - a.start_ms);
  const known = new Set(rows.map((row) => row.run_id));
  const families = new Map<string, Map<string, BoardRow[]>>();
  for (const row of newest) {
    const children = families.get(row.family) ?? new Map<string, BoardRow[]>();
    families.set(row.family, children);
    const parent = row.parent !== undefined && known.has(row.parent) && row.run_id !== row.family ? row.parent : "";
    const siblings = children.get(parent) ?? [];
    children.set(parent, siblings);
    siblings.push(row);
  }
  return [...families.values()].flatMap((children) => {
    const placed: Placed[] = [];
    const put = (parent: string, depth: number): void => {
      const own = children.get(parent) ?? [];
      children.delete(parent); // what goes round in a circle ends
      for (const row of own) {
        placed.push({ row, depth });
        put(row.run_id, depth + 1);
      }
    };
    put("", 0);
    for (const row of [...children.values()].flat()) placed.push({ row, depth: 0 });
    return placed;
  });
}

export interface Bar {
  readonly lane: number;
  /** Thousandths of the run. */
  readonly from: number;
  readonly to: number;
  readonly state: string;
}

const STATES = new Set(["ok", "error", "running", "idle", "reused"]);
const MOST_LANES = 12;

/** The bars of a small picture. */
export function readPicture(text: string | undefined): Bar[] {
  return (text ?? "").split(";").flatMap((part): Bar[] => {
    const [lane, from, to, state = ""] = part.split(",");
    const [at, first, last] = [lane, from, to].map(Number) as [number, number, number];
    if (!part || !STATES.has(state) || !(at >= 0 && at < MOST_LANES && first >= 0 && last >= first && last <= 1000)) return [];
    return [{ lane: at, from: first, to: last, state }];
  });
}
