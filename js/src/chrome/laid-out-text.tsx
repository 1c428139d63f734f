// A text as a person reads it. What lays it out is in the file of the drawer: until that is loaded, and where a page refuses
// to load it, the text stands there as it was written.

import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function LaidOutText({ text, kind }: { text: string; kind: "prose" | "code" }): VNode {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = place.current as HTMLElement;
    let end: (() => void) | null = () => undefined;
    element.textContent = text;
    import("../details/drawer-root").then(({ mountText }) => {
      if (end) end = mountText(element, text, kind);
    }, () => undefined);
    return () => {
      end?.();
      end = null;
    };
  }, [text, kind]);
  return <div ref={place} class="et-unlaid" />;
}
