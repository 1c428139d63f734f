// What stands below the status line: why a run ended as it did, what a view lacks, what could not be read (W15).

import type { ComponentChildren } from "preact";
import { Icon } from "../elements/icon";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import type { Kept } from "../wire/messages";
import { isFinal } from "../wire/predicates";
import type { Run } from "../wire/rows";
import { countTasks } from "../wording/labels";
import { formatExactCount, formatMoney, pluralize } from "../wording/numbers";
import { EXPLAINED, RESUMABLE, type State } from "./run-state";

interface Props {
  view: View;
  state: State;
  /** There is no kernel: what is shown is what was saved. */
  isSaved: boolean;
}

/** One sentence each, the most important first. */
export function RunNotes({ view, state, isSaved }: Props) {
  const { store } = view;
  const run = store.run.value;
  const fault = store.fault.value;
  return (
    <>
      {fault && <Note hue="wait">{run ? "Part of the trace" : "The trace"} could not be read: {fault}.{run ? "" : ` ${state.hint}`}</Note>}
      {run?.error && run.status !== "completed" && <Note hue="error"><b>{run.error.type}</b> {run.error.message}</Note>}
      {run && EXPLAINED.has(state.key) && <Note hue="wait">{explain(state, run)}</Note>}
      {run && RESUMABLE.has(state.key) && run.is_resumable !== false && run.capture_mode !== "metadata" && <Resume view={view} run={run} />}
      {run && isSaved && <KeptNote store={store} run={run} />}
      {run?.capture_mode === "metadata" && <Note hue="idle">No texts were kept: capture is METADATA. Names, times, counts and statuses are here.</Note>}
    </>
  );
}

/** What a state means for this run, and what a person can do. */
function explain(state: State, run: Run): string {
  if (!isFinal(run.status)) return state.hint;
  const kept = run.tasks_skipped ? `${countTasks(run, run.tasks_skipped)} did not run; what was done is kept.` : "What was done is kept.";
  return `${state.hint} ${kept}${state.key === "budget" ? " A larger budget lets the cell go on to the end." : ""}`;
}

function Note({ hue, children }: { hue: "error" | "wait" | "idle"; children: ComponentChildren }) {
  return <p class="et-note" data-hue={hue}>{children}</p>;
}

/**
 * The way on (W30), with what it keeps: where a cell can be written, a button that writes the line into one below, and runs
 * nothing; elsewhere the line.
 */
function Resume({ view, run }: { view: View; run: Run }) {
  const line = resumeLine(run);
  const { writeBelow } = view;
  return (
    <p class="et-note et-resume" data-hue="idle">
      {writeBelow
        ? <button class="et-link" title={`Writes ${line} into a cell below`} onClick={() => writeBelow(line)}><Icon name="resume" size={12} />Resume</button>
        : <>Resume with <code>{line}</code></>}
      <span class="et-keeps">{describeKept(run)}</span>
    </p>
  );
}

/** What goes on with a run, as a line of a cell. */
export const resumeLine = (run: Run): string => `%ensemble resume ${run.run_id}${run.variable ? ` -o ${run.variable}` : ""}`;

/** What is not done again: `4 of 8 done, $0.021 kept`. */
export const describeKept = (run: Run): string =>
  `${formatExactCount(run.tasks_done)} of ${formatExactCount(run.tasks_total)} done${run.cost ? `, ${formatMoney(run.cost, run.currency)} kept` : ""}`;

/** How much of a large run is here, and where all of it is: nothing is left out without a word (W15). */
function KeptNote({ store, run }: { store: Store; run: Run }) {
  const lack = describeLack(store.kept.value, store.leftOut.value);
  if (lack === null) return null;
  return (
    <Note hue="wait">
      {lack}{run.variable ? <>; all of them: <code>{run.variable}.timeline</code></> : "; the others were in the kernel that ran it"}.
    </Note>
  );
}

/** What a saved view has of all there was, in calls where it lacks calls; null where nothing is missing. */
export function describeLack(kept: Readonly<Record<string, Kept>>, leftOut: { rows: number; details: number }): string | null {
  const add = (kinds: readonly string[]): Kept =>
    kinds.reduce<Kept>(([some, all], kind) => [some + (kept[kind]?.[0] ?? 0), all + (kept[kind]?.[1] ?? 0)], [0, 0]);
  const calls = add(["llm", "tool"]);
  if (calls[0] < calls[1]) return `${formatExactCount(calls[0])} of ${pluralize(calls[1], "call")} kept here`;
  const spans = add(Object.keys(kept));
  if (spans[0] < spans[1]) return `${formatExactCount(spans[0])} of ${pluralize(spans[1], "span")} kept here`;
  if (leftOut.rows > 0) return `${pluralize(leftOut.rows, "span")} not kept here`;
  return leftOut.details > 0 ? `The texts of ${pluralize(leftOut.details, "span")} not kept here` : null;
}
