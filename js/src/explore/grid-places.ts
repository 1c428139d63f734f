// Where the cells of the grid stand: a line below the other with its name, or where there are very many, without names and one
// beside the other, as words in a text. Pure; pixels of the field, before it is scrolled.

export interface Cell {
  readonly line: number;
  readonly column: number;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

export interface Places {
  readonly isNamed: boolean;
  readonly names: number;
  /** Lines side by side. */
  readonly across: number;
  readonly cell: { readonly w: number; readonly h: number };
  /** From the beginning of a line to that of the next one beside it. */
  readonly stride: number;
  /** Above the first line: the names of the columns. */
  readonly head: number;
  readonly height: number;
  readonly columns: number;
  readonly lines: number;
}

const EDGE = 12;
const GAP = 5;
const HEAD = 24;
const LINE = 24;
const WIDEST = 150;
/** Pixels from one cell to the next, the largest that fits is taken; the last but one where none does. */
const PITCHES = [20, 16, 13, 11, 9, 7, 6];

export function placeCells(lines: number, columns: number, width: number, height: number, isNamed: boolean): Places {
  if (isNamed) {
    const names = Math.round(Math.min(Math.max(width * 0.3, 90), 320));
    const w = Math.max(4, Math.min(WIDEST, (width - names - EDGE) / Math.max(columns, 1)));
    return { isNamed, names, across: 1, cell: { w, h: LINE }, stride: width, head: HEAD, height: HEAD + lines * LINE, columns, lines };
  }
  const all = PITCHES.map((pitch) => {
    const stride = Math.max(pitch * columns, 1) + (columns > 1 ? GAP : 0);
    const across = Math.max(1, Math.floor((width - 2 * EDGE + GAP) / stride));
    return { pitch, stride, across, height: 2 * EDGE + Math.ceil(lines / across) * (pitch + (columns > 1 ? 2 : 0)) };
  });
  const { pitch, stride, across, height: whole } = all.find((each) => each.height <= height) ?? (all[4] as (typeof all)[number]);
  return { isNamed, names: EDGE, across, cell: { w: pitch, h: pitch + (columns > 1 ? 2 : 0) }, stride, head: EDGE, height: whole, columns, lines };
}

export function boxOf(places: Places, { line, column }: Cell): Box {
  const { across, cell, stride, names, head } = places;
  return { x: names + (line % across) * stride + column * cell.w, y: head + Math.floor(line / across) * cell.h, w: cell.w, h: cell.h };
}

/** The cell under a point; of a line beside its cells, the nearest one. Null where there is no line. */
export function cellAt(places: Places, x: number, y: number): Cell | null {
  const { across, cell, stride, names, head, columns, lines, isNamed } = places;
  const beside = Math.floor((x - names) / stride);
  if (y < head || (!isNamed && (beside < 0 || beside >= across))) return null;
  const line = Math.floor((y - head) / cell.h) * across + Math.max(0, isNamed ? 0 : beside);
  if (line >= lines) return null;
  const column = Math.floor((x - names - (isNamed ? 0 : beside * stride)) / cell.w);
  return { line, column: Math.min(Math.max(column, 0), columns - 1) };
}

/** Where a key leads from a cell; undefined for a key that leads nowhere. */
export function stepFrom(places: Places, from: Cell | null, key: string, page: number): Cell | undefined {
  const { across, columns, lines, isNamed } = places;
  const at = from ?? { line: 0, column: 0 };
  const flat = at.line * columns + at.column;
  /** To a line, and not past the first or the last one. */
  const toLine = (line: number): Cell => ({ line: Math.min(Math.max(line, 0), lines - 1), column: at.column });
  /** Sideways cells follow one another as words do, where lines stand side by side. */
  const sideways = (step: number): Cell => {
    if (isNamed) return { line: at.line, column: Math.min(Math.max(at.column + step, 0), columns - 1) };
    const to = Math.min(Math.max(flat + step, 0), lines * columns - 1);
    return { line: Math.floor(to / columns), column: to % columns };
  };
  const band = Math.max(1, page) * across;
  const steps: Record<string, () => Cell> = {
    ArrowDown: () => toLine(at.line + across), ArrowUp: () => toLine(at.line - across), ArrowRight: () => sideways(1), ArrowLeft: () => sideways(-1),
    PageDown: () => toLine(at.line + band), PageUp: () => toLine(at.line - band), Home: () => toLine(0), End: () => toLine(lines - 1),
  };
  if (lines === 0 || !Object.hasOwn(steps, key)) return undefined;
  return from === null ? at : steps[key]?.();
}
