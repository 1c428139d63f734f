// The graph in the page (W32): cards and lines where the kernel has put them, panned and zoomed, with a tree of the nodes for
// screen readers, who walk along it with the arrows as everybody else does.

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { LateIcon } from "../elements/late-icon";
import { waitAt } from "../layout/row-waits";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import { formatGrowingDuration } from "../wording/numbers";
import { Choice } from "./choices";
import type { GraphAsker } from "./graph-asker";
import { GraphEdges } from "./graph-edges";
import { type Direction, type GraphModel, hasBoth, isBox, type Node, step } from "./graph-model";
import { NodeCards } from "./graph-nodes";
import { type RowsThen, toPlain } from "./graph-state";
import { Strip } from "./graph-strip";

/** The smallest letters of the sheet are 12 pixels high: at this scale they have 11, and less is never fitted. */
const LEAST_FIT = 11 / 12;
/** Further out, cards have their names alone, in letters of 11 pixels. */
const LEAST_SCALE = 0.3;
const MOST_SCALE = 2;
const ZOOM = 1.25;
const PAN = 80;
const EDGE = 16;
/** Above the graph, for what stands over it. */
const TOP = 40;
const TAIL = 160;
const MOST_SELECTED = 200;
const DIRECTIONS: Readonly<Record<string, Direction>> = { ArrowRight: "right", ArrowLeft: "left", ArrowDown: "down", ArrowUp: "up" };

