// What is marked, in numbers (W7): the spans of a range of time, and the spans that are selected where these are several.

import type { ComponentChildren, VNode } from "preact";
import { CopyButton } from "../elements/copy-button";
import { Icon } from "../elements/icon";
import { LateIcon } from "../elements/late-icon";
import type { KernelConnection } from "../kernel/connection";
import { rangeExpression, spansExpression } from "../store/expressions";
import { type KindSummary, rowsInside, rowsOfSpans, type SpanSummary, summarize } from "../store/span-summary";
import { isOfSpan } from "../store/selection";
import type { View } from "../view/view";
import type { TimeRange } from "../wire/messages";
import { KIND_TRAITS } from "../wire/kinds";
import { traitsOf } from "../wire/traits";
import { kindTitle } from "../wording/labels";
import { UNKNOWN } from "../wire/words";
import { formatCount, formatDuration, formatMoney, pluralize } from "../wording/numbers";
import { canMark, MarkButtons } from "./mark-buttons";
import { linkToRange } from "./place-links";
import { useSettled } from "./settled";

const ORDER = Object.keys(KIND_TRAITS);
const LARGE = 3000;
const WAIT_MS = 150;
const LIVE_WAIT_MS = 1000;
/** What frames others, and says nothing by its number. */
const FRAMES: ReadonlySet<string> = new Set(["phase", "turn"]);

interface Props {
  view: View;
  connection: KernelConnection | null;
  /** Another number whenever something may have changed. */
  change: number;
}

export function SummaryPanel({ view, connection, change }: Props): VNode {
  const range = view.range.value;
  const several = view.selectedSpans.value.size > 1;
  return <>{range && <RangeSummary view={view} connection={connection} change={change} range={range} />}{several && <SelectionSummary view={view} change={change} />}</>;
}

function RangeSummary({ view, connection, range }: Props & { range: TimeRange }): VNode {
  const { store } = view;
  const now = ageOf(view);
  const length = range.to - range.from;
  const summary = useSettled(() => {
    const rows = rowsInside(store.rows(), range, now);
    return rows.length > 0 ? { ...summarize(rows, range, now), length } : null;
  }, [store.version.value, range, now], waitOf(view));
  return (
    <Section label="Marked range" title={`${formatMoment(range.from)} – ${formatMoment(range.to)}`} note={formatDuration(length)} summary={summary} view={view}
      marks={connection && canMark(view, connection) && !view.layout.value.tracks[0]?.row.delta && <MarkButtons key={`${range.from}-${range.to}`} of={{ range: [range.from, range.to] }} connection={connection} />}
      close={() => (view.range.value = null)} expression={() => rangeExpression(store, range)}
      more={summary && <Fact name="Side by side" value={formatTimes(summary.workMs / summary.length)} title={`${formatDuration(summary.workMs)} of work in ${formatDuration(summary.length)}`} />}
      tools={
        <>
          <CopyButton label="Copy link to this range" text={() => linkToRange(view, range)}>Link</CopyButton>
          <button class="et-button" aria-label="Show only the range" title="Show only the range" onClick={() => view.fitRange(view.now)}><LateIcon name="fit" /></button>
        </>
      } />
  );
}

function SelectionSummary({ view }: Omit<Props, "connection">): VNode {
  const { store } = view;
  const spans = store.selection.spans.value.filter(isOfSpan);
  const now = ageOf(view);
  const summary = useSettled(() => {
    const { rows, withInside } = rowsOfSpans(store, spans);
    return summarize(rows, { from: 0, to: now }, now, withInside);
  }, [store.version.value, store.selection.spans.value, now], waitOf(view));
  return (
    <Section label="Selected spans" title={`${pluralize(spans.length, "span")} selected`} summary={summary} view={view}
      close={() => view.select(null)} expression={() => spansExpression(store, spans)} />
  );
}

interface SectionProps {
  label: string;
  title: string;
  note?: string;
  /** null: there is nothing; undefined: it is not known yet. */
  summary: SpanSummary | null | undefined;
  view: View;
  close: () => void;
  expression: () => string;
  more?: ComponentChildren;
  tools?: ComponentChildren;
  marks?: ComponentChildren;
}

function Section({ label, title, note, summary, view, close, expression, more, tools, marks }: SectionProps): VNode {
  return (
    <section class="et-summary" aria-label={label}>
      <header class="et-summary-head">
        <b>{title}</b>
        {note && <span class="et-summary-note">{note}</span>}
        <span class="et-spring" />
        <CopyButton label="Copy as pandas" text={expression}>pandas</CopyButton>
        {tools}
        <button class="et-button" aria-label={`Let go of the ${label.toLowerCase()}`} title="Let go (Esc)" onClick={close}><Icon name="error" /></button>
      </header>
      {marks}
      {summary ? (
        <div class="et-summary-body">
          <KindTable kinds={summary.kinds} />
          <dl class="et-summary-facts">
            <Fact name="Tokens in" value={formatCount(summary.inputTokens)} />
            <Fact name="Tokens out" value={formatCount(summary.outputTokens)} />
            <Fact name="Cost" value={formatMoney(summary.cost, view.store.run.value?.currency)} />
            {more}
          </dl>
        </div>
      ) : <p class="et-none">{summary === null ? "Nothing was going on then." : "Counting…"}</p>}
    </section>
  );
}

function KindTable({ kinds }: { kinds: readonly KindSummary[] }): VNode | null {
  const calls = kinds.find(({ kind }) => kind === "llm")?.count;
  const shown = kinds
    .filter(({ kind, count }) => !FRAMES.has(kind) && !(kind === "attempt" && count === calls))
    .sort((one, other) => placeOf(one.kind) - placeOf(other.kind));
  if (shown.length === 0) return null;
  return (
    <table class="et-summary-table">
      <thead><tr><th scope="col"><span class="et-hidden">Kind</span></th><th scope="col">median</th><th scope="col">p90</th><th scope="col">longest</th></tr></thead>
      <tbody>
        {shown.map(({ kind, count, p50, p90, most }) => (
          <tr>
            <th scope="row"><span class="et-cell-sign" data-kind={kind} aria-hidden="true">{traitsOf(kind).sign}</span>{pluralize(count, kindTitle(kind).toLowerCase())}</th>
            {[p50, p90, most].map((value) => <td>{formatDuration(value)}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const Fact = ({ name, value, title }: { name: string; value: string; title?: string }): VNode =>
  <div title={title}><dt>{name}</dt><dd>{value}</dd></div>;

/** To count a hundred thousand spans takes longer than a frame: a drag does not wait for it, and neither does a run. */
const waitOf = ({ store }: View): number => (store.size < LARGE ? 0 : store.isTicking ? LIVE_WAIT_MS : WAIT_MS);

/** Kinds that are not known come last. */
const placeOf = (kind: string): number => (ORDER.indexOf(kind) + ORDER.length + 1) % (ORDER.length + 1);

/** The run's age as it is shown: it changes a few times a second, so that nothing is counted more often. */
const ageOf = (view: View): number => (view.store.isTicking ? view.age.value : (view.time.value ?? view.now));

/** `1.8×`; whole numbers without a digit behind the point. */
const formatTimes = (value: number): string =>
  Number.isFinite(value) ? `${(Math.round(value * 10) / 10).toString()}×` : UNKNOWN;

/** A moment of the run, to the tenth of a second where it is not over in one. */
const formatMoment = (ms: number): string => (ms < 1 ? "0 s" : formatDuration(ms));
