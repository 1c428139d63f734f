// The tables of the drawer: what a row says of itself, the attempts of a call, and who spent what.

import type { ComponentChildren } from "preact";
import { count, duration, money, plural } from "./format";
import { Icon, signOf } from "./icon";
import { answerOf, STATUSES, waitOf } from "./name";
import type { View } from "./view";
import type { Row } from "./wire";

/** Whatever is known of a span besides its texts; what is unknown is left out. */
export function Facts({ row, view }: { row: Row; view: View }) {
  const facts: [string, ComponentChildren][] = [];
  const add = (name: string, value: ComponentChildren): void => {
    if (value != null && value !== "" && value !== false) facts.push([name, value]);
  };
  add("Status", `${STATUSES[row.status]}${row.reason ? `: ${row.reason}` : ""}`);
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
  add(row.memory?.operation === "store" ? "Remembered" : "Recalled", row.memory?.count != null && plural(row.memory.count, "entry"));
  add("Waited for", row.kind === "wait" && waitOf(row));
  add("Model", row.model && `${row.model}${row.provider ? ` (${row.provider})` : ""}${row.is_scripted ? ", scripted" : ""}`);
  add("Tool", row.tool);
  add("Began", row.start_ms != null && `${duration(row.start_ms)} after the start`);
  add("Took", row.start_ms != null && row.end_ms != null && duration(row.end_ms - row.start_ms));
  add("First token", row.time_to_first_token_ms != null && `after ${duration(row.time_to_first_token_ms)}`);
  add("Waited in line", row.queue_ms != null && row.queue_ms >= 1 && duration(row.queue_ms));
  add("Done", (row.kind === "task" || row.kind === "phase") && (row.attempt ?? 1) > 1 && `${row.attempt} times: a review sent it back`);
  add("Attempt", row.kind === "attempt" && row.attempt != null && `${row.attempt}${row.max_attempts ? ` of ${row.max_attempts}` : ""}`);
  add("Retried because", row.retry_reason);
  add("Waited after it", row.backoff_ms != null && duration(row.backoff_ms));
  // What a task or phase spent is the sum of its calls, and says so.
  const sum = row.kind === "task" || row.kind === "phase" ? "Σ " : "";
  add("Tokens in", row.input_tokens != null && sum + tokensIn(row));
  add("Tokens out", row.output_tokens != null && sum + tokensOut(row));
  add("Cost", row.cost != null && sum + money(row.cost));
  add("Finished by", row.finish_reason);
  add("Critical path", row.critical ? "yes: the run waited for it" : row.slack_ms != null && `no: ${duration(row.slack_ms)} to spare`);
  add("After", row.depends_on?.length ? <Names names={row.depends_on} view={view} /> : null);
  return (
    <dl class="et-facts-list">
      {facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

const exact = (value: number | null | undefined): string => (value ?? 0).toLocaleString("en-US");
const tokensIn = (row: Row): string =>
  `${exact(row.input_tokens)}${row.cache_read_tokens ? ` (${exact(row.cache_read_tokens)} cached)` : ""}`;
const tokensOut = (row: Row): string =>
  `${exact(row.output_tokens)}${row.reasoning_tokens ? ` (${exact(row.reasoning_tokens)} reasoning)` : ""}`;

const Step = ({ row, name, view }: { row: Row; name: string; view: View }) =>
  <button class="et-link" onClick={() => view.jump(row.span_id)}>{name}</button>;

function Names({ names, view }: { names: readonly string[]; view: View }) {
  const spanOf = (name: string): string | undefined =>
    [...view.store.rows()].find((row) => row.name === name && (row.kind === "task" || row.kind === "phase"))?.span_id;
  return (
    <>
      {names.map((name) => {
        const span = spanOf(name);
        return span ? <button class="et-link" onClick={() => view.jump(span)}>{name}</button> : <span>{name} </span>;
      })}
    </>
  );
}

/** Each try of a call, and the wait and reason between them. */
export function AttemptTable({ rows, view }: { rows: readonly Row[]; view: View }) {
  return (
    <table class="et-table">
      <thead><tr><th>Attempt</th><th>Result</th><th class="et-number">Took</th><th class="et-number">Then waited</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr onClick={() => view.select(row.span_id)}>
            <td><span class="et-sign" data-status={row.status}><Icon sign={signOf(row.status)} /></span> {row.attempt ?? "?"}{row.max_attempts ? ` of ${row.max_attempts}` : ""}</td>
            <td class="et-wide">{row.retry_reason ?? row.error_message ?? row.error_type ?? STATUSES[row.status]}</td>
            <td class="et-number">{row.start_ms != null && row.end_ms != null ? duration(row.end_ms - row.start_ms) : ""}</td>
            <td class="et-number">{row.backoff_ms != null ? duration(row.backoff_ms) : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Tokens and money by call; the sum stands below when there is more than one, and only when all parts are known. */
export function SpendTable({ rows, view }: { rows: readonly Row[]; view: View }) {
  const sum = (key: "input_tokens" | "cache_read_tokens" | "output_tokens" | "cost"): number | null =>
    rows.reduce<number | null>((total, row) => (row[key] == null ? total : (total ?? 0) + row[key]), null);
  const cells = (of: Pick<Row, "input_tokens" | "cache_read_tokens" | "output_tokens" | "cost">) => (
    <>
      <td class="et-number">{count(of.input_tokens)}</td>
      <td class="et-number">{count(of.cache_read_tokens)}</td>
      <td class="et-number">{count(of.output_tokens)}</td>
      <td class="et-number">{money(of.cost)}</td>
    </>
  );
  return (
    <table class="et-table">
      <thead>
        <tr><th>Call</th><th class="et-number">In</th><th class="et-number">Cached</th><th class="et-number">Out</th><th class="et-number">Cost</th></tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr onClick={() => view.select(row.span_id)}><td class="et-wide">{row.model ?? row.name}</td>{cells(row)}</tr>
        ))}
      </tbody>
      {rows.length > 1 && (
        <tfoot>
          <tr>
            <th>Sum of what is known</th>
            {cells({
              input_tokens: sum("input_tokens"), cache_read_tokens: sum("cache_read_tokens"),
              output_tokens: sum("output_tokens"), cost: sum("cost"),
            })}
          </tr>
        </tfoot>
      )}
    </table>
  );
}
