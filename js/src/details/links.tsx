// What a span has to do with others: whom it waited for, who waits for it, who asked whom, which texts went from one to the
// other and how long they were. Each is a button that goes there (W3, W6).

import type { VNode } from "preact";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import type { Details, Handover } from "../wire/messages";
import { durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { formatDuration, formatCount } from "../wording/numbers";
import { SpanButton } from "./parts";

export interface LinkGroup {
  readonly title: string;
  readonly links: readonly { row: Row; note: string }[];
}

/** The links of a span by what they mean; groups without any are left out. */
export function findLinks(row: Row, store: Store, details: Details | undefined): LinkGroup[] {
  const handovers = details?.handovers ?? [];
  const inner = store.children(row.span_id);
  const parent = row.parent_id ? store.row(row.parent_id) : undefined;
  const siblings = row.parent_id ? store.children(row.parent_id) : [];
  const note = (other: Row, isFrom: boolean): string => {
    const handed = handovers.find((each) => (isFrom ? each.from : each.to) === other.span_id);
    return handed ? sizeOf(handed) : other.end_ms != null ? formatDuration(durationOf(other)) : "";
  };
  const groups: [string, Row[], boolean][] = [];
  if (row.kind === "task" || row.kind === "phase") {
    const peers = [...store.rows()].filter((other) => other.kind === row.kind && other.span_id !== row.span_id);
    groups.push(["Waited for", namesToRows(row.depends_on ?? [], peers, row), true]);
    groups.push(["Waits for it", peers.filter((other) => other.depends_on?.includes(row.name) && isNear(other, row)), false]);
  }
  if (row.kind === "task") {
    groups.push(["Asked by", parent?.kind === "delegation" ? [parent, ...agentTaskOf(parent, store)] : [], true]);
    groups.push(["Asked", store.descendants(row.span_id, (each) => each.kind === "task").filter((each) => each.kind === "delegation"), false]);
  }
  if (row.kind === "delegation") {
    groups.push(["Asked by", agentTaskOf(row, store), true]);
    groups.push(["Done by", inner.filter((each) => each.kind === "task"), false]);
  }
  // A tool was asked for by the call before it in its turn.
  if (row.kind === "tool") {
    const before = siblings.slice(0, siblings.findIndex((each) => each.span_id === row.span_id));
    groups.push(["Asked for by", before.filter((each) => each.kind === "llm").slice(-1), true]);
  }
  const named = new Set(groups.flatMap(([, rows]) => rows.map((each) => each.span_id)));
  const others = (isFrom: boolean): Row[] => handovers
    .map((each) => (isFrom ? each.from : each.to))
    .filter((span) => span !== row.span_id && !named.has(span))
    .flatMap((span) => store.row(span) ?? []);
  groups.push(["Context from", others(true), true], ["Context to", others(false), false]);
  return groups.filter(([, rows]) => rows.length > 0)
    .map(([title, rows, isFrom]) => ({ title, links: rows.map((other) => ({ row: other, note: note(other, isFrom) })) }));
}

const sizeOf = ({ kind, characters }: Handover): string => {
  const size = `${formatCount(characters)} characters`;
  return kind === "context" ? `${size} read` : size;
};

/** Names are unique in their run, and nested runs may use them again: then what stands nearby is meant. */
function namesToRows(names: readonly string[], peers: readonly Row[], row: Row): Row[] {
  return names.flatMap((name) => {
    const found = peers.filter((other) => other.name === name);
    return found.find((other) => isNear(other, row)) ?? found[0] ?? [];
  });
}

const isNear = (other: Row, row: Row): boolean => other.parent_id === row.parent_id || other.phase !== row.phase || row.kind === "phase";

function agentTaskOf(row: Row, store: Store): Row[] {
  const around = row.parent_id ? store.row(store.ownerOf(row.parent_id)) : undefined;
  return around?.kind === "task" ? [around] : [];
}

export function Links({ groups, view }: { groups: readonly LinkGroup[]; view: View }): VNode {
  return (
    <div class="et-links">
      {groups.map(({ title, links }) => (
        <section class="et-part">
          <h4 class="et-role">{title}</h4>
          <ul class="et-spans">{links.map(({ row, note }) => <li><SpanButton row={row} view={view} note={note} /></li>)}</ul>
        </section>
      ))}
    </div>
  );
}
