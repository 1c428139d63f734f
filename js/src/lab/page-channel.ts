// The channel between this page and the runs of one kernel: one comm, opened over a second connection with a subshell,
// that carries the messages of all feeds (W13). It opens when something asks for it, survives a lost connection, and
// tells its views when the kernel was restarted or is gone.

import type { KernelConnection } from "../kernel/connection";
import type { Outgoing } from "../wire/messages";
import type { Json, Kernel, KernelManager, Message } from "./jupyter";
import { makeId, SubshellLink } from "./subshell-link";
import type { ViewModule } from "./view-module";

const TARGET = "ensemble_notebook.live";
const OPENING_MS = 10_000;
const MOST_SAVED = 200_000;

/** A run that the kernel knows: whether it goes on, and which cell runs it. */
export interface Feed {
  readonly feedId: string;
  readonly cellId: string | null;
  readonly isLive: boolean;
}

/** What a cell shows at its end, as the file of a notebook has it, and its number, if the kernel told it. */
export interface CellEnd {
  readonly outputs: readonly Json[];
  readonly executionCount: number | null;
}

export interface ChannelListener {
  /** What the kernel knows has changed. */
  onFeeds?(): void;
  /** The kernel is gone or was restarted, and with it what it knew of this run; the page knows as much as is saved. */
  onLost?(feedId: string, saved: Json | null): void;
  /** There is a newer picture of a run that goes on, in the forms that a notebook's file has. */
  onPicture?(feedId: string, picture: Json): void;
  /** A cell has shown its last outputs. */
  onEnded?(feedId: string, end: CellEnd): void;
}

export type ChannelState = "closed" | "opening" | "open";
/** Why a channel is closed: nobody asked for it, the kernel has not loaded the extension, or the kernel is gone. */
export type Closing = "unasked" | "absent" | "restarted" | "gone";

export class PageChannel {
  state: ChannelState = "closed";
  closing: Closing = "unasked";
  feeds: ReadonlyMap<string, Feed> = new Map();

  readonly #kernels: KernelManager;
  readonly #kernel: Kernel;
  #early: Promise<SubshellLink | null> | null;
  readonly #views = new Map<string, { module: ViewModule; connection: KernelConnection; users: number }>();
  readonly #listeners = new Set<ChannelListener>();
  #link: SubshellLink | null = null;
  #comm = "";
  readonly #askedFor = new Set<string>();
  readonly #answered = new Set<string>();
  #opening: Promise<void> | null = null;
  #onFirstFeeds: () => void = () => undefined;
  #round = 0;

