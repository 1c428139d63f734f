// Why there are no texts, in a plain sentence: still coming, held up, never kept, left out, or out of reach (W6).

import type { VNode } from "preact";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { Details } from "../wire/messages";
import type { Row } from "../wire/rows";

/** Why the texts of `row`, which are those of the span `source`, are not here; null where they are, or there can be none. */
export function explainMissing(
  row: Row, source: string, details: Details | undefined, store: Store, connection: KernelConnection | null,
): string | null {
  if (row.start_ms == null) return null;
  if (store.run.value?.capture_mode === "metadata") return "No texts were kept: capture is METADATA.";
  if (details) return null;
  const isOver = store.isOver;
  if (!connection) return "Left out of the saved copy, which is kept small. All of it, while its kernel lives: `report.timeline`";
  if (connection.isUnreachable.value) {
    return `The kernel ${connection.isRestarted.value ? "was restarted" : "is gone"}, and this was not loaded before.`;
  }
  if (connection.overdueDetails.value !== source) return "Loading…";
  return `The kernel is busy${isOver ? ", or was restarted" : " with its cell"}; this comes as soon as it answers.`;
}

export function MissingDetails({ why, variable }: { why: string; variable: string }): VNode {
  const [before = "", name, after = ""] = why.split("`");
  return <p class="et-missing" role="status">{before}{name && <code>{name.replace("report", variable)}</code>}{after}</p>;
}
