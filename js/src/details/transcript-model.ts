// The transcript of a run as the kernel packed it, or a saved view has it (W120): who said what, in reading order. What is said
// stands in the details of the tasks.

import type { Store } from "../store/store";
import type { ChatMessage, Details } from "../wire/messages";

/** What the details of the whole run are asked for by. */
export const WHOLE_RUN = "*";
/** What the window of a model is filled with, in the order in which the kernel tells it. */
export const SECTIONS = ["system", "task", "context", "memory", "tools", "earlier"] as const;

export interface WindowUse {
  readonly tokens: number | null;
  /** The provider has counted them; otherwise they are an estimate, as the sections are. */
  readonly isCounted: boolean;
  readonly limit: number | null;
  /** Estimated tokens, in the order of `SECTIONS`. */
  readonly sections: readonly number[];
}

export interface Utterance {
  readonly number: number;
  readonly span: string;
  readonly task: string | null;
  readonly depth: number;
  readonly who: string;
  readonly role: string;
  readonly agent: string;
  readonly remark: string;
  /** Its place in the details of its task; null where its text is here. */
  readonly field: string | null;
  readonly text: string;
}

export interface Transcript {
  readonly said: readonly Utterance[];
  readonly windows: ReadonlyMap<string, WindowUse>;
  readonly leftOut: number;
  readonly notes: readonly string[];
}

type Record_ = Readonly<Record<string, unknown>>;
const isRecord = (value: unknown): value is Record_ => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number | null => (typeof value === "number" ? value : null);

let last: { source: unknown; transcript: Transcript | null } = { source: undefined, transcript: null };

/** The transcript that a store has; null where it has none. What is no utterance is left out. */
export function transcriptOf(store: Store): Transcript | null {
  const source = store.details(WHOLE_RUN)?.transcript;
  if (source !== last.source) last = { source, transcript: read(source) };
  return last.transcript;
}

function read(source: unknown): Transcript | null {
  if (!isRecord(source) || !Array.isArray(source.said)) return null;
  const said = source.said.filter((each): each is Record_ => isRecord(each) && text(each.role) !== "").map((each, k): Utterance => ({
    number: k, span: text(each.span), task: text(each.task) || null, depth: number(each.depth) ?? 0, who: text(each.who), role: text(each.role),
    agent: text(each.agent), remark: text(each.remark), field: text(each.field) || null, text: text(each.text),
  }));
  const windows = new Map<string, WindowUse>();
  for (const use of Array.isArray(source.windows) ? source.windows : []) {
    if (!Array.isArray(use)) continue;
    windows.set(text(use[0]), { tokens: number(use[1]), isCounted: use[2] === true, limit: number(use[3]), sections: use.slice(4).map((each) => number(each) ?? 0) });
  }
  const notes = Array.isArray(source.notes) ? source.notes.filter((each) => typeof each === "string") : [];
  return { said, windows, leftOut: number(source.left_out) ?? 0, notes };
}

/** What is said, as the details of its task have it; undefined where they are not here, or have left it out. */
export function messageOf(store: Store, said: Utterance): { details: Details; message: ChatMessage } | undefined {
  const details = said.task === null ? undefined : store.details(said.task);
  const message = details?.messages.find(({ field }) => field === said.field);
  return details && message && { details, message };
}
