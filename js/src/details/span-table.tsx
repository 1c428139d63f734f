// The table of spans that `t` shows in place of the chart (W10): sorted by any column, the same selection, and only the
// rows on screen in the page, so that 10,000 spans cost no more than 20. What is looked for filters it.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon, iconOf } from "../elements/icon";
import { stateOfRow } from "../store/row-state";
import { type ColumnKey, type Order, sortRows } from "./span-order";
import type { View } from "../view/view";
import { durationOf, hasCost, isListed } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { kindTitle, signOf, titleOf } from "../wording/labels";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";

const ROW_PX = 28;

interface Column {
  readonly key: ColumnKey;
  readonly title: string;
  /** Of figures, which stand at the right. */
  readonly isNumber?: boolean;
  readonly text: (row: Row, view: View) => string;
}

const orEmpty = (value: number | null | undefined, format: (value: number) => string): string => (value == null ? "" : format(value));

const COLUMNS: readonly Column[] = [
  { key: "name", title: "Name", text: (row, view) => titleOf(view.store, row) },
  { key: "kind", title: "Kind", text: (row) => kindTitle(row.kind) },
  { key: "status", title: "Status", text: (row, view) => stateOfRow(view.store, row).name },
  { key: "agent", title: "Agent", text: (row) => row.agent ?? "" },
  { key: "start", title: "Start", isNumber: true, text: (row) => orEmpty(row.start_ms, formatDuration) },
  { key: "duration", title: "Duration", isNumber: true, text: (row, view) => formatDurationSoFar(row, view.age.value) },
  { key: "input", title: "In", isNumber: true, text: (row) => orEmpty(row.input_tokens || null, formatCount) },
  { key: "output", title: "Out", isNumber: true, text: (row) => orEmpty(row.output_tokens || null, formatCount) },
  { key: "cost", title: "Cost", isNumber: true, text: (row) => orEmpty(hasCost(row) ? row.cost : null, (cost) => formatMoney(cost, row.currency)) },
];

function formatDurationSoFar(row: Row, now: number): string {
  if (row.start_ms == null) return "";
  return formatDuration(row.end_ms == null ? Math.max(0, now - row.start_ms) : durationOf(row));
}

