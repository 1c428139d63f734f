// The board of remembered runs (W130-W133): the line that searches and filters, the table, and below it what was opened. A
// run's name opens it, two ticks compare, and what else can be done with a run stands below its row.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../elements/icon";
import { formatExactCount, pluralize } from "../wording/numbers";
import type { BoardParts } from "./board-parts";
import { type BoardFilter, type BoardRow, filterRuns, nameOf, NO_FILTER, type SortKey, sortRuns, statusName } from "./board-rows";
import { type Opened, OpenedBelow } from "./opened-below";
import { RunLine, type RunLineProps } from "./run-line";

/** So many rows at first, and so many more each time: a page with a thousand rows would be slow. */
const PAGE = 50;
const PERIODS: readonly [days: number, name: string][] = [[0, "any time"], [1, "last 24 hours"], [7, "last 7 days"], [30, "last 30 days"]];

interface Column {
  readonly name: string;
  readonly title: string;
  readonly key?: SortKey;
  /** Whether a first click shows the largest first. */
  readonly isDescending?: boolean;
  /** It is shown where the board is as wide as this, in pixels. */
  readonly least?: number;
}

const COLUMNS: readonly Column[] = [
  { name: "run", title: "Run", key: "name" },
  { name: "picture", title: "Picture" },
  { name: "status", title: "State", key: "status" },
  { name: "start", title: "Began", key: "start", isDescending: true, least: 640 },
  { name: "time", title: "Time", key: "time", isDescending: true, least: 720 },
  { name: "tokens", title: "Tokens", key: "tokens", isDescending: true, least: 1000 },
  { name: "cost", title: "Cost", key: "cost", isDescending: true, least: 400 },
  { name: "scores", title: "Scores", key: "scores", isDescending: true, least: 800 },
];

interface Order {
  readonly key: SortKey;
  readonly isDescending: boolean;
}

const FAMILIES: Order = { key: "family", isDescending: false };

