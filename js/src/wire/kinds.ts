// Made by `make wire-types` from ensemble_notebook/trace/spans/span_kinds.py: change the table there.
// Data alone: how a kind is drawn stands in `layout/marks` and `draw/bars`, and what its details are in
// `details/kind-details`. Each has a plain answer for a kind that it does not name, or that is not in this table.

export interface KindTraits {
  /** What a person calls one. */
  readonly title: string;
  /** What stands before its name. */
  readonly sign: string;
  /** True for what is drawn as a small bead, since it is mostly too short for a bar. */
  readonly isBead: boolean;
  /** True for what holds tokens and cost itself: all sums are made of these. */
  readonly isLeaf: boolean;
  /** True for what sums up the leaves beneath it. */
  readonly hasTotals: boolean;
  /** True for what views name when they say what goes on right now. */
  readonly isActivity: boolean;
  /** True for what does something by itself, as long as nothing runs inside it. */
  readonly isWork: boolean;
}

/** Of a kind that nobody knows: what the others say besides. */
export const UNKNOWN: KindTraits = {
  title: "", sign: "", isBead: false, isLeaf: false, hasTotals: false, isActivity: false, isWork: false,
};

const TRAITS = {
  phase: { ...UNKNOWN, title: "Phase", hasTotals: true },
  task: { ...UNKNOWN, title: "Task", sign: "▪", hasTotals: true },
  turn: { ...UNKNOWN, title: "Turn", hasTotals: true },
  llm: { ...UNKNOWN, title: "Model call", sign: "◆", hasTotals: true, isActivity: true },
  attempt: { ...UNKNOWN, title: "Attempt", sign: "◆", isLeaf: true, isWork: true },
  wait: { ...UNKNOWN, title: "Wait" },
  tool: { ...UNKNOWN, title: "Tool call", sign: "▪", isActivity: true, isWork: true },
  delegation: { ...UNKNOWN, title: "Delegation", sign: "▸", hasTotals: true },
  review: { ...UNKNOWN, title: "Review", hasTotals: true, isActivity: true },
  guardrail: { ...UNKNOWN, title: "Guardrail", isBead: true, isWork: true },
  memory: { ...UNKNOWN, title: "Memory", isBead: true, isWork: true },
  score: { ...UNKNOWN, title: "Score", sign: "★", hasTotals: true, isActivity: true, isWork: true },
  nested: { ...UNKNOWN, title: "Nested run", sign: "▸", hasTotals: true },
} satisfies Record<string, KindTraits>;

export type KnownKind = keyof typeof TRAITS;

export const KIND_TRAITS: Readonly<Record<KnownKind, KindTraits>> = TRAITS;
