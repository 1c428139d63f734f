// One view in the page: puts status line, gutter, canvas and drawer together and wires them to a store. Everything it
// starts ends with its signal.

import { effect, signal, type Signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Drawer } from "../details/drawer";
import { ChartCanvas } from "../draw/canvas";
import { Icon } from "../elements/icon";
import { handleKey } from "../input/keys";
import { listenToPointer } from "../input/pointer";
import type { KernelConnection } from "../kernel/connection";
import { AXIS_HEIGHT } from "../layout/sizes";
import type { Store } from "../store/store";
import { applyTheme, type Theme, watchTheme } from "../theme/theme";
import { View } from "../view/view";
import { Announcer } from "./announcer";
import { Gutter } from "./gutter";
import type { KernelControls } from "./kernel-controls";
import { StatusLine } from "./status-line";
import { type Hover, Tooltip } from "./tooltip";

const LEAST_CHART = 104;
const MOST_CHART = 424;
const ZOOM = 0.7;
let views = 0;

interface Props {
  view: View;
  connection: KernelConnection | null;
  controls: KernelControls | null;
  theme: Signal<Theme>;
  sentence: Signal<string>;
  prefix: string;
}

/** Shows a store in `host` until `end` aborts. Without a connection it is a saved trace: no kernel, and so no controls. */
export function mount(
  host: HTMLElement, store: Store, connection: KernelConnection | null, controls: KernelControls | null, end: AbortSignal,
): View {
  const root = document.createElement("div");
  root.className = "ensemble-timeline";
  // While the focus is inside, JupyterLab must not run its own commands on our keys (W9). Its bindings for `:focus` match
  // the focused element before any ancestor is asked, so the mark has to be on that element itself.
  root.addEventListener("focusin", (event) => {
    (event.target as HTMLElement).dataset.lmSuppressShortcuts = "true";
  }, { signal: end });
  host.append(root);
  const view = new View(store, end);
  const theme = signal(applyTheme(root));
  const sentence = signal("");
  watchTheme(root, () => (theme.value = applyTheme(root)), end);
  root.addEventListener("keydown", (event) => onKey(event, view), { signal: end });
  announce(view, sentence, end);
  // Style sheets turn and blink only what is alive, so that a view of a run that is over rests entirely (W5).
  const unlive = effect(() => {
    store.version.value;
    root.dataset.live = String(store.isTicking);
  });
  end.addEventListener("abort", unlive);
  views += 1;
  render(<App view={view} connection={connection} controls={controls} theme={theme} sentence={sentence} prefix={`et${views}-`} />, root);
  end.addEventListener("abort", () => {
    render(null, root);
    root.remove();
  });
  return view;
}

function App({ view, connection, controls, theme, sentence, prefix }: Props) {
  return (
    <>
      <StatusLine view={view} connection={connection}>
        {connection && controls && <controls.Stop connection={connection} run={view.store.run.value} />}
      </StatusLine>
      {connection && controls && <controls.ReviewPanel view={view} connection={connection} />}
      <Chart view={view} theme={theme} prefix={prefix} />
      <Drawer view={view} connection={connection} />
      <div class="et-hidden" role="status" aria-live="polite">{sentence}</div>
    </>
  );
}

function Chart({ view, theme, prefix }: { view: View; theme: Signal<Theme>; prefix: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scrollbar = useRef<HTMLDivElement>(null);
  const hover = useRef(signal<Hover | null>(null)).current;
  useEffect(() => {
    const element = canvas.current as HTMLCanvasElement;
    const end = new AbortController();
    const chartCanvas = new ChartCanvas(view, element, theme.value, end.signal);
    const stopTheming = effect(() => chartCanvas.setTheme(theme.value));
    listenToPointer(view, element, (hit, x, y) => (hover.value = hit ? { row: hit.row, x, y } : null), end.signal);
    return () => {
      stopTheming();
      end.abort();
    };
  }, [view]);
  useEffect(() => effect(() => {
    if (scrollbar.current) scrollbar.current.scrollTop = view.scrollTop.value;
  }), [view]);
  const rows = view.layout.value.height;
  const height = Math.min(Math.max(rows + AXIS_HEIGHT + 1, LEAST_CHART), MOST_CHART);
  const isScrolling = rows + AXIS_HEIGHT > height;
  return (
    <div class="et-chart" style={{ height: `${height}px` }} data-scrolls={isScrolling}>
      <Tools view={view} />
      <Gutter view={view} prefix={prefix} />
      <div class="et-stage">
        <canvas ref={canvas} class="et-canvas" aria-hidden="true" onPointerDown={(event) => focusGutter(event)} />
        <Emptiness view={view} />
        <HoverTip hover={hover} view={view} />
      </div>
      {isScrolling && (
        // A strip with the browser's own scroll bar: rows scroll by it, while the wheel over the chart stays the page's.
        <div ref={scrollbar} class="et-scrollbar" aria-hidden="true"
          onScroll={(event) => view.scroll(event.currentTarget.scrollTop)}>
          <div style={{ height: `${rows}px` }} />
        </div>
      )}
    </div>
  );
}

const HoverTip = ({ hover, view }: { hover: Signal<Hover | null>; view: View }) => <Tooltip hover={hover.value} view={view} />;

function Tools({ view }: { view: View }) {
  const now = (): number => view.store.elapsed(performance.now());
  const middle = (): number => view.width.value / 2;
  const isAway = view.follow.value === "off" && view.store.isTicking;
  return (
    <div class="et-tools">
      <button class="et-button" aria-label="Fit the whole run" title="Fit the whole run (f)" onClick={() => view.fit()}><Icon name="fit" /></button>
      <button class="et-button" aria-label="Zoom in" title="Zoom in (+, or ctrl with the wheel)" onClick={() => view.zoom(middle(), ZOOM, now())}><Icon name="plus" /></button>
      <button class="et-button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => view.zoom(middle(), 1 / ZOOM, now())}><Icon name="minus" /></button>
      {isAway && <button class="et-live" title="Follow the run again" onClick={() => view.goLive()}>Live</button>}
    </div>
  );
}

/** What stands in an empty chart. */
function Emptiness({ view }: { view: View }) {
  if (view.layout.value.tracks.length > 0) return null;
  const { store } = view;
  const isLost = store.run.value === null && store.fault.value !== null;
  const text = isLost ? "Nothing to show" : store.run.value === null ? "Waiting for the run to begin"
    : store.isOver ? "This run had no tasks" : "No tasks yet";
  return <p class="et-empty">{text}</p>;
}

function focusGutter(event: PointerEvent): void {
  const chart = (event.currentTarget as HTMLElement).closest(".et-chart");
  chart?.querySelector<HTMLElement>(".et-gutter")?.focus({ preventScroll: true });
}

function onKey(event: KeyboardEvent, view: View): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target as HTMLElement;
  if (target.closest("textarea")) return event.stopPropagation();
  const isButton = target.closest("button") !== null;
  if (isButton && (event.key === "Enter" || event.key === " ")) return;
  // In the drawer the arrows scroll its text; only Escape is ours there.
  if (target.closest(".et-drawer") && event.key !== "Escape") return;
  if (!handleKey(view, event.key, view.store.elapsed(performance.now()))) return;
  event.preventDefault();
  event.stopPropagation();
}

function announce(view: View, sentence: Signal<string>, end: AbortSignal): void {
  const announcer = new Announcer();
  const stop = effect(() => {
    const run = view.store.run.value;
    view.age.value;
    const next = run && announcer.next(run, performance.now());
    if (next) sentence.value = next;
  });
  end.addEventListener("abort", stop);
}
