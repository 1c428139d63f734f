// What the module with the views offers, which is loaded when a page has its first timeline.

import type { KernelConnection } from "../kernel/connection";
import type { WriteBelow } from "../view/cells";
import type { Outgoing } from "../wire/messages";
import type { Json } from "./jupyter";

export interface ViewModule {
  /** The views of the board of runs, of what a notebook has of it; loaded when it is shown first. */
  board?(content: unknown): Promise<ViewModule>;
  /** The style sheet of the views. */
  readonly css: string;
  /** A connection to the feed of a run: all views of it in this page share it. */
  connect(send: (message: Outgoing) => void): KernelConnection;
  /** What the page knows of a run as a saved view; null where it knows nothing. */
  save(connection: KernelConnection, feedId: string): Json | null;
  /** What a person should come for now; null where there is nothing. */
  callOf(connection: KernelConnection): { readonly about: string; readonly text: string } | null;
  /** Calls `act` whenever something in a run has changed; gives what ends that. */
  watch(connection: KernelConnection, act: () => void): () => void;
  /** Shows a saved view, or the content of a trace file; gives what ends it. */
  showSaved(place: HTMLElement, content: unknown, writeBelow: WriteBelow): () => void;
  /** Shows a run that the kernel tells of; gives what ends it. */
  showLive(place: HTMLElement, connection: KernelConnection, writeBelow: WriteBelow): () => void;
}
