import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import { activitiesOf } from "./activities";

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
      { span: "x", name: "web", doing: "▪ search +1", began: 100 },
      { span: "h", name: "score", doing: "", began: 200 },
    ],
  });
  expect(activitiesOf(store, run({ active }), 1)).toMatchObject({ total: 2, shown: [{ name: "web" }] });
});
