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

const TRAITS = {
  phase: { title: "Phase", sign: "", isBead: false, isLeaf: false, hasTotals: true, isActivity: false, isWork: false },
  task: { title: "Task", sign: "▪", isBead: false, isLeaf: false, hasTotals: true, isActivity: false, isWork: false },
  turn: { title: "Turn", sign: "", isBead: false, isLeaf: false, hasTotals: true, isActivity: false, isWork: false },
  llm: { title: "Model call", sign: "◆", isBead: false, isLeaf: false, hasTotals: true, isActivity: true, isWork: false },
  attempt: { title: "Attempt", sign: "◆", isBead: false, isLeaf: true, hasTotals: false, isActivity: false, isWork: true },
  wait: { title: "Wait", sign: "", isBead: false, isLeaf: false, hasTotals: false, isActivity: false, isWork: false },
  tool: { title: "Tool call", sign: "▪", isBead: false, isLeaf: false, hasTotals: false, isActivity: true, isWork: true },
  delegation: { title: "Delegation", sign: "▸", isBead: false, isLeaf: false, hasTotals: true, isActivity: false, isWork: false },
  review: { title: "Review", sign: "", isBead: false, isLeaf: false, hasTotals: true, isActivity: true, isWork: false },
  guardrail: { title: "Guardrail", sign: "", isBead: true, isLeaf: false, hasTotals: false, isActivity: false, isWork: true },
  memory: { title: "Memory", sign: "", isBead: true, isLeaf: false, hasTotals: false, isActivity: false, isWork: true },
  score: { title: "Score", sign: "★", isBead: false, isLeaf: false, hasTotals: true, isActivity: true, isWork: true },
  nested: { title: "Nested run", sign: "▸", isBead: false, isLeaf: false, hasTotals: true, isActivity: false, isWork: false },
} as const satisfies Record<string, KindTraits>;

export type KnownKind = keyof typeof TRAITS;

export const KIND_TRAITS: Readonly<Record<KnownKind, KindTraits>> = TRAITS;
