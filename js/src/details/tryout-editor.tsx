// Edits what a span was given or gave, and tries it (F4): a model call once more with other words, beside the reply that the
// run had; another result of a tool, or another output of a task, with which the run goes on.

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../elements/icon";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { View } from "../view/view";
import { titleOf } from "../wording/labels";
import { formatCount, formatMoney } from "../wording/numbers";
import { PutIntoCell } from "./put-into-cell";
import type { Answer, Desk, Offer, Reply } from "./tryout-desk";
import { Replies } from "./tryout-replies";
import type { Way } from "./try-buttons";

const MOST_REPEATS = 10;
const TITLES: Readonly<Record<Way, string>> = { call: "Edit and run again", tool: "Change its result and go on", task: "Change its output and go on" };
const LEAST_LINES = 3;
const MOST_LINES = 14;
const LINE_LENGTH = 110;

interface Props {
  view: View;
  desk: Desk;
  span: string;
  way: Way;
  onClose: () => void;
}

export function TryoutEditor({ view, desk, span, way, onClose }: Props): VNode {
  const [offer, setOffer] = useState<Offer | null>(() => offerOf(view.present, span, way));
  const [error, setError] = useState<string | null>(null);
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [llm, setLlm] = useState("");
  const [other, setOther] = useState("");
  const [repeat, setRepeat] = useState(1);
  const [run, setRun] = useState<KernelConnection | null>(null);
  const [feed, setFeed] = useState("");
  const [replies, setReplies] = useState<readonly Reply[] | null>(null);
  const [variable, setVariable] = useState<string | null>(null);
  const [isAsked, setAsked] = useState(false);
  const place = useRef<HTMLElement>(null);
  const row = view.present.row(span);
  const isOurs = !view.present.run.value?.framework;
  const hear = (answer: Answer): void => {
    setAsked(false);
    setError(answer.error ?? null);
    if (answer.offer) setOffer(answer.offer);
    if (answer.variable) setVariable(answer.variable);
    if (answer.replies) setReplies(answer.replies);
  };
  useEffect(() => desk.ask({ act: "offer", span_id: span }, hear), []);
  useEffect(() => {
    const field = place.current?.querySelector<HTMLTextAreaElement>("textarea:last-of-type");
    field?.focus({ preventScroll: true });
    place.current?.scrollIntoView?.({ block: "nearest" });
  }, [offer === null]);
  const change = (): Record<string, string> => {
    const said = offer && way === "call" ? { system_prompt: offer.system_prompt, user_prompt: offer.user_prompt, parameters: offer.parameters } : {};
    const asked = llm === OTHER ? other.trim() : llm;
    const changed = Object.entries(texts).filter(([name, text]) => way !== "call" || text !== (said as Record<string, unknown>)[name]);
    return { ...Object.fromEntries(changed), ...(asked && { llm: asked }) };
  };
  const go = (act: "rerun" | "fork", more: Record<string, unknown> = {}): void => {
    setAsked(true);
    setError(null);
    if (act === "rerun") setReplies(null);
    desk.isForking = act === "fork";
    desk.ask({ act, span_id: span, repeat, change: change(), ...more }, (answer) => {
      hear(answer);
      if (!answer.began) return;
      if (act === "fork") return;
      setFeed(answer.began.feed_id);
      setRun(desk.connect(answer.began.feed_id));
    });
  };
  const isRunning = run !== null && replies === null && error === null;
  const isReady = offer !== null && !isAsked && !isRunning;
  const given = way === "tool" ? "tool_result" : "output";
  const set = (name: string) => (text: string): void => setTexts({ ...texts, [name]: text });
  return (
    <section ref={place} class="et-tryout" aria-label={TITLES[way]}>
      <header class="et-tryout-head">
        <h4>{TITLES[way]}</h4><span class="et-tryout-of">{row && titleOf(view.present, row)}</span>
        <span class="et-spring" />
        {way === "call" && offer && <Finder place={place} />}
        <button class="et-button" aria-label="Close the editor" title="Close" onClick={onClose}><Icon name="error" /></button>
      </header>
      {!offer && !error && <p class="et-tryout-note">Reading what was said…</p>}
      {offer && way === "call" && (
        <>
          <div class="et-tryout-fields">
            <Field title="System prompt" text={texts.system_prompt ?? offer.system_prompt ?? ""} onInput={set("system_prompt")} />
            <Field title="Prompt" text={texts.user_prompt ?? offer.user_prompt ?? ""} onInput={set("user_prompt")} />
          </div>
          {!!offer.others && <p class="et-tryout-note">What came after it in the conversation ({formatCount(offer.others)} {offer.others === 1 ? "message" : "messages"}) stays as it was.</p>}
          <div class="et-tryout-row">
            <label>Model <select value={llm} onChange={(event) => setLlm(event.currentTarget.value)}>
              <option value="">{offer.model ?? "as it was"} (as it was)</option>
              {offer.models?.map(({ name }) => <option key={name} value={name}>{name}</option>)}
              <option value={OTHER}>Another…</option>
            </select></label>
            {llm === OTHER && <label>Its spec <input value={other} placeholder="openai:NAME" onInput={(event) => setOther(event.currentTarget.value)} /></label>}
            <label>Parameters <input class="et-tryout-wide" value={texts.parameters ?? offer.parameters ?? ""} placeholder="temperature: 0.2, max_tokens: 300"
              onInput={(event) => set("parameters")(event.currentTarget.value)} /></label>
            <label>Times <select value={String(repeat)} onChange={(event) => setRepeat(Number(event.currentTarget.value))}>
              {Array.from({ length: MOST_REPEATS }, (_, k) => <option key={k} value={String(k + 1)}>× {k + 1}</option>)}
            </select></label>
          </div>
        </>
      )}
      {offer && way !== "call" && <Field title={way === "tool" ? "Result of the tool" : "Output of the task"} text={texts[given] ?? offer.output} onInput={set(given)} />}
      {error && <p class="et-tryout-error" role="alert">{error}</p>}
      <div class="et-tryout-row">
        {offer && way === "call" && (
          <>
            <button class="et-answer" data-verdict="approve" aria-disabled={!isReady} onClick={() => isReady && go("rerun")}>Run again</button>
            {isOurs && <button class="et-answer" aria-disabled={!isReady} title="A fork: all that depends on this call runs again" onClick={() => isReady && go("fork")}>Go on with the change</button>}
            {isRunning && <button class="et-answer" onClick={() => run?.post({ kind: "stop" })}>Stop</button>}
            <span class="et-tryout-note">{estimate(offer, llm, repeat)}</span>
          </>
        )}
        {offer && way !== "call" && <button class="et-answer" data-verdict="approve" aria-disabled={!isReady}
          onClick={() => isReady && go("fork", { change: { [given]: texts[given] ?? offer.output } })}>Go on</button>}
        <span class="et-tryout-note" role="status">{isAsked ? "Asking the kernel…" : isRunning ? "Waiting for the replies" : variable ? `In the notebook: ${variable}` : ""}</span>
        {replies && !!offer?.scorers?.length && <label>Score with <select value="" onChange={(event) => desk.ask({ act: "score", feed_id: feed, scorer: event.currentTarget.value }, hear)}>
          <option value="">choose a scorer</option>{offer.scorers.map((name) => <option key={name} value={name}>{name}</option>)}
        </select></label>}
      </div>
      {offer && run && <Replies before={offer.output} run={run} replies={replies} currency={offer.currency ?? "USD"} isReady={isReady}
        onKeep={isOurs ? (number) => go("fork", { feed_id: feed, reply: number }) : undefined} />}
      {replies && isOurs && <PutIntoCell key={feed} view={view} ask={(tell) => desk.ask({ act: "source", feed_id: feed }, tell)} />}
    </section>
  );
}

