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
  readonly details: Readonly<Record<string, Plain>>;
}

const files = import.meta.glob<string>("../../../tests/fixtures/messages/*.json", { query: "?raw", import: "default", eager: true });

export const RECORDED: readonly Recorded[] = Object.entries(files).map(([path, text]) => ({
  name: (path.split("/").at(-1) ?? "").replace(".json", ""),
  ...(JSON.parse(text) as Omit<Recorded, "name">),
}));

/** A message as the page reads it; one that it can't read is a fault of the test. */
export function readRecorded(message: Plain): Snapshot | Delta {
  const read = readMessage(message);
  if (read.kind !== "snapshot" && read.kind !== "delta") throw new Error(`unreadable: ${JSON.stringify(read)}`);
  return read;
}
