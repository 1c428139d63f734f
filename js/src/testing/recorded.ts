// The messages of real runs, for the tests beside the modules; never bundled, because no entry imports it.
// `make recorded-messages` writes them, from tests/support/recorded_messages.py.
/// <reference types="vite/client" />

import { readMessage } from "../wire/reader";
import type { Delta, Snapshot } from "../wire/messages";

type Plain = Record<string, unknown>;

export interface Recorded {
  readonly name: string;
  /** As the kernel sent them: the first snapshot, what followed it, and a snapshot of everything at the end. */
  readonly snapshot: Plain;
  readonly deltas: readonly Plain[];
  readonly final: Plain;
  /** The same as it is really sent: rows as columns, in buffers. */
  readonly packed: { readonly head: Plain; readonly buffers: readonly string[] };
  /** The same as a notebook's file has it. */
  readonly saved: Plain;
  /** What Python's static picture shows of it. */
  readonly picture: Picture;
  readonly details: Readonly<Record<string, Plain>>;
}

export interface Picture {
  readonly title: string;
  readonly sentence: string;
  readonly lines: readonly {
    readonly span_id: string; readonly name: string; readonly status: string; readonly depth: number; readonly is_worker: boolean;
    readonly time: string; readonly marks: readonly string[];
  }[];
}

const files = import.meta.glob<string>("../../../tests/fixtures/messages/*.json", { query: "?raw", import: "default", eager: true });

export const RECORDED: readonly Recorded[] = Object.entries(files).map(([path, text]) => ({
  name: (path.split("/").at(-1) ?? "").replace(".json", ""),
  ...(JSON.parse(text) as Omit<Recorded, "name">),
}));

export const bytesOf = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** A message as the page reads it; one that it can't read is a fault of the test. */
export function readRecorded(message: Plain, buffers: readonly string[] = []): Snapshot | Delta {
  const read = readMessage(message, buffers.map(bytesOf));
  if (read.kind !== "snapshot" && read.kind !== "delta") throw new Error(`unreadable: ${JSON.stringify(read)}`);
  return read;
}
