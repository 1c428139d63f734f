// When a person can try something with a run: make its calls again, fork it, say something of its rows. Only a kernel does that, and
// only with a run that is over.

import type { KernelConnection } from "../kernel/connection";
import type { View } from "./view";

/** How long a kernel that is not busy takes to answer at most. */
export const LATE_MS = 2500;
export const LATE = "The kernel has not answered yet. While it is busy with a cell, what is asked here may wait until that is over.";
export const GONE = "The kernel is gone: run the cell again.";

/** What has to be done before something can be tried, in words that go on with `to …`; null where it can. */
export function lackOf(view: View, connection: KernelConnection | null): string | null {
  if (!connection) return "Run the cell in a kernel";
  if (connection.isUnreachable.value) return "Run the cell again, since its kernel is gone,";
  return view.present.isOver ? null : "Wait for the end of the run";
}
