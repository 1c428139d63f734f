// The status line: what a person must see within five seconds without touching anything. State and age, how many tasks,
// what runs now by name, the spend, the problems, and Stop.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Icon } from "../elements/icon";
import type { KernelConnection } from "../kernel/connection";
import { activitiesOf } from "../store/activities";
import { listWarnings, nextProblem } from "../store/problems";
import { sayBreak } from "../store/row-state";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import type { Run } from "../wire/rows";
import { DEMO, SCRIPTED_TEAM } from "../wire/words";
import { countMany, countTasks, progressOf } from "../wording/labels";
import { formatClock, formatCount, formatDuration, formatExactCount, formatMoney, formatPercent, pluralize } from "../wording/numbers";
import { formatTimeOfDay } from "../wording/text";
import { BudgetShare, isCostBudget } from "./budget-meter";
import { RunNotes } from "./run-notes";
import { PAST, stateOf } from "./run-state";

interface Props {
  view: View;
  connection: KernelConnection | null;
  /** What only a view with a kernel has: the button that stops the run. */
  children?: ComponentChildren;
}

const LONG_MS = 2000;
const MOST_NAMES = 3;
const MOST_MEANS = 2;

export function StatusLine({ view, connection, children }: Props) {
  const { store } = view;
  const run = store.run.value;
  const state = store !== view.present ? PAST : stateOf(run, {
    isLost: connection?.isLost.value ?? false,
    isRestarted: connection?.isRestarted.value ?? false,
    isStopping: connection?.isStopping.value ?? false,
    isSaved: connection === null,
  }, store.fault.value !== null);
  const hasWarnings = useSignal(false);
  const broken = sayBreak(store);
  return (
    <div class="et-status" data-state={state.key}>
      <div class="et-line">
        <span class="et-state" title={state.hint}>
          <Icon name={state.icon} />
          <span class="et-word">{state.word}</span>
          {run && run.status !== "pending" && broken === null && <Age view={view} run={run} />}
        </span>
        <strong class="et-name" title={run?.name ?? undefined}>{run?.name ?? "Ensemble"}</strong>
        {run && <Substitute run={run} store={store} />}
        {connection === null && <SavedBadge view={view} />}
        <span class="et-spring" />
        {run && <Problems view={view} run={run} hasWarnings={hasWarnings.value} toggle={() => (hasWarnings.value = !hasWarnings.value)} />}
        {children}
      </div>
      {run && <Spend run={run} view={view} broken={broken} />}
      {run && <Progress run={run} />}
      {hasWarnings.value && run && (
        <ul class="et-note" data-hue="wait">{listWarnings(store).map((text) => <li>{text}</li>)}</ul>
      )}
      <RunNotes view={view} state={state} isSaved={connection === null} />
    </div>
  );
}

function Age({ view, run }: { view: View; run: Run }) {
  const isOver = view.store.isOver;
  return <span class="et-clock">{isOver ? formatDuration(run.elapsed_ms - view.present.at) : formatClock(view.age.value - view.present.at)}</span>;
}

/** That a script or a recording answered in place of models. */
function Substitute({ run, store }: { run: Run; store: Store }) {
  const from = run.replayed_from;
  const isDemo = from?.startsWith(DEMO);
  return (
    <>
      {run.is_scripted && !isDemo && <span class="et-badge" title="A scripted model takes part: its replies come from a script">{hasRealModel(store) ? "scripted and real models" : "scripted model"}</span>}
      {from && <span class="et-badge" data-demo={isDemo || undefined} title={`No model was asked: ${from} answered`}>{isDemo ? SCRIPTED_TEAM : "replayed"}</span>}
    </>
  );
}

function SavedBadge({ view }: { view: View }) {
  const time = formatTimeOfDay(view.store.savedAt.value);
  return <span class="et-badge" title="As it was saved: no kernel is needed to look at it">saved view{time ? `, ${time}` : ""}</span>;
}

/** `broken`: how far the run had come, where that is all that is known of it. */
function Spend({ run, view, broken }: { run: Run; view: View; broken: string | null }) {
  const input = run.input_tokens;
  const cached = input && run.cache_read_tokens ? run.cache_read_tokens / input : null;
  // Of handlers alone, zeros would say nothing (W22).
  const isModelAsked = run.llm_call_count > 0 || !!input || !!run.cost;
  const hasTokens = isModelAsked && (input != null || run.output_tokens != null);
  const least = run.tokens_complete ? null : "≥ ";
  return (
    <div class="et-line et-facts">
      {run.sentence === null && broken === null && (
        <span class="et-tasks" title={`${formatExactCount(run.tasks_done)} of ${countTasks(run, run.tasks_total)} done`}>
          {run.many ? progressOf(run.many, view.age.value) : <><b>{formatExactCount(run.tasks_done)}</b>/{countTasks(run, run.tasks_total)}</>}
        </span>
      )}
      {broken === null ? <RunningNow run={run} view={view} /> : <span class="et-now et-sentence" title={broken}>{broken}</span>}
      <span class="et-spring" />
      {hasTokens && (
        <span class="et-tokens" title="Tokens sent to and received from models">
          {least}<b>{formatCount(input)}</b> in{cached !== null && <span class="et-more"> ({formatPercent(cached)} cached)</span>}
          <span class="et-dot">·</span><b>{formatCount(run.output_tokens)}</b> out
        </span>
      )}
      {run.budget && <BudgetShare budget={run.budget} run={run} />}
      {isModelAsked && broken === null && !isCostBudget(run.budget) && run.cost != null && (run.cost > 0 || run.cost_complete) && (
        <span class="et-cost" title={run.cost_complete ? "Cost" : "At least: the price of some calls is unknown"}>
          {run.cost_complete ? null : "≥ "}<b>{formatMoney(run.cost, run.currency)}</b>
        </span>
      )}
    </div>
  );
}

