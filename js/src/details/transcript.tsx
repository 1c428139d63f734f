// The messages of a task, of an agent or of the whole run as one log to read (W120), beside those of the span. Everything that
// was said is a text node: nothing becomes markup, a link or an image (W6).

import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { CopyButton } from "../elements/copy-button";
import { Icon } from "../elements/icon";
import { LateIcon } from "../elements/late-icon";
import { Radios } from "../elements/radios";
import { choose, remembered } from "../elements/remembered";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import type { Row } from "../wire/rows";
import { kindTitle, titleOf } from "../wording/labels";
import { formatExactCount, pluralize } from "../wording/numbers";
import { markWords } from "./found-words";
import { Words } from "./parts";
import { SpanTexts } from "./span-texts";
import { TranscriptAsker } from "./transcript-asker";
import { messageOf, type Transcript, transcriptOf, type Utterance } from "./transcript-model";
import { WindowBar } from "./window-bar";

const SCOPES = ["span", "task", "agent", "run"] as const;
type Scope = (typeof SCOPES)[number];
const isScope = (value: unknown): value is Scope => SCOPES.includes(value as Scope);
/** Whose messages are shown: as a person chose it last. */
export const scope = remembered<Scope>("messages-of", "span", isScope);

/** So many are shown at once, and so many more each time. */
const STEP = 120;
/** Before the one of the span that is selected. */
const BEFORE = 30;
/** The details of so many tasks are asked for at once. */
const MOST_ASKED = 8;
const TYPING_MS = 120;

interface Props {
  row: Row;
  view: View;
  connection: KernelConnection | null;
  /** Another number whenever something may have changed. */
  change: number;
  /** The messages of the span itself; null where it has none. */
  own: (() => VNode | null) | null;
}

/** The tab: whose messages are shown, how full the window was, and the messages. */
export function MessagesTab({ row, view, connection, change, own }: Props): VNode {
  const transcript = useTranscript(view, connection);
  const agent = row.agent ?? "";
  const scopes = SCOPES.filter((each) => (each === "span" ? own !== null : each === "agent" ? agent !== "" : each !== "task" || taskOf(row, view) !== null));
  const chosen = scopes.includes(scope.value) ? scope.value : (scopes[0] ?? "run");
  const use = chosen === "span" ? transcript?.windows.get(row.kind === "attempt" ? (row.parent_id ?? "") : row.span_id) : undefined;
  return (
    <div class="et-messages">
      <Radios label="Messages of" class="et-scopes" each="et-scope" chosen={chosen} choose={(each) => choose("messages-of", scope, each)}
        values={scopes.map((each) => [each, nameScope(each, row, view)] as const)} />
      {use && <WindowBar use={use} isWhole />}
      {chosen === "span" ? own?.()
        : transcript === null ? <p class="et-missing" role="status">{explainNone(connection)}</p>
        : <Log key={chosen} transcript={transcript} said={select(transcript, chosen, row, view)} row={row} view={view} connection={connection} change={change} />}
    </div>
  );
}

function nameScope(each: Scope, row: Row, view: View): string {
  if (each === "run") return "Whole run";
  if (each === "agent") return row.agent ?? "";
  const task = taskOf(row, view);
  if (each === "task") return task === row ? "With what it handed on" : `Task ${task ? titleOf(view.store, task) : ""}`;
  return row.kind === "task" ? "This task" : `This ${kindTitle(row.kind).toLowerCase()}`;
}

/** The task that a row is, or is in. */
function taskOf(row: Row, view: View): Row | null {
  let at: Row | undefined = row;
  while (at && at.kind !== "task") at = at.parent_id ? view.store.row(at.parent_id) : undefined;
  return at ?? null;
}

function select({ said }: Transcript, chosen: Scope, row: Row, view: View): readonly Utterance[] {
  if (chosen === "run") return said;
  if (chosen === "agent") return said.filter(({ agent }) => agent === row.agent);
  const task = taskOf(row, view)?.span_id;
  const isInside = (id: string | null): boolean => {
    for (let at = id ? view.store.row(id) : undefined; at; at = at.parent_id ? view.store.row(at.parent_id) : undefined) if (at.span_id === task) return true;
    return false;
  };
  const known = new Map<string | null, boolean>();
  return said.filter(({ task: id }) => {
    if (!known.has(id)) known.set(id, isInside(id));
    return known.get(id);
  });
}

function explainNone(connection: KernelConnection | null): string {
  if (!connection) return "The log of the whole run was left out of the saved copy, which is kept small. Each task has its messages.";
  return connection.isUnreachable.value ? "The kernel is gone, and this was not loaded before." : "Loading…";
}

