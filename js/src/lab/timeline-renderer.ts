// The renderer of our MIME type: a saved timeline, and where the kernel knows its run, the live one in its place (W14).

import type { KernelConnection } from "../kernel/connection";
import type { CellChange, WriteBelow } from "../view/cells";
import type { Json, LuminoWidget, MimeBundle, WidgetClass } from "./jupyter";
import type { PageChannel } from "./page-channel";
import type { ViewModule } from "./view-module";

export const MIME_TYPE = "application/vnd.ensemble.trace+json";

/** What a renderer asks of its notebook. */
export interface ChannelSource {
  /** To the kernel that it has now; null where there is none. */
  readonly channel: PageChannel | null;
  /** Calls when the channel is another one, opens or closes. */
  onChange(act: () => void): () => void;
  /** Writes a cell below the one that an element stands in, or changes one, and runs nothing: see `WriteBelow`. */
  writeBelow(place: HTMLElement, source: string, change?: CellChange): ReturnType<NonNullable<WriteBelow>>;
  /** Calls a person to a live view that is out of sight (W29); gives back what ends that. */
  attend(place: HTMLElement, connection: KernelConnection, module: ViewModule): () => void;
}

/** A renderer of our MIME type, as JupyterLab wants it; `load` gets the views. */
export function rendererClass(Base: WidgetClass, load: () => Promise<ViewModule>): new (source: ChannelSource | null) => LuminoWidget {
  return class TimelineRenderer extends Base {
    readonly #source: ChannelSource | null;
    readonly #place = document.createElement("div");
    #bundle: MimeBundle = {};
    #feedId: string | null = null;
    /** The view that is shown: of a channel, or of what was saved. */
    #shown: { channel: PageChannel | null; hasRun: () => boolean; end: () => void } | null = null;
    #module: ViewModule | null = null;
    #hasTried = false;
    #forget: () => void = () => undefined;

    constructor(source: ChannelSource | null) {
      super();
      this.#source = source;
      this.node.replaceChildren(this.#place);
      if (source) this.#forget = source.onChange(() => this.#choose());
    }

    async renderModel(model: { readonly data: MimeBundle }): Promise<void> {
      const data = model.data[MIME_TYPE] as Json | undefined;
      const feedId = typeof data?.feed_id === "string" ? data.feed_id : null;
      // The end of a run, or of its kernel, saves a view into the same output: the one that stands there stays (W5).
      const isSame = this.#shown?.hasRun() && feedId !== null && feedId === this.#feedId;
      this.#bundle = model.data;
      if (isSame) return;
      this.#clear();
      this.#feedId = feedId;
      try {
        await this.#loadViews();
        if (data?.kind === "board") this.#module = await (await load()).board!(data);
      } catch {
        return this.#showText("The timeline could not be loaded; the server did not answer.");
      }
      if (!this.isDisposed) this.#choose();
    }

    async #loadViews(): Promise<void> {
      if (this.#module) return;
      const module = await load();
      if (this.#module) return;
      this.#module = module;
      const style = document.createElement("style");
      style.textContent = module.css;
      this.node.prepend(style);
    }

    override dispose(): void {
      if (this.isDisposed) return;
      this.#forget();
      this.#clear();
      super.dispose();
    }

    get #writeBelow(): WriteBelow {
      const source = this.#source;
      return source && ((text, change) => source.writeBelow(this.node, text, change));
    }

    /** What can be shown without a kernel. */
    get #saved(): unknown {
      const trace = this.#bundle[MIME_TYPE] as Json | undefined;
      return trace?.kind === "live" ? trace.saved : trace;
    }

    get #isLive(): boolean {
      return (this.#bundle[MIME_TYPE] as Json | undefined)?.kind === "live";
    }

    get #isConnected(): boolean {
      return this.#feedId !== null && (this.#source?.channel?.has(this.#feedId) ?? false);
    }

    /** What the kernel shows live it has, though a channel could not be opened before, in time for one: it is tried once more. */
    #mayOpen(channel: PageChannel): boolean {
      if (this.#feedId === null || channel.state !== "closed") return false;
      return channel.closing === "unasked" || (this.#isLive && !this.#hasTried && channel.closing !== "restarted");
    }

    /** Shows the live view where the kernel knows the run, else what was saved. */
    #choose(): void {
      if (!this.#module) return;
      const channel = this.#source?.channel ?? null;
      if (channel && this.#mayOpen(channel)) {
        this.#hasTried = true;
        void channel.open();
      }
      if (this.#isConnected && channel) {
        if (this.#shown?.channel !== channel) this.#showLive(channel, this.#feedId as string);
        return;
      }
      if (this.#shown) return; // a view that was live says itself what became of its kernel
      const isUnsure = this.#feedId !== null && channel?.isUnsure(this.#feedId);
      if (this.#isLive && isUnsure) this.#showNote("Connecting to the kernel…");
      else if (this.#saved != null) this.#showSaved();
      else this.#showRemains();
    }

    #showLive(channel: PageChannel, feedId: string): void {
      const module = this.#module as ViewModule;
      this.#clear();
      const connection = channel.hold(feedId, module);
      const end = module.showLive(this.#place, connection, this.#writeBelow);
      const leave = (this.#source as ChannelSource).attend(this.#place, connection, module);
      this.#shown = {
        channel,
        hasRun: () => connection.store.run.value !== null,
        end: () => {
          leave();
          end();
          channel.release(feedId);
        },
      };
    }

    #showSaved(): void {
      this.#clear();
      // Whatever somebody wrote into a notebook: the next timeline is shown all the same.
      let end = (): void => undefined;
      try {
        end = (this.#module as ViewModule).showSaved(this.#place, this.#saved, this.#writeBelow);
      } catch {
        this.#showNote("The saved view is damaged. What is beside it:");
        this.#showBeside();
      }
      this.#shown = { channel: null, hasRun: () => false, end };
    }

    /** Of a run whose kernel went before anything was saved there is the text beside it. */
    #showRemains(): void {
      this.#showNote("This run is not in the kernel any more, and the notebook was saved before it ended. What it had shown by then:");
      this.#showBeside();
    }

    #showBeside(): void {
      this.#showText(String(this.#bundle["text/plain"] ?? ""), "pre");
    }

    #showNote(text: string): void {
      this.#place.replaceChildren();
      this.#showText(text);
    }

    #showText(text: string, tag = "p"): void {
      const element = document.createElement(tag);
      element.className = "et-remains";
      element.textContent = text;
      this.#place.append(element);
    }

    #clear(): void {
      this.#shown?.end();
      this.#shown = null;
      this.#place.replaceChildren();
    }
  };
}
