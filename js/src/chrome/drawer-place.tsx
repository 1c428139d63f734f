// Where the drawer is, and above it what is marked in numbers. Their file is loaded when one is shown for the first time.

import { effect } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { DrawerRoot } from "../details/drawer-root";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";

export function DrawerPlace({ view, connection }: { view: View; connection: KernelConnection | null }): VNode {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let drawer: DrawerRoot | null = null;
    let isWanted = true;
    let isAsked = false;
    const load = async (): Promise<void> => {
      const { mountDrawer } = await import("../details/drawer-root");
      if (!isWanted) return;
      drawer = mountDrawer(place.current as HTMLElement, view, connection);
      stop();
      stop = effect(follow);
    };
    // What the drawer reads while it is shown is noted by the effect around it.
    const follow = (): void => {
      view.store.version.value;
      view.selected.value;
      const isOpen = view.isDrawerOpen.value || view.range.value !== null || view.selectedSpans.value.size > 1;
      drawer?.update();
      if (!isOpen || isAsked) return;
      isAsked = true;
      load().catch(() => {
        if (isWanted && place.current) place.current.textContent = "The details can't be shown: this page refuses to load them.";
      });
    };
    let stop = effect(follow);
    return () => {
      isWanted = false;
      stop();
      drawer?.end();
    };
  }, [view, connection]);
  return <div ref={place} class="et-drawer-place" />;
}
