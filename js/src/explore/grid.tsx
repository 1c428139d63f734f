// The grid of a map or of items: what it is coloured by, its cells on a canvas, and for who can't see that, the lines around the
// cell that the keys have come to. A drag selects lines.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { KernelConnection } from "../kernel/connection";
import { stateOfRow } from "../store/row-state";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import { durationOf, hasCost } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { nameOf } from "../wording/labels";
import { formatDuration, formatExactCount, formatMoney, pluralize } from "../wording/numbers";
import { formatScore, scoresOf } from "../wording/scores";
import { findCell, type GridLine, type GridTable, indexCells, linesWith, tabulate } from "./grid-lines";
import { drawSwatch, type GridScene, paintGrid, prepare } from "./grid-painter";
import { type Box, boxOf, type Cell, cellAt, placeCells, stepFrom } from "./grid-places";
import { coloursOf, type Key, makeScale, sayValue, valueOf } from "./grid-scale";

/** More lines than these have no names beside them, unless a person wants them. */
const MOST_NAMED = 120;
const CLICK_PX = 4;
const LONGEST_REPLY = 240;
/** Pixels that a tooltip is wide at most. */
const TIP = 300;
const REST_MS = 60;
/** Lines that a reader of the screen has before and after the one where it is. */
const AROUND = 12;

interface Props {
  view: View;
  connection: KernelConnection | null;
  theme: Theme;
  prefix: string;
  change: number;
}

