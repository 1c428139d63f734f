// The drawer: everything known of the selected span. What the row says is there at once; prompts, replies and tool I/O are
// loaded when the span is selected, because they are what makes a trace large (W6).

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon, iconOf } from "../elements/icon";
import { TextBlock } from "../elements/text-block";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import type { Details } from "../wire/messages";
import { durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { kindTitle, titleOf } from "../wording/labels";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";
import { prettyPrint } from "../wording/text";
import { Conversation } from "./conversation";
import { SpanFacts } from "./facts";
import { detailsFor } from "./kind-details";
import { AttemptTable, SpendTable } from "./tables";

interface Tab {
  key: string;
  title: string;
  body: ComponentChildren;
}

export function Drawer({ view, connection }: { view: View; connection: KernelConnection | null }) {
  // Details and streamed text come without a change of the row itself.
  view.store.version.value;
  const row = view.selectedRow.value;
  const [wanted, setTab] = useState("summary");
  const { store } = view;
  const source = row ? detailsSpanOf(row) : null;
  const isOpen = view.isDrawerOpen.value && row !== undefined;
  const progress = source && isOpen ? store.progress(source) : "";
  useEffect(() => {
    if (isOpen && source) connection?.wantDetails(source);
  }, [isOpen, source, progress, connection]);
  if (!isOpen || !row) return null;
  const details = source ? store.details(source) : undefined;
  const tabs = tabsOf(row, details, view, connection);
  const tab = tabs.find((candidate) => candidate.key === wanted) ?? (tabs[0] as Tab);
  return (
    <section class="et-drawer" aria-label={`Details of ${row.name}`}>
      <header class="et-drawer-head">
        <span class="et-sign" data-status={row.status}><Icon name={iconOf(row.status)} /></span>
        <Breadcrumbs row={row} view={view} />
        <span class="et-spring" />
        <span class="et-drawer-facts">{headline(row)}</span>
        <span class="et-drawer-buttons">
          <button class="et-button" aria-label="Previous span" title="Previous span (←)" onClick={() => view.moveSpan(-1)}><Icon name="left" /></button>
          <button class="et-button" aria-label="Next span" title="Next span (→)" onClick={() => view.moveSpan(1)}><Icon name="right" /></button>
          <button class="et-button" aria-label="Close details" title="Close (Esc)" onClick={() => (view.isDrawerOpen.value = false)}><Icon name="error" /></button>
        </span>
      </header>
      <div class="et-tabs" role="tablist" aria-label="Details">
        {tabs.map(({ key, title }) => (
          <button role="tab" class="et-tab" aria-selected={key === tab.key} onClick={() => setTab(key)}>{title}</button>
        ))}
      </div>
      <div class="et-panel" role="tabpanel" tabIndex={0} aria-label={tab.title} key={`${row.span_id} ${tab.key}`}>{tab.body}</div>
    </section>
  );
}

/** The span whose details tell of this one: an attempt's conversation is that of its call. */
function detailsSpanOf(row: Row): string | null {
  const { source } = detailsFor(row.kind);
  return source === "none" ? null : source === "parent" ? (row.parent_id ?? row.span_id) : row.span_id;
}

function headline(row: Row): string {
  const parts = [row.end_ms != null ? formatDuration(durationOf(row)) : ""];
  if (row.input_tokens != null || row.output_tokens != null) {
    parts.push(`${formatCount(row.input_tokens)} in · ${formatCount(row.output_tokens)} out`);
  }
  if (row.cost != null) parts.push(formatMoney(row.cost, row.currency));
  return parts.filter(Boolean).join("   ");
}

/** Where the span is, outermost first; each step leads there. */
function Breadcrumbs({ row, view }: { row: Row; view: View }) {
  const steps: Row[] = [];
  let at: Row | undefined = row;
  while (at && steps.length < 8) {
    if (at.kind !== "turn") steps.unshift(at);
    at = at.parent_id ? view.store.row(at.parent_id) : undefined;
  }
  return (
    <nav class="et-path" aria-label="Path">
      {steps.map((step, k) => {
        const isLast = k === steps.length - 1;
        const name = titleOf(step);
        return isLast
          ? <b class="et-step"><span class="et-kind">{kindTitle(step.kind)}</span>{name}</b>
          : <><button class="et-link et-step" onClick={() => view.select(step.span_id)}>{name}</button><span class="et-slash">›</span></>;
      })}
    </nav>
  );
}

function tabsOf(row: Row, details: Details | undefined, view: View, connection: KernelConnection | null): Tab[] {
  const { store } = view;
  const inside = store.descendants(row.span_id);
  const calls = row.kind === "llm" ? [row] : inside.filter((child) => child.kind === "llm");
  const attempts = (row.kind === "llm" ? store.children(row.span_id) : row.kind === "attempt" && row.parent_id
    ? store.children(row.parent_id) : inside).filter((child) => child.kind === "attempt");
  const tools = row.kind === "tool" ? [row] : inside.filter((child) => child.kind === "tool");
  const live = liveText(row, store, calls);
  const waiting = details || live ? null : <MissingDetails row={row} connection={connection} />;
  const tabs: Tab[] = [{
    key: "summary", title: "Summary",
    body: <><SpanFacts row={row} view={view} /><Results row={row} details={details} live={live} waiting={waiting} /></>,
  }];
  const hasChat = detailsFor(row.kind).hasChat && (calls.length > 0 || row.kind === "attempt" || !!details?.messages.length);
  if (hasChat) {
    tabs.push({
      key: "messages", title: "Messages",
      body: details?.messages.length || live ? <Conversation messages={details?.messages ?? []} live={live} isWhole={row.kind === "task"} /> : waiting ?? <p class="et-none">No messages.</p>,
    });
  }
  if (row.kind === "tool") tabs.push({ key: "tool", title: "Tool I/O", body: waiting ?? <ToolInputOutput details={details} /> });
  else if (tools.length) tabs.push({ key: "tool", title: "Tool I/O", body: <SpanList rows={tools} view={view} /> });
  const isTelling = row.kind === "llm" || row.kind === "attempt" ? attempts.length > 0 : attempts.length > calls.length;
  if (isTelling) tabs.push({ key: "attempts", title: "Attempts", body: <AttemptTable rows={attempts} view={view} /> });
  if (calls.length || row.kind === "attempt") {
    tabs.push({ key: "spend", title: "Tokens & cost", body: <SpendTable rows={calls.length ? calls : [row]} view={view} /> });
  }
  return tabs;
}

/** The reply that is still being written: of a call, or of the newest call of a task. */
function liveText(row: Row, store: Store, calls: readonly Row[]): string {
  const span = row.kind === "attempt" ? row.parent_id : row.kind === "llm" ? row.span_id : calls[calls.length - 1]?.span_id;
  return span && store.row(span)?.status === "running" ? store.text(span) : "";
}

function Results({ row, details, live, waiting }: { row: Row; details: Details | undefined; live: string; waiting: ComponentChildren }) {
  const error = details?.error ?? (row.error_type || row.error_message ? { type: row.error_type ?? "Error", message: row.error_message ?? "" } : null);
  const output = live || details?.output;
  const { input: asked, output: answered } = detailsFor(row.kind);
  const refusals = (row.delegation?.errors ?? []).filter((text) => text !== error?.message);
  return (
    <>
      {error && (
        <div class="et-failure"><b>{error.type}</b><TextBlock text={error.message} /></div>
      )}
      {refusals.map((text) => <div class="et-failure"><TextBlock text={text} /></div>)}
      {asked && details?.input && <Section title={asked}><TextBlock text={prettyPrint(details.input)} /></Section>}
      {row.kind === "task" && row.description && <Section title="Description"><TextBlock text={row.description} /></Section>}
      {output && output !== error?.message && <Section title={live ? "Reply so far" : answered}><TextBlock text={live || prettyPrint(output)} isGrowing={live !== ""} /></Section>}
      {detailsSpanOf(row) !== null && row.start_ms != null && waiting}
    </>
  );
}

function ToolInputOutput({ details }: { details: Details | undefined }) {
  return (
    <>
      <Section title="Input">{details?.input ? <TextBlock text={prettyPrint(details.input)} isMono /> : <p class="et-none">None.</p>}</Section>
      <Section title="Output">
        {details?.output != null ? <TextBlock text={prettyPrint(details.output)} isMono /> : <p class="et-none">{details?.error ? "None: the tool failed." : "None."}</p>}
      </Section>
      {details?.error && <div class="et-failure"><b>{details.error.type}</b><TextBlock text={details.error.message} /></div>}
    </>
  );
}

function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return <div class="et-part"><h4 class="et-role">{title}</h4>{children}</div>;
}

function SpanList({ rows, view }: { rows: readonly Row[]; view: View }) {
  return (
    <ul class="et-spans">
      {rows.map((row) => (
        <li>
          <button class="et-span" onClick={() => view.goTo(row.span_id)}>
            <span class="et-sign" data-status={row.status}><Icon name={iconOf(row.status)} /></span>
            <span class="et-title">{titleOf(row)}</span>
            <span class="et-time">{row.end_ms != null ? formatDuration(durationOf(row)) : ""}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Why there are no details: still coming, held up, left out, or out of reach. */
function MissingDetails({ row, connection }: { row: Row; connection: KernelConnection | null }) {
  if (row.status === "pending" || row.status === "skipped") return null;
  if (!connection) return <p class="et-none">Not kept in the saved copy, which is kept small.</p>;
  if (connection.isLost.value) return <p class="et-none">The kernel is gone, and this was not loaded before.</p>;
  const isLate = connection.overdueDetails.value === detailsSpanOf(row);
  return <p class="et-none">{isLate ? "The kernel is busy with its cell; this comes as soon as it answers." : "Loading…"}</p>;
}
