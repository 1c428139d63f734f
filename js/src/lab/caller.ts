// Calls a person who looks elsewhere to a run that waits for an answer, or that is over (W29): by a notification of
// JupyterLab with a way there, and by a sign in the titles of the notebook's tab and of the page.

import type { KernelConnection } from "../kernel/connection";
import type { NotebookPanel, Notifications } from "./jupyter";
import type { ViewModule } from "./view-module";

const SIGN = "⏸ ";
const WAITS = "jp-mod-ensemble-waits";
/** How often the time that is left is said anew. */
const AGAIN_MS = 5000;

/** What the application has for it. */
export interface CallingPage {
  readonly notifications: Notifications | null;
  /** Whether a person wants to be called. */
  readonly isWanted: () => boolean;
  /** Brings a notebook to the front. */
  readonly activate: (panel: NotebookPanel) => void;
}

export class Caller {
  /** The views that wait for a person out of sight. */
  readonly #waiting = new Set<Attendant>();

  constructor(readonly panel: NotebookPanel, readonly page: CallingPage) {}

  /** Looks after a live view; gives back what ends that. */
  attend(place: HTMLElement, connection: KernelConnection, module: ViewModule): () => void {
    const attendant = new Attendant(this, place, connection, module);
    return () => attendant.end();
  }

  /** Says in the titles whether anything waits. */
  mark(attendant: Attendant, isWaiting: boolean): void {
    if (isWaiting) this.#waiting.add(attendant);
    else this.#waiting.delete(attendant);
    if (this.#waiting.size > 0) callers.add(this);
    else callers.delete(this);
    // A style sheet has the sign, since a notebook whose title is changed is renamed.
    const { title } = this.panel;
    const plain = title.className.replace(WAITS, "").trim();
    const name = this.#waiting.size > 0 ? `${plain} ${WAITS}`.trim() : plain;
    if (name !== title.className) title.className = name;
    if (!document.getElementById(WAITS)) document.head.append(makeStyle());
    // The application writes the page's title anew now and then.
    document.title = signed(document.title, callers.size > 0);
  }
}

function makeStyle(): HTMLStyleElement {
  const style = document.createElement("style");
  style.id = WAITS;
  style.textContent = `.${WAITS} .lm-TabBar-tabLabel::before { content: "${SIGN}"; }`;
  return style;
}

/** Those of all notebooks of the page for which something waits. */
const callers = new Set<Caller>();

const signed = (title: string, isSigned: boolean): string => {
  const plain = title.startsWith(SIGN) ? title.slice(SIGN.length) : title;
  return isSigned ? SIGN + plain : plain;
};

class Attendant {
  readonly #sight: IntersectionObserver;
  readonly #stop: () => void;
  /** Unknown until the page has looked. */
  #isInSight = true;
  #isEnded = false;
  #hasRun = false;
  /** What a person was called for already. */
  readonly #called = new Set<string>();
  #note: { readonly id: string; readonly about: string } | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(readonly caller: Caller, readonly place: HTMLElement, readonly connection: KernelConnection, readonly module: ViewModule) {
    this.#sight = new IntersectionObserver((entries) => {
      this.#isInSight = entries.at(-1)?.isIntersecting ?? this.#isInSight;
      this.#look();
    });
    // The line with the state: what is below it may be out of sight.
    this.#sight.observe(place.querySelector(".et-status") ?? place);
    document.addEventListener("visibilitychange", this.#look);
    this.#stop = module.watch(connection, this.#look);
  }

  end(): void {
    this.#isEnded = true;
    this.#sight.disconnect();
    document.removeEventListener("visibilitychange", this.#look);
    this.#stop();
    this.#withdraw();
  }

  readonly #look = (): void => {
    if (this.#isEnded) return;
    const { store } = this.connection;
    this.#hasRun ||= store.run.value?.status === "running";
    const call = this.#hasRun ? this.module.callOf(this.connection) : null;
    const isQuestion = call !== null && call.about !== "end";
    if (this.#note !== null && this.#note.about !== call?.about) this.#withdraw();
    if (call === null) return;
    if (this.#isInSight && !document.hidden) {
      // What is seen when it comes is nothing to be called for later, unless it waits.
      if (!isQuestion) this.#called.add(call.about);
      this.#dismiss();
    } else if (!this.#called.has(call.about) && this.caller.page.isWanted()) {
      this.#called.add(call.about);
      const actions = [{ label: "Go there", displayType: "accent", callback: (): void => this.#goThere() }];
      const id = this.caller.page.notifications?.emit(call.text, isQuestion ? "warning" : "info", { autoClose: false, actions });
      this.#note = { id: id ?? "", about: call.about };
      this.caller.mark(this, isQuestion);
      if (isQuestion) this.#timer = setInterval(this.#sayAgain, AGAIN_MS);
    }
  };

  /** Says how much time is left by now. */
  readonly #sayAgain = (): void => {
    this.caller.mark(this, true);
    const call = this.module.callOf(this.connection);
    if (this.#note?.about === call?.about && this.#note?.id) this.caller.page.notifications?.update({ id: this.#note.id, message: call?.text ?? "" });
  };

  #goThere(): void {
    this.caller.page.activate(this.caller.panel);
    this.place.scrollIntoView({ block: "nearest" });
    this.place.querySelector<HTMLElement>(".ensemble-timeline")?.focus({ preventScroll: true });
  }

  /** Takes the notification back; the sign stays until there is an answer. */
  #dismiss(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    if (this.#note?.id) this.caller.page.notifications?.dismiss(this.#note.id);
    if (this.#note) this.#note = { ...this.#note, id: "" };
  }

  #withdraw(): void {
    this.#dismiss();
    this.#note = null;
    this.caller.mark(this, false);
  }
}
