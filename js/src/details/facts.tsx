// What a row says of itself, as a list of names and values.

import type { ComponentChildren } from "preact";
import { roundsOf, startupTimeOf } from "../store/rounds";
import { stateOfRow } from "../store/row-state";
import type { View } from "../view/view";
import { hasCost, hasTokens } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import { UNKNOWN } from "../wire/words";
import { answerOf, causeOf, describeLength, describeRounds, describeSkip, fieldLabel, modelNameOf, modelOf, nameOf, reuseOf, savingOf, waitOf } from "../wording/labels";
import { formatDuration, formatExactCount, formatMoney, pluralize } from "../wording/numbers";
import { formatScore, scoresOf } from "../wording/scores";

/** Whatever is known of a span besides its texts; what is unknown is left out. */
export function SpanFacts({ row, view }: { row: Row; view: View; change: number }) {
  const facts: [string, ComponentChildren][] = [];
  const add = (name: string, value: ComponentChildren): void => {
    if (value != null && value !== "" && value !== false) facts.push([name, value]);
  };
  const state = stateOfRow(view.store, row).name;
  add("Status", row.status === "skipped" ? describeSkip(row.reason, state) : row.reason ? `${state}: ${row.reason}` : state);
  add("Reuse", row.reuse_reason && reuseOf(row));
  add("Saved", row.reused && savingOf(row).replace(/ saved$/, ""));
  add("Name in code", row.kind === "task" && nameOf(row) !== row.name && row.name);
  add("Agent", row.agent && `${row.agent}${row.is_fallback ? ", as fallback" : ""}`);
  const worker = row.kind === "delegation" ? view.store.children(row.span_id).find((child) => child.kind === "task") : undefined;
  add("Worker", worker ? <Step row={worker} name={`${row.delegate_to ?? ""} (${worker.name})`} view={view} /> : row.delegate_to);
  add("Asked by", row.delegation?.delegator);
  add("Priority", row.delegation?.priority !== "normal" && row.delegation?.priority);
  add("Depth", (row.delegation?.depth ?? 0) > 1 && row.delegation?.depth);
  add("Request", row.kind === "delegation" && row.delegation_id);
  add("Answer", row.review && answerOf(row));
  add("Looks at", row.guardrail && `the ${row.guardrail} of the task`);
  add("Scope", row.memory?.scope);
  add(row.memory?.operation === "store" ? "Remembered" : "Recalled", row.memory?.count != null && pluralize(row.memory.count, "entry"));
  add("Waited for", row.kind === "wait" && waitOf(row));
  add("Model", modelNameOf(row) && `${modelOf(row)}${row.provider && row.provider !== modelNameOf(row) ? ` (${row.provider})` : ""}${row.is_scripted && row.provider !== "scripted" ? ", scripted" : ""}`);
  add("Tool", row.tool);
  for (const [field, value] of Object.entries(row.settings ?? {})) add(fieldLabel(field), String(value));
  add("Began", row.start_ms != null && `${formatDuration(row.start_ms)} after the start`);
  add("Took", row.end_ms != null && describeLength(row));
  add("Beside it", startupTimeOf(view.store, row) > 0 && `${formatDuration(startupTimeOf(view.store, row))}, while a model was made ready`);
  add("First token", row.time_to_first_token_ms != null && `after ${formatDuration(row.time_to_first_token_ms)}`);
  add("Waited in line", row.queue_ms != null && row.queue_ms >= 1 && formatDuration(row.queue_ms));
  add("Done", (row.kind === "task" || row.kind === "phase") && (row.attempt ?? 1) > 1 && `${row.attempt} times: ${causeOf(row)}`);
  for (const words of describeRounds(row, roundsOf(view.store, row))) add(...parted(words));
  add("Attempt", row.kind === "attempt" && row.attempt != null && `${row.attempt}${row.max_attempts ? ` of ${row.max_attempts}` : ""}`);
  add("Retried because", row.kind === "attempt" && row.retry_reason);
  add("Waited after it", row.backoff_ms != null && formatDuration(row.backoff_ms));
  // What only sums up the attempts beneath it says so (T2).
  const sum = traitsOf(row.kind).hasTotals ? ", all attempts" : "";
  add("Tokens in", hasTokens(row) && row.input_tokens != null && tokensIn(row) + sum);
  add("Tokens out", hasTokens(row) && row.output_tokens != null && tokensOut(row) + sum);
  add("Cost", hasCost(row) && formatMoney(row.cost, row.currency) + sum);
  for (const [name, value] of scoresOf(row, view.store.run.value)) add(`Score: ${name}`, formatScore(value));
  add("Finished by", row.finish_reason);
  add("Critical path", row.critical ? "yes: the run waited for it" : row.slack_ms != null && `no: ${formatDuration(row.slack_ms)} to spare`);
  add("After", row.depends_on?.length ? <Names names={row.depends_on} view={view} /> : null);
  return (
    <dl class="et-facts-list">
      {facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

const tokensIn = (row: Row): string =>
  `${formatExactCount(row.input_tokens)}${row.cache_read_tokens ? ` (${formatExactCount(row.cache_read_tokens)} cached)` : ""}`;
const tokensOut = (row: Row): string =>
  `${formatExactCount(row.output_tokens)}${row.reasoning_tokens ? ` (${formatExactCount(row.reasoning_tokens)} reasoning)` : ""}`;

/** `round 1 · approved` as a name and a value. */
function parted(words: string): [string, string] {
  const [name = "", ...rest] = words.split(" · ");
  return [fieldLabel(name), rest.join(" · ") || UNKNOWN];
}

const Step = ({ row, name, view }: { row: Row; name: string; view: View }) =>
  <button class="et-link" onClick={() => view.goTo(row.span_id)}>{name}</button>;

function Names({ names, view }: { names: readonly string[]; view: View }) {
  const spanOf = (name: string): string | undefined =>
    [...view.store.rows()].find((row) => row.name === name && (row.kind === "task" || row.kind === "phase"))?.span_id;
  return (
    <>
      {names.map((name) => {
        const span = spanOf(name);
        return span ? <button class="et-link" onClick={() => view.goTo(span)}>{name}</button> : <span>{name} </span>;
      })}
    </>
  );
}
