// What a person tries at the spans of a run: the editor, and the forks, each drawn below the run from its point on (F4). Loaded
// with the first of them.

import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import { titleOf } from "../wording/labels";
import { alignStore, type Places } from "./fork-rows";
import { linkViews } from "./linked-views";
import { PutIntoCell } from "./put-into-cell";
import { type Desk, deskOf, type Tryout } from "./tryout-desk";
import { TryoutEditor } from "./tryout-editor";
import type { Way } from "./try-buttons";

/** What a person wants to try. */
export interface Asked {
  readonly span: string;
  readonly way: Way;
  readonly number: number;
}

interface Props {
  view: View;
  connection: KernelConnection;
}

function useDesk(connection: KernelConnection): Desk {
  const [, setChange] = useState(0);
  const desk = useMemo(() => deskOf(connection), [connection]);
  useEffect(() => desk.listen(() => setChange((change) => change + 1)), [desk]);
  return desk;
}

/** The forks of a run, below its bars; once a person has made one, both come into sight. */
export function Forks({ view, connection }: Props): VNode {
  const desk = useDesk(connection);
  const place = useRef<HTMLDivElement>(null);
  const count = desk.forks.length;
  useEffect(() => {
    if (!desk.isForking || count === 0) return;
    desk.isForking = false;
    place.current?.closest(".ensemble-timeline")?.scrollIntoView?.({ block: "start" });
  }, [count]);
  return <div ref={place} class="et-forks">{desk.forks.map((fork, k) => <Fork key={fork.feed_id} number={k + 1} fork={fork} view={view} desk={desk} />)}</div>;
}

/** What a person edits. */
export function Editor({ view, connection, asked, onClose }: Props & { asked: Asked; onClose: () => void }): VNode {
  const desk = useDesk(connection);
  return <TryoutEditor key={asked.number} view={view} desk={desk} span={asked.span} way={asked.way} onClose={onClose} />;
}

const CHANGES: Readonly<Record<string, string>> = {
  reply: "another reply", tool_result: "another result", output: "another output", system_prompt: "another system prompt",
  user_prompt: "another prompt", messages: "other messages", llm: "another model", parameters: "other parameters",
};

function Fork({ number, fork, view, desk }: { number: number; fork: Tryout; view: View; desk: Desk }): VNode {
  const place = useRef<HTMLDivElement>(null);
  const origin = view.present;
  const point = origin.row(fork.span_id);
  useEffect(() => {
    const end = new AbortController();
    let places: { own: Places; origins: Places } | null = null;
    const at = (fork.at_end ? (point?.end_ms ?? point?.start_ms) : point?.start_ms) ?? 0;
    const run = desk.connect(fork.feed_id, ({ store }) => (places = alignStore(store, origin, fork.span_id, at)));
    const host = place.current as HTMLDivElement;
    // A press in here is nothing to the view around it.
    host.addEventListener("mousedown", (event) => event.stopPropagation(), { signal: end.signal });
    const shown = view.mount?.(host, run, end.signal);
    if (shown && places) linkViews(view, shown, places, end.signal);
    // What is one time in both stands one above the other.
    const names = host.closest(".et-drawer-place")?.parentElement?.querySelector<HTMLElement>(".et-gutter");
    const sizes = new ResizeObserver(() => host.style.setProperty("--et-of-origin", `${(names?.offsetWidth ?? 0) - (names?.querySelector<HTMLElement>(".et-columns")?.offsetWidth ?? 0)}px`));
    if (names) sizes.observe(names);
    end.signal.addEventListener("abort", () => sizes.disconnect());
    return () => end.abort();
  }, [fork.feed_id]);
  const changed = fork.changed.map((name) => CHANGES[name] ?? name).join(" and ") || "asked once more";
  return (
    <section class="et-fork" aria-label={`Fork ${number}`}>
      <header class="et-fork-head">
        <b>Fork {number}</b>
        <span>at <button class="et-link" onClick={() => view.goTo(fork.span_id)}>{point ? titleOf(origin, point) : fork.span_id}</button>, {changed}</span>
        {fork.variable && <code>{fork.variable}</code>}
      </header>
      <div ref={place} />
      <div class="et-fork-foot"><PutIntoCell view={view} ask={(tell) => desk.ask({ act: "source", feed_id: fork.feed_id }, tell)} /></div>
    </section>
  );
}
