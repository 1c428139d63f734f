// Keeps rows on top (W36): the button beside the name of a row. It is there for the row under the pointer, the one that the keys
// are at, and for those that are kept.

import type { Track } from "../layout/tracks";
import type { PinButton, View } from "../view/view";
import { nameOf } from "../wording/labels";

/** The button of a row; null for what is not one phase or task. */
export function pinButton(view: View, { id, row, kind, members }: Track, isCurrent: boolean): PinButton | null {
  if (id !== row.span_id || kind === "group" || members.length > 0) return null;
  const isOn = view.pinned.value.has(id);
  return {
    class: "et-pin", "aria-label": `Pin ${nameOf(row)}`, "aria-pressed": isOn, title: isOn ? "Let it scroll again" : "Keep it on top", tabIndex: isCurrent ? 0 : -1,
    onDblClick: (event: Event) => event.stopPropagation(),
    onClick: (event: Event) => {
      event.stopPropagation();
      // Its row moves, and with it would go the focus.
      (event.currentTarget as HTMLElement).closest<HTMLElement>(".et-gutter")?.focus({ preventScroll: true });
      togglePin(view, id);
    },
  };
}

/** Keeps a row on top, or no more. */
export function togglePin(view: View, row: string): void {
  const pinned = new Set(view.pinned.value);
  if (!pinned.delete(row)) pinned.add(row);
  view.pinned.value = pinned;
}