/** All messages of the run, in place of its bars. */
export function MessagesView({ view, connection, change }: Omit<Props, "row" | "own">): VNode {
  const transcript = useTranscript(view, connection);
  return (
    <div class="et-messages" role="region" aria-label="Messages of the run" tabIndex={0}>
      {transcript === null ? <p class="et-missing" role="status">{explainNone(connection)}</p>
        : <Log transcript={transcript} said={transcript.said} row={view.selectedRow.value} view={view} connection={connection} change={change} />}
    </div>
  );
}

/** What was said, asked for as long as somebody reads it; null as long as nothing is known. */
function useTranscript({ store }: View, connection: KernelConnection | null): Transcript | null {
  const asker = useMemo(() => new TranscriptAsker(store, connection), [store, connection]);
  useEffect(() => asker.look());
  useEffect(() => () => asker.end(), [asker]);
  store.version.value; // it may come with the next message of the kernel, also after the end
  return transcriptOf(store);
}

interface LogProps extends Omit<Props, "own" | "row"> {
  /** Of the span that is selected. */
  row: Row | undefined;
  transcript: Transcript;
  said: readonly Utterance[];
}

function Log({ transcript, said, row, view, connection, change }: LogProps): VNode {
  const { store } = view;
  const place = useRef<HTMLOListElement>(null);
  const chosen = findSelected(said, row);
  const [from, setFrom] = useState(Math.max(0, chosen - BEFORE));
  const [count, setCount] = useState(STEP);
  const [words, setWords] = useState(view.search.texts.value[0] ?? "");
  const [typed, setTyped] = useState(words);
  const [hit, setHit] = useState(0);
  const shown = said.slice(from, from + count);
  const found = useMemo(() => findWords(said, words, view), [said, words, store.version.value]);
  const current = words && found.length > 0 ? (found[hit % found.length] as number) : -1;
  // Texts come with the details of the tasks: of those that are shown, and of all where words are looked for.
  const tasks = [...new Set((words ? said : shown).map(({ task, field }) => (field ? task : null)))].filter((each): each is string => each !== null);
  useEffect(() => {
    if (connection) for (const task of tasks.filter((each) => store.hasStaleDetails(each)).slice(0, MOST_ASKED)) connection.wantDetails(task);
  });
  useEffect(() => {
    const timer = setTimeout(() => {
      setWords(typed.trim());
      setHit(0);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const target = current >= 0 ? current : chosen;
  useLayoutEffect(() => {
    if (target >= 0 && (target < from || target >= from + count)) setFrom(Math.max(0, target - BEFORE));
  }, [target]);
  useLayoutEffect(() => {
    const item = target < 0 ? undefined : place.current?.children[target - from + (from > 0 ? 1 : 0)];
    if (item) reveal(item as HTMLElement);
  }, [target, from]);
  useEffect(() => {
    if (place.current) markWords(place.current, words);
  });
  useEffect(() => () => {
    if (place.current) markWords(place.current, "");
  }, []);
  const go = (step: 1 | -1): void => setHit((hit + step + Math.max(found.length, 1)) % Math.max(found.length, 1));
  return (
    <>
      <div class="et-log-tools">
        <label class="et-log-find">
          <Icon name="search" size={12} />
          <input type="search" placeholder="Find in these messages" aria-label="Find in these messages" value={typed}
            onInput={(event) => setTyped((event.target as HTMLInputElement).value)}
            onKeyDown={(event) => {
              event.stopPropagation();
              if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
              if (event.key === "Escape") setTyped("");
            }} />
        </label>
        {words && <span class="et-log-hits" role="status">{found.length === 0 ? "nothing found" : `${formatExactCount((hit % found.length) + 1)} of ${formatExactCount(found.length)}`}</span>}
        {words && found.length > 1 && (
          <>
            <button class="et-button" aria-label="Previous place" title="Previous (Shift Enter)" onClick={() => go(-1)}><LateIcon name="left" /></button>
            <button class="et-button" aria-label="Next place" title="Next (Enter)" onClick={() => go(1)}><Icon name="right" /></button>
          </>
        )}
        <span class="et-spring" />
        <CopyButton label="Copy log: these messages as text" text={() => writeLog(said, view)}>Copy log</CopyButton>
      </div>
      {transcript.notes.map((note) => <p class="et-none">{note}</p>)}
      <ol ref={place} class="et-log" aria-label="Messages">
        {from > 0 && <li><button class="et-more-button" onClick={() => { setFrom(Math.max(0, from - STEP)); setCount(count + Math.min(from, STEP)); }}>{`${formatExactCount(from)} earlier`}</button></li>}
        {shown.map((each, k) => (
          <Said key={each.number} said={each} isFirst={from + k === 0} isSelected={from + k === chosen} isFound={from + k === current} view={view} connection={connection} change={change} use={each.role === "assistant" ? transcript.windows.get(each.span) : undefined} />
        ))}
        {from + count < said.length && <li><button class="et-more-button" onClick={() => setCount(count + STEP)}>{`${formatExactCount(said.length - from - count)} more`}</button></li>}
      </ol>
      {transcript.leftOut > 0 && <p class="et-none">{`${pluralize(transcript.leftOut, "later message")} left out: output.messages() has all`}</p>}
    </>
  );
}

/** The place of what the span that is selected has said, or what is about it; -1 where nothing is. */
function findSelected(said: readonly Utterance[], row: Row | undefined): number {
  if (!row) return -1;
  const span = row.kind === "attempt" ? row.parent_id : row.span_id;
  return said.findIndex((each) => each.span === span && (each.role !== "note" || row.kind === "task"));
}

/** The places of utterances in which these words stand. */
function findWords(said: readonly Utterance[], words: string, view: View): number[] {
  const wanted = words.toLowerCase();
  if (!wanted) return [];
  return said.flatMap((each, k) => (`${each.who} ${wordsOf(each, view)}`.toLowerCase().includes(wanted) ? [k] : []));
}

/** All words of an utterance that are here. */
function wordsOf(said: Utterance, view: View): string {
  const message = messageOf(view.store, said)?.message;
  const calls = (message?.tool_calls ?? []).map((call) => `[${call.name}(${asText(call.arguments)})]`);
  return [said.text || message?.text, ...calls].filter(Boolean).join("\n");
}

const asText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

function writeLog(said: readonly Utterance[], view: View): string {
  return said.map((each) => {
    const indent = "  ".repeat(each.depth);
    if (each.role === "note") return `${indent}-- ${each.text} --`;
    return `${indent}${each.who}${each.remark && ` (${each.remark})`}: ${wordsOf(each, view).replaceAll("\n", `\n${indent}  `)}`;
  }).join("\n");
}

/** Scrolls what is around it so far that it can be seen; the notebook stays where it is. */
function reveal(item: HTMLElement): void {
  const panel = item.closest<HTMLElement>(".et-panel");
  if (!panel) return;
  const [inner, outer] = [item.getBoundingClientRect(), panel.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) panel.scrollTop += inner.top - outer.top - 40;
}

interface SaidProps extends Omit<Props, "own" | "row"> {
  said: Utterance;
  isFirst: boolean;
  isSelected: boolean;
  isFound: boolean;
  use: Parameters<typeof WindowBar>[0]["use"] | undefined;
}

function Said({ said, isFirst, isSelected, isFound, view, connection, use }: SaidProps): VNode {
  const { store } = view;
  const style = { marginLeft: `${Math.min(said.depth, 6) * 18}px` };
  const row = store.row(said.span);
  const go = (): void => {
    if (row) view.goTo(said.span);
  };
  if (said.role === "note") {
    return (
      <li class="et-log-note" data-first={isFirst} data-selected={isSelected} data-found={isFound} style={style}>
        {row ? <button class="et-link" onClick={go}>{said.text}</button> : said.text}
      </li>
    );
  }
  const known = messageOf(store, said);
  const message = known?.message;
  const texts = new SpanTexts(said.task ?? said.span, known?.details, store, connection);
  const words = said.text || !message ? texts.of(null, said.text) : texts.of(message.field, message.text);
  const isPrompt = said.role === "system" || said.role === "tool";
  const thought = message?.reasoning && texts.of(`${message.field}.reasoning`, message.reasoning);
  const body = words.text !== "" && <Words words={words} kind={said.role === "tool" ? "code" : "prose"} />;
  const missing = said.field !== null && !message && (
    <p class="et-none">{connection ? (store.details(said.task ?? "") ? "left out here: the span has it" : "Loading…") : "not in the saved copy"}</p>
  );
  return (
    <li class="et-said-line" data-role={said.role} data-selected={isSelected} data-found={isFound} aria-current={isSelected ? "true" : undefined} style={style}>
      <div class="et-said-head">
        {row ? <button class="et-link et-who" title="Show where it was said" onClick={go}>{said.who}</button> : <b class="et-who">{said.who}</b>}
        {said.remark && <span class="et-none">{said.remark}</span>}
      </div>
      {thought && <details class="et-request"><summary class="et-role">Reasoning, no part of the reply</summary><Words words={thought} kind="prose" /></details>}
      {isPrompt && body ? <details class="et-said-fold"><summary>{beginOf(words.text)}<span class="et-none">{` · ${formatExactCount(words.length)} characters`}</span></summary>{body}</details> : body}
      {message?.tool_calls?.map((call, k) => (
        <details class="et-said-fold">
          <summary>{`▪ ${call.name} `}<span class="et-none">{beginOf(asText(call.arguments))}</span></summary>
          <Words words={texts.of(message.field ? `${message.field}.${k}` : null, asText(call.arguments))} kind="code" />
        </details>
      ))}
      {missing}
      {use && <WindowBar use={use} />}
    </li>
  );
}

function beginOf(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > 90 ? `${line.slice(0, 90)}…` : line;
}
