// Asks the kernel for the graph of a run, as long as a view shows it, and again once the run has something that is not in it.
// A view without a kernel has the one that was saved.

import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { Row } from "../wire/rows";
import { type GraphMode, type GraphModel, readGraph } from "./graph-model";

/** How often a graph that grows is asked for. */
const AGAIN_MS = 500;
/** How long an answer is waited for at first, each time longer, since a busy kernel keeps all questions until it has time. */
const FIRST_WAIT_MS = 4000;
const LAST_WAIT_MS = 60_000;
/** Of more items none is shown by itself. */
const MOST_ITEMS = 300;
const KINDS = new Set(["task", "phase", "review", "delegation"]);

export class GraphAsker {
  /** Until the kernel is asked, then until its answer is overdue. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = FIRST_WAIT_MS;
  #position = 0;
  #isStale = false;
  #source: unknown = null;
  #read = new Map<GraphMode, GraphModel | null>();
  /** How far each had come: how often it was sent back, and whether work that was handed on was answered. */
  #seen = new Map<string, string>();

  constructor(readonly store: Store, readonly connection: KernelConnection | null) {}

  /** The graph in the form that a person chose, or the one there is. */
  model(isExpanded: boolean): GraphModel | null {
    return (isExpanded ? this.#form("expanded") : null) ?? this.#form("aggregated");
  }

  /** Whether nobody can be asked. */
  get isAlone(): boolean {
    return this.connection === null || this.connection.isUnreachable.value;
  }

  /** Asks soon, where there is something to ask. */
  look(): void {
    const { store } = this;
    store.version.value;
    const graphs = store.graphs.value;
    if (graphs !== this.#source) {
      this.#source = graphs;
      this.#read.clear();
      if (this.#form("aggregated")) {
        this.end();
        this.#wait = FIRST_WAIT_MS;
      }
    }
    this.#notice();
    if (this.isAlone) {
      // What was asked is lost, and so may be what has happened meanwhile.
      this.end();
      this.#isStale = true;
    } else if (this.#timer === undefined && (this.#isStale || graphs == null)) {
      this.#timer = setTimeout(() => this.#ask(), graphs == null ? 0 : AGAIN_MS);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #ask(): void {
    this.#isStale = false;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#isStale = true;
      this.look();
    }, this.#wait);
    this.#wait = Math.min(2 * this.#wait, LAST_WAIT_MS);
    this.connection?.post({ kind: "graph" });
  }

  #form(mode: GraphMode): GraphModel | null {
    if (!this.#read.has(mode)) this.#read.set(mode, readGraph(this.#source, mode));
    return this.#read.get(mode) ?? null;
  }

  /** Whether a row that has changed is in no node, or has been sent back or answered since. */
  #notice(): void {
    const { store } = this;
    const changed = store.changesSince(this.#position);
    this.#position = store.position;
    const aggregated = this.#form("aggregated");
    const rows = changed === null ? [...store.rows()] : changed.flatMap((span) => store.row(span) ?? []);
    const expanded = this.#form("expanded");
    for (const row of rows) {
      if (!KINDS.has(row.kind)) continue;
      const seen = `${row.rounds?.length} ${row.kind === "delegation" && row.status}`;
      const known = this.#seen.get(row.span_id);
      this.#seen.set(row.span_id, seen);
      if ((known !== undefined && known !== seen) || this.#isMissing(row, aggregated, expanded)) this.#isStale = true;
    }
  }

  #isMissing(row: Row, aggregated: GraphModel | null, expanded: GraphModel | null): boolean {
    // What changes before the first graph is here may be newer than it.
    if (!aggregated) return true;
    if (aggregated.nodeOf.has(row.span_id) || expanded?.nodeOf.has(row.span_id)) return false;
    if (row.kind === "review") return row.review?.subject === "phase";
    if (row.kind === "delegation") return row.status === "error" && this.store.children(row.span_id).length === 0;
    // Items are in the node of their task; each is one for itself only where they are few.
    const items = this.store.row(row.parent_id ?? "")?.item_count;
    return items == null || items < MOST_ITEMS;
  }
}
