// One view in the page: puts status line, gutter, canvas and drawer together and wires them to a store. Everything it
// starts ends with its signal.

import { computed, effect, signal, type Signal } from "@preact/signals";
import { render } from "preact";
import { focusOnceShown, holdFocus, isForPage, isTextField, keepKeys, leave, rememberFocus, takeFocusOnPress } from "../input/focus";
import { handleKey, type PageAround } from "../input/keys";
import type { KernelConnection } from "../kernel/connection";
import { activitiesOf } from "../store/activities";
import { sayBreak } from "../store/row-state";
import type { Store } from "../store/store";
import { applyTheme, type Theme, watchTheme } from "../theme/theme";
import { keepView, takeOverView } from "../view/left-views";
import { View } from "../view/view";
import { Announcer } from "./announcer";
import { Chart } from "./chart";
import type { KernelControls } from "./kernel-controls";
import { DrawerPlace, KeysPlace, PanelPlace } from "./late-places";
import { StatusLine } from "./status-line";
import { Toolbar } from "./toolbar";

/** What the browser does with a key in a box that scrolls. */
const SCROLL_KEYS = new Set(["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "PageDown", "PageUp", "Home", "End", " ", "Enter"]);
let views = 0;

interface Props {
  view: View;
  connection: KernelConnection | null;
  controls: KernelControls | null;
  theme: Signal<Theme>;
  sentence: Signal<string>;
  prefix: string;
}

/**
 * Shows a store in `host` until `end` aborts. Without a connection it is a saved trace: no kernel, and so no controls.
 * `writeBelow` writes a cell below the view, where there are cells.
 */
export function mount(
  host: HTMLElement, store: Store, connection: KernelConnection | null, controls: KernelControls | null, end: AbortSignal,
  writeBelow: View["writeBelow"] = null,
): View {
  const root = document.createElement("div");
  root.className = "ensemble-timeline";
  root.tabIndex = -1;
  root.setAttribute("role", "group");
  keepKeys(root, end);
  host.append(root);
  const view = new View(store, end);
  view.writeBelow = writeBelow;
  view.mount = (place, other, until) => mount(place, other.store, other, controls, until, writeBelow);
  const hadFocus = takeOverView(view);
  const theme = signal(applyTheme(root));
  const sentence = signal("");
  watchTheme(root, () => (theme.value = applyTheme(root)), end);
  const rows = (): HTMLElement | null => root.querySelector(view.shape.value === "chart" ? ".et-gutter" : ".et-shape [tabindex]");
  takeFocusOnPress(root, rows, end);
  holdFocus(root, rows, end);
  const hasFocus = rememberFocus(root, end);
  const around: PageAround = {
    focusSearch: () => {
      const field = root.querySelector<HTMLInputElement>(".et-search input");
      field?.focus({ preventScroll: true });
      field?.select();
    },
    leave: () => leave(root),
  };
  root.addEventListener("keydown", (event) => onKey(event, view, around, rows), { signal: end });
  announce(view, sentence, end);
  // Style sheets turn and blink only what is alive, so that a view of a run that is over rests entirely (W5).
  const isLive = computed(() => String(store.isTicking));
  const label = computed(() => `Timeline of ${store.run.value?.name ?? "a run"}`);
  const unlive = effect(() => {
    root.dataset.live = isLive.value;
    root.setAttribute("aria-label", label.value);
  });
  end.addEventListener("abort", unlive);
  views += 1;
  render(<App view={view} connection={connection} controls={controls} theme={theme} sentence={sentence} prefix={`et${views}-`} />, root);
  if (hadFocus) focusOnceShown(root, rows, end);
  end.addEventListener("abort", () => {
    keepView(view, hasFocus());
    render(null, root);
    root.remove();
  });
  return view;
}

function App({ view, connection, controls, theme, sentence, prefix }: Props) {
  return (
    <>
      <StatusLine view={view} connection={connection}>
        {connection && controls && <controls.Stop connection={connection} run={view.present.run.value} />}
      </StatusLine>
      {connection && controls && <controls.ReviewPlace view={view} connection={connection} />}
      <Toolbar view={view} />
      <PanelPlace view={view} connection={connection} />
      <Chart view={view} connection={connection} theme={theme} prefix={prefix} />
      <KeysPlace view={view} />
      <DrawerPlace view={view} connection={connection} />
      <div class="et-hidden" role="status" aria-live="polite">{sentence}</div>
    </>
  );
}

/** Plain keys end here, whether or not they mean something, so that none of them reaches the notebook (W9). */
function onKey(event: KeyboardEvent, view: View, around: PageAround, rows: () => HTMLElement | null): void {
  if (event.key === "Tab" || isForPage(event)) return;
  event.stopPropagation();
  const target = event.target as HTMLElement;
  if (isTextField(target)) {
    if (event.key === "Escape") rows()?.focus({ preventScroll: true });
    return;
  }
  const isButton = target.closest("button") !== null;
  if (isButton && (event.key === "Enter" || event.key === " ")) return;
  // In the drawer these scroll its text, and walk along its tabs.
  if (target.closest(".et-drawer, .et-review-text") && SCROLL_KEYS.has(event.key)) return;
  if (!handleKey(view, event.key, view.now, around)) return;
  event.preventDefault();
  // What Escape closed had the focus, or may be gone before the next key comes.
  if (event.key === "Escape" && target.closest(".et-drawer, .et-keys, .et-switches, .et-summary, .et-range-handle")) rows()?.focus({ preventScroll: true });
}

function announce(view: View, sentence: Signal<string>, end: AbortSignal): void {
  const announcer = new Announcer();
  const stop = effect(() => {
    const run = view.present.run.value;
    view.age.value;
    const next = run && announcer.next(run, performance.now(), activitiesOf(view.present, run, 3).shown.map(({ name }) => name), sayBreak(view.present));
    if (next) sentence.value = next;
  });
  end.addEventListener("abort", stop);
}
