// The chart: names on the left, bars on the right, and the edges by which both are resized.

import { effect, signal, useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Hover } from "../details/tooltip";
import { ChartCanvas } from "../draw/canvas";
import { Icon } from "../elements/icon";
import { useSize } from "../elements/remembered-sizes";
import { Splitter } from "../elements/splitter";
import { listenToPointer } from "../input/pointer";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import { Gutter } from "./gutter";
import { LookPlace, MinimapPlace, OverlayPlace, ShapePlace, StagePlace, type ShapeProps, TooltipPlace } from "./late-places";
import { widthOfNames } from "./names-width";

/** Room for two rows; more only where there is more to see. */
const LEAST_ROWS = 58;
const LEAST_TABLE = 230;
const LEAST_ELSE = 420;
const MOST_HEIGHT = 500;
/** A graph is as high as a screen allows beside what is around it, and may be made higher. */
const LEAST_GRAPH = 560;
const MOST_GRAPH = 900;
const LEAST_GUTTER = 96;

export function Chart(shown: ShapeProps) {
  const { view, theme, prefix } = shown;
  const canvas = useRef<HTMLCanvasElement>(null);
  const scrollbar = useRef<HTMLDivElement>(null);
  const chart = useRef<HTMLDivElement>(null);
  const hover = useRef(signal<Hover | null>(null)).current;
  const [wantedHeight, setHeight] = useSize("chart");
  const [wantedGutter, setGutter] = useSize("gutter");
  // Before the page is shown, so that there are bars in its first picture.
  useLayoutEffect(() => {
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
  // Measuring what stands below costs a layout of the page, which no batch needs that leaves the rows as high as they were.
  const rows = useComputed(() => view.layout.value.height).value;
  const shape = view.shape.value;
  const head = view.head.value;
  const isChart = shape === "chart";
  // Nor does what is covered need to be measured.
  const known = useRef(0);
  const names = useComputed(() => (view.shape.value === "chart" ? (known.current = widthOfNames(view.layout.value.tracks, (text) => widthOfText(text, theme.value))) : known.current)).value;
  const least = isChart ? head + LEAST_ROWS : shape === "table" ? LEAST_TABLE : shape === "graph" ? LEAST_GRAPH : LEAST_ELSE;
  const most = shape === "graph" ? MOST_GRAPH : MOST_HEIGHT;
  const height = Math.min(Math.max(wantedHeight ?? (shape === "graph" ? 0 : rows + head + 1), least), most);
  const isScrolling = rows + head > height;
  useLayoutEffect(() => {
    view.isScrolling.value = isScrolling;
  }, [view, isScrolling]);
  useEffect(() => effect(() => {
    const top = view.scrollTop.value;
    if (scrollbar.current && isChart) scrollbar.current.scrollTop = top;
  }), [view, isScrolling, isChart]);
  const whole = chart.current?.clientWidth ?? 900;
  const mostGutter = Math.max(LEAST_GUTTER, Math.round(whole * 0.6));
  const [ownGutter, setOwnGutter] = useState(236);
  // How wide the style sheet makes it is known once the names are there.
  useLayoutEffect(() => {
    if (isChart && wantedGutter === null) setOwnGutter(gutterOf(chart.current));
  });
  const gutter = wantedGutter === null ? ownGutter : Math.min(wantedGutter, mostGutter);
  return (
    <>
      <MinimapPlace view={view} />
      <div ref={chart} class="et-chart" style={{ height: `${height}px`, "--et-own": wantedGutter === null ? undefined : `${gutter}px`, "--et-names": `${names}px`, "--et-head": `${head}px` }}
        data-scrolls={isScrolling} data-shape={shape}>
        <Corner view={view} />
        <Gutter view={view} prefix={prefix} />
        <div class="et-stage">
          <canvas ref={canvas} class="et-canvas" aria-hidden="true" />
          <Emptiness view={view} />
          <OverlayPlace view={view} />
          <StagePlace view={view} />
          <TooltipPlace hover={hover} view={view} />
        </div>
        {isScrolling && (
          // A strip with the browser's own scroll bar: rows scroll by it, while the wheel over the chart stays the page's.
          <div ref={scrollbar} class="et-scrollbar" aria-hidden="true"
            onScroll={(event) => view.scroll(event.currentTarget.scrollTop)}>
            <div style={{ height: `${rows}px` }} />
          </div>
        )}
        <LookPlace view={view} theme={theme} prefix={prefix} />
        {isChart && (
          <Splitter label="Width of the names" axis="x" size={gutter} least={LEAST_GUTTER} most={mostGutter} resize={setGutter} />
        )}
        {!isChart && <ShapePlace key={shape} shape={shape} {...shown} />}
      </div>
      <Splitter label="Height of the chart" axis="y" size={height} least={least} most={most} resize={setHeight} />
    </>
  );
}

const measured = document.createElement("canvas").getContext("2d");

function widthOfText(text: string, theme: Theme): number {
  if (!measured) return 0;
  measured.font = `400 13px ${theme.font}`;
  return measured.measureText(text).width;
}

/** How wide the names are where nobody said so: the style sheet decides by the width of the view. */
function gutterOf(chart: HTMLElement | null): number {
  const widthOf = (part: string): number => chart?.querySelector<HTMLElement>(part)?.offsetWidth ?? 0;
  return widthOf(".et-gutter") - widthOf(".et-columns") || 236;
}

/** Over the names: ways to what a person asks for most. */
function Corner({ view }: { view: View }) {
  const { store } = view;
  const isLive = store.isTicking;
  return (
    <div class="et-corner">
      {isLive && (
        <button class="et-jump" aria-label="Next running row" title="What runs now: show the next" onClick={() => view.goToRunning()}>
          <Icon name="running" size={13} /><span>Running</span>
        </button>
      )}
      <button class="et-jump" aria-label="Next slowest span" title="The slowest first: show the next" onClick={() => view.goToSlowest()}>
        <Icon name="clock" size={13} /><span>Slowest</span>
      </button>
      {view.isAway && <button class="et-live" title="Follow what runs now (l)" onClick={() => view.goLive()}>Live</button>}
    </div>
  );
}

/** What stands in an empty chart. */
function Emptiness({ view }: { view: View }) {
  if (view.layout.value.tracks.length > 0) return null;
  const { store } = view;
  const isUnreadable = store.run.value === null && store.fault.value !== null;
  const text = isUnreadable ? "Nothing to show" : store.run.value === null ? "Waiting for the run to begin"
    : store.isOver ? "This run had no tasks" : "No tasks yet";
  return <p class="et-empty">{text}</p>;
}
