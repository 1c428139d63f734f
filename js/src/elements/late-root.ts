// A part of the page that is loaded when it is shown for the first time, as a tree of its own. In the file that brings it are
// other copies of the libraries, so a change of a signal outside is not noticed in there: whoever mounts it says when to
// look again.

import { render, type VNode } from "preact";

export interface LateRoot {
  /** Shows what has changed since. */
  update(): void;
  end(): void;
}

/** A component whose properties are the same is not looked at again: so one is another number each time. */
export function mountLate(place: HTMLElement, style: string, draw: (change: number) => VNode): LateRoot {
  let change = 0;
  wear(place, style);
  return {
    update: () => render(draw((change += 1)), place),
    end: () => render(null, place),
  };
}

const worn = new WeakMap<Node, Set<string>>();

/** Puts a style sheet where a place is, once. */
function wear(place: HTMLElement, style: string): void {
  const root = place.getRootNode();
  const styles = worn.get(root) ?? new Set();
  if (styles.has(style)) return;
  worn.set(root, styles.add(style));
  const element = document.createElement("style");
  element.textContent = style;
  (root instanceof ShadowRoot ? root : document.head).append(element);
}