const OTHER = " other";

/** What is here of a span already, so that nobody waits for the kernel to begin; null where that is not all of it. */
function offerOf(store: Store, span: string, way: Way): Offer | null {
  const details = store.details(span);
  if (!details || details.output == null || Object.keys(details.lengths ?? {}).length > 0) return null;
  const textOf = (role: string): string => details.messages.find((message) => message.role === role)?.text ?? "";
  return { output: details.output, ...(way === "call" && { system_prompt: textOf("system"), user_prompt: textOf("user") }) };
}

/** What it is likely to cost: what the same tokens cost with the model that is chosen. */
function estimate(offer: Offer, llm: string, repeat: number): string {
  const cost = llm ? offer.models?.find(({ name }) => name === llm)?.cost : offer.cost;
  if (cost != null) return `likely ${formatMoney(cost * repeat, offer.currency ?? "USD")}`;
  if (offer.input_tokens == null || offer.output_tokens == null) return "";
  return `likely ${formatCount(offer.input_tokens * repeat)} tokens in, ${formatCount(offer.output_tokens * repeat)} out; no price is known`;
}

function Field({ title, text, onInput }: { title: string; text: string; onInput: (text: string) => void }): VNode {
  const lines = text.split("\n").reduce((sum, line) => sum + 1 + Math.floor(line.length / LINE_LENGTH), 0);
  return (
    <label class="et-tryout-field">
      <span class="et-role">{title}</span>
      <textarea rows={Math.min(MOST_LINES, Math.max(LEAST_LINES, lines))} value={text} spellcheck={false} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

/** Finds words in the texts that are edited: Enter goes to the next place. */
function Finder({ place }: { place: { readonly current: HTMLElement | null } }): VNode {
  const [words, setWords] = useState("");
  const [isMissing, setMissing] = useState(false);
  const at = useRef<[number, number]>([0, 0]);
  const find = (): void => {
    const fields = [...(place.current?.querySelectorAll("textarea") ?? [])];
    const sought = words.toLowerCase();
    for (let k = 0; sought && k <= fields.length; k += 1) {
      const field = fields[(at.current[0] + k) % fields.length] as HTMLTextAreaElement;
      const found = field.value.toLowerCase().indexOf(sought, k === 0 ? at.current[1] : 0);
      if (found < 0) continue;
      at.current = [fields.indexOf(field), found + sought.length];
      setMissing(false);
      field.focus({ preventScroll: true });
      field.setSelectionRange(found, found + sought.length);
      return;
    }
    setMissing(true);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it would be typed over what is found
    find();
  };
  return (
    <input class="et-tryout-find" type="search" aria-label="Find in the prompts" aria-invalid={isMissing} placeholder="Find" value={words}
      onInput={(event) => setWords(event.currentTarget.value)} onKeyDown={onKey} />
  );
}
