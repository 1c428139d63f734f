// The tables of the drawer: the attempts of a call, and who spent what.

import { Icon, iconOf } from "../elements/icon";
import type { View } from "../view/view";
import { durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { modelOf, STATUS_NAMES } from "../wording/labels";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";

/** Each try of a call, and the wait and reason between them. */
export function AttemptTable({ rows, view }: { rows: readonly Row[]; view: View }) {
  return (
    <table class="et-table">
      <thead><tr><th>Attempt</th><th>Result</th><th class="et-number">Took</th><th class="et-number">Then waited</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr onClick={() => view.select(row.span_id)}>
            <td><span class="et-sign" data-status={row.status}><Icon name={iconOf(row.status)} /></span> {row.attempt ?? "?"}{row.max_attempts ? ` of ${row.max_attempts}` : ""}</td>
            <td class="et-wide">{row.retry_reason ?? row.error_message ?? row.error_type ?? STATUS_NAMES[row.status]}</td>
            <td class="et-number">{row.end_ms != null ? formatDuration(durationOf(row)) : ""}</td>
            <td class="et-number">{row.backoff_ms != null ? formatDuration(row.backoff_ms) : ""}</td>
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
  const cells = (of: Pick<Row, "input_tokens" | "cache_read_tokens" | "output_tokens" | "cost" | "currency">) => (
    <>
      <td class="et-number">{formatCount(of.input_tokens)}</td>
      <td class="et-number">{formatCount(of.cache_read_tokens)}</td>
      <td class="et-number">{formatCount(of.output_tokens)}</td>
      <td class="et-number">{formatMoney(of.cost, of.currency)}</td>
    </>
  );
  return (
    <table class="et-table">
      <thead>
        <tr><th>Call</th><th class="et-number">In</th><th class="et-number">Cached</th><th class="et-number">Out</th><th class="et-number">Cost</th></tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr onClick={() => view.select(row.span_id)}><td class="et-wide">{modelOf(row)}</td>{cells(row)}</tr>
        ))}
      </tbody>
      {rows.length > 1 && (
        <tfoot>
          <tr>
            <th>Sum of what is known</th>
            {cells({
              input_tokens: sum("input_tokens"), cache_read_tokens: sum("cache_read_tokens"),
              output_tokens: sum("output_tokens"), cost: sum("cost"), currency: rows.find((row) => row.currency)?.currency,
            })}
          </tr>
        </tfoot>
      )}
    </table>
  );
}
