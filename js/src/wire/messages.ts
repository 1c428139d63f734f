// The messages between kernel and view: this room is the only place where TypeScript meets Python. It must not know how
// anything is shown; what lets nothing else in is in `reader`.

import type { Failure, Phase, Row, Run, Verdict } from "./rows";

export interface ToolRequest {
  id?: string | null;
  name: string;
  arguments: unknown;
}

export interface ChatMessage {
  role: string;
  text: string;
  /** What the model thought before a reply. */
  reasoning?: string | null;
  /** The name of its text where more of it is asked for. */
  field?: string | null;
  name?: string | null;
  tool_calls?: ToolRequest[] | null;
}

/** A text that went from one span to another: as context, as a request, or as the answer to one. */
export interface Handover {
  kind: string;
  from: string;
  to: string;
  characters: number;
}

/** What a span was given and gave: loaded when the span is selected. */
export interface Details {
  span_id: string;
  messages: ChatMessage[];
  input?: string | null;
  output?: string | null;
  error?: Failure | null;
  /** How long the texts are of which there is only a part, by field. */
  lengths?: Readonly<Record<string, number>>;
  handovers?: readonly Handover[];
  /** Of a call of a reviewed tool that is asked about, as the kernel made it. */
  call?: AskedCall | undefined;
  /** Of the whole run, which is asked for as `*`: who says what (W120), as the kernel packed it: read once it is shown. */
  transcript?: unknown;
  /** What marks in its texts stand for, by digest, as the kernel packed it; of the whole run, in a saved view, all that it keeps (W167). */
  pictures?: unknown;
}

/** One argument of a call, as a field of a form (W165). */
export interface CallField {
  name: string;
  kind: "text" | "number" | "choice" | "json";
  /** Absent where the call does not have it. */
  text?: string | null;
  /** How many characters the text lacks: then it can't be edited. */
  left_out?: number;
  choices?: readonly string[];
  about?: string;
  is_required?: boolean;
}

/** A call that waits for the answer of a person. */
export interface AskedCall {
  fields: readonly CallField[];
  /** It was begun before, and nobody knows whether it was done. */
  is_unknown: boolean;
  /** What is wrong with what was written last, by field; under an empty name, with all of it. */
  faults?: Readonly<Record<string, string>>;
}

/** More of a text that was too long for the details. */
export interface Piece {
  span_id: string;
  field: string;
  from: number;
  text: string;
  length: number;
}

/** Where some words stand in the texts of a run, as the kernel has found them. */
export interface TextHits {
  /** As they were asked for. */
  words: readonly string[];
  /** The number of the newest event that was looked at. */
  n: number;
  /** By span, the numbers of the words that stand in a text of it, and what is around one of them. */
  spans: ReadonlyMap<string, { words: readonly number[]; snippet: string | null }>;
}

/** A piece of a text that is being streamed: of which span, the piece, and where in the text it begins. */
export type TextPiece = readonly [string, string, number?];

/** How many rows of a kind a saved view keeps, and how many there were. */
export type Kept = readonly [number, number];

export interface Snapshot {
  kind: "snapshot";
  n: number;
  run: Run;
  phases: Phase[];
  rows: Row[];
  /** The ends of the texts that are being streamed. */
  text?: readonly TextPiece[];
}

export interface Delta {
  kind: "delta";
  from: number;
  n: number;
  run: Run;
  rows: Row[];
  text: readonly TextPiece[];
}

/** The content of our MIME type: a snapshot that carries its details, for a page without a kernel. */
export interface Saved extends Omit<Snapshot, "kind"> {
  kind: "saved";
  details: Record<string, Details>;
  saved_at: string | null;
  rows_left_out: number;
  details_left_out: number;
  /** The run as a graph, as the kernel packed it: read once it is shown. */
  graphs?: unknown;
  /** What stands in the cells of the table of a map, as the kernel packed it: read once it is shown. */
  cells?: unknown;
  /** By kind of span. */
  kept: Readonly<Record<string, Kept>>;
  /** What the run had come to at which times, as the kernel packed it: read when somebody looks back. */
  series?: unknown;
}

/** A stretch of time, in milliseconds since the start of the run. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** What is selected in all views of a run; with the number of a view's own message where it answers that. */
export interface Selected {
  spans: readonly string[];
  range: TimeRange | null;
  /** The time at which the run is shown, in milliseconds since its start. */
  time: number | null;
  nonce?: number | null;
}

export type Incoming =
  | Snapshot
  | Delta
  | { kind: "details"; details: Details }
  | { kind: "piece"; piece: Piece }
  | { kind: "found"; hits: TextHits }
  | { kind: "graph"; graphs: unknown }
  | { kind: "cells"; cells: unknown }
  | { kind: "pong" }
  | { kind: "selection"; selected: Selected }
  | { kind: "tryout"; tryout: Readonly<Record<string, unknown>>; buffers: readonly unknown[] }
  | { kind: "ended" }
  | { kind: "bad"; why: string };

/** What else an answer to a review may say: whether it is for all rows, or all later calls of the tool; and the fields that were changed. */
export interface AnswerMore {
  for_all?: boolean;
  always?: boolean;
  changes?: Readonly<Record<string, string>>;
}

export type Outgoing =
  | { kind: "hello"; have: number }
  | { kind: "ping"; nonce: number }
  | { kind: "stop" }
  | ({ kind: "review"; span_id: string; verdict: Verdict; text: string } & AnswerMore)
  | { kind: "details"; span_id: string }
  | { kind: "piece"; span_id: string; field: string; from: number }
  | { kind: "search"; words: readonly string[] }
  | { kind: "graph" }
  | { kind: "cells"; span_ids: readonly string[] }
  | { kind: "tryout"; [field: string]: unknown }
  | { kind: "selection"; nonce: number; selection?: readonly string[]; range?: readonly [number, number] | null; time?: number | null };
