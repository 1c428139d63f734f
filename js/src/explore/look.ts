// How a person wants the chart dressed (W33): which columns stand beside the names, which lane under the axis, and by what bars
// are coloured. It is one text on the view, since the view has to know only whether it is empty; it is read here.

import { keep } from "../view/browser-memory";
import { LOOK_KEY, type View } from "../view/view";

export type ColumnName = "input" | "output" | "cost" | "calls" | "score" | "time";
export type LaneName = "cost" | "tokens" | "work" | "requests";
export const PAINT_NAMES = ["agent", "model", "cost", "score"] as const;
export type PaintName = (typeof PAINT_NAMES)[number];

export interface Look {
  /** In the order in which they were wanted. */
  readonly columns: readonly ColumnName[];
  readonly lane: LaneName | null;
  /** null: their kind. */
  readonly paint: PaintName | null;
}

/** The time of rows stands beside their names until somebody does not want it. */
const AT_REST: Look = { columns: ["time"], lane: null, paint: null };

/** Names that a page has kept, and nobody knows, name nothing. */
export function lookOf(view: View): Look {
  try {
    const look = { ...AT_REST, ...JSON.parse(view.look.value) } as Look;
    return { ...look, columns: [...look.columns], paint: PAINT_NAMES.find((name) => name === look.paint) ?? null };
  } catch {
    return AT_REST;
  }
}

export function changeLook(view: View, change: Partial<Look>): void {
  const text = JSON.stringify({ ...lookOf(view), ...change });
  view.look.value = text === JSON.stringify(AT_REST) ? "" : text;
  keep("sessionStorage", LOOK_KEY, view.look.value);
}

export function toggleColumn(view: View, name: ColumnName): void {
  const { columns } = lookOf(view);
  changeLook(view, { columns: columns.includes(name) ? columns.filter((each) => each !== name) : [...columns, name] });
}
