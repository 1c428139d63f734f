// Holds W3 and W6: what a span has to do with others.

import { expect, it } from "vitest";
import { row, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { findLinks } from "./links";

const rows: Row[] = [
  row({ span_id: "p", kind: "phase", name: "one" }),
  row({ span_id: "t", kind: "task", name: "find", parent_id: "p", start_ms: 0, end_ms: 900 }),
  row({ span_id: "u", kind: "task", name: "write", parent_id: "p", depends_on: ["find"] }),
  row({ span_id: "n", kind: "turn", parent_id: "t" }),
  row({ span_id: "l", kind: "llm", parent_id: "n" }),
  row({ span_id: "x", kind: "tool", parent_id: "n" }),
  row({ span_id: "d", kind: "delegation", parent_id: "n", delegate_to: "Bo" }),
  row({ span_id: "w", kind: "task", name: "bo_1", parent_id: "d" }),
];
const handovers = [{ kind: "context", from: "t", to: "u", characters: 4200 }];

function links(span: string): [string, string[]][] {
  const store = stored({ rows });
  const details = { span_id: span, messages: [], handovers };
  return findLinks(store.row(span) as Row, store, details).map(({ title, links: found }) => [title, found.map(({ row: other, note }) => `${other.span_id} ${note}`.trim())]);
}

it.each<[string, [string, string[]][]]>([
  ["u", [["Waited for", ["t 4.2k characters read"]]]],
  ["t", [["Waits for it", ["u 4.2k characters read"]], ["Asked", ["d"]]]],
  ["x", [["Asked for by", ["l"]], ["Context from", ["t 4.2k characters read"]], ["Context to", ["u 4.2k characters read"]]]],
  ["w", [["Asked by", ["d", "t 4.2k characters read"]], ["Context to", ["u 4.2k characters read"]]]],
])("of %s are found", (span, expected) => expect(links(span)).toEqual(expected));
