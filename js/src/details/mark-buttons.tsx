// What a person says of a span, or of a time: good, bad, or a word and a note (W125). It is a score, which the kernel keeps with the run.

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "../elements/icon";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import { deskOf } from "./tryout-desk";

/** Only a kernel keeps marks, and of a run that is over. */
export const canMark = (view: View, connection: KernelConnection): boolean => !connection.isUnreachable.value && view.present.isOver;

interface Props {
  /** What is marked. */
  of: { readonly span_id: string } | { readonly range: readonly [number, number] };
  connection: KernelConnection;
}

export function MarkButtons({ of, connection }: Props): VNode {
  const [isOpen, setOpen] = useState(false);
  const [said, say] = useState("");
  const mark = (value: boolean | string, note = ""): void => {
    say("");
    deskOf(connection).ask({ act: "mark", ...of, value, note }, ({ error }) => {
      say(error ?? "Marked: it is kept with the run.");
      if (!error) setOpen(false);
    });
  };
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    mark(String(fields.get("label")), String(fields.get("note")));
  };
  return (
    <div class="et-try et-marks">
      <button class="et-copy" aria-label="Mark as good" title="Mark as good" onClick={() => mark(true)}><Icon name="ok" /><span class="et-copy-words">Good</span></button>
      <button class="et-copy" aria-label="Mark as bad" title="Mark as bad" onClick={() => mark(false)}><Icon name="error" /><span class="et-copy-words">Bad</span></button>
      <button class="et-copy" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>Label and note</button>
      {isOpen && (
        <form class="et-mark-form" onSubmit={send}>
          <input name="label" aria-label="Label" placeholder="Label" maxLength={60} required />
          <input name="note" aria-label="Note" placeholder="Note" maxLength={500} />
          <button class="et-copy">Mark</button>
        </form>
      )}
      <span class="et-said" role="status">{said}</span>
    </div>
  );
}
