// The table of a map or of items (W152 to W155): a line for each row with what it was given, and its answers, under each variant
// beside one another. Only what is seen of it is in the page.

import type { RefObject, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Thumbnail } from "../elements/pictures";
import { choose, remembered } from "../elements/remembered";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import type { Row, Run } from "../wire/rows";
import { UNKNOWN } from "../wire/words";
import { formatExactCount, pluralize } from "../wording/numbers";
import { formatScore } from "../wording/scores";
import { AnswerCell, sayAmount } from "./answer-cell";
import { CellAsker, type Given } from "./cell-asker";
import { type Cell, findCell, type GridLine, indexCells, tabulateAnswers } from "./grid-lines";
import { settled } from "./kept-values";
import { listMeasures, valueOf } from "./measures";
import { arrange, meanOf, type Order, readFilter, type Sight } from "./table-order";
import { TableSelection } from "./table-selection";

const LINE = 42;
const HEAD = 46;
const NARROW = 520;
/** Lines above and below those that are seen, so that a scroll finds some there. */
const AROUND = 1;
/** So many inputs are shown where nobody has chosen. */
const FEW_INPUTS = 3;
const DRAG_PX = 5;

const areChoices = (value: unknown): value is Readonly<Record<string, boolean>> => typeof value === "object" && value !== null && Object.values(value).every((each) => typeof each === "boolean");
const chosenInputs = remembered<Readonly<Record<string, boolean>>>("table-inputs", {}, areChoices);

interface Props {
  view: View;
  connection: KernelConnection | null;
  prefix: string;
  change: number;
}

