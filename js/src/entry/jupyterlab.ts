// The JupyterLab extension, for JupyterLab 4 and Notebook 7: a MIME renderer, so that a saved notebook reopens with its
// timelines and `*.trace.json` files open as timelines, without a kernel; and a plugin that gives each notebook its live
// views, and figures as wide as it is.
//
// JupyterLab loads it as a module-federation container. That is no more than an object with `init` and `get`, so it is
// written here by hand: what is shared is Lumino's Widget, which must be the very class that JupyterLab uses, and the name
// by which it gives the languages of its editors.

import { CHART_TYPE, FIGURE_TYPE, figureClass } from "../lab/figure-renderer";
import { MIME_TYPE, rendererClass } from "../lab/timeline-renderer";
import type { CallingPage } from "../lab/caller";
import type { Application, CompletionProviders, EditorLanguages, LuminoWidget, Notifications, SettingRegistry, WidgetClass } from "../lab/jupyter";
import { NotebookRuns } from "../lab/notebook-runs";
import type { ViewModule } from "../lab/view-module";
import { leaveOutTokens } from "../lab/yaml-cells";

/** The files beside this one with the views, what they share with others, and their style sheet; the build says them. */
declare const VIEW_FILES: readonly [string, ...string[]];
declare const STYLE_FILE: string;

const NAME = "ensemble-notebook";
const FILE_TYPE = "ensemble-trace";
/** Lower wins: widgets have -10, so that a bundle with a widget and our own type is shown by us. */
const RANK = -20;

type Factory<T> = () => T;
type ShareScope = Record<string, Record<string, { get(): Promise<Factory<unknown>> }>>;
type RendererClass = ReturnType<typeof rendererClass>;
type FigureClass = ReturnType<typeof figureClass>;

let shared: ShareScope = {};
let viewsLoading: Promise<ViewModule> | undefined;
// Known while this script is run first, and not later.
const here = (document.currentScript as HTMLScriptElement | null)?.src ?? document.baseURI;

/** The views; what failed is tried again by the next timeline. */
function loadViews(): Promise<ViewModule> {
  viewsLoading ??= (async () => {
    const [[views], css] = await Promise.all([
      Promise.all(VIEW_FILES.map((file) => import(new URL(file, here).href))) as Promise<[{ default: Omit<ViewModule, "css"> }]>,
      fetch(new URL(STYLE_FILE, here)).then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(answer.statusText)))),
    ]);
    return { ...views.default, css };
  })();
  viewsLoading.catch(() => (viewsLoading = undefined));
  return viewsLoading;
}

let renderersLoading: Promise<[RendererClass, FigureClass]> | undefined;

/** A package as the application itself uses it; undefined where it shares none. */
const findShared = async (name: string): Promise<unknown> => (await Object.values(shared[name] ?? {})[0]?.get())?.();

/** The renderers, made from the class of Lumino widgets that the application itself uses. */
function loadRenderers(): Promise<[RendererClass, FigureClass]> {
  renderersLoading ??= (async () => {
    const widgets = (await findShared("@lumino/widgets")) as { Widget: WidgetClass } | undefined;
    if (widgets === undefined) throw new Error(`${NAME}: this application shares no @lumino/widgets`);
    return [rendererClass(widgets.Widget, loadViews), figureClass(widgets.Widget)];
  })();
  return renderersLoading;
}

/** Of places without a notebook: consoles, and files that are opened by themselves. */
function mimeExtension(Renderer: RendererClass): unknown {
  return {
    id: `${NAME}:timeline`,
    description: "Shows the timeline of an ensemble run.",
    // Model output is only ever shown as text, so untrusted notebooks may show it, too.
    rendererFactory: { safe: true, mimeTypes: [MIME_TYPE], createRenderer: (): LuminoWidget => new Renderer(null) },
    rank: RANK,
    dataType: "json",
    fileTypes: [{
      name: FILE_TYPE,
      displayName: "Ensemble trace",
      extensions: [".trace.json"],
      mimeTypes: [MIME_TYPE],
      fileFormat: "text",
      contentType: "file",
    }],
    documentWidgetFactoryOptions: {
      name: "Ensemble timeline",
      primaryFileType: FILE_TYPE,
      fileTypes: [FILE_TYPE],
      defaultFor: [FILE_TYPE],
    },
  };
}

