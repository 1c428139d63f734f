// The replies of a call made again beside the one that the run had, while they come and after (F4).

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { TextBlock } from "../elements/text-block";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { Row } from "../wire/rows";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";
import type { Reply } from "./tryout-desk";

interface Props {
  before: string;
  run: KernelConnection;
  /** Once all are there. */
  replies: readonly Reply[] | null;
  currency: string;
  isReady: boolean;
  /** Absent where nobody can go on with a reply. */
  onKeep?: (number: number) => void;
}

export function Replies({ before, run, replies, currency, isReady, onKeep }: Props): VNode {
  const [, setChange] = useState(0);
  useEffect(() => run.store.version.subscribe((version) => setChange(version)), [run]);
  const rows = listRows(run.store);
  const numbers = Array.from({ length: replies?.length ?? rows.length }, (_, k) => k + 1);
  return (
    <div class="et-replies">
      <article class="et-reply" aria-label="The reply of the run">
        <header class="et-reply-head"><b>In the run</b></header>
        <div class="et-reply-text"><TextBlock text={before} kind="plain" /></div>
      </article>
      {numbers.map((number) => {
        const reply = replies?.find((each) => each.number === number);
        return (
          <article key={number} class="et-reply" aria-label={`Reply ${number}`} data-is-new="true">
            <header class="et-reply-head"><b>Reply {number}</b><span class="et-tryout-note">{reply ? factsOf(reply, currency) : "…"}</span></header>
            <div class="et-reply-text">{reply ? <Words reply={reply} /> : <TextBlock text={textOf(run.store, rows[number - 1])} kind="plain" isGrowing />}</div>
            {reply && !reply.error && onKeep && (
              <button class="et-answer" aria-disabled={!isReady} onClick={() => isReady && onKeep(number)}>Keep this reply and go on</button>
            )}
          </article>
        );
      })}
    </div>
  );
}

/** The rows of the run, one for each reply, in order. */
function listRows(store: Store): Row[] {
  const rows = [...store.rows()].filter((row) => row.kind === "task" && !store.row(row.parent_id ?? ""));
  return rows.sort((one, other) => store.taskNumber(one.span_id) - store.taskNumber(other.span_id));
}

function textOf(store: Store, row: Row | undefined): string {
  const call = row && store.descendants(row.span_id).find(({ kind }) => kind === "llm");
  return call ? store.text(call.span_id) : "";
}

function factsOf({ input_tokens, output_tokens, cost, duration_ms, scores }: Reply, currency: string): string {
  const parts = [
    duration_ms === null ? "" : formatDuration(duration_ms),
    input_tokens === null || output_tokens === null ? "" : `${formatCount(input_tokens)} in, ${formatCount(output_tokens)} out`,
    cost === null ? "" : formatMoney(cost, currency),
    ...Object.entries(scores).map(([name, score]) => `${name} ${score}`),
  ];
  return parts.filter(Boolean).join(" · ");
}

/** The text with what is not the same as in the run; nothing a model says becomes markup. */
function Words({ reply }: { reply: Reply }): VNode {
  if (reply.error) return <p class="et-tryout-error">{reply.error}</p>;
  return (
    <>
      <p class="et-reply-words">
        {reply.pieces.map(([mark, text]) => (mark === "removed" ? <del>{text}</del> : mark === "added" ? <ins>{text}</ins> : text))}
      </p>
      {reply.calls && <pre class="et-reply-calls">{reply.calls}</pre>}
    </>
  );
}
