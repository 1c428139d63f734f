// The tables of the drawer: the attempts of a call, and who spent what.

import type { ComponentChildren, VNode } from "preact";
import { Icon, iconOf } from "../elements/icon";
import type { View } from "../view/view";
import { durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { STATUS_NAMES, UNKNOWN } from "../wire/words";
import { modelNameOf, titleOf } from "../wording/labels";
import { formatDuration, formatExactCount, formatMoney } from "../wording/numbers";

/** More calls than these are in the frames. */
const MOST_ROWS = 200;

const Framed = ({ children }: { children: ComponentChildren }): VNode => (
  <div class="et-wide-table" tabIndex={0} role="group" aria-label="Table">{children}</div>
);

/** Each try of a call: what came of it and why, what it used, and the wait before the next one. */
export function AttemptTable({ rows, view }: { rows: readonly Row[]; view: View }): VNode {
  const hasTokens = rows.some((row) => row.input_tokens != null || row.output_tokens != null);
  return (
    <Framed>
      <table class="et-table">
        <thead>
          <tr>
            <th>Attempt</th><th>Result</th><th class="et-number">Took</th>
            {hasTokens && <th class="et-number">In</th>}
            {hasTokens && <th class="et-number">Out</th>}
            <th class="et-number">Then waited</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row) => (
            <tr>
              <td>
                <button class="et-link et-attempt" onClick={() => view.goTo(row.span_id)}>
                  <span class="et-sign" data-status={row.status}><Icon name={iconOf(row.status)} /></span>
                  {row.attempt ?? "?"}{row.max_attempts ? ` of ${row.max_attempts}` : ""}
                </button>
              </td>
              <td class="et-wide"><Result row={row} /></td>
              <td class="et-number">{row.end_ms != null ? formatDuration(durationOf(row)) : ""}</td>
              {hasTokens && <td class="et-number">{formatExactCount(row.input_tokens)}</td>}
              {hasTokens && <td class="et-number">{formatExactCount(row.output_tokens)}</td>}
              <td class="et-number">{row.backoff_ms != null ? formatDuration(row.backoff_ms) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Rest size={rows.length} />
    </Framed>
  );
}

/** What came of an attempt: why there was another one, and what the error said where that is more. */
function Result({ row }: { row: Row }): VNode {
  const cause = row.retry_reason ?? row.error_type ?? STATUS_NAMES[row.status];
  const more = row.error_message && row.error_message !== cause ? row.error_message : null;
  const model = row.is_fallback ? modelNameOf(row) : null;
  return (
    <>
      <span>{cause}{model ? `, fallback ${model}` : ""}</span>
      {more && <span class="et-cause">{more}</span>}
    </>
  );
}

const AMOUNTS = ["input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens", "cost"] as const;
type Amount = (typeof AMOUNTS)[number];
const TITLES: Record<Amount, string> = {
  input_tokens: "In", cache_read_tokens: "Cached", output_tokens: "Out", reasoning_tokens: "Reasoning", cost: "Cost",
};

interface Sum {
  readonly value: number | null;
  /** A part of it is unknown. */
  readonly isPart: boolean;
}

/** Sums what is known; cached and reasoning tokens are parts that most calls don't tell of, so their lack says nothing. */
export function sumOf(rows: readonly Row[], amount: Amount): Sum {
  const known = rows.filter((row) => row[amount] != null);
  const isOptional = amount === "cache_read_tokens" || amount === "reasoning_tokens";
  return {
    value: known.length ? known.reduce((sum, row) => sum + (row[amount] ?? 0), 0) : null,
    isPart: !isOptional && known.length > 0 && known.length < rows.length,
  };
}

/** Tokens and money by call; the sum stands below when there is more than one, and says where it is only a part. */
export function SpendTable({ rows, view }: { rows: readonly Row[]; view: View }): VNode {
  const currency = rows.find((row) => row.currency)?.currency;
  const shown = AMOUNTS.filter((amount) => amount === "input_tokens" || amount === "output_tokens" || amount === "cost" || rows.some((row) => row[amount]));
  const sums = new Map(shown.map((amount) => [amount, sumOf(rows, amount)]));
  const isPart = [...sums.values()].some((sum) => sum.isPart);
  const write = (amount: Amount, value: number | null | undefined, of: string | null | undefined): string =>
    amount === "cost" ? formatMoney(value, of) : formatExactCount(value);
  return (
    <Framed>
      <table class="et-table">
        <thead><tr><th>Call</th>{shown.map((amount) => <th class="et-number">{TITLES[amount]}</th>)}</tr></thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row) => (
            <tr>
              <td class="et-wide">
                <button class="et-link" onClick={() => view.goTo(row.span_id)}>{titleOf(view.store, row)}</button>
              </td>
              {shown.map((amount) => <td class="et-number" data-unknown={row[amount] == null}>{write(amount, row[amount], row.currency)}</td>)}
            </tr>
          ))}
        </tbody>
        {rows.length > 1 && (
          <tfoot>
            <tr>
              <th scope="row">{isPart ? "Sum of what is known" : "Sum"}</th>
              {shown.map((amount) => {
                const { value, isPart: isLess } = sums.get(amount) as Sum;
                return <td class="et-number">{isLess ? "≥ " : ""}{write(amount, value, currency)}</td>;
              })}
            </tr>
          </tfoot>
        )}
      </table>
      <Rest size={rows.length} />
      {isPart && <p class="et-foot">{`≥ marks a sum of which a part (${UNKNOWN}) is unknown: not counted, or without a price.`}</p>}
    </Framed>
  );
}

const Rest = ({ size }: { size: number }): VNode | null =>
  size > MOST_ROWS ? <p class="et-foot">{`${formatExactCount(size - MOST_ROWS)} more are in the frames.`}</p> : null;
