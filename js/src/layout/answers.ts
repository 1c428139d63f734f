// The tasks that answer the reviews of a phase: they are one task, asked once a round, and share a row.

import { durationOf, isTask } from "../wire/predicates";
import type { Row } from "../wire/rows";
import type { Mark } from "./marks";
import type { TaskMarks } from "./task-marks";

/** True for a task that answers a review of its phase; earlier versions tell by its name alone. */
export const isAnswer = (phase: Row, child: Row): boolean =>
  isTask(child) && (child.review_id != null || (child.name === `${phase.name}.review` && child.depends_on == null));

/** Tasks that share a row. */
export class Together {
  readonly row: Row;
  #parts: readonly (readonly Mark[])[] = [];
  #marks: readonly Mark[] = [];

  constructor(readonly rows: readonly Row[], readonly tasks: readonly TaskMarks[]) {
    const [first, last] = [rows[0] as Row, rows.at(-1) as Row];
    const sum = (value: (row: Row) => number | null | undefined): number | null =>
      rows.every((row) => value(row) == null) ? null : rows.reduce((total, row) => total + (value(row) ?? 0), 0);
    this.row = {
      ...last, span_id: first.span_id, start_ms: first.start_ms ?? null, duration_ms: last.end_ms == null ? null : sum(durationOf),
      input_tokens: sum((row) => row.input_tokens), output_tokens: sum((row) => row.output_tokens), cost: sum((row) => row.cost),
      llm_call_count: sum((row) => row.llm_call_count), lacks_tokens: rows.some((row) => row.lacks_tokens), lacks_cost: rows.some((row) => row.lacks_cost),
    };
  }

  isOf(rows: readonly Row[]): boolean {
    return rows.length === this.rows.length && rows.every((row, k) => row === this.rows[k]);
  }

  get marks(): readonly Mark[] {
    const parts = this.tasks.map((task) => task.marks);
    if (parts.some((part, k) => part !== this.#parts[k])) this.#marks = parts.flat();
    this.#parts = parts;
    return this.#marks;
  }
}