export function Grid({ view, connection, theme, prefix }: Props) {
  const { store, search } = view;
  store.version.value;
  const run = store.run.value;
  const [colour, setColour] = useState("status");
  const [wantsNames, setWantsNames] = useState<boolean | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const [cursor, setCursor] = useState<Cell | null>(null);
  const [hovered, setHovered] = useState<Cell | null>(null);
  const [dragged, setDragged] = useState<readonly [number, number] | null>(null);
  const field = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const anchor = useRef(0);
  const press = useRef<{ x: number; y: number; line: number } | null>(null);

  const lost = store.lostAt.value;
  const all = useMemo(() => tabulate(store), [store, store.position, run]);
  const found = search.shownRows.value;
  // What is hidden need not be dimmed.
  const bright = found ? null : view.highlighted.value;
  const table = useMemo(() => narrow(all, found, (row) => !colour.startsWith("score ") || valueOf(store, row, colour) !== undefined), [all, found, colour]);
  const { lines, columns, noun } = table;
  const scale = useMemo(() => makeScale(store, lines, colour), [lines, colour, lost]);
  const colours = useMemo(() => coloursOf(store, all.lines), [all]);
  const isNamed = wantsNames ?? lines.length <= MOST_NAMED;
  const places = useMemo(() => placeCells(lines.length, columns.length, size.width, size.height, isNamed), [lines.length, columns.length, size, isNamed]);
  const most = Math.max(0, places.height - size.height);
  const scrolled = Math.min(top, most);
  const spans = view.selectedSpans.value;
  const cells = useMemo(() => indexCells(lines), [lines]);
  const selectedLines = useMemo(() => linesWith(store, cells, spans), [cells, spans]);
  const brightLines = useMemo(() => bright && linesWith(store, cells, bright), [cells, bright]);
  const page = Math.max(1, Math.floor((size.height - places.head) / places.cell.h) - 1);

  /** Where a cell is by now. */
  const seen = (cell: Cell): Box => {
    const box = boxOf(places, cell);
    return { ...box, y: box.y - scrolled };
  };
  const rowAt = (cell: Cell | null): Row | undefined => (cell ? lines[cell.line]?.cells[cell.column] : undefined);
  const isSelected = (line: number): boolean => {
    if (dragged) return line >= Math.min(...dragged) && line <= Math.max(...dragged);
    return selectedLines.has(line);
  };
  const scroll = (to: number): void => {
    const next = Math.min(Math.max(0, to), most);
    setTop(next);
    if (bar.current) bar.current.scrollTop = next;
  };
  const show = (cell: Cell): void => {
    const { y, h } = seen(cell);
    const above = y - (isNamed ? places.head : 0);
    const below = y + h - size.height;
    if (above < 0 || below > 0) scroll(scrolled + (above < 0 ? above : below));
  };
  const selectLines = (one: number, other: number): void => {
    const chosen = lines.slice(Math.min(one, other), Math.max(one, other) + 1).flatMap(({ cells }) => cells.find(Boolean)?.span_id ?? []);
    view.selectAll(one <= other ? chosen : chosen.reverse());
  };
  /** The cell of what is selected, wherever that was done; what is inside a cell is in it. */
  const selected = view.selected.value;
  const hasToShow = useRef(false);
  useEffect(() => {
    hasToShow.current = true;
  }, [selected]);
  useEffect(() => {
    const cell = selected === null || spans.size > 1 ? null : findCell(store, cells, selected);
    if (!cell) return;
    setCursor(cell);
    // Lines come all the time while a run goes on, and a person may have scrolled elsewhere.
    if (hasToShow.current) show(cell);
    hasToShow.current = false;
  }, [selected, cells]);

  useLayoutEffect(() => {
    const element = field.current as HTMLDivElement;
    const measure = (): void => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const sizes = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(measure);
    sizes?.observe(element);
    const root = element.closest<HTMLElement>(".ensemble-timeline");
    const gutter = root?.querySelector<HTMLElement>(".et-gutter");
    if (gutter?.contains(document.activeElement) || document.activeElement === document.body || document.activeElement === root) element.focus({ preventScroll: true });
    return () => {
      sizes?.disconnect();
      if (element.contains(document.activeElement)) gutter?.focus({ preventScroll: true });
    };
  }, [view]);
  const scene: GridScene = {
    places, columns, isSelected, theme, scrollTop: scrolled,
    lookAt: (line, column) => scale.lookOf(lines[line]?.cells[column]),
    wordsAt: (line, column) => wordsOf(rowAt({ line, column }), view, colour),
    nameOf: (line) => lines[line]?.name ?? "",
    isDimmed: (line) => brightLines !== null && !brightLines.has(line),
  };
  useLayoutEffect(() => {
    const element = canvas.current as HTMLCanvasElement;
    const ctx = size.width > 0 ? prepare(element, size.width, size.height) : null;
    if (ctx) paintGrid(ctx, scene, size.width, size.height);
    // What tests, and whoever else can't see, read from a canvas.
    Object.assign(element, { listCells: () => listCells(scene) });
  }, [table, scale, places, scrolled, theme, dragged, selectedLines, brightLines, size]);

  const pointed = rowAt(hovered);
  useEffect(() => {
    if (!pointed || !connection || pointed.kind !== "task") return undefined;
    const timer = setTimeout(() => connection.wantDetails(pointed.span_id), REST_MS);
    return () => clearTimeout(timer);
  }, [pointed?.span_id, connection]);

  const under = (event: PointerEvent): Cell | null => {
    const box = (canvas.current as HTMLCanvasElement).getBoundingClientRect();
    const y = event.clientY - box.top;
    return isNamed && y < places.head ? null : cellAt(places, event.clientX - box.left, y + scrolled);
  };
  const onMove = (event: PointerEvent): void => {
    const cell = under(event);
    const from = press.current;
    if (from && !dragged && Math.hypot(event.clientX - from.x, event.clientY - from.y) < CLICK_PX) return;
    if (from && cell) setDragged([from.line, cell.line]);
    if (from || hovered?.line !== cell?.line || hovered?.column !== cell?.column) setHovered(from ? null : cell);
  };
  const onUp = (event: PointerEvent): void => {
    const from = press.current;
    press.current = null;
    if (!from) return;
    if (dragged) {
      selectLines(...dragged);
      setCursor({ line: dragged[1], column: 0 });
      anchor.current = dragged[0];
      return setDragged(null);
    }
    const cell = under(event);
    if (!cell) return;
    if (event.shiftKey) {
      selectLines(cursor ? anchor.current : cell.line, cell.line);
      return setCursor(cell);
    }
    go(cell, event.ctrlKey || event.metaKey);
    if (rowAt(cell) && !event.ctrlKey && !event.metaKey) view.isDrawerOpen.value = true;
  };
  function go(cell: Cell, isAlso = false): void {
    anchor.current = cell.line;
    setCursor(cell);
    show(cell);
    const row = rowAt(cell);
    if (row && isAlso) view.selectAlso(row.span_id);
    else view.select(row?.span_id ?? null);
  }
  const onKey = (event: KeyboardEvent): void => {
    const next = event.ctrlKey || event.metaKey || event.altKey ? undefined : stepFrom(places, cursor, event.key, page);
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.shiftKey) return go(next);
    selectLines(anchor.current, next.line);
    setCursor(next);
    show(next);
  };

  const first = Math.max(0, Math.min(cursor ? cursor.line - AROUND : Math.floor(Math.max(0, scrolled - places.head) / places.cell.h) * places.across, lines.length - 1));
  const [kept = 0, total = 0] = store.kept.value.task ?? [];
  return (
    <div class="et-matrix">
      <div class="et-matrix-bar">
        <label>Colour <select class="et-status-filter" value={colour} onChange={(event) => {
          setColour(event.currentTarget.value);
          setHovered(null); // there may be other columns
          setCursor(null);
        }}>
          {colours.map(([key, name]) => <option value={key}>{name}</option>)}
        </select></label>
        <button class="et-choice" aria-pressed={isNamed} title={`A line for each ${noun}, with its name`} onClick={() => setWantsNames(!isNamed)}>Names</button>
        <Legend keys={scale.legend} theme={theme} name={colours.find(([key]) => key === colour)?.[1] ?? ""} />
        {kept < total && <span class="et-matrix-note">{formatExactCount(kept)} of {pluralize(total, "task")} kept here</span>}
      </div>
      <div ref={field} class="et-matrix-field" role="grid" tabIndex={0} aria-multiselectable="true" aria-label={`${pluralize(lines.length, noun)}, tasks side by side`}
        aria-rowcount={lines.length + 1} aria-colcount={columns.length + 1} aria-activedescendant={cursor && lines[cursor.line] ? `${prefix}grid-${cursor.line}-${cursor.column}` : undefined}
        onKeyDown={onKey}>
        <canvas ref={canvas} class="et-matrix-canvas" aria-hidden="true"
          onPointerDown={(event) => {
            const cell = event.button === 0 ? under(event) : null;
            if (!cell) return;
            press.current = { x: event.clientX, y: event.clientY, line: cell.line };
            event.currentTarget.setPointerCapture?.(event.pointerId);
          }}
          onPointerMove={onMove} onPointerUp={onUp} onPointerLeave={() => setHovered(null)}
          onPointerCancel={() => {
            press.current = null;
            setDragged(null);
          }} />
        {cursor && <Ring box={seen(cursor)} by="keys" />}
        {hovered && <Ring box={seen(hovered)} by="pointer" />}
        {hovered && lines[hovered.line] && (
          <Tip line={lines[hovered.line] as GridLine} row={pointed} column={columns[hovered.column] ?? ""} view={view} connection={connection} box={seen(hovered)} size={size} />
        )}
        <div class="et-hidden" role="row" aria-rowindex={1}>
          <span role="columnheader">{noun}</span>{columns.map((name) => <span role="columnheader">{name}</span>)}
        </div>
        {lines.slice(first, first + 2 * AROUND + 1).map(({ name, cells }, k) => (
          <div key={first + k} class="et-hidden" role="row" aria-rowindex={first + k + 2} aria-selected={isSelected(first + k)}>
            <span role="rowheader">{name}</span>
            {cells.map((row, column) => <span role="gridcell" id={`${prefix}grid-${first + k}-${column}`}>{row ? [columns[column], ...factsOf(row, view)].join(", ") : "nothing yet"}</span>)}
          </div>
        ))}
        {lines.length === 0 && <p class="et-empty">{search.isActive ? "Nothing fits the search" : `No ${noun}s yet`}</p>}
      </div>
      <div ref={bar} class="et-scrollbar" aria-hidden="true" onScroll={(event) => setTop(event.currentTarget.scrollTop)}><div style={{ height: `${places.height}px` }} /></div>
    </div>
  );
}