export function Board({ parts }: { parts: BoardParts }) {
  const { connection } = parts;
  const filter = useSignal<BoardFilter>(NO_FILTER);
  const order = useSignal<Order>(FAMILIES);
  const shown = useSignal(PAGE);
  const ticked = useSignal<readonly string[]>([]);
  const current = useSignal("");
  const unfolded = useSignal("");
  const opened = useSignal<Opened | null>(null);
  const said = useSignal("");
  const scroll = useRef<HTMLDivElement>(null);
  const width = useSignal(Infinity);
  useLayoutEffect(() => {
    const element = scroll.current as HTMLElement;
    if (typeof ResizeObserver === "undefined") return undefined;
    const measure = (): void => {
      width.value = element.clientWidth || Infinity;
    };
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  const columns = COLUMNS.filter(({ least = 0 }) => width.value >= least);
  const isLost = connection?.isLost.value ?? false;
  const isLive = connection !== null && !isLost;
  const known = connection?.isKnown.value ? connection.rows.value : parts.saved;
  const all = limit(known, parts.most);
  const now = Date.now();
  const found = filterRuns(all, filter.value, now);
  const rows = sortRuns(found, order.value.key, order.value.isDescending);
  const page = rows.slice(0, shown.value);
  const at = page.some(({ row }) => row.run_id === current.value) ? current.value : (page[0]?.row.run_id ?? "");
  const change = (some: Partial<BoardFilter>): void => {
    filter.value = { ...filter.value, ...some };
    shown.value = PAGE;
    if (scroll.current) scroll.current.scrollTop = 0;
  };

  const open = (row: BoardRow): void => {
    opened.value = { kind: "run", rows: [row] };
    said.value = `${nameOf(row)} is open below`;
  };
  const tick = (row: BoardRow): void => {
    const isTicked = ticked.value.includes(row.run_id);
    ticked.value = isTicked ? ticked.value.filter((each) => each !== row.run_id) : [...ticked.value, row.run_id].slice(-2);
    const two = ticked.value.flatMap((run) => all.find(({ run_id }) => run_id === run) ?? []);
    if (two.length < 2) {
      if (opened.value?.kind === "two") opened.value = null;
      said.value = two.length === 1 ? `${nameOf(two[0] as BoardRow)} is ticked. Tick another run to compare them.` : "";
      return;
    }
    if (!isLive) return;
    opened.value = { kind: "two", rows: two.sort((a, b) => a.start_ms - b.start_ms) };
    said.value = "Both runs are compared below";
  };
  const line: Omit<RunLineProps, "row" | "depth" | "isCurrent" | "isTicked" | "isUnfolded"> = {
    isLive, parts, now, columns: columns.map(({ name }) => name),
    open, tick,
    unfold: (row) => (unfolded.value = row && unfolded.value !== row.run_id ? row.run_id : ""),
    showFamily: (row) => change({ family: row.family }),
    say: (text) => (said.value = text),
  };

  return (
    <>
      <div class="eb-bar" data-narrow={width.value < 640}>
        <b class="eb-title">Runs</b>
        <span class="et-search eb-search">
          <Icon name="search" size={12} />
          <input type="search" aria-label="Search runs" placeholder="Search" value={filter.value.words} onInput={(event) => change({ words: event.currentTarget.value })} />
        </span>
        <Choice label="State" value={filter.value.status} change={(status) => change({ status })}
          options={[["", "any state"], ...[...new Set(all.map(({ status }) => status))].sort().map((each): [string, string] => [each, statusName(each)])]} />
        <Choice label="Began" value={String(filter.value.days)} change={(days) => change({ days: Number(days) })}
          options={PERIODS.map(([days, name]) => [String(days), name])} />
        <button class="et-tool" aria-pressed={order.value.key === "family"} title="Newest first; what came of a run stands behind it" onClick={() => (order.value = FAMILIES)}>
          Families
        </button>
        {filter.value.family && <button class="et-tool" aria-pressed="true" title="Show the runs of all families" onClick={() => change({ family: "" })}>One family ✕</button>}
        <span class="et-spring" />
        <span class="eb-count">{describeCount(found.length, all.length, connection?.isKnown.value ? all.length : Math.max(parts.total, all.length))}</span>
      </div>
      {note(parts, isLost) && <p class="et-note" data-hue="idle">{note(parts, isLost)}</p>}
      {connection?.fault.value && <p class="et-note" data-hue="wait">{connection.fault.value}</p>}
      <div ref={scroll} class="eb-scroll" tabIndex={-1}>
        <table class="eb-table" onKeyDown={(event) => walk(event, page.map(({ row }) => row.run_id), current)}>
          <thead>
            <tr>
              <th scope="col"><span class="et-hidden">Compare</span></th>
              {columns.map((column) => <Heading column={column} order={order} />)}
              <th scope="col"><span class="et-hidden">More</span></th>
            </tr>
          </thead>
          <tbody>
            {page.map(({ row, depth }) => (
              <RunLine key={row.run_id} {...line} row={row} depth={depth} isCurrent={row.run_id === at}
                isTicked={ticked.value.includes(row.run_id)} isUnfolded={unfolded.value === row.run_id} />
            ))}
          </tbody>
        </table>
        {rows.length === 0 && <p class="et-empty">{emptyWords(connection !== null && !connection.isKnown.value && parts.saved.length === 0, all.length)}</p>}
        {page.length < rows.length && <More count={rows.length - page.length} more={() => (shown.value += PAGE)} />}
      </div>
      {opened.value && connection && parts.showTimeline && (
        <OpenedBelow key={opened.value.rows.map(({ run_id }) => run_id).join()} opened={refresh(opened.value, known)} connection={connection} showTimeline={parts.showTimeline}
          close={() => {
            if (opened.value?.kind === "two") ticked.value = [];
            opened.value = null;
            scroll.current?.querySelector<HTMLElement>('tr[data-current="true"] [data-control="name"]')?.focus();
          }} />
      )}
      <div class="eb-said" role="status">{said}</div>
    </>
  );
}

/** The newest ones. */
const limit = (rows: readonly BoardRow[], most: number | null): readonly BoardRow[] =>
  most === null || rows.length <= most ? rows : [...rows].sort((a, b) => b.start_ms - a.start_ms).slice(0, most);

/** The same with what is known of the runs by now. */
const refresh = (opened: Opened, rows: readonly BoardRow[]): Opened =>
  ({ ...opened, rows: opened.rows.map((row) => rows.find(({ run_id }) => run_id === row.run_id) ?? row) });

const describeCount = (found: number, here: number, total: number): string =>
  found < here ? `${formatExactCount(found)} of ${pluralize(here, "run")}` : here < total ? `${formatExactCount(here)} of ${pluralize(total, "run")} kept here` : pluralize(here, "run");

const emptyWords = (isComing: boolean, count: number): string =>
  isComing ? "Looking for runs…" : count > 0 ? "No run fits" : "No run is remembered yet. Each run of a cell, or of ensemble.run, is from now on.";

function note({ connection, saved }: BoardParts, isLost: boolean): string {
  if (connection === null) return `These are the runs as they were when the notebook was saved.${saved.length ? " Run the cell to open, compare, resume, fork, export or forget them." : " Run the cell to see them."}`;
  return isLost ? "The kernel is gone: these are the runs as it told of them last. Run the cell again." : "";
}

function Heading({ column, order }: { column: Column; order: Signal<Order> }) {
  const { key } = column;
  if (key === undefined) return <th scope="col" data-column={column.name}>{column.title}</th>;
  const { value } = order;
  const isSorted = value.key === key;
  const first = column.isDescending === true;
  // A third click brings families together again.
  const next: Order = !isSorted ? { key, isDescending: first } : value.isDescending === first ? { key, isDescending: !first } : FAMILIES;
  return (
    <th scope="col" data-column={column.name} aria-sort={!isSorted ? "none" : value.isDescending ? "descending" : "ascending"}>
      <button class="et-sort" title={`Sort by ${column.title.toLowerCase()}`} onClick={() => (order.value = next)}>
        {column.title}{isSorted && <span aria-hidden="true">{value.isDescending ? "↓" : "↑"}</span>}
      </button>
    </th>
  );
}

function Choice({ label, value, options, change }: { label: string; value: string; options: readonly (readonly [string, string])[]; change: (value: string) => void }) {
  return (
    <select class="eb-choice" aria-label={label} value={value} onChange={(event) => change(event.currentTarget.value)}>
      {options.map(([key, name]) => <option value={key} selected={key === value}>{name}</option>)}
    </select>
  );
}

/** Shows more by itself once it is in sight. */
function More({ count, more }: { count: number; more: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (typeof IntersectionObserver === "undefined" || !button.current) return undefined;
    const sight = new IntersectionObserver((entries) => entries.some((each) => each.isIntersecting) && more());
    sight.observe(button.current);
    return () => sight.disconnect();
  });
  return <button ref={button} class="et-link eb-more" onClick={more}>{pluralize(count, "more run")}</button>;
}

/** Arrows, Home and End go from row to row, to the same control. */
function walk(event: KeyboardEvent, runs: readonly string[], current: Signal<string>): void {
  const target = event.target as HTMLElement;
  const line = target.closest<HTMLElement>("tr[data-run]");
  const control = target.dataset.control;
  if (!line || !control || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = runs.indexOf(line.dataset.run as string);
  const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: runs.length - 1 };
  const to = steps[event.key];
  const run = to === undefined ? undefined : runs[to];
  if (run === undefined) return;
  event.preventDefault();
  current.value = run;
  const lines = [...(line.parentElement as HTMLElement).querySelectorAll<HTMLElement>("tr[data-run]")];
  lines.find((each) => each.dataset.run === run)?.querySelector<HTMLElement>(`[data-control="${control}"]`)?.focus();
}
