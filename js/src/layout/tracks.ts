// Which rows there are, and how high they stand: pure, from the store to tracks with their marks. Time becomes pixels only
// in `draw`, so zooming and the clock never come back here.

import type { Round, Row } from "../wire/rows";
import type { Heat } from "./heat";
import type { Mark } from "./marks";

/** A row of the chart and of the gutter beside it. */
export interface Track {
  readonly id: string;
  /** Of the span; of a group it is made up, and no message has it. */
  readonly row: Row;
  /** A group stands for those of its siblings that are done. */
  readonly kind: "phase" | "task" | "group";
  readonly depth: number;
  /** True where the work was handed on by the task above. */
  readonly isWorker: boolean;
  readonly isExpanded: boolean;
  readonly hasChildren: boolean;
  readonly y: number;
  readonly height: number;
  /** Made when they are asked for, as they are by then: the one thing that changes in a row that stays the same. */
  readonly marks: readonly Mark[];
  /** Who has the marks. */
  readonly source: { readonly marks: readonly Mark[] };
  /** In place of marks, where the row stands for more tasks than have room in it. */
  readonly heat: Heat | null;
  /** Errors anywhere inside, so that a closed row still shows them. */
  readonly errors: number;
  /** The goes at its work, where it was sent back. */
  readonly rounds: readonly Round[];
  /** The id of the row that it is below, one step further out. */
  readonly parent: string | null;
  /** The ids of all tasks that share the row, where they are several: the answers to the reviews of a phase. */
  readonly members: readonly string[];
  /** The span in that row by which the work was handed on to this one. */
  readonly giver: string | null;
  /** Of a row that brings others together: what it says in place of its time, and the same in whole words. */
  readonly told?: string;
  readonly toldInWords?: string;
}

/** Work handed from one row to another, and back. */
export interface WorkArrow {
  readonly by: Mark;
  readonly from: Track;
  readonly to: Track;
}

/** The rounds of a phase, or of a task that was sent back alone, from its own row to the last one below it, in pixels. */
export interface Band {
  readonly rounds: readonly Round[];
  readonly top: number;
  readonly bottom: number;
}

/** The tasks and phases of the plan, by kind and name. */
export type Named = ReadonlyMap<string, Row>;

export const nameKey = (kind: string, name: string): string => `${kind} ${name}`;

/** The rows from top to bottom, without gaps. */
export class Layout {
  #byId: Map<string, Track> | null = null;
  #bands: readonly Band[] | null = null;

  constructor(
    readonly tracks: readonly Track[],
    /** Of all rows, in pixels. */
    readonly height: number,
    /** The names of the tasks and phases that are done: what the others no longer wait for. */
    readonly done: ReadonlySet<string>,
    readonly named: Named,
    /** Of the first rows, which a person has pinned. */
    readonly pinnedHeight = 0,
  ) {}

  /** The row of a task, phase or group; undefined where it is folded away, or has none. */
  track(id: string): Track | undefined {
    this.#byId ??= new Map(this.tracks.flatMap((track) => [track.id, ...track.members].map((each) => [each, track] as const)));
    return this.#byId.get(id);
  }

  /** The place of the row that covers a height: 0 above the first one, the last one below all. */
  indexAt(y: number): number {
    let [low, high] = [0, Math.max(0, this.tracks.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.tracks[middle] as Track).y <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The rows of which something is between two heights. */
  between(top: number, bottom: number): Track[] {
    const found: Track[] = [];
    for (let k = this.indexAt(top); k < this.tracks.length; k += 1) {
      const track = this.tracks[k] as Track;
      if (track.y >= bottom) break;
      if (track.y + track.height > top) found.push(track);
    }
    return found;
  }

  /** The rows over which rounds are bands: those of a phase are also those of its tasks. */
  get bands(): readonly Band[] {
    this.#bands ??= this.tracks.flatMap((track, at) => {
      if (track.rounds.length === 0 || (track.parent !== null && this.track(track.parent)?.rounds.length)) return [];
      const after = this.tracks.findIndex((each, k) => k > at && each.depth <= track.depth);
      const bottom = after < 0 ? this.height : (this.tracks[after] as Track).y;
      return [{ rounds: track.rounds, top: track.y, bottom }];
    });
    return this.#bands;
  }

  /**
   * The work that was handed on to these rows, by what the rows say of each other. None where a task is a nested run and
   * nothing else, as a row of a map is: that the one row stands below the other says it.
   */
  arrowsTo(tracks: readonly Track[]): WorkArrow[] {
    const found: WorkArrow[] = [];
    for (const to of tracks) {
      if (to.giver === null || to.parent === null) continue;
      const from = this.track(to.parent);
      const by = from?.marks.find((mark) => mark.row.span_id === to.giver);
      if (from && by && !isWholeTask(from, by)) found.push({ by, from, to });
    }
    return found;
  }
}

/** Whether a run is the one thing that the task around it did. */
const isWholeTask = (from: Track, { row }: Mark): boolean =>
  row.kind === "nested" && row.parent_id === from.row.span_id && from.marks.filter((mark) => mark.shape === "delegation").length === 1;

export const EMPTY = new Layout([], 0, new Set(), new Map());
