// Made by `make wire-types` from ensemble_notebook/trace/spans/span_kinds.py: change the table there.
// Data alone: how a kind is drawn stands in the rooms that draw.

export interface KindTraits {
  /** What a person calls one. */
  readonly title: string;
  /** What stands before its name. */
  readonly sign: string;
  /** True for what is drawn as a small bead, since it is mostly too short for a bar. */
  readonly isBead: boolean;
}

/** What stands for a kind that only a later version knows. */
export const OTHER_KIND = "other";

const TRAITS = {
  phase: { title: "Phase", sign: "", isBead: false },
  task: { title: "Task", sign: "▪", isBead: false },
  turn: { title: "Turn", sign: "", isBead: false },
  llm: { title: "Model call", sign: "◆", isBead: false },
  attempt: { title: "Attempt", sign: "◆", isBead: false },
  wait: { title: "Wait", sign: "", isBead: false },
  tool: { title: "Tool call", sign: "▪", isBead: false },
  delegation: { title: "Delegation", sign: "▸", isBead: false },
  review: { title: "Review", sign: "", isBead: false },
  guardrail: { title: "Guardrail", sign: "", isBead: true },
  memory: { title: "Memory", sign: "", isBead: true },
  other: { title: "Span", sign: "", isBead: true },
} as const;

export type Kind = keyof typeof TRAITS;

export const KIND_TRAITS: Readonly<Record<Kind, KindTraits>> = TRAITS;
