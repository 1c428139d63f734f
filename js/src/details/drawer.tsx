// The drawer: everything known of the selected span. What the row says is there at once; prompts, replies and tool I/O are
// loaded when the span is selected, because they are what makes a trace large (W6). It keeps its height whatever is in it.

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { CopyButton } from "../elements/copy-button";
import { Icon, iconOf } from "../elements/icon";
import { LateIcon } from "../elements/late-icon";
import { choose, remembered } from "../elements/remembered";
import { Splitter } from "../elements/splitter";
import { holdsSelection, isFormatted, setFormatted } from "../elements/text-block";
import type { KernelConnection } from "../kernel/connection";
import { spanExpression } from "../store/expressions";
import { stateOfRow } from "../store/row-state";
import type { View } from "../view/view";
import { durationOf, hasCost, hasTokens } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { kindTitle, titleOf } from "../wording/labels";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";
import { canMark, MarkButtons } from "./mark-buttons";
import { linkToSpan } from "./place-links";
import { type Tab, TabList } from "./tab-list";
import { detailsSpanOf, tabsOf } from "./tabs";
import { TryButtons, type Way } from "./try-buttons";

const HEIGHT = 300;
const LEAST_HEIGHT = 120;
const MOST_HEIGHT = 900;
/** So near the end counts as being there. */
const AT_END = 24;

const isHeight = (value: unknown): value is number => typeof value === "number" && value >= LEAST_HEIGHT && value <= MOST_HEIGHT;
const height = remembered("drawer-height", HEIGHT, isHeight);

interface Props {
  view: View;
  connection: KernelConnection | null;
  /** Another number whenever something may have changed: details and streamed text come without a change of the row itself. */
  change: number;
  /** A person wants to try something at a span. */
  onTry: (span: string, way: Way) => void;
  /** The span at which one does: its editor stands in place of the details. */
  trying: string | undefined;
}

export function Drawer({ view, connection, change, onTry, trying }: Props): VNode | null {
  const row = view.selectedRow.value;
  const wanted = view.tab.value;
  const prefix = useId();
  const { store } = view;
  const source = row ? detailsSpanOf(row) : null;
  const isOpen = view.isDrawerOpen.value && row !== undefined;
  const progress = source && isOpen ? store.progress(source) : "";
  useEffect(() => {
    if (isOpen && source) connection?.wantDetails(source);
  }, [isOpen, source, progress, connection]);
  if (!isOpen || !row) return null;
  const details = source ? store.details(source) : undefined;
  const tabs = tabsOf({ row, details, view, connection, change });
  const tab = tabs.find((candidate) => candidate.key === wanted) ?? (tabs[0] as Tab);
  const isRunning = row.end_ms == null && store.isTicking;
  const state = stateOfRow(store, row);
  return (
    <section class="et-drawer" aria-label={`Details of ${titleOf(store, row)}`}>
      <header class="et-drawer-head">
        <span class="et-sign" data-status={state.key}><Icon name={iconOf(state.key)} /></span>
        <Breadcrumbs row={row} view={view} />
        <span class="et-spring" />
        <span class="et-drawer-facts">{headline(row)}</span>
        <span class="et-drawer-buttons">
          <button class="et-button" aria-label="Previous span" title="Previous span (←)" onClick={() => view.moveSpan(-1)}><LateIcon name="left" /></button>
          <button class="et-button" aria-label="Next span" title="Next span (→)" onClick={() => view.moveSpan(1)}><Icon name="right" /></button>
          <button class="et-button" aria-label="Close details" title="Close (Esc)" onClick={() => (view.isDrawerOpen.value = false)}><Icon name="error" /></button>
        </span>
      </header>
      {row.span_id !== trying && (
        <>
          <div class="et-tab-bar">
            <TabList tabs={tabs} selected={tab.key} prefix={prefix} onSelect={(key) => (view.tab.value = key)} />
            <span class="et-tab-tools">
              {tab.hasTexts && <FormatSwitch />}
              <CopyButton label="Copy link to this span" text={() => linkToSpan(row.span_id)}>Link</CopyButton>
              <CopyButton label="Copy DataFrame expression" text={() => spanExpression(store, row.span_id)}>DataFrame</CopyButton>
            </span>
          </div>
          <div class="et-acts">
            <TryButtons row={row} view={view} connection={connection} onTry={onTry} />
            {connection && canMark(view, connection) && !row.delta && <MarkButtons key={row.span_id} of={{ span_id: row.span_id }} connection={connection} />}
          </div>
          <Panel key={tab.staysOpen ? tab.key : `${row.span_id} ${tab.key}`} prefix={prefix} tab={tab.key} isRunning={isRunning && tab.hasTexts === true}>{tab.body()}</Panel>
          <Splitter label="Height of the details" axis="y" size={height.value} least={LEAST_HEIGHT} most={MOST_HEIGHT}
            resize={(size) => choose("drawer-height", height, size ?? HEIGHT)} />
        </>
      )}
    </section>
  );
}

function FormatSwitch(): VNode {
  return (
    <button class="et-format" aria-label="Formatted" aria-pressed={isFormatted.value} title="Show texts as Markdown and trees, or as they were written"
      onClick={() => setFormatted(!isFormatted.value)}>¶<span class="et-copy-words">Formatted</span></button>
  );
}

/** What scrolls. It keeps to the end of what is being written, unless a person scrolled up or selected something in it. */
function Panel({ prefix, tab, isRunning, children }: { prefix: string; tab: string; isRunning: boolean; children: ComponentChildren }): VNode {
  const place = useRef<HTMLDivElement>(null);
  const keepsEnd = useRef(true);
  const lastTop = useRef(0);
  useLayoutEffect(() => {
    const panel = place.current as HTMLDivElement;
    const isGrowing = isRunning && panel.querySelector('[data-grows="true"]') !== null;
    // Who scrolled up a moment ago, which the page is told of later, has already done so.
    if (panel.scrollTop < lastTop.current - AT_END) keepsEnd.current = false;
    if (isGrowing && keepsEnd.current && !holdsSelection(panel)) panel.scrollTop = panel.scrollHeight;
    lastTop.current = panel.scrollTop;
  });
  const onScroll = (): void => {
    const panel = place.current as HTMLDivElement;
    keepsEnd.current = panel.scrollHeight - panel.scrollTop - panel.clientHeight < AT_END;
  };
  return (
    <div ref={place} class="et-panel" role="tabpanel" id={`${prefix}panel`} tabIndex={0} aria-labelledby={`${prefix}tab-${tab}`}
      style={{ height: `${height.value}px` }} onScroll={onScroll}>{children}</div>
  );
}

function headline(row: Row): string {
  const parts = [row.end_ms != null ? formatDuration(durationOf(row)) : ""];
  if (hasTokens(row)) {
    parts.push(`${formatCount(row.input_tokens)} in · ${formatCount(row.output_tokens)} out`);
  }
  if (hasCost(row)) parts.push(formatMoney(row.cost, row.currency));
  return parts.filter(Boolean).join("   ");
}

/** Where the span is, outermost first; each step leads there. */
function Breadcrumbs({ row, view }: { row: Row; view: View }): VNode {
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
        const name = titleOf(view.store, step);
        const kind = kindTitle(step.kind);
        const isSaid = name.toLowerCase().startsWith(kind.toLowerCase());
        return isLast
          ? <b class="et-step">{!isSaid && <span class="et-kind">{kind}</span>}{name}</b>
          : <><button class="et-link et-step" onClick={() => view.select(step.span_id)}>{name}</button><span class="et-slash">›</span></>;
      })}
    </nav>
  );
}