  /**
   * @param kernel The notebook's own connection, which tells when the kernel is restarted.
   * @param early A link to the same kernel that is being opened already.
   */
  constructor(kernels: KernelManager, kernel: Kernel, early: Promise<SubshellLink | null> | null = null) {
    this.#kernels = kernels;
    this.#kernel = kernel;
    this.#early = early;
    kernel.statusChanged.connect(this.#onStatus);
  }

  listen(listener: ChannelListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Opens it, if it can be; whoever asks while it is being opened waits for the same. */
  open(): Promise<void> {
    if (this.state === "open") return Promise.resolve();
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return this.#opening;
  }

  /** The connection of a feed's views in this page: all of them share one store (W16). Give it back with `release`. */
  hold(feedId: string, module: ViewModule): KernelConnection {
    let view = this.#views.get(feedId);
    if (!view) {
      view = { module, connection: module.connect((message: Outgoing) => this.#sendTo(feedId, message)), users: 0 };
      this.#views.set(feedId, view);
      view.connection.catchUp();
    }
    view.users += 1;
    return view.connection;
  }

  release(feedId: string): void {
    const view = this.#views.get(feedId);
    if (!view) return;
    view.users -= 1;
    if (view.users > 0) return;
    view.connection.close();
    this.#views.delete(feedId);
  }

  /** Whether the kernel has this run. One that it did not name when it was asked last is asked for again, once. */
  has(feedId: string): boolean {
    if (this.feeds.has(feedId)) return true;
    if (this.state === "open" && !this.#askedFor.has(feedId)) {
      this.#askedFor.add(feedId);
      this.#post({ kind: "list" });
    }
    return false;
  }

  /** Whether there is still an answer to come about a run that the kernel has not named. */
  isUnsure(feedId: string): boolean {
    return this.state === "opening" || (this.state === "open" && this.#askedFor.has(feedId) && !this.#answered.has(feedId));
  }

  /** What this page knows of a run that it shows, in a size that a notebook can bear; null where that is nothing. */
  save(feedId: string): Json | null {
    const view = this.#views.get(feedId);
    const saved = view?.module.save(view.connection, feedId) ?? null;
    if (saved === null || JSON.stringify(saved).length <= MOST_SAVED) return saved;
    const small = { ...saved, details: {}, details_left_out: Object.keys(saved.details as Json).length };
    return JSON.stringify(small).length <= MOST_SAVED ? small : null;
  }

  /** Tells the kernel that a cell of this page has the last outputs of a run. */
  confirmKept(feedId: string): void {
    this.#post({ kind: "kept", feed_id: feedId });
  }

  /** Ends it for good. */
  close(why: Closing): void {
    this.#kernel.statusChanged.disconnect(this.#onStatus);
    this.#drop(why);
  }

  /** The page goes away: says so while there is still a connection. */
  leave(): void {
    const link = this.#link;
    this.#link = null;
    this.state = "closed";
    if (!link) return;
    try {
      link.send("comm_close", { comm_id: this.#comm, data: {} });
    } catch {
      // The kernel is gone already.
    }
    link.close();
  }

  async #open(): Promise<void> {
    this.state = "opening";
    const round = (this.#round += 1);
    const opening = this.#early ?? SubshellLink.open(this.#kernels, this.#kernel);
    this.#early = null;
    const link = await opening;
    const isKnown = link !== null && (await link.knows(TARGET).catch(() => false));
    if (round !== this.#round) return link?.close(); // the kernel was restarted meanwhile
    if (!link || !isKnown) {
      link?.close();
      this.state = "closed";
      this.closing = "absent";
      this.#tell();
      return;
    }
    this.#link = link;
    this.#comm = makeId();
    link.connection.iopubMessage.connect(this.#onMessage);
    link.connection.connectionStatusChanged.connect(this.#onConnection);
    const first = new Promise<void>((resolve) => (this.#onFirstFeeds = resolve));
    link.send("comm_open", { comm_id: this.#comm, target_name: TARGET, data: {} });
    const timer = setTimeout(() => this.state === "opening" && this.#drop("gone"), OPENING_MS);
    await first;
    clearTimeout(timer);
  }

  readonly #onMessage = (_: Kernel, message: Message): void => {
    if (message.content.comm_id !== this.#comm) return;
    if (message.header.msg_type === "comm_close") this.#drop("absent");
    else if (message.header.session !== this.#link?.process) this.#drop("restarted");
    else if (message.header.msg_type === "comm_msg") this.#receive(message.content.data as Json, message.buffers);
  };

  #receive(data: Json, buffers?: Message["buffers"]): void {
    if (data.kind === "feeds" && Array.isArray(data.feeds)) {
      this.feeds = new Map((data.feeds as Json[]).map((each) => [String(each.feed_id), readFeed(each)]));
      const isNew = this.state !== "open";
      this.state = "open";
      this.#onFirstFeeds();
      for (const feedId of this.#askedFor) this.#answered.add(feedId);
      for (const [feedId, { connection }] of this.#views) {
        if (!this.feeds.has(feedId)) connection.markLost();
        else if (isNew) connection.catchUp();
      }
      this.#tell();
    } else if (data.kind === "closed") {
      this.#drop("absent");
    } else if (data.kind === "feed" && typeof data.feed_id === "string") {
      const content = data.content as Json | undefined;
      if (content?.kind === "ended") this.#end(data.feed_id, readEnd(content));
      else if (content?.kind === "picture") for (const listener of [...this.#listeners]) listener.onPicture?.(data.feed_id, content.data as Json);
      else this.#views.get(data.feed_id)?.connection.receive(content, buffers);
    }
  }

  #end(feedId: string, end: CellEnd): void {
    const feed = this.feeds.get(feedId);
    if (feed) this.feeds = new Map(this.feeds).set(feedId, { ...feed, isLive: false });
    for (const listener of [...this.#listeners]) listener.onEnded?.(feedId, end);
  }

  /** A connection that was lost and is back, after sleep for one: what was missed is asked for. */
  readonly #onConnection = (_: Kernel, status: string): void => {
    for (const { connection } of this.#views.values()) {
      if (status === "connected") connection.catchUp();
      else if (status === "disconnected") connection.suspectLoss();
    }
    if (status === "connected") this.#post({ kind: "list" });
  };

  readonly #onStatus = (_: Kernel, status: string): void => {
    if (status === "restarting" || status === "autorestarting") this.#drop("restarted");
    else if (status === "dead" || status === "terminating") this.#drop("gone");
  };

  #drop(why: Closing): void {
    this.#round += 1;
    const link = this.#link;
    this.#link = null;
    this.state = "closed";
    this.closing = why;
    this.feeds = new Map();
    this.#askedFor.clear();
    this.#answered.clear();
    for (const [feedId, { connection }] of this.#views) {
      connection.markLost(why === "restarted");
      if (why === "absent") continue;
      const saved = this.save(feedId);
      for (const listener of [...this.#listeners]) listener.onLost?.(feedId, saved);
    }
    if (link) {
      link.connection.iopubMessage.disconnect(this.#onMessage);
      link.connection.connectionStatusChanged.disconnect(this.#onConnection);
      // The subshell of a kernel that is gone is gone with it.
      if (why === "absent") link.close();
      else link.connection.dispose();
    }
    this.#onFirstFeeds();
    this.#tell();
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener.onFeeds?.();
  }

  #sendTo(feedId: string, content: Outgoing): void {
    this.#post({ kind: "feed", feed_id: feedId, content });
  }

  /** Sends it if it can be sent; what has no answer is asked again when the channel is open. */
  #post(data: Json): void {
    if (this.state !== "open" || !this.#link) return;
    try {
      this.#link.send("comm_msg", { comm_id: this.#comm, data });
    } catch {
      this.#drop("gone");
    }
  }
}

const readFeed = (value: Json): Feed => ({
  feedId: String(value.feed_id),
  cellId: typeof value.cell_id === "string" ? value.cell_id : null,
  isLive: value.is_live === true,
});

const readEnd = (value: Json): CellEnd => ({
  outputs: Array.isArray(value.outputs) ? value.outputs : [],
  executionCount: typeof value.execution_count === "number" ? value.execution_count : null,
});
