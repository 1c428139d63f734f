// The table of shapes: what holds for all marks of a shape, whatever it looks like. `draw/bars` says how each is drawn.

export interface ShapeTraits {
  /** It can be pointed at and walked along; the rest only frames, or fills gaps. */
  readonly isSelectable: boolean;
  /** Small, and so drawn over the bars. */
  readonly isBead: boolean;
  /** Drawn as a strip of pixels where it is too thin for its shape. */
  readonly isThinnable: boolean;
  /** It ends where its span ends; the others leave a pixel to the next bar. */
  readonly isExact: boolean;
  /** Where it stands in the row of a collapsed phase; null: nowhere. */
  readonly collapsed: "upper" | "lower" | null;
  /** The hue of what is done, before the status has a say. */
  readonly hue: "llm" | "tool" | "wait" | "idle";
}

const FRAME: ShapeTraits = { isSelectable: false, isBead: false, isThinnable: false, isExact: true, collapsed: null, hue: "idle" };
const BAR: ShapeTraits = { isSelectable: true, isBead: false, isThinnable: true, isExact: false, collapsed: "lower", hue: "tool" };
const CALL: ShapeTraits = { ...BAR, collapsed: "upper", hue: "llm" };
const BEAD: ShapeTraits = { isSelectable: true, isBead: true, isThinnable: false, isExact: true, collapsed: null, hue: "idle" };
const GAP: ShapeTraits = { isSelectable: false, isBead: false, isThinnable: false, isExact: false, collapsed: null, hue: "wait" };

export const SHAPES = {
  phase: FRAME,
  /** One go at the work of a phase: a band over its rows, with what became of it in words. */
  round: FRAME,
  task: FRAME,
  /** A handler's own time. */
  work: BAR,
  /** A task that an earlier run has done: as narrow as it was quick, so it has words beside it. */
  reused: { ...FRAME, isSelectable: true, collapsed: "lower" },
  llm: CALL,
  attempt: CALL,
  tool: BAR,
  delegation: BAR,
  review: { ...BAR, hue: "wait" },
  /** A span of a kind that this view does not know. */
  plain: { ...BAR, hue: "idle" },
  /** On the lower edge: mostly too short for a bar. */
  bead: BEAD,
  /** A gap in a model call: held back by a limit. */
  wait: { ...GAP, isSelectable: true },
  /** A gap between two attempts. */
  backoff: GAP,
  /** Before a task began: it was ready, and there was no free place for it. */
  queue: { ...GAP, hue: "idle" },
  /** Between two goes at the work of a task, which was sent back. */
  between: { ...GAP, hue: "idle" },
  /** The moment at which work begins anew. */
  notch: { ...BEAD, isSelectable: false },
  /** What has no time yet. */
  ghost: GAP,
} as const satisfies Record<string, ShapeTraits>;

export type Shape = keyof typeof SHAPES;

/** True for what is waited through: a dotted line, drawn even where it has no width. */
export const isGap = (shape: Shape): boolean => shape === "wait" || shape === "backoff" || shape === "queue";
