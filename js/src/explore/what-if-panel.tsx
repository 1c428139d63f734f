// What a person sets where the run is shown under other conditions (W138), what it would come to in words, and over the chart, pale, when
// each task would run.

import { render, type VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../elements/icon";
import { toPixel } from "../layout/time-scale";
import { isTask } from "../wire/predicates";
import { formatDuration } from "../wording/numbers";
import { AS_IT_WAS, type Prediction, type Scenario, type WhatIf } from "./what-if";

const FACTORS = [0.5, 1, 1.5, 2, 4, 10];
const MOST_TASKS = 300;
const MOST_NAMES = 12;
/** What a wait is called where it takes no time, in the order in which they are offered. */
const WAITS: Readonly<Record<string, string>> = {
  rate_limit: "no rate limit", backoff: "no back-off", budget: "none for the budget", connection: "none for connections", review: "none for people", all: "none at all",
};

export function WhatIfPanel({ whatIf }: { whatIf: WhatIf; change: number }): VNode | null {
  const place = useRef<HTMLElement>(null);
  const { view, scenario, prediction } = whatIf;
  const isShown = whatIf.isOpen && !whatIf.lacks;
  // Read whether or not there is something to draw, so that whoever mounts this notices that they change.
  const bars = isShown ? drawBars(whatIf) : null;
  useLayoutEffect(() => {
    const stage = place.current?.closest(".ensemble-timeline")?.querySelector(".et-stage");
    if (!stage || !prediction) return undefined;
    const layer = stage.appendChild(document.createElement("div"));
    layer.className = "et-foretold";
    layer.setAttribute("aria-hidden", "true");
    layers.set(whatIf, layer);
    return () => {
      render(null, layer);
      layer.remove();
      layers.delete(whatIf);
    };
  }, [isShown, prediction]);
  useLayoutEffect(() => {
    const layer = layers.get(whatIf);
    if (layer) render(bars, layer);
  });
  useLayoutEffect(() => void (isShown && place.current?.querySelector<HTMLElement>("select, input")?.focus()), [isShown]);
  if (!isShown) return null;
  const set = (more: Partial<Scenario>) => whatIf.change(more);
  const run = view.present.run.value;
  const waits = waitsOf(whatIf);
  const tasks = [...new Set([...view.present.rows()].filter((row) => isTask(row) && row.start_ms != null).map((row) => row.name ?? ""))].filter(Boolean).slice(0, MOST_TASKS);
  return (
    <section ref={place} class="et-what-if" aria-label="What if">
      <div class="et-what-if-fields">
        <b>What if</b>
        {view.present.kinds.has("llm") && <label>models <Factors value={scenario.models} set={(models) => set({ models })} /></label>}
        <label><input type="number" min={1} max={9999} value={scenario.places ?? ""} placeholder={String(run?.max_concurrency ?? "all")}
          onChange={({ currentTarget: { value } }) => set({ places: value === "" ? null : Number(value) })} /> at once</label>
        {waits.length > 0 && (
          <label>waits <select value={scenario.wait} onChange={({ currentTarget }) => set({ wait: currentTarget.value })}>
            <option value="">as they were</option>{waits.map((name) => <option value={name}>{WAITS[name]}</option>)}
          </select></label>
        )}
        <label>task <select value={scenario.task} onChange={({ currentTarget }) => set({ task: currentTarget.value, factor: scenario.factor === 1 ? 2 : scenario.factor })}>
          <option value="">none</option>{tasks.map((name) => <option>{name}</option>)}
        </select></label>
        {scenario.task && <label><span class="et-hidden">How fast the task is</span><Factors value={scenario.factor} set={(factor) => set({ factor })} /></label>}
        <span class="et-spring" />
        {(prediction || whatIf.error) && <button class="et-choice" onClick={() => set(AS_IT_WAS)}>As it was</button>}
        <button class="et-button" aria-label="Close what if" title="Close" onClick={() => whatIf.toggle()}><Icon name="error" size={12} /></button>
      </div>
      <p class="et-what-if-said" role="status">
        {whatIf.error || (prediction ? <><b>{prediction.summary}</b> {chainOf(prediction)}</> : whatIf.isAsking ? "Asking the kernel…" : "Choose what would have been different.")}
      </p>
    </section>
  );
}

const layers = new WeakMap<WhatIf, HTMLElement>();

const Factors = ({ value, set }: { value: number; set: (value: number) => void }) => (
  <select value={value} onChange={({ currentTarget }) => set(Number(currentTarget.value))}>
    {FACTORS.map((factor) => <option value={factor}>{factor}×</option>)}
  </select>
);

/** The waits that the run had. */
function waitsOf({ view: { present } }: WhatIf): string[] {
  const found = new Set<string>();
  for (const row of present.rows()) {
    if (row.kind === "wait" && row.wait_kind) found.add(row.wait_kind);
    if (row.backoff_ms) found.add("backoff");
    if (row.kind === "review") found.add("review");
  }
  return Object.keys(WAITS).filter((name) => found.has(name) || (name === "all" && found.size > 1));
}

/** The tasks that the length would hang on. */
function chainOf({ path }: Prediction): string {
  if (path.length === 0) return "";
  const more = path.length - MOST_NAMES;
  return `Longest chain: ${path.slice(0, MOST_NAMES).join(" → ")}${more > 0 ? ` → ${more} more` : ""}`;
}

/** When each task in sight would run, and where the run would end. */
function drawBars({ view, prediction }: WhatIf): VNode | null {
  const [{ value: window }, { value: width }, { value: top }, { value: fixed }, { value: head }] = [view.window, view.width, view.scrollTop, view.fixed, view.head];
  view.layout.value;
  if (view.shape.value !== "chart" || !prediction) return null;
  const xOf = (ms: number): number => Math.min(Math.max(toPixel(window, width, ms), -4), width + 4);
  const end = xOf(prediction.wall_ms);
  return (
    <>
      {view.shownTracks.map((track) => {
        const told = prediction.tasks.get(track.id);
        if (!told) return null;
        const [left, right] = [xOf(told.from), xOf(told.to)];
        return <i key={track.id} data-critical={told.isCritical} style={{ top: `${head + track.y - (track.y < fixed ? 0 : top) + 2}px`, left: `${left}px`, width: `${Math.max(right - left, 3)}px`, height: `${track.height - 6}px` }} />;
      })}
      <b style={{ left: `${end}px` }}><span data-before={end > width - 70}>{formatDuration(prediction.wall_ms)}</span></b>
    </>
  );
}
