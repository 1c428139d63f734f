// Holds W35 for rows and sums, by the table that Python's tests read too.

import { describe, expect, it } from "vitest";
import cases from "../../../tests/playhead_cases.json";
import { readRecorded, RECORDED } from "../testing/recorded";
import type { Saved } from "../wire/messages";
import { readSaved } from "../wire/reader";
import type { Row, Run } from "../wire/rows";
import { rowAt } from "./row-at";
import { readPoints, runAt, seriesOf } from "./series";

const points = readPoints(cases.series.packed);

describe("a row at a time", () => {
  const states = cases.rows.flatMap(({ name, row, states }) => states.map(([ms, expected]) => [name, ms, row, expected] as const));
  it.each(states)("%s, at %s", (_, ms, row, expected) => {
    expect(rowAt(row as unknown as Row, ms as number)).toEqual(expected);
  });

  it("is the row itself once the run is over, but for what only its end told", () => {
    for (const recorded of RECORDED) {
      for (const row of readRecorded(recorded.final).rows) {
        const { critical, slack_ms, ...rest } = row;
        if (row.start_ms != null) expect(rowAt(row, Infinity)).toEqual(rest);
      }
    }
  });
});

describe("a run at a time", () => {
  it("has the sums of its series, as in the table", () => {
    expect(points).toEqual(cases.series.points);
    for (const [ms, changed] of cases.runs) expect(runAt(cases.run as unknown as Run, points ?? [], ms as number)).toEqual({ ...cases.run, ...(changed as object) });
    const was = runAt({ ...cases.run, ...cases.unpriced } as unknown as Run, points ?? [], 25);
    expect(was).toMatchObject(cases.unpriced);
  });

  it.each(RECORDED.map((recorded) => [recorded.name, recorded] as const))("has nearly the same ones where its rows alone are known: %s", (_, recorded) => {
    const saved = readSaved(recorded.saved) as Saved;
    const ofKernel = readPoints(saved.series) ?? [];
    const rows = new Map(saved.rows.map((row) => [row.span_id, row]));
    const made = seriesOf(saved.rows, (row) => {
      const parent = rows.get(row.parent_id ?? "");
      return !row.delegation_id && (!parent || (parent.kind === "phase" && !rows.has(parent.parent_id ?? "")));
    });
    expect(ofKernel.length).toBeGreaterThan(5);
    for (const { at_ms, input_tokens, output_tokens, requests, llm_calls, retries, cost } of ofKernel) {
      expect(runAt(cases.run as unknown as Run, made, at_ms)).toMatchObject({
        input_tokens, output_tokens, llm_call_count: llm_calls, retry_count: retries, cost, budget: { llm_calls: requests },
      });
    }
  });
});

describe("a damaged series", () => {
  const packed = cases.series.packed;
  it.each([
    [null], ["x"], [{}], [{ count: 4, columns: [] }], [{ ...packed, count: 5 }], [{ ...packed, count: 1e9 }], [{ ...packed, count: -1 }],
    [{ ...packed, columns: packed.columns.map((column) => (column.name === "at_ms" ? { ...column, numbers: "5,-3*3" } : column)) }],
    [{ ...packed, columns: packed.columns.map((column) => ({ ...column, numbers: "0*1e9" })) }],
  ])("is none: %j", (value) => expect(readPoints(value)).toBeNull());
});