/** The lines that a search leaves, and the columns in which anything is measured. */
function narrow(all: GridTable, found: ReadonlySet<string> | null, isMeasured: (row: Row) => boolean): GridTable {
  const kept = all.columns.flatMap((_, k) => (all.lines.some(({ cells }) => cells[k] && isMeasured(cells[k])) ? [k] : []));
  const pick = <T,>(from: readonly T[]): T[] => (kept.length > 0 ? kept.map((k) => from[k] as T) : [...from]);
  const lines = all.lines.filter(({ cells }) => !found || cells.some((row) => row && found.has(row.span_id)));
  return { ...all, columns: pick(all.columns), lines: lines.map(({ name, cells }) => ({ name, cells: pick(cells) })) };
}

function wordsOf(row: Row | undefined, view: View, colour: string): string {
  if (!row) return "";
  const state = stateOfRow(view.store, row);
  return row.status === "ok" ? sayValue(view.store, valueOf(view.store, row, colour), colour) : state.name;
}

/** How it stands, how long it took, what it cost, what it was scored. */
function factsOf(row: Row, view: View): string[] {
  const scores = scoresOf(row, view.store.run.value).map(([name, value]) => `${name}: ${formatScore(value)}`);
  return [stateOfRow(view.store, row).name, row.end_ms != null ? formatDuration(durationOf(row)) : "", hasCost(row) ? formatMoney(row.cost, row.currency) : "", ...scores].filter(Boolean);
}

