// A block of text as a person reads it, a long one folded. It is a text node: nothing a model says becomes markup, a link or
// an image (W6).

import { useState } from "preact/hooks";
import { formatCount } from "../wording/numbers";

const FOLD_CHARS = 900;
const FOLD_LINES = 14;

/** A text that shows its beginning until asked for the rest; all of it while it is still being written. */
export function TextBlock({ text, isMono = false, isGrowing = false }: { text: string; isMono?: boolean; isGrowing?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = !isGrowing && (text.length > FOLD_CHARS || lines(text) > FOLD_LINES);
  return (
    <div class={isMono ? "et-block et-mono" : "et-block"} data-folded={isLong && !isOpen} data-grows={isGrowing}>
      <div class="et-text">{text}</div>
      {isLong && (
        <button class="et-more-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : `Show all ${formatCount(text.length)} characters`}
        </button>
      )}
    </div>
  );
}

function lines(text: string): number {
  let found = 1;
  for (let at = text.indexOf("\n"); at >= 0 && found <= FOLD_LINES; at = text.indexOf("\n", at + 1)) found += 1;
  return found;
}