export function AnswerTable({ view, connection, prefix }: Props) {
  const { store, search } = view;
  store.version.value;
  store.cellPages.value;
  const run = store.run.value;
  const field = useRef<HTMLDivElement>(null);
  const size = useField(field, view);
  const asker = useMemo(() => new CellAsker(view.present, connection), [view, connection]);
  useEffect(() => () => asker.end(), [asker]);
  const [marked, mark] = useState<string | null>(null);
  const measures = listMeasures(store);
  /** What cells are marked by. */
  const measure = marked ?? (measures.find(([key]) => key.startsWith("score ")) ?? ["status"])[0];
  const [text, setText] = useState("");
  const [order, setOrder] = useState<Order | null>(null);
  const [first, setFirst] = useState(0);
  const [cursor, setCursor] = useState<Cell | null>(null);
  const [dragged, setDragged] = useState<readonly [number, number] | null>(null);
  const anchor = useRef(0);
  /** What was selected here last: the cursor has gone on since, perhaps. */
  const own = useRef<string>(undefined);
  const press = useRef<{ x: number; y: number; line: number } | null>(null);

  // A line that looks as it did is the same element, which is not looked at again.
  const drawn = useRef(new Map<number, { parts: readonly unknown[]; line: VNode }>()).current;
  const keep = (key: number, parts: readonly unknown[], draw: () => VNode): VNode => {
    const known = drawn.get(key);
    if (known?.parts.length === parts.length && parts.every((part, k) => part === known.parts[k])) return known.line;
    const line = draw();
    drawn.set(key, { parts, line });
    return line;
  };

  asker.take();
  const sight: Sight = { store, measure, textOf: (row) => asker.textOf(row) };
  // Cells that come change no line: of 10,000 these are not made again for each page.
  const all = useMemo(() => settled(view, "answers", "", () => tabulateAnswers(store)), [store, store.position, run, store.isTicking && Math.floor(view.age.value / 500)]);
  const filter = useMemo(() => readFilter(text, sight), [text, measure, run?.score_names.join(), run?.row_inputs?.join()]);
  const needsTexts = filter.needsTexts || (order !== null && (order.by === "input" || measure === "status"));
  const found = search.shownRows.value;
  const bright = found ? null : view.highlighted.value;
  const lines = useMemo(() => arrange(all.lines, filter, order, found, sight), [all, filter, order, found, measure, needsTexts && asker.version]);
  const means = useMemo(() => all.columns.map((_, k) => meanOf(all.lines, k, sight)), [all, measure]);
  const bounds = useMemo(() => boundsOf(all.lines, sight), [all, measure]);

  const isNarrow = size.width < NARROW;
  const inputs = (run?.row_inputs ?? []).flatMap((name, at) => ((chosenInputs.value[name] ?? (!isNarrow && at < FEW_INPUTS)) ? [{ name, at }] : []));
  const [nameWidth, inputWidth, least] = isNarrow ? [92, 120, 170] : [Math.round(Math.min(180, Math.max(110, size.width * 0.13))), 150, 200];
  const cellWidth = Math.max(least, (size.width - nameWidth - inputs.length * inputWidth) / Math.max(1, all.columns.length));
  const width = nameWidth + inputs.length * inputWidth + cellWidth * all.columns.length;
  const style = { "--et-cells": [nameWidth, ...inputs.map(() => inputWidth), ...all.columns.map(() => cellWidth)].map((each) => `${each}px`).join(" "), width: `${width}px` };
  const firstAnswer = 1 + inputs.length;
  const count = firstAnswer + all.columns.length;

  const from = Math.max(0, Math.min(first, lines.length - 1) - AROUND);
  const shown = lines.slice(from, first + Math.ceil(size.height / LINE) + AROUND);
  const spans = view.selectedSpans.value;
  const cells = useMemo(() => indexCells(lines), [lines]);
  const chosen = useMemo(() => new Set([...spans].flatMap((span) => {
    const cell = findCell(store, cells, span);
    return cell ? [lines[cell.line]?.cells[cell.column]?.span_id] : [];
  })), [spans, cells]);
  const brightCells = useMemo(() => bright && new Set([...bright].map((span) => findCell(store, cells, span)?.line)), [bright, cells]);
  useEffect(() => asker.want([...shown.flatMap(rowsOf), ...(needsTexts ? all.lines.flatMap(rowsOf) : [])]));

  const show = ({ line, column }: Cell): void => {
    const element = field.current;
    if (!element) return;
    const y = line * LINE;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + LINE + HEAD > element.scrollTop + element.clientHeight) element.scrollTop = y + LINE + HEAD - element.clientHeight;
    if (column === 0) return;
    const x = nameWidth + Math.min(column - 1, inputs.length) * inputWidth + Math.max(0, column - firstAnswer) * cellWidth;
    const wide = column < firstAnswer ? inputWidth : cellWidth;
    if (x - nameWidth < element.scrollLeft) element.scrollLeft = x - nameWidth;
    else if (x + wide > element.scrollLeft + element.clientWidth) element.scrollLeft = x + wide - element.clientWidth;
  };
  /** What is selected by a cell: itself, or left of the answers all that the line compares. */
  const spansAt = ({ line, column }: Cell): readonly string[] => {
    const row = lines[line]?.cells[column - firstAnswer];
    return column >= firstAnswer ? (row ? [row.span_id] : []) : spansOf(lines[line], all.isCompared);
  };
  const selectLines = (one: number, other: number): void => {
    const selected = lines.slice(Math.min(one, other), Math.max(one, other) + 1);
    view.selectAll((one <= other ? selected : selected.reverse()).flatMap((line) => spansOf(line, all.isCompared)));
  };
  const go = (cell: Cell, isAlso = false): void => {
    anchor.current = cell.line;
    setCursor(cell);
    show(cell);
    const found = spansAt(cell);
    own.current = found.at(-1);
    if (!isAlso) return view.selectAll(found);
    const { value: old } = store.selection.spans;
    view.selectAll(found.every((span) => old.includes(span)) ? old.filter((span) => !found.includes(span)) : [...new Set([...old, ...found])]);
  };
  const selected = view.selected.value;
  const hasToShow = useRef(false);
  useEffect(() => {
    hasToShow.current = true;
  }, [selected]);
  useEffect(() => {
    const cell = selected === null || view.selected.peek() === own.current || spans.size > 1 ? null : findCell(store, cells, selected);
    if (!cell) return;
    const place = { line: cell.line, column: cell.column + firstAnswer };
    setCursor(place);
    // Lines come all the time while a run goes on, and a person may have scrolled elsewhere.
    if (hasToShow.current) show(place);
    hasToShow.current = false;
  }, [selected, cells]);

  const placeOf = (event: MouseEvent): Cell | null => {
    const line = (event.target as HTMLElement).closest<HTMLElement>("[data-line]");
    const column = (event.target as HTMLElement).closest<HTMLElement>("[data-at]");
    return line ? { line: Number(line.dataset.line), column: Number(column?.dataset.at ?? 0) } : null;
  };
  const onMove = (event: PointerEvent): void => {
    const start = press.current;
    if (!start || (!dragged && Math.hypot(event.clientX - start.x, event.clientY - start.y) < DRAG_PX)) return;
    const element = field.current as HTMLDivElement;
    const y = event.clientY - element.getBoundingClientRect().top + element.scrollTop - HEAD;
    setDragged([start.line, Math.min(lines.length - 1, Math.max(0, Math.floor(y / LINE)))]);
  };
  const onClick = (event: MouseEvent): void => {
    const cell = placeOf(event);
    if (dragged && dragged[0] !== dragged[1]) {
      selectLines(...dragged);
      anchor.current = dragged[0];
      setCursor({ line: dragged[1], column: 0 });
    } else if (cell && event.shiftKey) {
      selectLines(cursor ? anchor.current : cell.line, cell.line);
      setCursor(cell);
    } else if (cell) {
      const isAlso = event.ctrlKey || event.metaKey;
      go(cell, isAlso);
      if (cell.column >= firstAnswer && !isAlso && spansAt(cell).length > 0) view.isDrawerOpen.value = true;
    }
    setDragged(null);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.target !== field.current || event.altKey) return;
    const at = cursor ?? { line: 0, column: firstAnswer };
    const page = Math.max(1, Math.floor((size.height - HEAD) / LINE) - 1);
    const steps: Record<string, readonly [line: number, column: number]> = {
      ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [page, 0], PageUp: [-page, 0], Home: [-Infinity, 0], End: [Infinity, 0], " ": [0, 0],
    };
    const step = Object.hasOwn(steps, event.key) && lines.length > 0 ? steps[event.key] : undefined;
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = cursor === null && Number.isFinite(step[0]) ? at : { line: Math.min(Math.max(at.line + step[0], 0), lines.length - 1), column: Math.min(Math.max(at.column + step[1], 0), count - 1) };
    if (event.key === " ") return go(next, true);
    if (event.shiftKey && step[0] !== 0) selectLines(anchor.current, next.line);
    else if (!event.ctrlKey && !event.metaKey) return go(next);
    setCursor(next);
    show(next);
  };
  const isDragged = (line: number): boolean => dragged !== null && line >= Math.min(...dragged) && line <= Math.max(...dragged);
  const sort = (by: Order["by"], at: number, isNumber: boolean): void => {
    const isSame = order?.by === by && order.at === at;
    setOrder(!isSame ? { by, at, isDescending: isNumber } : order.isDescending === isNumber ? { ...order, isDescending: !isNumber } : null);
  };
  const sorted = (by: Order["by"], at: number) => (order?.by === by && order.at === at ? (order.isDescending ? "descending" : "ascending") : "none");
  const toggleWord = (word: string): void => setText(hasWord(text, word) ? text.split(",").map((each) => each.trim()).filter((each) => each !== word).join(", ") : [text.trim(), word].filter(Boolean).join(", "));
  const missing = run?.capture_mode === "metadata" ? "not kept" : asker.isAlone ? "not in this copy" : "";
  const [kept = 0, total = 0] = store.kept.value.task ?? [];
  const idAt = (line: number, column: number): string => `${prefix}answer-${line}-${column}`;
  return (
    <div class="et-answers">
      <div class="et-answers-bar">
        <label>Mark <select class="et-status-filter" value={measure} onChange={(event) => mark(event.currentTarget.value)}>
          {measures.map(([key, name]) => <option value={key}>{name}</option>)}
        </select></label>
        <input class="et-table-filter" type="text" aria-label="Filter the rows" placeholder="Filter: failed, score < 0.5" value={text} aria-invalid={filter.fault !== null} spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => event.key !== "Escape" && event.stopPropagation()} />
        <span class="et-choices" role="group" aria-label="Only rows">
          <button class="et-choice" aria-pressed={hasWord(text, "failed")} title="Only rows with a cell that failed" onClick={() => toggleWord("failed")}>Failed</button>
          {all.columns.length > 1 && <button class="et-choice" aria-pressed={hasWord(text, "differs")} title="Only rows whose answers differ" onClick={() => toggleWord("differs")}>Differs</button>}
        </span>
        {(run?.row_inputs?.length ?? 0) > 0 && <Inputs names={run?.row_inputs ?? []} shown={inputs.map(({ name }) => name)} />}
        <span role="status">{lines.length < all.lines.length ? `${formatExactCount(lines.length)} of ${pluralize(all.lines.length, all.noun)}` : pluralize(lines.length, all.noun)}</span>
        {kept < total && <span>{formatExactCount(kept)} of {pluralize(total, "task")} kept here</span>}
        {typeof run?.standing?.sentence === "string" && <p class="et-verdict" role="status" title={run.standing.reason ?? undefined}>{run.standing.sentence}</p>}
        {filter.fault && <p class="et-table-fault" role="alert">{filter.fault}</p>}
      </div>
      <div ref={field} class="et-answers-field" role="grid" tabIndex={0} aria-multiselectable="true" aria-label={`${pluralize(lines.length, all.noun)}, answers side by side`}
        aria-rowcount={lines.length + 1} aria-colcount={count} aria-activedescendant={cursor && cursor.line >= from && cursor.line < from + shown.length ? idAt(cursor.line, cursor.column) : undefined}
        onScroll={(event) => setFirst(Math.floor(event.currentTarget.scrollTop / LINE))} onKeyDown={onKey}
        onPointerDown={(event) => {
          const cell = event.button === 0 && event.pointerType !== "touch" ? placeOf(event) : null;
          press.current = cell && { x: event.clientX, y: event.clientY, line: cell.line };
          setDragged(null);
        }}
        onPointerMove={onMove} onPointerUp={() => (press.current = null)} onClick={onClick}>
        <div class="et-tr et-tr-head" role="row" aria-rowindex={1} style={style}>
          <span role="columnheader">{all.noun}</span>
          {inputs.map(({ name, at }) => <Heading key={name} name={name} sorted={sorted("input", at)} sort={() => sort("input", at, false)} />)}
          {all.columns.map((name, at) => <Heading key={`=${name}`} name={name} head={headOf(run?.standing, name, measure, all.isCompared || at === 0) ?? (means[at] && sayMean(means[at], sight))} sorted={sorted("cell", at)} sort={() => sort("cell", at, measure !== "status")} />)}
        </div>
        <div role="presentation" style={{ height: `${lines.length * LINE}px`, width: `${width}px` }}>
          {shown.map((line, k) => {
            const at = from + k;
            const given = line.cells.find(Boolean);
            const isSelected = isDragged(at) || spansOf(line, all.isCompared).every((span) => chosen.has(span));
            const isDimmed = brightCells !== null && !brightCells.has(at);
            const marks = [isSelected, isDimmed, cursor?.line === at && cursor.column, missing, JSON.stringify(style), ...line.cells.map((row) => row && chosen.has(row.span_id))];
            return keep(at % shown.length, [line, at, view, store.version.value, measure, bounds, marks.join(), ...line.cells.map((row) => row && asker.textOf(row))], () => (
              <div key={at % shown.length} class="et-tr" role="row" aria-rowindex={at + 2} aria-selected={isSelected} data-line={at} data-dimmed={isDimmed} style={{ ...style, top: `${at * LINE}px` }}>
                <span id={idAt(at, 0)} data-at={0} role="rowheader" data-cursor={isAt(cursor, at, 0)} title={line.name}>{line.title}</span>
                {inputs.map((input, column) => {
                  const told = given && asker.textOf(given);
                  const value = told?.inputs[input.at];
                  const picture = told?.pictures[input.at];
                  return <span key={input.name} id={idAt(at, column + 1)} data-at={column + 1} role="gridcell" data-number={typeof value === "number"} data-cursor={isAt(cursor, at, column + 1)} title={sayGiven(value)}>{picture && <Thumbnail picture={picture} />}<q>{sayGiven(value)}</q></span>;
                })}
                {line.cells.map((row, column) => (
                  <span key={`=${all.columns[column]}`} id={idAt(at, firstAnswer + column)} data-at={firstAnswer + column} role="gridcell" data-answer aria-selected={row !== undefined && chosen.has(row.span_id)} data-cursor={isAt(cursor, at, firstAnswer + column)}>
                    <AnswerCell row={row} text={row ? asker.textOf(row) : null} store={store} measure={measure} bounds={bounds} missing={missing} />
                  </span>
                ))}
              </div>
            ));
          })}
        </div>
        {lines.length === 0 && <p class="et-empty">{text.trim() || found ? "No row fits" : `No ${all.noun}s yet`}</p>}
      </div>
      {chosen.size > 0 && <TableSelection view={view} connection={connection} cells={[...cells].flatMap(([span, cell]) => (chosen.has(span) ? [{ ...cell, span }] : []))} noun={all.noun} />}
    </div>
  );
}

