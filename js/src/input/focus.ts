// Whose keys they are (W9): while the focus is in the view, plain keys are the view's, and JupyterLab runs none of its
// commands on them; combinations with ctrl, cmd or alt, and Shift+Enter, are JupyterLab's. A press anywhere in the view
// gives it the focus, so that what a person types next does not reach the notebook, where `d d` deletes the cell.

const MARK = "lmSuppressShortcuts";
const TAKES_FOCUS = "button, input, select, textarea, [tabindex]";
const JUST_NOW_MS = 100;
/** What a text field does by itself with ctrl or cmd. */
const EDITING = new Set(["a", "c", "x", "v", "z", "y", "Backspace", "Delete", "ArrowLeft", "ArrowRight", "Home", "End"]);

export const isTextField = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest("input, textarea, select") !== null;

/** True for what is left to the page around the view. */
export const isForPage = (event: KeyboardEvent): boolean =>
  event.altKey || event.ctrlKey || event.metaKey || (event.key === "Enter" && event.shiftKey);

/** True for what the browser does with a combination here: editing in a field, copying what is selected. */
function isForBrowser(event: KeyboardEvent, root: HTMLElement): boolean {
  if (isTextField(event.target)) return EDITING.has(event.key) || (event.key === "Enter" && event.shiftKey);
  const selection = event.key.toLowerCase() === "c" ? getSelection() : null;
  return selection !== null && !selection.isCollapsed && root.contains(selection.anchorNode);
}

/** Keeps plain keys in the view while it has the focus. Ends with `end`. */
export function keepKeys(root: HTMLElement, end: AbortSignal): void {
  // JupyterLab looks at keys before any element does, and at the focused element before any around it: so the mark has to
  // be on that very element, and be right before JupyterLab looks. Only the window is asked earlier.
  const mark = (event: KeyboardEvent): void => {
    const target = event.composedPath()[0] ?? event.target;
    if (!(target instanceof HTMLElement) || !root.contains(target)) return;
    if (isForPage(event) && !isForBrowser(event, root)) delete target.dataset[MARK];
    else target.dataset[MARK] = "true";
  };
  let inside: AbortController | null = null;
  root.addEventListener("focusin", () => {
    if (inside) return;
    inside = new AbortController();
    window.addEventListener("keydown", mark, { capture: true, signal: inside.signal });
  }, { signal: end });
  const stop = (): void => {
    inside?.abort();
    inside = null;
  };
  root.addEventListener("focusout", (event) => {
    if (!(event.relatedTarget instanceof Node) || !root.contains(event.relatedTarget)) stop();
  }, { signal: end });
  end.addEventListener("abort", stop);
}

/** Gives the view the focus wherever it is pressed: what is pressed, if that takes it, else `home`. */
export function takeFocusOnPress(root: HTMLElement, home: () => HTMLElement | null, end: AbortSignal): void {
  root.addEventListener("mousedown", (event) => {
    const target = event.target as HTMLElement;
    // What the press itself does comes after this: it gives the focus to the nearest element that takes it, and that would
    // be the notebook's cell. Text in the drawer stays selectable, because its panel takes the focus by itself.
    const taker = target.closest<HTMLElement>(TAKES_FOCUS);
    if (taker && taker !== root && root.contains(taker) && taker.tabIndex >= 0) {
      if (!taker.matches("input, select, textarea")) taker.focus({ preventScroll: true });
      return;
    }
    home()?.focus({ preventScroll: true });
    if (target.closest("canvas, .et-splitter")) event.preventDefault();
  }, { signal: end });
}

/** Holds on to the focus where what has it goes: the button that closes the drawer, or Stop at the end of the run. */
export function holdFocus(root: HTMLElement, home: () => HTMLElement | null, end: AbortSignal): void {
  let held: Element | null = null;
  const changes = new MutationObserver(() => {
    if (!held || held.isConnected) return;
    held = null;
    if (document.activeElement === document.body) home()?.focus({ preventScroll: true });
  });
  root.addEventListener("focusin", ({ target }) => {
    held = target as Element;
    changes.observe(root, { childList: true, subtree: true });
  }, { signal: end });
  root.addEventListener("focusout", () => {
    setTimeout(() => {
      // A person who goes elsewhere leaves everything in its place.
      if (!held?.isConnected || root.contains(document.activeElement)) return;
      held = null;
      changes.disconnect();
    });
  }, { signal: end });
  end.addEventListener("abort", () => changes.disconnect());
}

/**
 * Tells whether the focus is in the view, or was until this very moment: a page that removes the view takes the focus away
 * before it says that the view ends.
 */
export function rememberFocus(root: HTMLElement, end: AbortSignal): () => boolean {
  let lostAt = -Infinity;
  root.addEventListener("focusout", (event) => {
    // Whoever goes elsewhere says where to.
    if (event.relatedTarget === null) lostAt = performance.now();
  }, { signal: end });
  return () => root.contains(document.activeElement) || performance.now() - lostAt < JUST_NOW_MS;
}

/** Takes the focus as soon as the view is in the page, if by then nobody else has it. */
export function focusOnceShown(root: HTMLElement, home: () => HTMLElement | null, end: AbortSignal): void {
  const take = (): boolean => {
    if (!root.isConnected) return false;
    const active = document.activeElement;
    if (active === null || active.contains(root)) home()?.focus({ preventScroll: true });
    return true;
  };
  if (take() || typeof ResizeObserver === "undefined") return;
  const sizes = new ResizeObserver(() => take() && sizes.disconnect());
  sizes.observe(root);
  end.addEventListener("abort", () => sizes.disconnect());
}

/** Gives the focus back to the nearest element around the view that takes it: in JupyterLab the cell. */
export function leave(root: HTMLElement): void {
  const around = root.parentElement?.closest<HTMLElement>("[tabindex]");
  if (around) around.focus({ preventScroll: true });
  else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
}