/** What runs or blocks now, by name; what came of it once it is over. */
function RunningNow({ run, view }: { run: Run; view: View }) {
  if (run.status !== "running") {
    const counts = describeCounts(run);
    return <span class="et-now et-sentence" title={[run.sentence, counts].filter(Boolean).join("\n")}>{run.sentence ?? counts}</span>;
  }
  const phase = run.phases_now.join(", ");
  const { shown, total } = activitiesOf(view.store, run, MOST_NAMES);
  return (
    <span class="et-now">
      {phase !== "" && <b>{phase}</b>}
      {run.note && <span class="et-preparing">{run.note}</span>}
      {shown.map((activity) => (
        <button class="et-link" title={`Show ${activity.name}`} onClick={() => view.goTo(activity.span)}>
          {activity.name}{" "}
          {activity.doing !== "" && total <= MOST_MEANS && <span class="et-since"><span aria-hidden="true">{activity.sign} </span>{activity.doing}</span>}
          <Since began={activity.began} view={view} />
        </button>
      ))}
      {total > shown.length && <span>+{total - shown.length}</span>}
    </span>
  );
}

/** What a run came to, in numbers: all that is known of one that an earlier version saved. */
function describeCounts(run: Run): string {
  const settled = run.tasks_settled ?? 0;
  return [
    ...Object.entries({ failed: run.tasks_failed, cancelled: run.tasks_cancelled, skipped: run.tasks_skipped - settled, settled }).map(([word, count]) => count ? `${count} ${word}` : ""),
    run.llm_call_count ? pluralize(run.llm_call_count, "model call") : "",
    run.tool_call_count ? pluralize(run.tool_call_count, "tool call") : "",
  ].filter(Boolean).join(" · ");
}

/** How long something has been running, once that is long enough to wonder. */
function Since({ began, view }: { began: number | null; view: View }) {
  const age = began == null ? 0 : view.age.value - began;
  return age < LONG_MS ? null : <span class="et-since" aria-hidden="true">{formatClock(age)}</span>;
}

/** How much is done: of the items or rows that are at work, else of the tasks. */
function Progress({ run }: { run: Run }) {
  const { many } = run;
  const all = many?.total ?? run.tasks_total;
  const done = many?.done ?? run.tasks_done;
  const total = Math.max(all, 1);
  const parts: [string, number][] = many ? [["done", done], ["failed", many.failed]] : [
    ["done", done], ["failed", run.tasks_failed], ["cancelled", run.tasks_cancelled], ["skipped", run.tasks_skipped],
  ];
  const counted = many ? countMany(run, many) : countTasks(run, all);
  return (
    <div class="et-progress" role="progressbar" aria-label="Tasks" aria-valuemin={0} aria-valuemax={all}
      aria-valuenow={done} aria-valuetext={`${formatExactCount(done)} of ${counted} done`}>
      {parts.map(([name, amount]) => amount > 0 && <i data-part={name} style={{ width: `${(100 * amount) / total}%` }} />)}
    </div>
  );
}

function Problems({ view, run, hasWarnings, toggle }: { view: View; run: Run; hasWarnings: boolean; toggle: () => void }) {
  const warnings = listWarnings(view.store);
  const errors = `${pluralize(run.error_count, "error")}: show the next`;
  const retries = `${run.retry_count} retried: show the next`;
  const go = (what: "error" | "retry"): void => {
    const span = nextProblem(view.store, what, view.selected.value);
    // What went wrong stands in the summary, whatever a person read last.
    if (span) view.tab.value = "summary";
    if (span) view.goTo(span);
  };
  return (
    <span class="et-chips">
      {run.error_count > 0 && (
        <button class="et-chip" data-hue="error" aria-label={errors} title={errors} onClick={() => go("error")}>
          <Icon name="error" size={12} />{run.error_count}
        </button>
      )}
      {run.retry_count > 0 && (
        <button class="et-chip" data-hue="wait" aria-label={retries} title={retries} onClick={() => go("retry")}>
          <Icon name="retry" size={12} />{run.retry_count}
        </button>
      )}
      {warnings.length > 0 && (
        <button class="et-chip" data-hue="wait" aria-expanded={hasWarnings} aria-label={pluralize(warnings.length, "warning")}
          title={warnings.join("\n")} onClick={toggle}>
          <Icon name="warning" size={12} />{warnings.length}
        </button>
      )}
    </span>
  );
}

/** Whether a model that is none of a script was asked beside one. */
function hasRealModel(store: Store): boolean {
  let [hasScript, hasReal] = [false, false];
  for (const row of store.rows()) {
    if (row.kind !== "llm" || row.start_ms == null) continue;
    if (row.is_scripted) hasScript = true;
    else hasReal = true;
    if (hasScript && hasReal) return true;
  }
  return false;
}
