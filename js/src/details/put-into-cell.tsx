// The button that asks the kernel for a change as a diff of the cell, and what comes of it below the button (F5).

import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { isObject } from "../wire/guards";
import type { View } from "../view/view";
import { SourceDiff, type SourceEdit } from "./source-diff";

/** What the kernel answers; read here, where it is shown. */
export interface SourceAnswer {
  readonly source?: unknown;
  readonly error?: string;
}

interface Props {
  view: View;
  /** Asks the kernel for the edit of a rerun or of a fork. */
  ask: (hear: (answer: SourceAnswer) => void) => void;
}

export function PutIntoCell({ view, ask }: Props): VNode {
  const [edit, setEdit] = useState<SourceEdit | null>(null);
  const [isAsking, setAsking] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setEdit(null);
    button.current?.focus({ preventScroll: true });
  };
  const press = (): void => {
    if (isAsking) return;
    setAsking(true);
    ask(({ source, error }) => {
      setAsking(false);
      setEdit(isObject(source) ? (source as unknown as SourceEdit) : { refusal: error ?? "The kernel gave no text." });
    });
  };
  return (
    <div class="et-put">
      <button ref={button} class="et-answer" aria-expanded={edit !== null} aria-disabled={isAsking} title="Shows the change as a diff of the cell first" onClick={press}>Put into the cell</button>
      {edit && <SourceDiff view={view} edit={edit} onClose={close} />}
    </div>
  );
}
