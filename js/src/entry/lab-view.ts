// What the JupyterLab extension loads with the first timeline of a page: the views themselves. Pages without one are
// spared them.

import { effect, untracked } from "@preact/signals";
import { mount } from "../chrome/app";
import { callOf } from "../chrome/calls";
import { KERNEL_CONTROLS } from "../chrome/kernel-controls";
import { KernelConnection } from "../kernel/connection";
import type { ViewModule } from "../lab/view-module";
import { storeToSaved } from "../store/saved-store";
import { isTraceFile } from "../wire/guards";
import { renderSaved } from "./saved-view";

/** Shows a trace file once what reads it is there. */
function showTrace(place: HTMLElement, trace: Record<string, unknown>): () => void {
  const end = new AbortController();
  import("./trace-reader").then(
    ({ traceToSaved }) => renderSaved(place, trace, end.signal, () => traceToSaved(trace)),
    () => place.append("The trace could not be read; the server did not answer."),
  );
  return () => end.abort();
}

const module: Omit<ViewModule, "css"> = {
  board: async (content) => (await import("../board/board-module")).boardModule(module, content) as ViewModule,
  connect: (send) => new KernelConnection(send),
  save: (connection, feedId) => storeToSaved(connection.store, feedId),
  callOf: (connection) => callOf(connection.store),
  watch: ({ store }, act) => effect(() => {
    store.version.value;
    untracked(act);
  }),
  showSaved: (place, content, writeBelow) => (isTraceFile(content) ? showTrace(place, content) : renderSaved(place, content, undefined, undefined, writeBelow)),
  showLive(place, connection, writeBelow) {
    const end = new AbortController();
    mount(place, connection.store, connection, KERNEL_CONTROLS, end.signal, writeBelow);
    return () => end.abort();
  },
};

export default module;
