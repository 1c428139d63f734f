import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import { activitiesOf } from "./activities";

it("says of a question how long it waits, and not its task", () => {
  const rows = [
    row({ span_id: "t", kind: "task", name: "memo", status: "waiting", start_ms: 100 }),
    row({ span_id: "r", kind: "review", parent_id: "t", status: "waiting", start_ms: 5100, review: { subject: "output", text: "?", verdicts: [] } }),
  ];
  const active = rows.map(({ span_id, kind, name }) => ({ span_id, kind, name }));
  expect(activitiesOf(stored({ rows }), run({ active }), 1).shown).toEqual([{ span: "r", name: "memo", sign: "", doing: "review of the output", began: 5100 }]);
});

it("names each task at work once, with what it is at", () => {
  const rows = [
    row({ span_id: "t", kind: "task", name: "web", status: "running", start_ms: 100 }),
    row({ span_id: "x", kind: "tool", parent_id: "t", tool: "search", status: "running" }),
    row({ span_id: "y", kind: "tool", parent_id: "t", tool: "fetch", status: "running" }),
    row({ span_id: "h", kind: "task", name: "score", status: "running", start_ms: 200 }),
  ];
  const active = rows.map(({ span_id, kind, name }) => ({ span_id, kind, name }));
  const store = stored({ rows, run: run({ active }) });
  expect(activitiesOf(store, run({ active }), 9)).toEqual({
    total: 2,
    shown: [
      { span: "x", name: "web", sign: "▪", doing: "search +1", began: 100 },
      { span: "h", name: "score", sign: "", doing: "", began: 200 },
    ],
  });
  expect(activitiesOf(store, run({ active }), 1)).toMatchObject({ total: 2, shown: [{ name: "web" }] });
});
