// The buttons of the drawer by which a person tries something at a span (F4), and where there are none, what would bring them.

import type { VNode } from "preact";
import { Icon } from "../elements/icon";
import type { KernelConnection } from "../kernel/connection";
import { lackOf } from "../view/tryable";
import type { View } from "../view/view";
import type { KnownKind } from "../wire/kinds";
import type { Row } from "../wire/rows";
import { entryOf } from "../wire/traits";

/** What may be tried at a span of a kind. */
export type Way = "call" | "tool" | "task";

const WAYS: Partial<Record<KnownKind, Way>> = { llm: "call", attempt: "call", tool: "tool", task: "task" };
const WORDS: Readonly<Record<Way, string>> = {
  call: "Edit and run again",
  tool: "Change its result and go on",
  task: "Change its output and go on",
};

interface Props {
  row: Row;
  view: View;
  connection: KernelConnection | null;
  onTry: (span: string, way: Way) => void;
}

export function TryButtons({ row, view, connection, onTry }: Props): VNode | null {
  const way = entryOf(WAYS, row.kind);
  // Of a run of another framework nothing but words is known: another model can be asked, but nobody can go on.
  if (!way || row.delta || (way !== "call" && view.present.run.value?.framework)) return null;
  const why = lackOf(view, connection);
  if (why) return <p class="et-try">{why} to {way === "call" ? "edit this call and run it again" : WORDS[way].toLowerCase()}.</p>;
  return (
    <div class="et-try">
      <button class="et-answer" onClick={() => onTry(row.span_id, way)}><Icon name="retry" size={13} /> {WORDS[way]}</button>
    </div>
  );
}
