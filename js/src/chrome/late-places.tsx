// Where stands what is not there from the start: the drawer, and above it what is marked in numbers and what a search has
// found; the table of spans; the question to a person; the keys. Their file is loaded when one of them is shown for the first
// time, and with it what finds.

import { effect } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { LateRoot } from "../details/drawer-root";
import { loadDetails } from "../details/load-details";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";

type Details = typeof import("../details/drawer-root");

export function DrawerPlace({ view, connection }: { view: View; connection: KernelConnection | null }): VNode {
  const isWanted = (): boolean => {
    view.store.version.value;
    view.selected.value;
    return view.isDrawerOpen.value || view.search.isActive || view.range.value !== null || view.selectedSpans.value.size > 1;
  };
  return <LatePlace of={view} isWanted={isWanted} mount={(details, place) => details.mountDrawer(place, view, connection)} className="et-drawer-place" />;
}

export const TablePlace = ({ view, prefix }: { view: View; prefix: string }): VNode =>
  <LatePlace of={view} isWanted={() => true} mount={(details, place) => details.mountTable(place, view, prefix)} className="et-span-table" />;

/** The question that the run waits for: only views with a kernel ask. */
export const ReviewPlace = ({ view, connection }: { view: View; connection: KernelConnection }): VNode =>
  <LatePlace of={view} isWanted={() => (view.store.run.value?.waiting.length ?? 0) > 0} mount={(details, place) => details.mountReview(place, view, connection)} />;

/** What lies over the chart: differences of two runs, the edges of a marked range, and, once a person pans, where the bars are. */
export const OverlayPlace = ({ view }: { view: View }): VNode =>
  <LatePlace of={view} isWanted={() => view.range.value !== null || view.follow.value !== "fit" || view.layout.value.tracks.some((track) => track.row.delta)} mount={(details, place) => details.mountOverlay(place, view)} />;

/** The keys that `?` lists. */
export const KeysPlace = ({ view }: { view: View }): VNode =>
  <LatePlace of={view} isWanted={() => view.areKeysShown.value} mount={(details, place) => details.mountKeys(place, view)} />;

interface Props {
  of: View;
  isWanted: () => boolean;
  mount: (details: Details, place: HTMLElement) => LateRoot;
  className?: string;
}

function LatePlace({ of, isWanted, mount, className }: Props): VNode {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let root: LateRoot | null = null;
    let isHere = true;
    let isAsked = false;
    const load = async (): Promise<void> => {
      const details = await loadDetails();
      if (!isHere) return;
      root = mount(details, place.current as HTMLElement);
      stop();
      stop = effect(follow);
    };
    // What a part reads while it is shown is noted by the effect around it.
    const follow = (): void => {
      const isNeeded = isWanted();
      root?.update();
      if (!isNeeded || isAsked) return;
      isAsked = true;
      load().catch(() => {
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
