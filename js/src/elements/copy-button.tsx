// Copies a text and says so. Where the page may not use the clipboard (another origin's frame, plain HTTP), the text is
// selected in a field out of sight and copied as by hand.

import { useEffect, useState } from "preact/hooks";
import { LateIcon } from "./late-icon";

const SAID_MS = 1600;
type Outcome = "copied" | "failed";

/** Of a text, or of one that has to be loaded first. */
export function CopyButton({ label, text, children }: { label: string; text: () => string | Promise<string>; children?: string }) {
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  useEffect(() => {
    if (!outcome) return undefined;
    const timer = setTimeout(() => setOutcome(null), SAID_MS);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = async (event: MouseEvent): Promise<void> => {
    const button = event.currentTarget as HTMLElement;
    const words = text();
    setOutcome((await writeToClipboard(typeof words === "string" ? words : await words, button)) ? "copied" : "failed");
  };
  const said = outcome === "copied" ? "Copied" : "Not copied: the browser refused";
  return (
    <span class="et-copy-place">
      <button class="et-copy" aria-label={label} title={label} data-outcome={outcome} onClick={(event) => void copy(event)}>
        <LateIcon name={outcome === "copied" ? "ok" : "copy"} />
        {children && <span class="et-copy-words">{children}</span>}
      </button>
      <span class={outcome ? "et-said" : "et-hidden"} role="status">{outcome ? said : ""}</span>
    </span>
  );
}

export async function writeToClipboard(text: string, beside: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByHand(text, beside);
  }
}

function copyByHand(text: string, beside: HTMLElement): boolean {
  const focused = (beside.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "et-hidden";
  beside.after(field);
  field.select();
  let isDone = false;
  try {
    isDone = document.execCommand("copy");
  } catch {
    isDone = false;
  }
  field.remove();
  focused?.focus({ preventScroll: true });
  return isDone;
}
