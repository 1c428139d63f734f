// Changes the text of a cell: only what a run's cell had, and only where that still stands there.

import type { CellChange } from "../view/cells";

const MAGIC = "%%ensemble";

/** The text of a cell with another body; null where it is not the cell that ran any more. */
export function changeSource(source: string, { options, before, after }: CellChange): string | null {
  // The kernel is sent a cell without the empty lines around it.
  const start = source.length - source.trimStart().length;
  const line = source.indexOf("\n", start);
  const end = source.trimEnd().length;
  if (line < 0 || source.slice(start, line).trim() !== `${MAGIC} ${options.trim()}`.trim()) return null;
  const body = source.slice(line + 1, end).trimEnd();
  if (body === after.trimEnd()) return source; // a second press changes nothing
  return body === before.trimEnd() ? source.slice(0, line + 1) + after.trimEnd() + source.slice(end) : null;
}
