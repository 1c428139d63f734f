// A change as a diff of the cell that ran, and the buttons that put it there (F5). Nothing is written without the diff, and
// outputs stay as they are. Whoever has a fork or a call made again asks the kernel for the edit, and shows this.

import { useEffect, useRef, useState } from "preact/hooks";
import { CopyButton } from "../elements/copy-button";
import type { CellChange } from "../view/cells";
import type { View } from "../view/view";

/** What the kernel tells of a change: `ensemble_notebook.notebook.live.cell_edit.describe_edit`. */
export interface SourceEdit {
  /** Why there is no place for it in a cell; then there is nothing else. */
  readonly refusal?: string;
  /** Which values change: `goal of agent 'Critic'`. */
  readonly where?: string;
  /** What a new cell has, with the line of the magic. */
  readonly source?: string;
  /** The cell that ran, where the new text may stand in its place. */
  readonly change?: CellChange | null;
  /** Lines as they change: ` `, `-`, `+` or `…` for lines that are left out, and their words, each with whether it changed. */
  readonly lines?: readonly (readonly [string, readonly (readonly [string, boolean])[]])[];
  /** What a person should know: why it is a new cell, what differs from what was sent. */
  readonly notes?: readonly string[];
}

const SIGNS: Readonly<Record<string, string>> = { "-": "removed", "+": "added" };
const DONE = {
  changed: "The cell is changed. Nothing ran: its outputs are those of before.",
  below: "A cell with the change stands below. Nothing ran.",
};

/** The diff, with `Apply` where the page has cells, else with the text to copy. */
export function SourceDiff({ view, edit, onClose }: { view: View; edit: SourceEdit; onClose: () => void }) {
  const [done, setDone] = useState<keyof typeof DONE | "not" | null>(null);
  const place = useRef<HTMLElement>(null);
  useEffect(() => place.current?.focus({ preventScroll: true }), [edit]);
  const { writeBelow } = view;
  const apply = (): void => setDone(writeBelow?.(edit.source ?? "", edit.change ?? undefined) ?? "not");
  const close = <button class="et-answer" onClick={onClose}>{edit.refusal || (done && done !== "not") ? "Close" : "Cancel"}</button>;
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    onClose();
  };
  return (
    <section class="et-source" tabIndex={-1} ref={place} aria-label="Put into the cell" onKeyDown={onKey}>
      {edit.refusal ? <p class="et-source-note" role="alert">{edit.refusal}</p> : (
        <>
          <h4 class="et-source-title">{edit.change ? "This cell" : "A new cell"} <span>{edit.where}</span></h4>
          <div class="et-source-lines" tabIndex={0} role="group" aria-label="What changes in the cell">
            {edit.lines?.map(([sign, words]) => (
              <div class="et-source-line" data-sign={SIGNS[sign]}>
                <span class="et-source-sign">{sign}{SIGNS[sign] && <span class="et-hidden"> {SIGNS[sign]}: </span>}</span>
                <code>{words.map(([text, isChanged]) => (isChanged ? <mark>{text}</mark> : text))}{"\n"}</code>
              </div>
            ))}
          </div>
          {edit.notes?.map((note) => <p class="et-source-note">{note}</p>)}
          {!writeBelow && <p class="et-source-note">This page can't change cells: copy the text, and put it in place of the cell's.</p>}
        </>
      )}
      <p class="et-source-note" role="status">{done === "not" ? "Nothing was written: this notebook can't be changed." : done && DONE[done]}</p>
      <div class="et-source-buttons">
        {!edit.refusal && writeBelow && (!done || done === "not") && <button class="et-answer" data-verdict="approve" onClick={apply}>Apply</button>}
        {close}
        {!edit.refusal && <CopyButton label="Copy the whole cell" text={() => edit.source ?? ""}>Copy</CopyButton>}
      </div>
    </section>
  );
}
