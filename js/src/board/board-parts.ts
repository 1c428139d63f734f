// What a board is made of: where it has its runs from, and what it can do in the page that it is in.

import type { BoardConnection } from "./board-connection";
import type { BoardRow } from "./board-rows";

/** Shows the timeline of a run in a place, by the board's connection; gives what ends it. */
export type ShowTimeline = (place: HTMLElement, connection: BoardConnection, feedId: string) => Promise<() => void>;

export interface BoardParts {
  /** Null for what was saved. */
  readonly connection: BoardConnection | null;
  readonly saved: readonly BoardRow[];
  /** How many runs there were when it was saved. */
  readonly total: number;
  /** How many runs are shown; null for all. */
  readonly most: number | null;
  readonly writeBelow: ((source: string) => void) | null;
  readonly showTimeline: ShowTimeline | null;
}
