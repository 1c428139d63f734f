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
  name?: string | null;
  tool_calls?: ToolRequest[] | null;
}

/** What a span was given and gave: loaded when the span is selected. */
export interface Details {
  span_id: string;
  messages: ChatMessage[];
  input?: string | null;
  output?: string | null;
  error?: Failure | null;
}

export interface Snapshot {
  kind: "snapshot";
  n: number;
  run: Run;
  phases: Phase[];
  rows: Row[];
}

export interface Delta {
  kind: "delta";
  from: number;
  n: number;
  run: Run;
  rows: Row[];
  text: [string, string][];
}

/** The content of our MIME type: a snapshot that carries its details, for a page without a kernel. */
export interface Saved extends Omit<Snapshot, "kind"> {
  kind: "saved";
  details: Record<string, Details>;
  saved_at: string | null;
  rows_left_out: number;
  details_left_out: number;
}

export type Incoming =
  | Snapshot
  | Delta
  | { kind: "details"; details: Details }
  | { kind: "pong"; nonce: number }
  | { kind: "bad"; why: string };

export type Outgoing =
  | { kind: "hello"; have: number }
  | { kind: "ping"; nonce: number }
  | { kind: "stop" }
  | { kind: "review"; span_id: string; verdict: Verdict; text: string }
  | { kind: "details"; span_id: string };
