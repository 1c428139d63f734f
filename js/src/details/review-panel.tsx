// The question that the run waits for, and the buttons by which a person answers it (W13). Only for views with a kernel; a
// saved trace asks nobody.

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../elements/icon";
import { TextBlock } from "../elements/text-block";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import type { Review, Row, Run, Verdict } from "../wire/rows";
import { formatClock } from "../wording/numbers";
import { describeQuestion, describeTimeout } from "../wording/questions";
import { answerBy, ArgumentFields, ArgumentList } from "./call-arguments";

interface Choice {
  /** On the button. */
  word: string;
  hint: string;
  /** Above the field, where the answer needs a text. */
  field?: string;
  /** On the button that sends the text. */
  send?: string;
  isOptional?: boolean;
}

const CHOICES: Record<Verdict, Choice> = {
  approve: { word: "Approve", hint: "Go on with it" },
  edit: { word: "Edit…", hint: "Change the text, and go on with yours", field: "Go on with this text", send: "Use this text" },
  retry: { word: "Send back…", hint: "Have it done again, with your advice", field: "What should be different?", send: "Send back" },
  reject: { word: "Reject…", hint: "Refuse it", field: "Why? (may stay empty)", send: "Reject", isOptional: true },
  exit_early: { word: "End the run", hint: "What is running finishes, nothing new starts" },
};
/** Of a call of a reviewed tool. */
const CALL_CHOICES: Record<Verdict, Choice> = {
  ...CHOICES,
  approve: { word: "Approve", hint: "Have this call made" },
  edit: { word: "Edit…", hint: "Have it made with other arguments", field: "", send: "Call with these" },
  reject: { word: "Decline…", hint: "It is not made, and the model reads why", field: "Why? The model reads it (may stay empty)", send: "Decline", isOptional: true },
};
/** What may be decided for all rows of a map at once; a text is that of one row alone. */
const FOR_ALL: ReadonlySet<Verdict> = new Set(["approve", "reject", "exit_early"]);
/** What may be decided for all later calls of a tool. */
const FOR_ALWAYS: ReadonlySet<Verdict> = new Set(["approve", "reject"]);
const HURRY_MS = 30_000;
const ASK_AGAIN_MS = 500;

/** The question that the run waits for, with its buttons; nothing while there is none. */
export function ReviewPanel({ view, connection, change }: { view: View; connection: KernelConnection; change: number }) {
  const { store } = view;
  store.version.value;
  const run = store.run.value;
  const row = run?.status === "running" && !connection.isLost.value ? store.row(run.waiting[0] ?? "") : undefined;
  const { review } = row ?? {};
  // Who answers by keys goes on with the next question. Its buttons don't get the focus: what is pressed twice must answer once.
  const isAnswering = useRef(false);
  return (
    <>
      <div class="et-hidden" role="alert">{row && review ? `Waiting for you: ${describeQuestion(row, review)}` : null}</div>
      {row && review && <Question key={row.span_id} row={row} review={review} run={run as Run} view={view} connection={connection} change={change} isAnswering={isAnswering} />}
    </>
  );
}

interface QuestionProps {
  row: Row;
  review: Review;
  run: Run;
  view: View;
  connection: KernelConnection;
  /** Another number whenever something may have changed. */
  change: number;
  /** Whether the question before was answered here. */
  isAnswering: { current: boolean };
}