/** Every cell as it is drawn. */
const listCells = ({ places, lookAt, columns, isSelected, scrollTop }: GridScene): object[] =>
  Array.from({ length: places.lines * places.columns }, (_, k) => {
    const [line, column] = [Math.floor(k / places.columns), k % places.columns];
    const box = boxOf(places, { line, column });
    return { line, column, of: columns[column], look: lookAt(line, column), isSelected: isSelected(line), ...box, y: box.y - scrollTop };
  });

const Ring = ({ box, by }: { box: Box; by: string }) =>
  <i class="et-matrix-ring" data-by={by} style={{ left: `${box.x - 1}px`, top: `${box.y - 1}px`, width: `${box.w + 1}px`, height: `${box.h + 1}px` }} />;

const Legend = ({ keys, theme, name }: { keys: readonly Key[]; theme: Theme; name: string }) => (
  <ul class="et-matrix-legend" aria-label={`Legend: ${name}`}>
    {keys.map((key) => <li key={key.words}><Swatch {...key} theme={theme} />{key.words}</li>)}
  </ul>
);

function Swatch({ look, theme }: Key & { theme: Theme }) {
  const place = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const ctx = place.current && prepare(place.current, 12, 12);
    if (ctx) drawSwatch(ctx, 0, 0, 12, look, theme);
  }, [look, theme]);
  return <canvas ref={place} class="et-matrix-swatch" aria-hidden="true" />;
}

interface TipProps {
  line: GridLine;
  row: Row | undefined;
  column: string;
  view: View;
  connection: KernelConnection | null;
  /** Of the cell, in the field as it is scrolled. */
  box: Box;
  size: { width: number; height: number };
}

/** What stands beside the pointer: the name, the task, how it stands, and the first words of the reply. */
function Tip({ line, row, column, view, connection, box, size }: TipProps) {
  const reply = row && (view.store.text(row.span_id) || view.store.details(row.span_id)?.output);
  const isMissing = row?.status === "ok" && !reply && row.output_characters !== 0 && (!connection || connection.isUnreachable.value);
  // On the side of the cell where there is more room.
  const place = { left: `${Math.max(4, Math.min(box.x, size.width - TIP))}px`, ...(box.y > size.height / 2 ? { bottom: `${size.height - box.y + 6}px` } : { top: `${box.y + box.h + 6}px` }) };
  return (
    <div class="et-tooltip et-matrix-tip" aria-hidden="true" data-by="pointer" style={place}>
      <b>{line.name}</b>
      <span>{[row && row !== line.cells[0] ? nameOf(row) : column, ...(row ? factsOf(row, view) : ["nothing yet"])].join(" · ")}</span>
      {row?.error_message && <span class="et-tooltip-error">{row.error_message}</span>}
      {reply ? <q>{reply.slice(0, LONGEST_REPLY)}{reply.length > LONGEST_REPLY && "…"}</q> : isMissing && <span>Its reply is not in this copy.</span>}
    </div>
  );
}
