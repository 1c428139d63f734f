// The parts of JupyterLab and Notebook 7 that are used here, as types of our own: the packages themselves are large, and
// none of their code may be bundled, because a page must have each class once.

export interface Signal<Sender, Value> {
  connect(act: (sender: Sender, value: Value) => void): boolean;
  disconnect(act: (sender: Sender, value: Value) => void): boolean;
}

export interface Disposable {
  dispose(): void;
}

export type Json = Record<string, unknown>;

export interface KernelModel {
  readonly id: string;
  readonly name: string;
}

export interface Message {
  readonly header: { readonly msg_id: string; readonly msg_type: string; readonly session: string; readonly subshell_id?: string };
  readonly parent_header: { readonly msg_id?: string };
  readonly content: Json;
  readonly buffers?: readonly (ArrayBuffer | ArrayBufferView)[];
}

export interface Future extends Disposable {
  readonly done: Promise<Message>;
  readonly isDisposed: boolean;
}

/** A connection to a kernel, as `@jupyterlab/services` makes it. */
export interface Kernel extends Disposable {
  readonly id: string;
  readonly name: string;
  readonly clientId: string;
  readonly username: string;
  readonly status: string;
  readonly isDisposed: boolean;
  readonly connectionStatus: "connected" | "connecting" | "disconnected";
  readonly statusChanged: Signal<Kernel, string>;
  readonly connectionStatusChanged: Signal<Kernel, string>;
  readonly iopubMessage: Signal<Kernel, Message>;
  sendShellMessage(message: unknown, expectsReply?: boolean, disposesOnDone?: boolean): Future;
  sendControlMessage(message: unknown, expectsReply?: boolean, disposesOnDone?: boolean): Future;
}

export interface KernelManager {
  connectTo(options: { model: KernelModel; handleComms: boolean }): Kernel;
}

export interface SessionManager {
  findByPath(path: string): Promise<{ readonly kernel: KernelModel | null } | undefined>;
}

/** What an application asks its server for. */
export interface Services {
  readonly kernels: KernelManager;
  readonly sessions: SessionManager;
}

/** The languages that editors can colour. */
export interface EditorLanguages {
  /** Loads what a type needs, once. */
  getLanguage(mimeType: string): Promise<unknown>;
}

export interface CompletionProvider {
  isApplicable(context: { readonly editor?: { readonly model: { readonly sharedModel: { getSource(): string } } } | null }): Promise<boolean>;
}

/** Who is asked what may stand at the caret, by name. */
export interface CompletionProviders {
  getProviders?(): ReadonlyMap<string, CompletionProvider>;
}

/** What `@jupyterlab/apputils` tells people with. */
export interface Notifications {
  emit(message: string, type: "info" | "warning", options: {
    autoClose: number | false;
    actions: readonly { label: string; displayType: string; callback: () => void }[];
  }): string;
  update(options: { id: string; message: string }): boolean;
  dismiss(id: string): void;
}

export interface SettingRegistry {
  load(plugin: string): Promise<{ get(name: string): { readonly composite: unknown } }>;
}

export interface MimeBundle {
  readonly [type: string]: unknown;
}

export interface OutputModel {
  readonly data: MimeBundle;
  toJSON(): Json;
}

export interface OutputAreaModel {
  readonly length: number;
  readonly changed: Signal<OutputAreaModel, unknown>;
  get(place: number): OutputModel;
  set(place: number, output: Json): void;
  add(output: Json): number;
}

export interface CellModel {
  readonly id: string;
  readonly type: string;
  mimeType: string;
  readonly mimeTypeChanged: Signal<CellModel, unknown>;
  readonly contentChanged: Signal<CellModel, unknown>;
  readonly sharedModel: { getSource(): string; setSource?(source: string): void };
  /** Of code cells. */
  readonly outputs?: OutputAreaModel;
  executionCount?: number | null;
  executionState?: string;
}

export interface CellWidget {
  readonly model: CellModel;
  readonly node: HTMLElement;
  /** Of code cells: the future of what runs in it, where this page has sent it. */
  readonly outputArea?: { readonly future: Future | null };
}

export interface CellList extends Iterable<CellModel> {
  readonly length: number;
  readonly changed: Signal<CellList, unknown>;
}

export interface SessionContext {
  readonly session: { readonly kernel: Kernel | null } | null;
  readonly kernelChanged: Signal<SessionContext, unknown>;
}

export interface RenderFactory {
  readonly safe: boolean;
  readonly mimeTypes: readonly string[];
  createRenderer(options: unknown): unknown;
}

/** What shows one output. */
export interface Renderer extends LuminoWidget {
  renderModel(model: unknown): Promise<void>;
}

/** The renderers that a notebook has. */
export interface RenderRegistry {
  readonly mimeTypes: readonly string[];
  addFactory(factory: RenderFactory, rank?: number): void;
  createRenderer(mimeType: string): Renderer;
}

/** An open notebook. */
export interface NotebookPanel {
  readonly sessionContext: SessionContext;
  readonly context: {
    readonly ready: Promise<void>;
    readonly path: string;
    /** "started" is told before the content is taken. */
    readonly saveState: Signal<unknown, string>;
  };
  readonly content: {
    readonly codeMimetype: string;
    readonly rendermime: RenderRegistry;
    readonly model: {
      readonly cells: CellList;
      readonly readOnly?: boolean;
      readonly sharedModel: { insertCell(place: number, cell: { cell_type: "code"; source: string }): unknown };
    } | null;
    readonly widgets: readonly CellWidget[];
    activeCellIndex: number;
    mode: "command" | "edit";
  };
  readonly disposed: Signal<NotebookPanel, unknown>;
  readonly id: string;
  readonly title: { className: string };
}

export interface Application {
  /** Once all that starts by itself has started. */
  readonly restored: Promise<unknown>;
  readonly serviceManager: Services;
  readonly shell: { activateById(id: string): void };
  readonly docRegistry: {
    addWidgetExtension(factory: string, extension: { createNew(panel: NotebookPanel): Disposable | void }): Disposable;
  };
}

export interface LuminoWidget extends Disposable {
  readonly node: HTMLElement;
  readonly isDisposed: boolean;
}

export type WidgetClass = new () => LuminoWidget;