/** How large it is. It takes the focus from the names of the rows, and gives it back there. */
function useField(field: RefObject<HTMLDivElement | null>, view: View): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
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
  return size;
}

const rowsOf = (line: GridLine): Row[] => line.cells.flatMap((row) => row ?? []);

/** What a line is, to be selected: all of its runs, or where its cells are parts of one run, that one. */
const spansOf = (line: GridLine | undefined, isCompared = false): readonly string[] => (line ? rowsOf(line).slice(0, isCompared ? undefined : 1).map((row) => row.span_id) : []);

const isAt = (cursor: Cell | null, line: number, column: number): boolean => cursor?.line === line && cursor.column === column;
const hasWord = (text: string, word: string): boolean => text.split(",").some((each) => each.trim().toLowerCase() === word);
const sayGiven = (value: Given | undefined): string => (value == null ? "" : String(value));

const sayMean = ({ mean, count }: { mean: number; count: number }, { store, measure }: Sight): HeadWords => ({ words: `mean ${sayAmount(store, mean, measure)} of ${formatExactCount(count)}` });

function boundsOf(lines: readonly GridLine[], { store, measure }: Sight): readonly [number, number] {
  let [least, most] = measure.startsWith("score ") ? [0, 1] : [0, 0];
  for (const line of measure === "status" ? [] : lines) {
    for (const row of rowsOf(line)) {
      const value = valueOf(store, row, measure);
      if (typeof value !== "number") continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  return [least, most];
}

/** What the kernel says of a variant by now: the mean, its interval, of how many rows; null where it says nothing. */
function headOf(standing: Run["standing"], column: string, measure: string, isOfRows: boolean): HeadWords | null {
  const heads = isOfRows && Array.isArray(standing?.heads) ? standing.heads : [];
  const found = heads.find((each) => each && `score ${each.score}` === measure && (each.variant ?? column) === column);
  if (typeof found?.mean !== "number") return null;
  const say = (value: number | null | undefined): string => (typeof value === "number" ? formatScore(Number(value.toPrecision(2))) : UNKNOWN);
  return { words: `${say(found.mean)} (${say(found.low)} to ${say(found.high)}) of ${formatExactCount(found.rows)}`, title: String(found.kind) };
}

interface HeadWords {
  words: string;
  title?: string;
}

interface HeadingProps {
  name: string;
  head?: HeadWords | null;
  sorted: "ascending" | "descending" | "none";
  sort: () => void;
}

function Heading({ name, head, sorted, sort }: HeadingProps) {
  return (
    <span role="columnheader" aria-sort={sorted}>
      <button class="et-sort" title={`Sort by ${name}`} onClick={sort}>
        <b>{name}</b>{sorted !== "none" && <span aria-hidden="true">{sorted === "descending" ? "↓" : "↑"}</span>}
      </button>
      {head && <small title={head.title}>{head.words}</small>}
    </span>
  );
}

function Inputs({ names, shown }: { names: readonly string[]; shown: readonly string[] }) {
  return (
    <details class="et-inputs">
      <summary class="et-choice">Inputs <span class="et-count">{shown.length}/{names.length}</span></summary>
      <div role="group" aria-label="Inputs to show">
        {names.map((name) => (
          <label key={name}><input type="checkbox" checked={shown.includes(name)}
            onChange={(event) => choose("table-inputs", chosenInputs, { ...chosenInputs.value, [name]: event.currentTarget.checked })} />{name}</label>
        ))}
      </div>
    </details>
  );
}