export function SpanTable({ view, prefix }: { view: View; prefix: string; change: number }) {
  const grid = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const order = useSignal<Order>({ column: "start", isDescending: false });
  const top = useSignal(0);
  const height = useSignal(0);
  view.store.version.value;
  const rows = sortRows(view.store, view.search.found.value ?? [...view.store.rows()].filter(isListed), order.value);
  const most = Math.max(0, rows.length * ROW_PX - height.value);
  const scrolled = Math.min(top.value, most);
  const scroll = (to: number): void => {
    top.value = Math.min(Math.max(0, to), most);
    if (bar.current) bar.current.scrollTop = top.value;
  };
  const show = (index: number): void => {
    if (index * ROW_PX < scrolled) scroll(index * ROW_PX);
    else if ((index + 1) * ROW_PX > scrolled + height.value) scroll((index + 1) * ROW_PX - height.value);
  };
  const at = rows.findIndex((row) => row.span_id === view.selected.value);

  useLayoutEffect(() => {
    const element = grid.current as HTMLDivElement;
    const root = element.closest<HTMLElement>(".ensemble-timeline");
    const gutter = root?.querySelector<HTMLElement>(".et-gutter");
    const measure = (): void => {
      height.value = Math.max(0, element.clientHeight - ROW_PX);
    };
    measure();
    const sizes = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(measure);
    sizes?.observe(element);
    // The table takes over from the rows of the chart, and gives back to them, whatever they had.
    if (gutter?.contains(document.activeElement) || document.activeElement === document.body || document.activeElement === root) element.focus({ preventScroll: true });
    if (at >= 0) show(at);
    return () => {
      sizes?.disconnect();
      if (element.contains(document.activeElement)) gutter?.focus({ preventScroll: true });
      view.reveal();
    };
  }, [view]);
  useLayoutEffect(() => {
    if (at >= 0) show(at);
  }, [view.selected.value, order.value]);

  const go = (index: number): void => {
    const row = rows[Math.min(Math.max(index, 0), rows.length - 1)];
    if (row) view.select(row.span_id);
  };
  const page = Math.max(1, Math.floor(height.value / ROW_PX) - 1);
  const steps: Record<string, () => void> = {
    ArrowDown: () => go(at + 1), ArrowUp: () => go(at < 0 ? rows.length - 1 : at - 1),
    PageDown: () => go(at + page), PageUp: () => go(at - page), Home: () => go(0), End: () => go(rows.length - 1),
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = event.ctrlKey || event.metaKey || event.altKey ? undefined : steps[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    step();
  };
  const first = Math.floor(scrolled / ROW_PX);
  const shown = rows.slice(first, first + Math.ceil(height.value / ROW_PX) + 1);
  const current = rows[at];
  return (
    <>
      <div ref={grid} class="et-grid" role="grid" tabIndex={0} aria-multiselectable="true" aria-label="Spans of the run" aria-rowcount={rows.length + 1}
        aria-activedescendant={current && shown.includes(current) ? `${prefix}cell-${current.span_id}` : undefined} onKeyDown={onKey}>
        <div class="et-grid-row et-grid-head" role="row" aria-rowindex={1}>
          {COLUMNS.map((column) => <Heading column={column} order={order.value} sort={(next) => (order.value = next)} />)}
        </div>
        <div class="et-grid-body" role="presentation" style={{ transform: `translateY(${first * ROW_PX - scrolled}px)` }}>
          {shown.map((row, k) => (
            <div key={row.span_id} id={`${prefix}cell-${row.span_id}`} role="row" class="et-grid-row" aria-rowindex={first + k + 2}
              aria-selected={view.selectedSpans.value.has(row.span_id)}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey) return view.selectAlso(row.span_id);
                view.select(row.span_id);
                view.isDrawerOpen.value = true;
              }}>
              {COLUMNS.map((column) => <Cell column={column} row={row} view={view} />)}
            </div>
          ))}
        </div>
        {rows.length === 0 && <p class="et-empty">{view.search.isActive ? "Nothing fits the search" : "No spans yet"}</p>}
      </div>
      <div ref={bar} class="et-scrollbar" aria-hidden="true" onScroll={(event) => (top.value = event.currentTarget.scrollTop)}>
        <div style={{ height: `${rows.length * ROW_PX}px` }} />
      </div>
    </>
  );
}

function Heading({ column, order, sort }: { column: Column; order: Order; sort: (order: Order) => void }) {
  const isSorted = order.column === column.key;
  const direction = !isSorted ? "none" : order.isDescending ? "descending" : "ascending";
  return (
    <span role="columnheader" class="et-cell" data-column={column.key} aria-sort={direction}>
      <button class="et-sort" title={`Sort by ${column.title.toLowerCase()}`}
        onClick={() => sort({ column: column.key, isDescending: isSorted ? !order.isDescending : column.isNumber === true && column.key !== "start" })}>
        {column.title}
        {isSorted && <span aria-hidden="true">{order.isDescending ? "↓" : "↑"}</span>}
      </button>
    </span>
  );
}

function Cell({ column, row, view }: { column: Column; row: Row; view: View }) {
  const text = column.text(row, view);
  const { key } = stateOfRow(view.store, row);
  return (
    <span role="gridcell" class="et-cell" data-column={column.key} title={text}>
      {column.key === "name" && <span class="et-cell-sign" data-kind={row.kind} aria-hidden="true">{signOf(row)}</span>}
      {column.key === "status" && <span class="et-sign" data-status={key}><Icon name={iconOf(key)} size={12} /></span>}
      <span class="et-cell-text">
        {text}{column.key === "name" && row.kind !== "task" && row.task && <span class="et-cell-task">{row.task}</span>}
      </span>
    </span>
  );
}