/** Where the graph is seen: pixels of its left top corner, and how large it is. */
interface Place {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

interface Props {
  view: View;
  asker: GraphAsker;
  theme: Theme;
  prefix: string;
  change: number;
}

export function GraphPane({ view, asker, theme, prefix, change }: Props): VNode {
  const model = asker.model(view.isExpanded.value);
  const then = rowsNow(view);
  const isDimmed = dimmer(view);
  // As long as this is the same one, what does not go on looks as it did, however late it is by now.
  const still = useMemo(() => ({}), [model, view.store, view.store.version.value, then.isMoving, view.store.isTicking || then.now, view.highlightedRows.value, view.selectedSpans.value, view.paint.value, theme]);
  const edges = useMemo(() => model && <GraphEdges model={model} then={then} isDimmed={isDimmed} />, [still]);
  const pane = useRef<HTMLDivElement>(null);
  const [key, setKey] = useState<string | null>(null);
  const camera = useCamera(pane, model);
  const current = model && currentNode(view, model, key);
  const go = (node: Node | null): void => {
    if (!node) return;
    setKey(node.key);
    select(view, node, false);
    camera.reveal(node);
  };
  useKeys(view, (pressed) => {
    if (!model) return false;
    const to = DIRECTIONS[pressed];
    if (to) go(current ? step(model, current, to) : (model.nodes[0] ?? null));
    else if (pressed === "Home") go(model.nodes[0] ?? null);
    else if (pressed === "End") go(model.nodes.at(-1) ?? null);
    else return camera.act(pressed, current);
    return true;
  });
  useFocus(pane);
  const speaking = view.store.isTicking && model ? latestOf(model, then) : null;
  useLayoutEffect(() => {
    if (speaking) camera.follow(speaking);
  }, [speaking?.key]);
  const graphs = asker.store.graphs.value;
  return (
    <>
      <div class="et-graph-tools" role="group" aria-label="Graph">
        {hasBoth(graphs) && (
          <>
            <Choice name="Aggregated" title="One node for a name" isOn={!view.isExpanded.value} act={() => (view.isExpanded.value = false)} />
            <Choice name="Expanded" title="Each item, row and round" isOn={view.isExpanded.value} act={() => (view.isExpanded.value = true)} />
          </>
        )}
        {model?.note && <span class="et-graph-note">{model.note}</span>}
        <span class="et-spring" />
        <Tool name="Smaller" icon="minus" act={() => camera.act("-", current)} />
        <Tool name="Larger" icon="plus" act={() => camera.act("+", current)} />
        <Tool name="Whole graph" icon="fit" act={() => camera.act("0", current)} />
      </div>
      <div ref={pane} class="et-graph" role={model ? "tree" : "status"} tabIndex={0} aria-label={model ? "Graph of the run" : undefined} aria-multiselectable={model ? "true" : undefined}
        aria-activedescendant={current ? `${prefix}g${current.place}` : undefined} {...camera.listeners}>
        {model && model.nodes.length > 0 ? (
          <div class="et-graph-sheet" role="presentation" data-far={camera.place.scale < LEAST_FIT - 0.01}
            style={{ width: `${model.width}px`, height: `${model.height}px`, transform: `translate(${camera.place.x}px, ${camera.place.y}px) scale(${camera.place.scale})`, "--et-scale": camera.place.scale }}>
            {edges}
            <NodeCards view={view} model={model} then={then} theme={theme} still={still} isDimmed={isDimmed} current={current} prefix={prefix} choose={(node, isMore) => {
              setKey(node.key);
              select(view, node, isMore);
            }} />
          </div>
        ) : <p class="et-empty">{explain(asker, model)}</p>}
      </div>
      {camera.scrolls.map((scroll) => <Scroll key={scroll.axis} {...scroll} />)}
      <Strip view={view} change={change} />
    </>
  );
}

const Tool = ({ name, icon, act }: { name: string; icon: "minus" | "plus" | "fit"; act: () => void }) => (
  <button class="et-button" aria-label={name} title={name} onClick={act}><LateIcon name={icon} /></button>
);

interface ScrollProps {
  axis: "x" | "y";
  /** How long all of it is, and where it stands, in pixels. */
  whole: number;
  at: number;
  act: (to: number) => void;
}

/** The browser's own scroll bar, beside the graph and not around it: the wheel stays the page's (W8). */
function Scroll({ axis, whole, at, act }: ScrollProps): VNode {
  const strip = useRef<HTMLDivElement>(null);
  const put = useRef(0);
  const side = axis === "x" ? "scrollLeft" : "scrollTop";
  // After the frame, when the page is laid out already: else this would have it done once more.
  useEffect(() => {
    const element = strip.current as HTMLElement;
    let timer: ReturnType<typeof setTimeout>;
    const frame = requestAnimationFrame(() => {
      timer = setTimeout(() => {
        element[side] = at;
        put.current = element[side];
      });
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [side, at, whole]);
  return (
    <div ref={strip} class="et-graph-scroll" data-axis={axis} aria-hidden="true" tabIndex={-1}
      onScroll={({ currentTarget }) => Math.abs(currentTarget[side] - put.current) >= 1 && act(currentTarget[side])}>
      <div style={{ [axis === "x" ? "width" : "height"]: `${whole}px` }} />
    </div>
  );
}

/** What of the graph stands back, while something else is looked for, or the critical path is shown. */
function dimmer(view: View): (node: Node) => boolean {
  const bright = view.highlightedRows.value;
  const isBright = (node: Node): boolean => node.members.some(({ span }) => bright?.has(span)) || node.inside.some(isBright);
  return (node) => bright !== null && !isBright(node);
}

/** The card of what began last among all that goes on. */
function latestOf(model: GraphModel, then: RowsThen): Node | null {
  let found: Node | null = null;
  let latest = -1;
  for (const node of model.nodes) {
    if (isBox(node)) continue;
    for (const { span } of node.members) {
      const row = then.row(span);
      if (row?.status !== "running" || (row.start_ms ?? -1) < latest) continue;
      latest = row.start_ms ?? -1;
      found = node;
    }
  }
  return found;
}

function explain(asker: GraphAsker, model: GraphModel | null): ComponentChildren {
  if (model) return "Nothing to show yet";
  if (asker.isAlone) return "No graph of this run was kept here. In a live kernel, output.timeline has it.";
  return "The graph comes once the kernel has time for it";
}

/** The rows as they are now, or were at the time that is shown. */
function rowsNow(view: View): RowsThen {
  const { store } = view;
  const isLive = store.isTicking;
  const now = isLive ? view.age.value : (view.time.value ?? view.now);
  const calls = new Map<string, string>();
  for (const { kind, span_id } of store.run.value?.active ?? []) {
    const owner = kind === "llm" || kind === "attempt" ? store.ownerOf(span_id) : null;
    if (owner !== null && !calls.has(owner)) calls.set(owner, kind === "llm" ? span_id : (store.row(span_id)?.parent_id ?? span_id));
  }
  return {
    row: (span) => store.row(span),
    children: (span) => store.children(span),
    now,
    isMoving: isLive || view.isPlaying.value,
    words: (task) => (isLive && calls.has(task) ? toPlain(store.textTail(calls.get(task) as string, TAIL)) : ""),
    wait: (task) => {
      const seen = isLive ? view.lookAt(task) : undefined;
      const wait = seen && waitAt(seen.marks, now);
      return wait ? [wait.cause.replace(/^(retry after )?(HTTP )?/, ""), formatGrowingDuration(now - wait.since)].filter(Boolean).join(", ") : "";
    },
    troubles: (task) => {
      const seen = view.lookAt(task);
      return { errors: seen?.errors ?? 0, retries: seen?.marks.filter(({ shape }) => shape === "backoff").length ?? 0 };
    },
  };
}

/** The node that a person is at: the one that was chosen here, else that of what is selected. */
function currentNode(view: View, model: GraphModel, key: string | null): Node | null {
  const selected = view.selected.value;
  const owner = selected === null ? null : view.store.ownerOf(selected);
  const here = key === null ? undefined : model.nodes.find((node) => node.key === key);
  if (here && (here.members.length === 0 ? selected === null : here.members.some(({ span }) => span === selected || span === owner))) return here;
  for (let at = selected, steps = 0; at && steps < 64; steps += 1) {
    const node = model.nodeOf.get(at);
    if (node) return node;
    at = view.store.row(at)?.parent_id ?? null;
  }
  return null;
}

function select(view: View, node: Node, isMore: boolean): void {
  const spans = [...new Set(node.members.map(({ span }) => span))].slice(0, MOST_SELECTED);
  if (isMore && spans.length === 1) view.selectAlso(spans[0] as string);
  else view.selectAll(spans);
}

/** While the graph is shown, keys are its own first. */
function useKeys(view: View, act: (key: string) => boolean): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const steps = (key: string): boolean => latest.current(key);
    view.steps.value = steps;
    return () => {
      if (view.steps.value === steps) view.steps.value = null;
    };
  }, [view]);
}

/** The graph takes over from the rows of the chart, and gives back to them, whatever they had. */
function useFocus(pane: { current: HTMLElement | null }): void {
  useLayoutEffect(() => {
    const element = pane.current as HTMLElement;
    const root = element.closest<HTMLElement>(".ensemble-timeline");
    const gutter = root?.querySelector<HTMLElement>(".et-gutter");
    const active = document.activeElement;
    if (gutter?.contains(active) || active === document.body || active === root) element.focus({ preventScroll: true });
    return () => {
      if (element.contains(document.activeElement)) gutter?.focus({ preventScroll: true });
    };
  }, [pane]);
}

/** Pans and zooms: shows as much of the graph as can be read, until a person takes over. */
function useCamera(pane: { current: HTMLElement | null }, model: GraphModel | null) {
  const [place, setPlace] = useState<Place>({ x: EDGE, y: TOP, scale: 1 });
  const [room, setRoom] = useState<readonly [number, number]>([0, 0]);
  const state = useRef({ place, isFitted: true, size: "" }).current;
  /** How large the pane is: once that is known, nothing is measured while a run goes on. */
  const sizeOf = (element: HTMLElement): readonly [number, number] => (room[0] > 0 ? room : [element.clientWidth, element.clientHeight]);
  const put = (next: Place, isFitted = false): void => {
    state.place = next;
    state.isFitted = isFitted;
    setPlace(next);
  };
  const fit = (least = LEAST_FIT): void => {
    const element = pane.current;
    if (!element || !model) return;
    const [across, down] = sizeOf(element);
    const [width, height] = [across - 2 * EDGE, down - TOP - EDGE];
    const whole = Math.min(width / model.width, height / model.height);
    const scale = Math.min(1, Math.max(whole, least));
    put({ x: EDGE + Math.max(0, (width - model.width * scale) / 2), y: TOP + Math.max(0, (height - model.height * scale) / 2), scale }, true);
  };
  const zoomAt = (x: number, y: number, factor: number): void => {
    const { place: { x: left, y: top, scale } } = state;
    const next = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, scale * factor));
    put({ x: x - ((x - left) * next) / scale, y: y - ((y - top) * next) / scale, scale: next });
  };
  const zoom = (factor: number): void => {
    const element = pane.current;
    if (!element) return;
    const [width, height] = sizeOf(element);
    zoomAt(width / 2, height / 2, factor);
  };
  const pan = (x: number, y: number): void => put({ ...state.place, x: state.place.x + x, y: state.place.y + y });
  const reveal = (node: Node, isFitted = false): void => {
    const element = pane.current;
    if (!element) return;
    const { x, y, scale } = state.place;
    const [left, top] = [x + node.x * scale, y + node.y * scale];
    const [width, height] = sizeOf(element);
    const dx = shift(left, Math.min(node.width, width / scale) * scale, EDGE, width - EDGE);
    const dy = shift(top, Math.min(node.height, 120) * scale, TOP, height - EDGE);
    if (dx || dy) put({ x: x + dx, y: y + dy, scale }, isFitted);
  };
  // As large as it was, a graph that has grown is moved only where it has no room any more.
  useLayoutEffect(() => {
    const element = pane.current;
    if (!element || !model) return;
    const { x, y, scale } = state.place;
    const [width, height] = sizeOf(element);
    const hasRoom = state.size !== "" && x + model.width * scale <= width && y + model.height * scale <= height;
    if (state.isFitted && !hasRoom) fit();
    state.size = `${model.width}x${model.height}`;
  }, [model]);
  useLayoutEffect(() => {
    if (room[0] > 0 && state.isFitted) fit();
  }, [room]);
  useEffect(() => {
    const element = pane.current;
    if (!element || typeof ResizeObserver === "undefined") return;
    const sizes = new ResizeObserver(() => {
      setRoom([element.clientWidth, element.clientHeight]);
    });
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [pane]);
  const held = useRef<{ id: number; x: number; y: number } | null>(null);
  const onWheel = useRef<(event: WheelEvent) => void>(() => {});
  onWheel.current = (event) => {
    // A plain wheel scrolls the page (W8); the graph is scrolled by one that goes to the side.
    const aside = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (!event.ctrlKey && !event.metaKey) {
      if (!aside || !scrolls.some(({ axis }) => axis === "x")) return;
      event.preventDefault();
      return pan(-aside, 0);
    }
    event.preventDefault();
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    zoomAt(event.clientX - box.left, event.clientY - box.top, Math.exp(-event.deltaY / 300));
  };
  useEffect(() => {
    const element = pane.current;
    const listen = (event: WheelEvent): void => onWheel.current(event);
    element?.addEventListener("wheel", listen, { passive: false });
    return () => element?.removeEventListener("wheel", listen);
  }, [pane]);
  const listScrolls = (): ScrollProps[] => {
    const { x, y, scale } = place;
    if (!model) return [];
    const [across, down] = [model.width * scale + 2 * EDGE, model.height * scale + TOP + EDGE];
    return [
      ...(across > room[0] + 1 ? [{ axis: "x" as const, whole: across, at: EDGE - x, act: (to: number) => put({ ...place, x: EDGE - to }) }] : []),
      ...(down > room[1] + 1 ? [{ axis: "y" as const, whole: down, at: TOP - y, act: (to: number) => put({ ...place, y: TOP - to }) }] : []),
    ];
  };
  const scrolls = room[0] > 0 ? listScrolls() : [];
  return {
    place,
    reveal,
    scrolls,
    /** Brings what speaks into sight, as long as nobody has moved the graph. */
    follow: (node: Node): void => {
      if (state.isFitted) reveal(node, true);
    },
    act: (key: string, node: Node | null): boolean => {
      if (key === "+" || key === "=" || key === "w") zoom(ZOOM);
      else if (key === "-" || key === "s") zoom(1 / ZOOM);
      else if (key === "a" || key === "d") pan(key === "a" ? PAN : -PAN, 0);
      // Once more shows all of what can't be read as a whole, by its names.
      else if (key === "0") fit(state.isFitted && scrolls.length > 0 ? LEAST_SCALE : LEAST_FIT);
      else if (key === "f") node ? reveal(node) : fit();
      else return false;
      return true;
    },
    listeners: {
      onPointerDown: (event: PointerEvent): void => {
        if (event.button !== 0) return;
        held.current = { id: event.pointerId, x: event.clientX, y: event.clientY };
      },
      onPointerMove: (event: PointerEvent): void => {
        const from = held.current;
        if (!from || from.id !== event.pointerId) return;
        if (event.buttons === 0) {
          held.current = null;
          return;
        }
        const [x, y] = [event.clientX - from.x, event.clientY - from.y];
        const element = event.currentTarget as HTMLElement;
        if (!element.hasPointerCapture(event.pointerId)) {
          if (Math.hypot(x, y) < 4) return;
          element.setPointerCapture(event.pointerId);
        }
        held.current = { id: from.id, x: event.clientX, y: event.clientY };
        pan(x, y);
      },
      onPointerUp: (): void => {
        held.current = null;
      },
    },
  };
}

/** How far to move what is `size` long so that it is between two edges. */
function shift(from: number, size: number, first: number, last: number): number {
  if (from < first) return first - from;
  return from + size > last ? Math.max(first - from, last - from - size) : 0;
}
