// What anywidget loads for the board of runs, in pages without our extension. The module of timelines comes with the first
// run that is opened below it.

import { BoardConnection } from "../board/board-connection";
import type { ShowTimeline } from "../board/board-parts";
import { mountBoard } from "../board/board-root";
import type { Bytes } from "../wire/columns";

interface Model {
  get(name: string): unknown;
  on(name: string, act: (...values: never[]) => void): void;
  off(name: string, act: (...values: never[]) => void): void;
  send(content: unknown): void;
}

type Texts = Record<string, string>;
type Timeline = { default: { render(props: { model: Model; el: HTMLElement; signal: AbortSignal }): () => void } };

let loading: Promise<{ timeline: Timeline; texts: Texts }> | undefined;

/** The module, from its text: asked for once in a page. */
function loadTimeline(model: Model): Promise<{ timeline: Timeline; texts: Texts }> {
  loading ??= new Promise<Texts>((resolve) => {
    const take = (content: { kind?: unknown; texts?: Texts }): void => {
      if (content.kind !== "module") return;
      model.off("msg:custom", take as never);
      resolve(content.texts ?? {});
    };
    model.on("msg:custom", take as never);
    model.send({ kind: "module" });
  }).then(async (texts) => {
    const address = URL.createObjectURL(new Blob([texts.timeline ?? ""], { type: "text/javascript" }));
    try {
      return { timeline: (await import(/* @vite-ignore */ address)) as Timeline, texts };
    } finally {
      URL.revokeObjectURL(address);
    }
  });
  loading.catch(() => (loading = undefined));
  return loading;
}

/** A timeline stands below the board as the widget of its run would, whose messages come through the board. */
const showTimeline = (model: Model): ShowTimeline => async (place, board, feedId) => {
  const { timeline, texts } = await loadTimeline(model);
  const listeners = new Set<(content: unknown, buffers: readonly Bytes[]) => void>();
  const joined = board.join(feedId, (content, buffers) => listeners.forEach((act) => act(content, buffers)));
  const own: Model = {
    get: (name) => (name === "feed_id" ? feedId : texts[name]),
    on: (name, act) => name === "msg:custom" && listeners.add(act as never),
    off: (_, act) => listeners.delete(act as never),
    send: joined.send,
  };
  const end = new AbortController();
  timeline.default.render({ model: own, el: place, signal: end.signal });
  return () => {
    end.abort();
    joined.leave();
  };
};

/** How many views there are of a board: the last one says goodbye. */
const views = new Map<string, number>();

function render({ model, el, signal }: { model: Model; el: HTMLElement; signal?: AbortSignal }): () => void {
  const feed = String(model.get("feed_id"));
  views.set(feed, (views.get(feed) ?? 0) + 1);
  const connection = new BoardConnection((message) => {
    if (message.kind !== "bye" || views.get(feed) === 0) model.send(message);
  });
  const receive = (content: unknown, buffers?: Bytes[]): void => connection.receive(content, buffers);
  const lose = (): void => connection.markLost();
  const suspect = (): void => connection.suspectLoss();
  const listeners = [["msg:custom", receive], ["comm:close", lose], ["comm_live_update", suspect]] as const;
  for (const [name, act] of listeners) model.on(name, act as never);
  const most = model.get("most");
  const unmount = mountBoard(el, {
    connection, saved: [], total: 0, most: typeof most === "number" ? most : null, writeBelow: null, showTimeline: showTimeline(model),
  });
  connection.catchUp();
  const end = (): void => {
    for (const [name, act] of listeners) model.off(name, act as never);
    unmount();
    views.set(feed, (views.get(feed) ?? 1) - 1);
    connection.close();
  };
  signal?.addEventListener("abort", end, { once: true });
  return end;
}

export default { render };
