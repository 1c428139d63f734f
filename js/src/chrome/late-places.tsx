// Where stands what is not there from the start: the drawer, and above it what is marked in numbers and what a search has
// found; the question to a person; the keys; the panels below the toolbar; the views in place of the bars. Each of their files is loaded
// when a part of it is shown for the first time; with the drawer comes what finds.

import { effect, type Signal, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { loadDetails } from "../details/load-details";
import type { Hover } from "../details/tooltip";
import type { LateRoot } from "../elements/late-root";
import { loadExplorer } from "../explore/load-explorer";
import { loadViews } from "../explore/load-views";
import type { KernelConnection } from "../kernel/connection";
import type { Theme } from "../theme/theme";
import type { Shape } from "../view/opening-shape";
import type { View } from "../view/view";

type Details = typeof import("../details/drawer-root");
type Explorer = typeof import("../explore/explorer-root");

/** What the address of the page names: perhaps a span or a time of a run that it shows. */
const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

export function DrawerPlace({ view, connection }: { view: View; connection: KernelConnection | null }): VNode {
  const isWanted = (): unknown => {
    view.store.version.value;
    view.selected.value;
    return hash.value.startsWith("#run-") || connection?.tryout.value || view.isDrawerOpen.value || view.search.isActive || view.range.value || view.selectedSpans.value.size > 1;
  };
  return <DetailsPlace of={view} isWanted={isWanted} mount={(details, place) => details.mountDrawer(place, view, connection)} className="et-drawer-place" />;
}

export interface ShapeProps {
  view: View;
  connection: KernelConnection | null;
  theme: Signal<Theme>;
  prefix: string;
}

/** What shows the run in place of its bars. */
export function ShapePlace({ shape, ...shown }: ShapeProps & { shape: Shape }): VNode {
  const common = { of: shown.view, isWanted: always, className: `et-shape et-shape-${shape}` };
  if (shape === "messages") return <DetailsPlace {...common} mount={(details, place) => details.mountMessages(place, shown.view, shown.connection)} />;
  return <LatePlace {...common} load={loadViews} mount={(views, place) => views.mountShape(place, shown)} />;
}

/** The question that the run waits for: only views with a kernel ask. */
export const ReviewPlace = ({ view, connection }: { view: View; connection: KernelConnection }): VNode =>
  <DetailsPlace of={view} isWanted={() => view.store.run.value?.waiting.length} mount={(details, place) => details.mountReview(place, view, connection)} />;

/** What lies over the chart: what is folded, differences of two runs, a marked range, and, once a person pans, where the bars are. */
export const OverlayPlace = ({ view }: { view: View }): VNode =>
  <DetailsPlace of={view} isWanted={() => view.present.startups.length > 0 || view.range.value || view.follow.value !== "fit" || view.layout.value.tracks.some((track) => track.row.delta)} mount={(details, place) => details.mountOverlay(place, view)} />;

/** The words beside what is pointed at. */
export const TooltipPlace = ({ hover, view }: { hover: Signal<Hover | null>; view: View }): VNode =>
  <DetailsPlace of={view} isWanted={() => hover.value || view.selected.value} mount={(details, place) => details.mountTooltip(place, hover, view)} />;

/** Columns, lane and colours (W33): over what is above the rows. */
export const LookPlace = ({ view, theme, prefix }: { view: View; theme: Signal<Theme>; prefix: string }): VNode =>
  <ExplorerPlace of={view} isWanted={() => view.look.value} mount={(explorer, place) => explorer.mountLook(place, view, theme, prefix)} className="et-look" />;

/** The keys that `?` lists. */
export const KeysPlace = ({ view }: { view: View }): VNode =>
  <ExplorerPlace of={view} isWanted={() => view.areKeysShown.value} mount={(explorer, place) => explorer.mountKeys(place, view)} />;

/** What narrows a search, once somebody searches. */
export const FiltersPlace = ({ view }: { view: View }): VNode =>
  <ExplorerPlace of={view} isWanted={() => view.search.isOpen.value || view.search.isActive} mount={(explorer, place) => explorer.mountFilters(place, view)} className="et-filters-place" />;

/** What a button of the toolbar opens below it, and the calls that wait after the end. */
export const PanelPlace = ({ view, connection }: { view: View; connection: KernelConnection | null }): VNode =>
  <ExplorerPlace of={view} isWanted={() => view.panel.value || view.store.run.value?.pending} mount={(explorer, place) => explorer.mountPanel(place, view, connection)} />;

/** Above the chart: the whole run, once there is more of it than fits, what plays it once a person looks back, and its times that have names. With it comes what groups rows, how pins look, and what draws who waits for whom. */
export const MinimapPlace = ({ view }: { view: View }): VNode =>
  <ExplorerPlace of={view} isWanted={() => view.isVisited.value || view.selected.value || view.grouping.value || view.isScrolling.value || view.follow.value !== "fit" || isLookedBack(view) || view.areArrowsShown.value || view.isCriticalShown.value || view.present.run.value?.ranges} mount={(explorer, place) => explorer.mountMinimap(place, view)} className="et-minimap-place" />;

const isLookedBack = (view: View): boolean => view.hasPlayhead.value || view.time.value !== null;

/** What stands over the chart once a person looks back: the playhead. */
export const StagePlace = ({ view }: { view: View }): VNode =>
  <ExplorerPlace of={view} isWanted={() => isLookedBack(view)} mount={(explorer, place) => explorer.mountStage(place, view)} />;

const always = (): boolean => true;

interface Props<Part> {
  of: View;
  /** True, or something, once it is. */
  isWanted: () => unknown;
  load: () => Promise<Part>;
  mount: (part: Part, place: HTMLElement) => LateRoot;
  className?: string;
}

const DetailsPlace = (props: Omit<Props<Details>, "load">): VNode => <LatePlace {...props} load={loadDetails} />;
const ExplorerPlace = (props: Omit<Props<Explorer>, "load">): VNode => <LatePlace {...props} load={loadExplorer} />;

function LatePlace<Part>({ of, isWanted, load, mount, className }: Props<Part>): VNode {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let root: LateRoot | null = null;
    let isHere = true;
    let isAsked = false;
    const show = async (): Promise<void> => {
      const part = await load();
      if (!isHere) return;
      root = mount(part, place.current as HTMLElement);
      stop();
      stop = effect(follow);
    };
    // What a part reads while it is shown is noted by the effect around it.
    const follow = (): void => {
      const isNeeded = isWanted();
      root?.update();
      if (!isNeeded || isAsked) return;
      isAsked = true;
      show().catch(() => {
        if (isHere && place.current) place.current.textContent = "The details can't be shown: this page refuses to load them.";
      });
    };
    let stop = effect(follow);
    return () => {
      isHere = false;
      stop();
      root?.end();
    };
  }, [of]);
  return <div ref={place} class={className} />;
}
