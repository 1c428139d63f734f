// The runs of one open notebook: finds the cells that lost their outputs in a reload, puts the live view back into them,
// and writes what stays when a run has ended (W13).

import type { KernelConnection } from "../kernel/connection";
import type { CellChange } from "../view/cells";
import { Caller, type CallingPage } from "./caller";
import { changeSource } from "./cell-source";
import type { CellModel, CellWidget, EditorLanguages, Json, Kernel, Message, MimeBundle, NotebookPanel, Services } from "./jupyter";
import { type CellEnd, type Feed, PageChannel } from "./page-channel";
import { SubshellLink } from "./subshell-link";
import type { ChannelSource } from "./timeline-renderer";
import { MIME_TYPE } from "./timeline-renderer";
import type { ViewModule } from "./view-module";
import { RUN_STATUS_NAMES, WHEN_SAVED } from "../wire/words";
import { formatTimeOfDay } from "../wording/text";
import { colourCell, isEnsembleCell } from "./yaml-cells";

/** What a cell shows by itself at its end comes at about the same time as we hear of it. */
const SETTLE_MS = 600;
const LOOK_AGAIN_MS = 300;
/** How long a cell that this page runs may be without the view that its kernel sends: one that came and is gone was
 * cleared, one that never came may be on its way, and would be there twice. */
const CLEARED_VIEW_MS = 1000;
const AWAITED_VIEW_MS = 10_000;
const OUR_NAME = "ensemble";
/** How a picture says what was known when it was made. */
const PICTURE_STATE = new RegExp(`${WHEN_SAVED}, \\d+:\\d+ [AP]M (?:UTC|GMT[-+][\\d:]+)`);

export class NotebookRuns implements ChannelSource {
  channel: PageChannel | null = null;

  readonly #panel: NotebookPanel;
  readonly #services: Services;
  readonly #languages: EditorLanguages | null;
  readonly #caller: Caller;
  readonly #acts = new Set<() => void>();
  readonly #colours = new Map<CellModel, () => void>();
  /** The runs whose view was put into a cell here, so that what stays has to be, too. */
  readonly #restored = new Set<string>();
  /** The runs whose view was seen in a cell. */
  readonly #seen = new Set<string>();
  /** Since when the view of a run is missed in its cell. */
  readonly #missing = new Map<string, number>();
  #kernel: Kernel | null = null;
  #unlisten: () => void = () => undefined;
  #restoring: ReturnType<typeof setTimeout> | null = null;
  #mentioning: string | null = null;
  #early: { kernel: string; link: Promise<SubshellLink | null> } | null = null;
  #isDisposed = false;

