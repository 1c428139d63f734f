// The kinds of spans. This table is data alone: how a kind is drawn stands in the rooms that draw.

export const KINDS = [
  "phase", "task", "turn", "llm", "attempt", "tool", "delegation", "review", "guardrail", "memory", "wait",
] as const;

export type Kind = (typeof KINDS)[number];
