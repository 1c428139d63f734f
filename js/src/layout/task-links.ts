// Who waits for whom, by what the rows say of each other. Loaded with what draws it: rows at rest have no such lines.

import { isStartup, roundAt } from "../wire/predicates";
import type { Round, Row } from "../wire/rows";
import { type Layout, nameKey, type Track } from "./tracks";

/** What one row waits for before it begins: another one, by what the rows say of each other. */
export interface TaskLink {
  readonly from: Track;
  readonly to: Track;
  /** The task or phase that `to` names; `from` is its row, or the closed one that it is in. */
  readonly source: Row;
  /** True where its output was handed over, false where it only had to be done. */
  readonly isContext: boolean;
  /** When `to` went on, where it waited after its own beginning; null while it waits, undefined where it had not begun. */
  readonly resumedAt?: number | null;
  /** Of work that was sent back: from the end of one go to the beginning of another one, in the same round. */
  readonly go?: { readonly from: number; readonly to: number };
}

export class Links {
  readonly #layout: Layout;
  #all: readonly TaskLink[] | null = null;
  #byRow: Map<string, TaskLink[]> | null = null;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  /** All that rows wait for, or waited. */
  get all(): readonly TaskLink[] {
    if (this.#all === null) {
      const hasStartups = this.#layout.tracks.some((track) => isStartup(track.row));
      this.#all = this.#layout.tracks.flatMap((to) => (hasStartups ? [...this.#linksTo(to), ...this.#startupsOf(to)] : this.#linksTo(to)));
    }
    return this.#all;
  }

  /** What these rows wait for, or waited, and what does so for them: by rows, since each frame asks for one or two of very many. */
  of(rows: readonly (string | null)[]): readonly TaskLink[] {
    if (this.#byRow === null) {
      this.#byRow = new Map();
      for (const link of this.all) {
        for (const { id } of [link.from, link.to]) {
          const found = this.#byRow.get(id);
          if (found) found.push(link);
          else this.#byRow.set(id, [link]);
        }
      }
    }
    return [...new Set(rows.flatMap((row) => (row === null ? [] : (this.#byRow?.get(row) ?? []))))];
  }

  /** From a startup to a row that had nothing else to do than to wait for it. */
  #startupsOf(to: Track): TaskLink[] {
    return to.marks.flatMap((mark) => {
      const from = mark.shape === "wait" && isStartup(mark.row) && mark.row.span_id !== to.id ? this.#layout.track(mark.row.span_id) : undefined;
      return from ? [{ from, to, source: mark.row, isContext: false, resumedAt: mark.to }] : [];
    });
  }

  #linksTo(to: Track): TaskLink[] {
    if (to.giver !== null || to.kind === "group") return [];
    const context = to.row.context ?? [];
    return (to.row.depends_on ?? []).flatMap((name) => {
      const source = this.#layout.named.get(nameKey(to.kind, name));
      const from = source && (this.#layout.track(source.span_id) ?? this.#layout.track(source.parent_id ?? ""));
      if (!source || !from || from === to) return [];
      const link = { from, to, source, isContext: context.includes(name) };
      return from.rounds.length === 0 && to.rounds.length === 0 ? [link] : this.#goesOf(link);
    });
  }

  /** A link for each go at the work of a row: from the last go before it, and from none of an earlier round of its phase. */
  #goesOf(link: TaskLink): TaskLink[] {
    const goes = (row: Row, rounds: readonly Round[]): readonly Round[] =>
      rounds.length ? rounds : row.start_ms == null ? [] : [{ start_ms: row.start_ms, end_ms: row.end_ms ?? null }];
    const { from, to, source } = link;
    const isRowOfSource = from.row.span_id === source.span_id;
    const around = to.parent === null || to.parent !== from.parent ? [] : (this.#layout.track(to.parent)?.rounds ?? []);
    return goes(to.row, to.rounds).flatMap(({ start_ms }) => {
      const before = goes(source, isRowOfSource ? from.rounds : []).filter(({ end_ms }) => end_ms != null && end_ms <= start_ms).at(-1);
      if (before?.end_ms == null || roundAt(around, before.start_ms) !== roundAt(around, start_ms)) return [];
      return [{ ...link, go: { from: before.end_ms, to: start_ms } }];
    });
  }
}