  /**
   * @param preload Loads the views, so that the first one is shown at once.
   * @param languages Of the editors; null where the application has none to give.
   * @param callingPage By which a person is called.
   */
  constructor(panel: NotebookPanel, services: Services, preload: () => void, languages: EditorLanguages | null, callingPage: CallingPage) {
    this.#caller = new Caller(panel, callingPage);
    this.#panel = panel;
    this.#services = services;
    this.#languages = languages;
    panel.sessionContext.kernelChanged.connect(this.#onKernel);
    panel.context.saveState.connect(this.#onSave);
    window.addEventListener("pagehide", this.#onLeave);
    void panel.context.ready.then(() => {
      panel.content.model?.cells.changed.connect(this.#onCells);
      this.#onCells();
      this.#onKernel();
      if (!this.#isOurs) return;
      preload();
      if (!this.#kernel) void this.#openEarly();
    });
    this.#onKernel();
  }

  dispose(): void {
    window.removeEventListener("pagehide", this.#onLeave);
    this.#panel.sessionContext.kernelChanged.disconnect(this.#onKernel);
    this.#panel.context.saveState.disconnect(this.#onSave);
    for (const end of this.#colours.values()) end();
    this.#colours.clear();
    if (this.#restoring !== null) clearTimeout(this.#restoring);
    this.#isDisposed = true;
    this.#takeEarly(null);
    this.#disconnect("leave");
    this.#acts.clear();
  }

  attend(place: HTMLElement, connection: KernelConnection, module: ViewModule): () => void {
    return this.#caller.attend(place, connection, module);
  }

  onChange(act: () => void): () => void {
    this.#acts.add(act);
    return () => this.#acts.delete(act);
  }

  writeBelow(place: HTMLElement, source: string, change?: CellChange): "below" | "changed" | null {
    const { content } = this.#panel;
    const { model, widgets } = content;
    if (!model || model.readOnly) return null;
    const changed = change ? widgets.findIndex((cell) => cell.model.id === change.cell_id) : -1;
    const text = change && changed >= 0 ? changeSource((widgets[changed] as CellWidget).model.sharedModel.getSource(), change) : null;
    if (text !== null) {
      (widgets[changed] as CellWidget).model.sharedModel.setSource?.(text);
      content.activeCellIndex = changed;
      return "changed";
    }
    const at = widgets.findIndex((cell) => cell.node.contains(place));
    const below = at < 0 ? widgets.length : at + 1;
    // A second click changes nothing.
    if (widgets[below]?.model.sharedModel.getSource() !== source) model.sharedModel.insertCell(below, { cell_type: "code", source });
    content.activeCellIndex = below;
    content.mode = "edit";
    return "below";
  }

  // --- The kernel ------------------------------------------------------------------------------------------------------

  readonly #onKernel = (): void => {
    const kernel = this.#panel.sessionContext.session?.kernel ?? null;
    if (kernel !== this.#kernel) {
      this.#disconnect("gone");
      this.#kernel = kernel;
      if (kernel) {
        kernel.iopubMessage.connect(this.#onMessage);
        const early = this.#takeEarly(kernel.id);
        this.channel = new PageChannel(this.#services.kernels, kernel, early);
        this.#unlisten = this.channel.listen({ onFeeds: () => this.#onFeeds(), onPicture: (feed, picture) => this.#keepPicture(feed, picture), onEnded: (feed, end) => this.#onEnded(feed, end), onLost: (feed, saved) => this.#replaceLive(feed, saved) });
      }
      this.#tell();
    }
    if (this.channel?.state === "closed" && this.#isOurs) void this.channel.open();
  };

  /** The notebook takes a while to find its kernel; the link to one that runs already can be there by then. */
  async #openEarly(): Promise<void> {
    const session = await this.#services.sessions.findByPath(this.#panel.context.path).catch(() => undefined);
    const model = session?.kernel;
    if (!model || this.#kernel || this.#isDisposed) return;
    this.#early = { kernel: model.id, link: SubshellLink.open(this.#services.kernels, model) };
  }

  #takeEarly(kernel: string | null): Promise<SubshellLink | null> | null {
    const early = this.#early;
    this.#early = null;
    if (early === null || early.kernel === kernel) return early?.link ?? null;
    void early.link.then((link) => link?.close());
    return null;
  }

  #disconnect(why: "gone" | "leave"): void {
    this.#kernel?.iopubMessage.disconnect(this.#onMessage);
    this.#kernel = null;
    this.#unlisten();
    if (why === "leave") this.channel?.leave();
    this.channel?.close("gone");
    this.channel = null;
  }

  readonly #onLeave = (): void => this.channel?.leave();

  /** Asks a kernel for our channel only where it may have one: not every kernel of every notebook. */
  get #isOurs(): boolean {
    return this.#cells.some((cell) => isEnsembleCell(cell) || findFeedIds(cell).length > 0);
  }

  /** A cell that loads the extension, or runs an ensemble, is over: from now on there may be a channel. */
  readonly #onMessage = (_: Kernel, message: Message): void => {
    if (this.channel?.state !== "closed") return;
    const { msg_type } = message.header;
    if (msg_type === "execute_input" && String(message.content.code).includes(OUR_NAME)) {
      this.#mentioning = message.parent_header.msg_id ?? null;
    } else if (msg_type === "status" && message.content.execution_state === "idle" && this.#mentioning !== null
      && message.parent_header.msg_id === this.#mentioning) {
      this.#mentioning = null;
      void this.channel.open();
    }
  };

  #tell(): void {
    for (const act of [...this.#acts]) act();
  }

  // --- The cells -------------------------------------------------------------------------------------------------------

  get #cells(): CellModel[] {
    return [...(this.#panel.content.model?.cells ?? [])];
  }

  readonly #onCells = (): void => {
    const cells = this.#cells;
    for (const cell of cells) {
      if (this.#colours.has(cell)) continue;
      const uncolour = colourCell(
        cell, () => this.#panel.content.codeMimetype, async (type) => this.#languages?.getLanguage(type),
      );
      cell.outputs?.changed.connect(this.#onOutputs);
      this.#colours.set(cell, () => {
        uncolour();
        cell.outputs?.changed.disconnect(this.#onOutputs);
      });
    }
    const present = new Set(cells);
    for (const [cell, end] of this.#colours) {
      if (present.has(cell)) continue;
      end();
      this.#colours.delete(cell);
    }
    this.#restoreSoon();
  };

  /** Outputs were cleared, perhaps: what still runs comes back. */
  readonly #onOutputs = (): void => this.#restoreSoon();

  #onFeeds(): void {
    this.#tell();
    this.#restore();
  }

  #restoreSoon(): void {
    if (this.#restoring !== null || !this.channel?.feeds.size) return;
    this.#restoring = setTimeout(() => {
      this.#restoring = null;
      this.#restore();
    }, LOOK_AGAIN_MS);
  }

  /** Puts the views of runs into the cells that run them, where they are missing. */
  #restore(): void {
    const cells = new Map(this.#cells.map((cell) => [cell.id, cell]));
    for (const feed of this.channel?.feeds.values() ?? []) {
      const cell = feed.cellId === null ? undefined : cells.get(feed.cellId);
      if (!cell?.outputs || !feed.isLive) this.#missing.delete(feed.feedId);
      else if (findFeedIds(cell).includes(feed.feedId)) this.#note(feed);
      else if (this.#isRunHere(cell) && !this.#isMissingLong(feed)) this.#restoreSoon();
      else this.#putBack(cell, feed);
    }
  }

  #note(feed: Feed): void {
    this.#missing.delete(feed.feedId);
    this.#seen.add(feed.feedId);
  }

  /** A cell that this page runs shows its view by itself; only what stays away is put back. */
  #isMissingLong(feed: Feed): boolean {
    const since = this.#missing.get(feed.feedId) ?? performance.now();
    this.#missing.set(feed.feedId, since);
    return performance.now() - since >= (this.#seen.has(feed.feedId) ? CLEARED_VIEW_MS : AWAITED_VIEW_MS);
  }

  #putBack(cell: CellModel, feed: Feed): void {
    this.#missing.delete(feed.feedId);
    this.#restored.add(feed.feedId);
    cell.outputs?.add(makeOutput({
      [MIME_TYPE]: { kind: "live", feed_id: feed.feedId },
      "text/plain": "A run that goes on.",
    }));
    if (!this.#isRunHere(cell) && "executionState" in cell) cell.executionState = "running";
  }

  // --- The end of a run ------------------------------------------------------------------------------------------------

  #onEnded(feedId: string, end: CellEnd): void {
    setTimeout(() => this.#keep(feedId, end), SETTLE_MS);
  }

  /** Writes what stays of a run into the cells that no message of the kernel reaches. */
  #keep(feedId: string, end: CellEnd): void {
    const { outputs } = end;
    const own = this.channel?.feeds.get(feedId)?.cellId;
    const timeline = outputs.find((output) => MIME_TYPE in ((output.data ?? {}) as Json));
    if (timeline) this.#replaceLive(feedId, (timeline.data as Json)[MIME_TYPE] as Json, timeline);
    for (const cell of this.#cells) {
      if (cell.id !== own || !cell.outputs) continue;
      if (this.#restored.has(feedId) || !this.#isRunHere(cell)) this.#complete(cell, end);
      this.channel?.confirmKept(feedId);
    }
    this.#restored.delete(feedId);
  }

  /** Puts a saved view in the place of each live one of a run: nothing more will be told of it. */
  #replaceLive(feedId: string, saved: Json | null, output: Json | null = null): void {
    if (saved === null) return;
    this.#changeLive((data, trace) =>
      trace.feed_id !== feedId ? null : output ? { ...output } : makeOutput({ ...breakOff(data, saved), [MIME_TYPE]: saved }));
  }

  /** Puts a newer picture beside a live view. A page that is loaded since its cell began gets it in no other way. */
  #keepPicture(feedId: string, picture: Json): void {
    this.#changeLive((data, trace) =>
      trace.feed_id !== feedId || textOf(data["text/plain"]) === textOf(picture["text/plain"]) ? null : makeOutput({ ...data, ...picture }));
  }

  /** The file that is written in mid-run holds what the page knows by then: the kernel may be gone when it is opened. */
  readonly #onSave = (_: unknown, state: string): void => {
    if (state !== "started") return;
    this.#changeLive((data, trace) => {
      const saved = this.channel?.save(String(trace.feed_id)) ?? null;
      return saved === null ? null : makeOutput({ ...data, [MIME_TYPE]: { ...trace, saved } });
    });
  };

  /** Changes the outputs that are live views; null leaves one as it is. */
  #changeLive(change: (data: MimeBundle, trace: Json) => Json | null): void {
    for (const { outputs } of this.#cells) {
      for (let k = 0; k < (outputs?.length ?? 0); k += 1) {
        const data = outputs?.get(k).data ?? {};
        const trace = data[MIME_TYPE] as Json | undefined;
        const changed = trace?.kind === "live" ? change(data, trace) : null;
        if (changed) outputs?.set(k, changed);
      }
    }
  }

  /** Adds what is missing in a cell, and ends its prompt's star. */
  #complete(cell: CellModel, { outputs, executionCount }: CellEnd): void {
    if (!cell.outputs) return;
    const present = Array.from({ length: cell.outputs.length }, (_, k) => describeOutput(cell.outputs?.get(k).toJSON() ?? {}));
    for (const output of outputs) if (!present.includes(describeOutput(output))) cell.outputs.add({ ...output });
    if (this.#isRunHere(cell)) return;
    if (cell.executionState === "running") cell.executionState = "idle";
    if (executionCount !== null) cell.executionCount = executionCount;
  }

  /** Whether what the cell's run shows comes to this page by itself. */
  #isRunHere(cell: CellModel): boolean {
    const widget = this.#panel.content.widgets.find((each: CellWidget) => each.model.id === cell.id);
    const future = widget?.outputArea?.future;
    return future != null && !future.isDisposed;
  }
}

