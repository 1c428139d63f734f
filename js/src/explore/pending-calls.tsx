// The calls of reviewed tools that a run has left waiting (W166): what they are, and the code that answers them, which a
// person puts together by choosing. Nothing here reaches the kernel.

import { useState } from "preact/hooks";
import { CopyButton } from "../elements/copy-button";
import { Icon } from "../elements/icon";
import type { View } from "../view/view";
import { isObject } from "../wire/guards";
import { isFinal } from "../wire/predicates";
import type { PendingCall, Run } from "../wire/rows";
import { formatExactCount, pluralize } from "../wording/numbers";
import { formatTimeOfDay } from "../wording/text";

const ANSWERS: Readonly<Record<string, string>> = { "": "leave it", approve: "approve", reject: "decline" };

/** Nothing while the run goes on, and where nothing waits. */
export function PendingCalls({ view }: { view: View; change: number }) {
  const { store } = view;
  store.version.value;
  const run = store.run.value;
  const calls = run && isFinal(run.status) ? callsOf(run) : [];
  return calls.length ? <Waiting key={run?.run_id} run={run as Run} calls={calls} view={view} /> : null;
}

/** A saved view may be anybody's. */
function callsOf({ pending }: Run): readonly PendingCall[] {
  const calls: unknown = pending?.calls;
  return Array.isArray(calls) ? calls.filter((call): call is PendingCall => isObject(call) && typeof call.id === "string") : [];
}

function Waiting({ run, calls, view }: { run: Run; calls: readonly PendingCall[]; view: View }) {
  const [first] = calls;
  const [answers, setAnswers] = useState<Readonly<Record<string, string>>>(first ? { [first.id]: "approve" } : {});
  const chosen = Object.entries(answers).filter(([, answer]) => answer);
  const literal = chosen.map(([id, answer]) => `${JSON.stringify(id)}: ${JSON.stringify(answer)}`).join(", ");
  const code = String(run.pending?.code).replace("{}", () => `{${literal}}`);
  const { writeBelow } = view;
  const count = Math.max(calls.length, Number(run.pending?.count) || 0);
  const title = `${pluralize(count, "call")} ${count === 1 ? "waits" : "wait"} for an answer`;
  return (
    <section class="et-pending" aria-label={title}>
      <b><Icon name="waiting" />{title}</b>
      <ul tabIndex={0} aria-label="Calls">
        {calls.map((call) => (
          <li key={call.id}>
            <select aria-label={`Answer to ${call.text}`} value={answers[call.id] ?? ""} onChange={({ currentTarget: { value } }) => setAnswers({ ...answers, [call.id]: value })}>
              {Object.entries(ANSWERS).map(([answer, word]) => <option value={answer}>{word}</option>)}
            </select>
            <div>
              {view.store.row(call.span_id)
                ? <button class="et-link" title="Show it in the timeline" onClick={() => view.goTo(call.span_id)}><code>{call.text}</code></button>
                : <code>{call.text} </code>}
              <small>{[call.agent, call.task, call.row, `since ${formatTimeOfDay(call.since)}`, call.is_unknown && "not known whether it was done"].filter(Boolean).join(" · ")}</small>
            </div>
          </li>
        ))}
      </ul>
      {count > calls.length && <p>and {formatExactCount(count - calls.length)} more: {run.variable ?? "output"}.pending</p>}
      <p>
        {chosen.length ? <><code>{code}</code><CopyButton label="Copy the code that answers" text={() => code} /></> : "Choose an answer: the code that gives it stands here then."}
        {chosen.length > 0 && writeBelow && <button class="et-choice" title="Writes it into a cell below, and runs nothing" onClick={() => writeBelow(code)}>Into a cell</button>}
      </p>
    </section>
  );
}