const LIVE = `${NAME}:live`;

/** What the application shares beside its widgets, each undefined where it has none. */
interface Shared {
  /** The token of the languages of editors. */
  readonly languages: unknown;
  /** The token of the settings. */
  readonly settings: unknown;
  /** The token of those that complete what is typed. */
  readonly completions: unknown;
  readonly notifications: Notifications | undefined;
}

function livePlugin(Renderer: RendererClass, Figure: FigureClass, { languages, settings, completions, notifications }: Shared): unknown {
  const tokens = [languages, settings, completions].filter((token) => token !== undefined);
  return {
    id: LIVE,
    description: "Keeps the live timelines of a notebook's runs, calls people to them, fits its figures, and colours and completes its cells.",
    autoStart: true,
    optional: tokens,
    activate: (application: Application, ...services: unknown[]): void => {
      const serviceOf = <T>(token: unknown): T | null => (services[tokens.indexOf(token as never)] ?? null) as T | null;
      const known = serviceOf<EditorLanguages>(languages);
      const completing = serviceOf<CompletionProviders>(completions);
      if (completing !== null) void application.restored.then(() => leaveOutTokens(completing));
      let isWanted = (): boolean => true;
      serviceOf<SettingRegistry>(settings)?.load(LIVE).then((found) => {
        isWanted = () => found.get("callMe").composite !== false;
      }, () => undefined);
      const callingPage: CallingPage = {
        notifications: notifications ?? null,
        isWanted: () => isWanted(),
        activate: (panel) => application.shell.activateById(panel.id),
      };
      application.docRegistry.addWidgetExtension("Notebook", {
        createNew(panel) {
          const runs = new NotebookRuns(panel, application.serviceManager, () => void loadViews().catch(() => undefined), known, callingPage);
          const { rendermime } = panel.content;
          rendermime.addFactory({ safe: true, mimeTypes: [MIME_TYPE], createRenderer: () => new Renderer(runs) }, RANK);
          // Where no charts are drawn, what else is beside a figure is shown.
          if (rendermime.mimeTypes.includes(CHART_TYPE)) {
            rendermime.addFactory({ safe: true, mimeTypes: [FIGURE_TYPE], createRenderer: () => new Figure(rendermime) }, RANK);
          }
          return runs;
        },
      });
    },
  };
}

const container = {
  init(scope: ShareScope): void {
    shared = scope;
  },
  async get(module: string): Promise<Factory<unknown>> {
    if (module !== "./extension" && module !== "./mimeExtension") throw new Error(`${NAME} has no module ${module}`);
    const [Renderer, Figure] = await loadRenderers();
    if (module === "./mimeExtension") return () => ({ __esModule: true, default: mimeExtension(Renderer) });
    const [editors, settings, completer, utilities] = (await Promise.all(["codemirror", "settingregistry", "completer", "apputils"].map((name) => findShared(`@jupyterlab/${name}`)))) as [
      { IEditorLanguageRegistry?: unknown } | undefined, { ISettingRegistry?: unknown } | undefined,
      { ICompletionProviderManager?: unknown } | undefined, { Notification?: Notifications } | undefined,
    ];
    const content = [livePlugin(Renderer, Figure, {
      languages: editors?.IEditorLanguageRegistry, settings: settings?.ISettingRegistry,
      completions: completer?.ICompletionProviderManager, notifications: utilities?.Notification,
    })];
    return () => ({ __esModule: true, default: content });
  },
};

const page = window as unknown as { _JUPYTERLAB?: Record<string, unknown> };
page._JUPYTERLAB ??= {};
page._JUPYTERLAB[NAME] = container;