/** What stands beside the view of a run whose kernel went: its picture says so, as far as it had come. */
function breakOff(data: MimeBundle, saved: Json): MimeBundle {
  const time = formatTimeOfDay((saved.run as Json | undefined)?.ended_at as string | undefined, { timeZoneName: "short" });
  if (time === null) return data;
  const say = (text: unknown): string => textOf(text).replace(PICTURE_STATE, `${RUN_STATUS_NAMES.interrupted}, ${time}`);
  return { ...data, "text/plain": say(data["text/plain"]), "text/html": say(data["text/html"]) };
}

/** The runs that are shown live in a cell, or were. */
export function findFeedIds(cell: CellModel): string[] {
  const found: string[] = [];
  for (let k = 0; k < (cell.outputs?.length ?? 0); k += 1) {
    const data = cell.outputs?.get(k).data[MIME_TYPE] as Json | undefined;
    if (typeof data?.feed_id === "string") found.push(data.feed_id);
  }
  return found;
}

/** What tells one output from another, as far as a person could. */
function describeOutput(output: Json): string {
  const data = (output.data ?? {}) as Json;
  const trace = data[MIME_TYPE] as Json | undefined;
  if (trace) return `trace ${String(trace.feed_id)}`;
  return JSON.stringify([output.output_type, output.ename, textOf(data["text/plain"] ?? output.text ?? output.evalue)]);
}

const textOf = (text: unknown): string => (Array.isArray(text) ? text.join("") : String(text ?? "")).trimEnd();

const makeOutput = (data: Json): Json => ({ output_type: "display_data", metadata: {}, data });
