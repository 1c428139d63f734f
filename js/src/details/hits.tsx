// What a search has found in texts (W28): each span with the words around what was looked for, and what was not searched.

import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import type { Details } from "../wire/messages";
import type { Row } from "../wire/rows";
import { kindTitle, signOf, titleOf } from "../wording/labels";
import { formatExactCount, pluralize } from "../wording/numbers";

/** More of them stand in the table. */
const MOST_HITS = 100;

interface Props {
  view: View;
  connection: KernelConnection | null;
  /** Another number whenever something may have changed. */
  change: number;
}

export function Hits({ view, connection }: Props): VNode | null {
  const list = useRef<HTMLUListElement>(null);
  const { search } = view;
  const result = search.result.value;
  const words = search.texts.value;
  const note = explainUnsearched(view, connection);
  const hits = result && words.length > 0 ? result.rows.filter((row) => result.snippets.has(row.span_id)) : [];
  const selected = view.selected.value;
  useLayoutEffect(() => {
    const item = list.current?.querySelector<HTMLElement>("[aria-current=true]");
    if (!item || !list.current) return;
    const [top, bottom] = [list.current.scrollTop, list.current.scrollTop + list.current.clientHeight];
    if (item.offsetTop < top) list.current.scrollTop = item.offsetTop;
    else if (item.offsetTop + item.offsetHeight > bottom) list.current.scrollTop = item.offsetTop + item.offsetHeight - list.current.clientHeight;
  }, [selected, result]);
  if (hits.length === 0 && note === null) return null;
  return (
    <section class="et-hits" aria-label="Found in texts">
      {hits.length > 0 && (
        <ul ref={list} tabIndex={-1}>
          {hits.slice(0, MOST_HITS).map((row) => (
            <Hit key={row.span_id} row={row} view={view} snippet={result?.snippets.get(row.span_id) as string} words={words} />
          ))}
        </ul>
      )}
      {hits.length > MOST_HITS && <p class="et-none">{`${formatExactCount(hits.length - MOST_HITS)} more: in the table (t)`}</p>}
      {note && <p class="et-none" role="status">{note}</p>}
    </section>
  );
}

function Hit({ row, view, snippet, words }: { row: Row; view: View; snippet: string; words: readonly string[] }): VNode {
  return (
    <li>
      <button class="et-hit" aria-current={view.selected.value === row.span_id} onClick={() => view.goTo(row.span_id)}>
        <span class="et-cell-sign" data-kind={row.kind} aria-hidden="true">{signOf(row)}</span>
        <span class="et-hit-name" title={kindTitle(row.kind)}>{row.kind !== "task" && row.task && <i>{row.task} › </i>}{titleOf(view.store, row)}</span>
        <span class="et-hit-text">{markWords(snippet, words)}</span>
      </button>
    </li>
  );
}

/** A snippet in which the words stand out that were looked for. */
function markWords(snippet: string, words: readonly string[]): (string | VNode)[] {
  const lower = snippet.toLowerCase();
  const parts: (string | VNode)[] = [];
  let at = 0;
  while (at < snippet.length) {
    const places = words.map((word) => [lower.indexOf(word, at), word.length] as const).filter(([place]) => place >= 0);
    const [next, length] = places.sort((one, other) => one[0] - other[0])[0] ?? [snippet.length, 0];
    parts.push(snippet.slice(at, next));
    if (length > 0) parts.push(<mark>{snippet.slice(next, next + length)}</mark>);
    at = next + Math.max(length, 1);
  }
  return parts;
}

/** Whether a saved copy has less than all of what a span said. */
const isCut = (details: Details | undefined): boolean =>
  details !== undefined && (Object.keys(details.lengths ?? {}).length > 0 || details.messages.some(({ name }) => name === "left_out"));

/** Which texts were not searched, and why; null where all were. */
function explainUnsearched({ store, search }: View, connection: KernelConnection | null): string | null {
  const words = search.texts.value;
  if (words.length === 0) return null;
  if (store.run.value?.capture_mode === "metadata") return "This run kept no texts (capture METADATA): only names were searched.";
  if (connection === null) {
    const { rows, details } = store.leftOut.value;
    const cut = [...store.rows()].filter((row) => isCut(store.details(row.span_id))).length;
    const left = [
      ...(rows > 0 ? [pluralize(rows, "span")] : []),
      ...(details > 0 ? [`the texts of ${pluralize(details, "span")}`] : []),
      ...(cut > 0 ? [`the rest of long texts of ${pluralize(cut, "span")}`] : []),
    ];
    return left.length > 0 ? `Not searched, since not in the saved copy: ${left.join(", ").replace(/, (?=[^,]*$)/, " and ")}.` : null;
  }
  if (store.textHits(words)) return null;
  if (connection.isUnreachable.value) return "Only what this page has was searched: the kernel with the other texts is gone.";
  return connection.control.value === "silent"
    ? "The kernel is busy: its texts are searched as soon as it answers." : "Searching the texts…";
}
