// How full the window of a model was at a call, and of what (W121). What a section takes is an estimate, and says so.

import type { VNode } from "preact";
import { formatCount, formatExactCount } from "../wording/numbers";
import { SECTIONS, type WindowUse } from "./transcript-model";

const SECTION_NAMES: Record<(typeof SECTIONS)[number], string> = {
  system: "System", task: "Task", context: "Context", memory: "Memory", tools: "Tools", earlier: "Earlier turns",
};
/** What is less of the bar can't be seen. */
const LEAST_SHARE = 0.002;

/** `1,204 of 128k tokens (1%)`; what the provider has not counted has a mark. */
export function describeUse({ tokens, isCounted, limit }: WindowUse): string {
  if (tokens === null) return "tokens unknown";
  const counted = `${isCounted ? "" : "≈ "}${formatExactCount(tokens)}`;
  if (limit === null) return `${counted} tokens, limit unknown`;
  const share = (100 * tokens) / limit;
  return `${counted} of ${formatCount(limit)} tokens (${share > 0 && share < 1 ? "<1" : Math.round(share)}%)`;
}

const listSections = (use: WindowUse): [(typeof SECTIONS)[number], number][] =>
  SECTIONS.map((name, k): [(typeof SECTIONS)[number], number] => [name, use.sections[k] ?? 0]).filter(([, tokens]) => tokens > 0);

/** As a bar with its words beside it; `isWhole`: with a legend of what is in it. */
export function WindowBar({ use, isWhole = false }: { use: WindowUse; isWhole?: boolean }): VNode {
  const sections = listSections(use);
  const whole = Math.max(use.limit ?? 0, use.tokens ?? 0, 1);
  const words = sections.map(([name, tokens]) => `${SECTION_NAMES[name]} ≈ ${formatExactCount(tokens)}`).join(", ");
  return (
    <div class="et-window" data-whole={isWhole}>
      <span class="et-window-bar" role="img" aria-label={`Context window: ${describeUse(use)}. ${words}`} title={words}>
        {sections.map(([name, tokens]) => tokens / whole >= LEAST_SHARE && <i data-section={name} style={{ width: `${(100 * tokens) / whole}%` }} />)}
      </span>
      <span class="et-window-words">{describeUse(use)}</span>
      {isWhole && (
        <ul class="et-window-legend" aria-label="Estimated tokens by section">
          {sections.map(([name, tokens]) => <li><i data-section={name} />{SECTION_NAMES[name]} <b>≈ {formatExactCount(tokens)}</b></li>)}
        </ul>
      )}
    </div>
  );
}
