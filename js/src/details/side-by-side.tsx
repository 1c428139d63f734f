// Two spans that are selected, side by side by words (W122): what they were told, and what they said.

import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import type { Details } from "../wire/messages";
import type { Row } from "../wire/rows";
import { titleOf } from "../wording/labels";
import { formatExactCount } from "../wording/numbers";
import { diffWords, type Piece } from "../wording/word-diff";
import { detailsFor } from "./kind-details";

/** Of longer texts the beginnings are compared. */
const LONGEST = 20_000;

/** The two rows that are selected, in the order in which they were; null where there are others. */
export function findPair(view: View): readonly [Row, Row] | null {
  const [first, second, ...others] = view.store.selection.spans.value.map((span) => view.store.row(span));
  return first && second && others.length === 0 ? [first, second] : null;
}

/** The span whose details tell of a row, as the drawer finds it. */
const sourceOf = (row: Row): string => (detailsFor(row.kind).source === "parent" ? (row.parent_id ?? row.span_id) : row.span_id);

export function SideBySide({ pair, view, connection }: { pair: readonly [Row, Row]; view: View; connection: KernelConnection | null; change: number }): VNode {
  const { store } = view;
  const sources = pair.map(sourceOf);
  useEffect(() => {
    for (const source of sources) connection?.wantDetails(source);
  });
  const [first, second] = sources.map((source) => store.details(source));
  const names = pair.map((row) => titleOf(store, row));
  if (!first || !second) {
    const isComing = connection !== null && !connection.isUnreachable.value;
    return <p class="et-missing" role="status">{isComing ? "Loading…" : "The texts of one of the two are not here."}</p>;
  }
  const [texts, others] = [textsOf(first, pair[0], store), textsOf(second, pair[1], store)];
  const titles = [...new Set([...texts.keys(), ...others.keys()])];
  return (
    <div class="et-sides">
      <div class="et-side-heads">{names.map((name, k) => <button class="et-link et-who" onClick={() => view.goTo((pair[k] as Row).span_id)}>{name}</button>)}</div>
      {titles.map((title) => <Compared key={title} title={title} names={names} before={texts.get(title) ?? ""} after={others.get(title) ?? ""} />)}
      {titles.length === 0 && <p class="et-none">Neither of them has a text.</p>}
    </div>
  );
}

/** The texts of a span by what they are: of a call the last of what it was told, and its reply. */
function textsOf(details: Details, row: Row, store: Store): Map<string, string> {
  const texts = new Map<string, string>();
  const put = (title: string, text: string | null | undefined): void => {
    if (text) texts.set(title, text);
  };
  const isCall = row.kind === "llm" || row.kind === "attempt";
  put("System", details.messages.find(({ role }) => role === "system")?.text);
  put("Prompt", [...details.messages].reverse().find(({ role }) => role === "user")?.text);
  if (row.kind === "tool") put("Arguments", details.input);
  else if (detailsFor(row.kind).input) put(detailsFor(row.kind).input as string, details.input);
  const calls = isCall ? (details.messages.at(-1)?.tool_calls ?? []) : [];
  put("Tool calls", calls.map((call) => `${call.name}(${typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments)})`).join("\n"));
  put(isCall ? "Reply" : detailsFor(row.kind).output, details.output ?? store.text(sourceOf(row)));
  return texts;
}

function Compared({ title, names, before, after }: { title: string; names: readonly string[]; before: string; after: string }): VNode {
  if (before === after) {
    return (
      <details class="et-said-fold"><summary><b class="et-role">{title}</b><span class="et-none">{` · the same, ${formatExactCount(before.length)} characters`}</span></summary><div class="et-text et-plain">{before}</div></details>
    );
  }
  const pieces = diffWords(before.slice(0, LONGEST), after.slice(0, LONGEST));
  const changed = pieces.filter(({ mark }) => mark !== "same").length;
  return (
    <section class="et-part" aria-label={title}>
      <h4 class="et-role">{title}</h4>
      <div class="et-side-texts">
        <Side label={`${title} of ${names[0]}`} pieces={pieces} without="added" />
        <Side label={`${title} of ${names[1]}`} pieces={pieces} without="removed" />
      </div>
      {Math.max(before.length, after.length) > LONGEST && <p class="et-none">{`The first ${formatExactCount(LONGEST)} characters are compared.`}</p>}
      {changed === 0 && <p class="et-none">They differ behind that.</p>}
    </section>
  );
}

function Side({ label, pieces, without }: { label: string; pieces: readonly Piece[]; without: Piece["mark"] }): VNode {
  const shown = pieces.filter(({ mark }) => mark !== without);
  return (
    <div class="et-side" role="group" aria-label={label}>
      {shown.length === 0 ? <p class="et-none">nothing</p>
        : shown.map(({ mark, text }) => (mark === "removed" ? <del>{text}</del> : mark === "added" ? <ins>{text}</ins> : text))}
    </div>
  );
}
