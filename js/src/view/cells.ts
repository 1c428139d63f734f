// The cells around a view, as it may write them.

/** A cell whose body is to be another one (F5), as it was when it ran: its id, and what stood behind the magic and below. */
export interface CellChange {
  readonly cell_id: string;
  readonly options: string;
  readonly before: string;
  readonly after: string;
}

/**
 * Writes a cell below the one that shows a view, or, where the cell of `change` still is as it was, changes that one; gives
 * what it did, null where nothing may be written. Nothing runs. Null where there are no cells.
 */
export type WriteBelow = ((source: string, change?: CellChange) => "below" | "changed" | null) | null;