function Question({ row, review, run, view, connection, isAnswering }: QuestionProps) {
  const span = row.span_id;
  const isQuestion = review.subject === "question";
  const [verdict, setVerdict] = useState<Verdict | null>(isQuestion ? "edit" : null);
  const [text, setText] = useState("");
  const [isForAll, setForAll] = useState(false);
  const [isAlways, setAlways] = useState(false);
  const [changes, setChanges] = useState<Readonly<Record<string, string>>>({});
  const titleButton = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isAnswering.current) titleButton.current?.focus();
    isAnswering.current = false;
  }, [isAnswering]);
  useEffect(() => connection.wantDetails(span), [span, connection]);
  view.store.version.value; // details come without a change of the row
  const details = view.store.details(span);
  const whole = details?.input ?? null;
  const isCall = review.otherwise != null;
  const call = isCall ? (details?.call ?? null) : null;
  const choices = isCall ? CALL_CHOICES : CHOICES;
  const faults = call?.faults;
  const isEditingCall = isCall && verdict === "edit";
  useEffect(() => {
    if (faults) connection.answeredReview.value = null; // it was not taken
  }, [faults, connection]);
  const control = connection.control.value;
  const isSent = connection.answeredReview.value === span;
  // Nobody answers about a call before its arguments are here.
  const isReady = control === "live" && !isSent && !(isCall && !call);
  const lacksCall = isCall && !call && control === "live";
  useEffect(() => {
    if (!lacksCall) return undefined;
    const timer = setTimeout(() => connection.post({ kind: "details", span_id: span }), ASK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [lacksCall, span, connection, details]);
  const isMissing = (choice: Verdict, words: string): boolean => choices[choice].field !== undefined && !choices[choice].isOptional && !(isCall && choice === "edit") && !words.trim();
  const send = (choice: Verdict, words: string): void => {
    if (!isReady || isMissing(choice, words)) return;
    isAnswering.current = isCall;
    connection.review(span, choice, words, {
      ...(isForAll && FOR_ALL.has(choice) && { for_all: true }), ...(isAlways && FOR_ALWAYS.has(choice) && { always: true }),
      ...(isCall && choice === "edit" && { changes }),
    });
  };
  const choose = (choice: Verdict): void => {
    if (choices[choice].field === undefined) return send(choice, "");
    setText(choice === "edit" ? (whole ?? "") : "");
    setVerdict(choice);
  };
  const cancel = (): void => {
    if (isQuestion) return;
    setVerdict(null);
    setChanges({});
  };
  const others = isQuestion ? review.verdicts.filter((choice) => choice !== "edit") : review.verdicts;
  const title = describeQuestion(row, review);
  const isChoosing = !verdict || isQuestion;
  const button = (choice: Verdict): VNode => {
    const isWaiting = choice === "edit" && !isCall && whole === null;
    return (
      <button key={choice} class="et-answer" data-verdict={choice} title={choices[choice].hint} aria-disabled={!isReady || isWaiting}
        onClick={({ detail }) => detail < 2 && isReady && !isWaiting && choose(choice)}>{choices[choice].word}</button>
    );
  };
  return (
    <section class="et-review" aria-label={title}>
      <div class="et-review-head">
        <Icon name="waiting" />
        <button ref={titleButton} class="et-link et-review-title" title="Show it in the timeline" onClick={() => view.goTo(span)}>{title}</button>
        {row.agent && !isQuestion && <span class="et-review-agent">{isCall && row.task ? `for ${row.task}` : row.agent}</span>}
        {run.waiting.length > 1 && <span class="et-badge">+{run.waiting.length - 1} more</span>}
        <span class="et-spring" />
        <Countdown review={review} began={row.start_ms} view={view} />
      </div>
      {call?.is_unknown && <p class="et-review-note">It was begun before, and nobody knows whether it was done. Make it again?</p>}
      {isEditingCall && call ? (
        <ArgumentFields call={call} changes={changes} setChanges={setChanges} send={() => send("edit", "")} cancel={cancel} />
      ) : call ? <ArgumentList call={call} /> : (verdict !== "edit" || isQuestion) && (
        <div class="et-review-text" tabIndex={0} role="group" aria-label="What is asked">
          <TextBlock text={whole ?? review.text} kind={review.subject === "tool" ? "code" : "prose"} folds={false} />
        </div>
      )}
      {verdict && !isEditingCall && <Answer title={isQuestion ? "Your answer" : choices[verdict].field} rows={verdict === "edit" && !isQuestion ? 7 : 2}
        text={text} setText={setText} hasFocus={!isQuestion} send={() => send(verdict, text)} cancel={cancel} />}
      <div class="et-review-buttons">
        {verdict && (
          <button class="et-answer" data-verdict="approve" title="Ctrl+Enter" aria-disabled={!isReady || isMissing(verdict, text)}
            onClick={() => send(verdict, text)}>
            {isQuestion ? "Send" : choices[verdict].send}
          </button>
        )}
        {isChoosing ? others.filter((choice) => choice !== "exit_early").map(button) : <button class="et-answer" onClick={cancel}>Cancel</button>}
        {review.row != null && !isQuestion && !isCall && (
          <label class="et-review-all" title="Approve, Reject and End the run then hold for this review in every row">
            <input type="checkbox" checked={isForAll} onChange={(event) => setForAll(event.currentTarget.checked)} /> in all rows
          </label>
        )}
        {call && !call.is_unknown && verdict !== "edit" && (
          <label class="et-review-all" title={`Approve and Decline then hold for all later calls of ${review.tool ?? "it"} in this run`}>
            <input type="checkbox" checked={isAlways} onChange={(event) => setAlways(event.currentTarget.checked)} /> always in this run
          </label>
        )}
        {isChoosing && others.includes("exit_early") && button("exit_early")}
        <span class="et-review-hint" role="status">{hintOf(control, isSent)}</span>
      </div>
    </section>
  );
}

function hintOf(control: string, isSent: boolean): string {
  if (isSent) return "Sent";
  if (control === "silent") return "Buttons can't reach the busy kernel from here: answer in the input field below the timeline";
  return control === "asking" ? "Reaching the kernel…" : "";
}

interface AnswerProps {
  title: string | undefined;
  rows: number;
  text: string;
  setText: (text: string) => void;
  hasFocus: boolean;
  send: () => void;
  cancel: () => void;
}

/** The field for an answer in words. */
function Answer({ title, rows, text, setText, hasFocus, send, cancel }: AnswerProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  // Only where a person asked for the field: a question that comes up must not take the focus from what is being typed.
  useEffect(() => {
    if (hasFocus) field.current?.focus();
  }, [hasFocus]);
  return (
    <label class="et-review-answer">
      <span class="et-role">{title}</span>
      <textarea ref={field} rows={rows} value={text} onKeyDown={answerBy(send, cancel)} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

/** How long a person still has, and what happens then. */
function Countdown({ review, began, view }: { review: Review; began: number | null | undefined; view: View }) {
  const age = Math.max(view.age.value, began ?? 0);
  const asked = review.otherwise == null ? "" : `asked ${formatClock(age - (began ?? age))} ago · `;
  if (review.deadline_ms == null) return <span class="et-countdown">{asked}no time limit</span>;
  // The clock of this page may lag behind that of the kernel: more than the whole time is never left.
  const left = Math.max(0, review.deadline_ms - age);
  return (
    <span class="et-countdown" data-hurry={left < HURRY_MS}>
      {asked}<b>{formatClock(left + 999)}</b> left, {describeTimeout(review)}
    </span>
  );
}
