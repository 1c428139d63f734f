// The JupyterLab extension: a MIME renderer, so that a saved notebook reopens with its timelines, without a kernel.
//
// JupyterLab loads it as a module-federation container. That is no more than an object with `init` and `get`, so it is
// written here by hand: the one thing shared is Lumino's Widget, which must be the very class that JupyterLab uses.

import css from "../theme/timeline.css";
import { renderSaved } from "./saved-view";

const NAME = "ensemble-notebook";
const MIME_TYPE = "application/vnd.ensemble.trace+json";

interface LuminoWidget {
  readonly node: HTMLElement;
  dispose(): void;
}

interface MimeModel {
  readonly data: Record<string, unknown>;
}

type WidgetClass = new () => LuminoWidget;
type Factory<T> = () => T;
type ShareScope = Record<string, Record<string, { get(): Promise<Factory<unknown>> }>>;

let shared: ShareScope = {};

/** The class of Lumino widgets that the application itself uses. */
async function applicationWidget(): Promise<WidgetClass> {
  const offered = Object.values(shared["@lumino/widgets"] ?? {})[0];
  if (offered === undefined) throw new Error(`${NAME}: this application shares no @lumino/widgets`);
  const module = (await offered.get())() as { Widget: WidgetClass };
  return module.Widget;
}

/** A renderer of our MIME type: a widget that holds one saved timeline. */
function rendererClass(Base: WidgetClass): new () => LuminoWidget {
  return class TimelineRenderer extends Base {
    private end: () => void = () => undefined;

    renderModel(model: MimeModel): Promise<void> {
      this.end();
      const style = document.createElement("style");
      style.textContent = css;
      const place = document.createElement("div");
      this.node.replaceChildren(style, place);
      this.end = renderSaved(place, model.data[MIME_TYPE]);
      return Promise.resolve();
    }

    override dispose(): void {
      this.end();
      super.dispose();
    }
  };
}

async function mimeExtension(): Promise<Factory<unknown>> {
  const Renderer = rendererClass(await applicationWidget());
  const extension = {
    id: `${NAME}:timeline`,
    description: "Shows the timeline of an ensemble run.",
    // Model output is only ever shown as text, so untrusted notebooks may show it, too.
    rendererFactory: { safe: true, mimeTypes: [MIME_TYPE], createRenderer: () => new Renderer() },
    rank: 0,
    dataType: "json",
  };
  return () => ({ __esModule: true, default: extension });
}

const container = {
  init(scope: ShareScope): void {
    shared = scope;
  },
  get(module: string): Promise<Factory<unknown>> {
    if (module === "./mimeExtension") return mimeExtension();
    return Promise.reject(new Error(`${NAME} has no module ${module}`));
  },
};

const page = window as unknown as { _JUPYTERLAB?: Record<string, unknown> };
page._JUPYTERLAB ??= {};
page._JUPYTERLAB[NAME] = container;
