// The renderer of figures. The application draws them, once, for a width that it is told; here they are drawn again when
// their place has another one, whoever changed it: the window, a side panel, a notebook beside this one.

import type { Json, LuminoWidget, MimeBundle, RenderRegistry, Renderer, WidgetClass } from "./jupyter";

export const FIGURE_TYPE = "application/vnd.ensemble.figure+json";
export const CHART_TYPE = "application/vnd.vegalite.v5+json";
/** Pixels beside a chart: its margin, and its menu. */
const BESIDE = 48;

interface FigureModel {
  readonly data: MimeBundle;
  readonly metadata: MimeBundle;
  setData(options: { data: MimeBundle }): void;
}

/** A renderer of figures, as JupyterLab wants it; `registry` has the renderer of charts. */
export function figureClass(Base: WidgetClass): new (registry: RenderRegistry) => LuminoWidget {
  return class FigureRenderer extends Base {
    readonly #registry: RenderRegistry;
    #model: FigureModel | null = null;
    #chart: Renderer | null = null;
    #width = 0;
    /** Charts are drawn one after the other. */
    #drawing: Promise<void> = Promise.resolve();
    readonly #size = new ResizeObserver(() => void this.#drawSoon(() => this.#room !== this.#width));
    // While it is put on, nothing is on the page for a moment.
    readonly #theme = new MutationObserver(() => requestAnimationFrame(() => void this.#drawSoon(() => true)));

    constructor(registry: RenderRegistry) {
      super();
      this.#registry = registry;
      this.#size.observe(this.node);
      this.#theme.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
    }

    renderModel(model: FigureModel): Promise<void> {
      this.#model = model;
      return this.#drawSoon(() => true);
    }

    override dispose(): void {
      if (this.isDisposed) return;
      this.#size.disconnect();
      this.#theme.disconnect();
      this.#chart?.dispose();
      super.dispose();
    }

    /** How wide a chart can be here; 0 where nothing is seen of it. */
    get #room(): number {
      return this.node.clientWidth && this.node.clientWidth - BESIDE;
    }

    #drawSoon(isNeeded: () => boolean): Promise<void> {
      const draw = (): Promise<void> | undefined => (isNeeded() ? this.#draw() : undefined);
      this.#drawing = this.#drawing.then(draw, draw);
      return this.#drawing;
    }

    async #draw(): Promise<void> {
      this.#width = this.#room; // where that is 0, the next size is another one
      if (this.isDisposed || this.#model === null || this.#width === 0) return;
      const chart = this.#registry.createRenderer(CHART_TYPE);
      await chart.renderModel(fit(this.#model, this.#width));
      if (this.isDisposed) return chart.dispose();
      this.node.replaceChildren(chart.node);
      this.#chart?.dispose();
      this.#chart = chart;
    }
  };
}

/** The figure for a place that is so wide. */
function fit(model: FigureModel, room: number): FigureModel {
  const { narrowest, widest } = model.data[FIGURE_TYPE] as { narrowest: number; widest: number };
  // What would find a width by itself, where there is no such renderer as this one, goes.
  const chart = { ...structuredClone(model.data[CHART_TYPE] as Json), params: [], width: Math.max(narrowest, Math.min(room, widest)) };
  return {
    // A picture that is there need not be made.
    data: { "image/png": model.data["image/svg+xml"], ...model.data, [CHART_TYPE]: chart },
    metadata: structuredClone(model.metadata), // the application writes its theme into it
    // What the application adds is such a picture, for places that show a saved notebook and draw nothing.
    setData: ({ data }) => model.setData({ data: { ...data, [CHART_TYPE]: model.data[CHART_TYPE] } }),
  };
}
