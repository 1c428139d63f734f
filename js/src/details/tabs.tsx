// Which tabs a span has, and what is in them. A tab that would show nothing is not there.

import type { KernelConnection } from "../kernel/connection";
import { variableOf } from "../store/expressions";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import type { Details } from "../wire/messages";
import { durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { formatDuration } from "../wording/numbers";
import { Conversation } from "./conversation";
import { detailsFor } from "./kind-details";
import { findLinks, Links } from "./links";
import { explainMissing, MissingDetails } from "./missing-details";
import { SpanButton } from "./parts";
import { Raw } from "./raw";
import { findPair, SideBySide } from "./side-by-side";
import { SpanTexts } from "./span-texts";
import { Summary, ToolTexts } from "./summary";
import type { Tab } from "./tab-list";
import { AttemptTable, SpendTable } from "./tables";
import { MessagesTab } from "./transcript";

/** The span whose details tell of this one: an attempt's conversation is that of its call. */
export function detailsSpanOf(row: Row): string | null {
  const { source } = detailsFor(row.kind);
  return source === "none" ? null : source === "parent" ? (row.parent_id ?? row.span_id) : row.span_id;
}

/** What a tab list needs to know of the span that is shown. */
interface Shown {
  readonly row: Row;
  readonly details: Details | undefined;
  readonly view: View;
  readonly connection: KernelConnection | null;
  readonly change: number;
}

export function tabsOf({ row, details: told, view, connection, change }: Shown): Tab[] {
  const { store } = view;
  const details = told && withoutReply(row, told);
  const source = detailsSpanOf(row);
  const inside = store.descendants(row.span_id);
  const calls = row.kind === "llm" ? [row] : inside.filter((child) => child.kind === "llm");
  const attempts = attemptsOf(row, store, inside);
  const tools = row.kind === "tool" ? [row] : inside.filter((child) => child.kind === "tool");
  const live = liveText(row, store, calls);
  const texts = new SpanTexts(source ?? row.span_id, details, store, connection);
  const why = live || source === null ? null : explainMissing(row, source, details, store, connection);
  const missing = why === null ? null : <MissingDetails why={why} variable={variableOf(store)} />;
  const tabs: Tab[] = [{
    key: "summary", title: "Summary", hasTexts: true,
    body: () => <Summary row={row} view={view} change={change} texts={texts} live={live} missing={missing} />,
  }];
  const messages = details?.messages ?? [];
  const mayTalk = detailsFor(row.kind).hasChat && (calls.length > 0 || row.kind === "attempt");
  const hasOwn = messages.length > 0 || (mayTalk && (live !== "" || missing !== null));
  if (hasOwn || store.kinds.has("llm")) {
    const own = () => messages.length > 0 || live
      ? <Conversation key={row.span_id} messages={messages} texts={texts} live={live} isWhole={row.kind === "task" || row.kind === "turn"} /> : missing;
    tabs.push({
      key: "messages", title: "Messages", hasTexts: true, staysOpen: true,
      body: () => <MessagesTab row={row} view={view} connection={connection} change={change} own={hasOwn ? own : null} />,
    });
  }
  const pair = findPair(view);
  if (pair) tabs.push({ key: "pair", title: "Side by side", staysOpen: true, body: () => <SideBySide pair={pair} view={view} connection={connection} change={change} /> });
  if (row.kind === "tool") tabs.push({ key: "tool", title: "Tool I/O", hasTexts: true, body: () => missing ?? <ToolTexts texts={texts} /> });
  else if (tools.length > 0) {
    tabs.push({
      key: "tool", title: "Tool I/O", count: tools.length,
      body: () => (
        <ul class="et-spans">
          {tools.map((tool) => <li key={tool.span_id}><SpanButton row={tool} view={view} kind={false} note={tool.end_ms != null && formatDuration(durationOf(tool))} /></li>)}
        </ul>
      ),
    });
  }
  const isTelling = row.kind === "llm" || row.kind === "attempt" ? attempts.length > 0 : attempts.length > calls.length;
  if (isTelling) tabs.push({ key: "attempts", title: "Attempts", count: attempts.length, body: () => <AttemptTable rows={attempts} view={view} /> });
  if (calls.length > 0 || row.kind === "attempt") {
    tabs.push({ key: "spend", title: "Tokens & cost", body: () => <SpendTable rows={calls.length > 0 ? calls : [row]} view={view} /> });
  }
  const links = findLinks(row, store, details);
  if (links.length > 0) {
    const count = links.reduce((sum, group) => sum + group.links.length, 0);
    tabs.push({ key: "links", title: "Links", count, body: () => <Links groups={links} view={view} /> });
  }
  tabs.push({ key: "raw", title: "Raw", body: () => <Raw row={row} details={details} texts={texts} /> });
  return tabs;
}

/** An attempt has the details of its call, but the reply is that of the attempt that came through. */
function withoutReply(row: Row, details: Details): Details {
  if (row.kind !== "attempt" || row.status === "ok" || row.status === "running") return details;
  const { messages } = details;
  return { ...details, output: null, messages: messages.at(-1)?.role === "assistant" ? messages.slice(0, -1) : messages };
}

function attemptsOf(row: Row, store: Store, inside: readonly Row[]): Row[] {
  const around = row.kind === "llm" ? row.span_id : row.kind === "attempt" ? row.parent_id : null;
  return (around ? store.children(around) : inside).filter((child) => child.kind === "attempt");
}

/** The reply that is still being written: of a call, or of the newest call of a task. */
function liveText(row: Row, store: Store, calls: readonly Row[]): string {
  const span = row.kind === "attempt" ? row.parent_id : row.kind === "llm" ? row.span_id : calls[calls.length - 1]?.span_id;
  return span && store.row(span)?.status === "running" ? store.text(span) : "";
}
