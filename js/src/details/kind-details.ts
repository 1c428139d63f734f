// What the drawer shows of each kind of span. A kind that is not in the table has details of its own, and no conversation.

import type { KnownKind } from "../wire/kinds";
import { entryOf, type Kind } from "../wire/traits";

interface KindDetails {
  /** Whose details tell of it: its own, its parent's (an attempt's conversation is that of its call), or nobody's. */
  readonly source: "own" | "parent" | "none";
  readonly hasChat: boolean;
  /** Over its input; null where its input is told elsewhere, as in its conversation. */
  readonly input: string | null;
  /** Over its output. */
  readonly output: string;
}

const OWN: KindDetails = { source: "own", hasChat: false, input: null, output: "Output" };
const CHAT: KindDetails = { ...OWN, hasChat: true };

const DETAILS: Partial<Record<KnownKind, KindDetails>> = {
  phase: { ...OWN, source: "none" },
  wait: { ...OWN, source: "none" },
  task: CHAT,
  turn: CHAT,
  llm: CHAT,
  attempt: { ...CHAT, source: "parent" },
  tool: OWN,
  memory: OWN,
  delegation: { ...OWN, input: "Request", output: "Response" },
  review: { ...OWN, input: "What was asked", output: "Answer" },
  guardrail: { ...OWN, input: "Input", output: "Message" },
};

/** Without knowing what it is: whatever it was given, and gave. */
const UNKNOWN: KindDetails = { ...OWN, input: "Input" };

export const detailsFor = (kind: Kind): KindDetails => entryOf(DETAILS, kind) ?? UNKNOWN;
