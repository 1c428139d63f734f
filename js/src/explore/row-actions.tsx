// What can be done with rows of a map that are selected (W157): run again, label, send to a judge, and what came of that.

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { KernelConnection } from "../kernel/connection";
import { lackOf } from "../view/tryable";
import type { View } from "../view/view";
import type { JsonObject } from "../wire/guards";
import { formatMoney } from "../wording/numbers";
import { type RowDesk, rowDeskOf } from "./row-desk";

/** By what is asked of the kernel. */
const WAYS = { fork_rows: "Run again with…", label_rows: "Label…", judge_rows: "Send to a judge…" } as const;
type Way = keyof typeof WAYS;

interface Props {
  view: View;
  connection: KernelConnection | null;
  noun: string;
  /** What stands in the same line, before and after. */
  before: ComponentChildren;
  after: ComponentChildren;
}

export function RowActions({ view, connection, noun, before, after }: Props): VNode {
  const isMap = (view.store.run.value?.task_noun ?? "task") !== "task";
  const lack = isMap && lackOf(view, connection);
  const desk = isMap && !lack && connection && rowDeskOf(connection);
  const [way, setWay] = useState<Way | null>(null);
  return (
    <div class="et-row-acts" onKeyDown={(event) => {
      if (way === null && event.key === "Escape") return;
      event.stopPropagation(); // what is typed is no key of the table
      if (event.key === "Escape") setWay(null);
    }}>
      <div class="et-answers-bar" role="group" aria-label="Selected cells">
        {before}
        {desk && (Object.keys(WAYS) as Way[]).map((each) => <button key={each} class="et-choice" aria-expanded={way === each} onClick={() => setWay(way === each ? null : each)}>{WAYS[each]}</button>)}
        <span class="et-spring" />{after}
      </div>
      {lack && <p class="et-answers-bar">{lack} to run these {noun}s again, to label them or to send them to a judge.</p>}
      {desk && way && <Form key={way} way={way} desk={desk} spans={view.selectedSpans.value} close={() => setWay(null)} />}
      {desk && desk.jobs.value.map((job) => job.text && (
        <p key={job.number} class="et-answers-bar" role={job.state === "failed" ? "alert" : "status"} data-state={job.state}>
          {job.text}{job.stop && job.state === "going" && <button class="et-choice" onClick={() => desk.stop(job)}>Stop</button>}
        </p>
      ))}
    </div>
  );
}

/** What is chosen, in a line; nothing as long as the kernel has not said what there is. */
function Form({ way, desk, spans, close }: { way: Way; desk: RowDesk; spans: ReadonlySet<string>; close: () => void }): VNode | null {
  const place = useRef<HTMLFormElement>(null);
  const [llm, setLlm] = useState("");
  useEffect(() => {
    if (way !== "label_rows") desk.ask([...spans]);
  }, [spans]);
  const offer = desk.offer.value;
  const isThere = way === "label_rows" || offer !== null;
  useEffect(() => place.current?.querySelector<HTMLElement>("input, select, button")?.focus({ preventScroll: true }), [isThere]);
  if (!isThere) return null;
  const { count = 0, tasks = [], models = [], judges = [], currency = "", lacking = "", cost = null } = offer ?? {};
  const likely = llm ? models.find(({ name }) => name === llm)?.cost : cost;
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement, event.submitter);
    const { task = tasks[0], mark, label, note, judge, ...change } = Object.fromEntries([...fields].map(([name, value]) => [name, String(value).trim()]));
    const told: Readonly<Record<Way, JsonObject>> = { fork_rows: { task, change }, label_rows: { value: mark ? mark === "Good" : label, note }, judge_rows: { judge } };
    desk.begin(way, [...spans], "Beginning", told[way]);
    close();
  };
  const choose = (name: string, choices: readonly string[]): VNode => <select name={name} aria-label={name}>{choices.map((each) => <option key={each}>{each}</option>)}</select>;
  const input = (name: string, words: string, more = {}): VNode => <input key={name} class="et-table-filter" name={name} aria-label={words} placeholder={words} maxLength={2000} autocomplete="off" {...more} />;
  const fields: Readonly<Record<Way, () => ComponentChildren>> = {
    label_rows: () => [
      ...["Good", "Bad"].map((mark) => <button key={mark} class="et-choice" name="mark" value={mark} formNoValidate>{mark}</button>),
      input("label", "Label", { required: true }), input("note", "Note"), <button class="et-answer" data-verdict="approve">Label</button>,
    ],
    fork_rows: () => tasks.length === 0 ? "They have no task in common that each has begun once: open one, and fork it there." : [
      tasks.length > 1 && choose("task", tasks),
      input("llm", "Model: as it was", { list: "et-models", onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setLlm(currentTarget.value) }),
      <datalist id="et-models">{models.map(({ name }) => <option key={name}>{name}</option>)}</datalist>,
      input("system_prompt", "System prompt: as it was"),
      <button class="et-answer" data-verdict="approve">Run {count} again</button>, likely != null && `likely ${formatMoney(likely, currency)}`,
    ],
    judge_rows: () => judges.length === 0 ? "No variable holds a judge: an ensemble with {output} in its prompt and a typed output." : [choose("judge", judges), <button class="et-answer" data-verdict="approve">Send {count}</button>],
  };
  return <form ref={place} class="et-answers-bar" onSubmit={send}>{fields[way]()}{way !== "label_rows" && lacking}</form>;
}
