// The question that the run waits for, and the buttons by which a person answers it (W13). Only for views with a kernel; a
// saved trace asks nobody.

import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../elements/icon";
import { TextBlock } from "../elements/text-block";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import type { Review, Row, Run, Verdict } from "../wire/rows";
import { formatClock } from "../wording/numbers";
import { describeQuestion, describeTimeout } from "../wording/questions";

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
/** What may be decided for all rows of a map at once; a text is that of one row alone. */
const FOR_ALL: ReadonlySet<Verdict> = new Set(["approve", "reject", "exit_early"]);
const HURRY_MS = 30_000;

/** The question that the run waits for, with its buttons; nothing while there is none. */
export function ReviewPanel({ view, connection, change }: { view: View; connection: KernelConnection; change: number }) {
  const { store } = view;
  store.version.value;
  const run = store.run.value;
  const row = run?.status === "running" && !connection.isLost.value ? store.row(run.waiting[0] ?? "") : undefined;
  const { review } = row ?? {};
  return (
    <>
      <div class="et-hidden" role="alert">{row && review ? `Waiting for you: ${describeQuestion(row, review)}` : null}</div>
      {row && review && <Question key={row.span_id} row={row} review={review} run={run as Run} view={view} connection={connection} change={change} />}
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
}

function Question({ row, review, run, view, connection }: QuestionProps) {
  const span = row.span_id;
  const isQuestion = review.subject === "question";
  const [verdict, setVerdict] = useState<Verdict | null>(isQuestion ? "edit" : null);
  const [text, setText] = useState("");
  const [isForAll, setForAll] = useState(false);
  useEffect(() => connection.wantDetails(span), [span, connection]);
  view.store.version.value; // details come without a change of the row
  const whole = view.store.details(span)?.input ?? null;
  const control = connection.control.value;
  const isSent = connection.answeredReview.value === span;
  const isReady = control === "live" && !isSent;
  const send = (choice: Verdict, words: string): void => {
    if (isReady && (words.trim() || !needsText(choice))) connection.review(span, choice, words, isForAll && FOR_ALL.has(choice));
  };
  const choose = (choice: Verdict): void => {
    if (!CHOICES[choice].field) return send(choice, "");
    setText(choice === "edit" ? (whole ?? "") : "");
    setVerdict(choice);
  };
  const cancel = (): void => {
    if (!isQuestion) setVerdict(null);
  };
  const others = isQuestion ? review.verdicts.filter((choice) => choice !== "edit") : review.verdicts;
  const title = describeQuestion(row, review);
  return (
    <section class="et-review" aria-label={title}>
      <div class="et-review-head">
        <Icon name="waiting" />
        <button class="et-link et-review-title" title="Show it in the timeline" onClick={() => view.goTo(span)}>{title}</button>
        {row.agent && !isQuestion && <span class="et-review-agent">{row.agent}</span>}
        {run.waiting.length > 1 && <span class="et-badge">+{run.waiting.length - 1} more</span>}
        <span class="et-spring" />
        <Countdown review={review} began={row.start_ms} view={view} />
      </div>
      {(verdict !== "edit" || isQuestion) && (
        <div class="et-review-text" tabIndex={0} role="group" aria-label="What is asked">
          <TextBlock text={whole ?? review.text} kind={review.subject === "tool" ? "code" : "prose"} folds={false} />
        </div>
      )}
      {verdict && <Answer title={isQuestion ? "Your answer" : CHOICES[verdict].field} rows={verdict === "edit" && !isQuestion ? 7 : 2}
        text={text} setText={setText} hasFocus={!isQuestion} send={() => send(verdict, text)} cancel={cancel} />}
      <div class="et-review-buttons">
        {verdict && (
          <button class="et-answer" data-verdict="approve" title="Ctrl+Enter" aria-disabled={!isReady || (needsText(verdict) && !text.trim())}
            onClick={() => send(verdict, text)}>
            {isQuestion ? "Send" : CHOICES[verdict].send}
          </button>
        )}
        {verdict && !isQuestion ? <button class="et-answer" onClick={cancel}>Cancel</button> : others.map((choice) => {
          const isWaiting = choice === "edit" && whole === null;
          return (
            <button class="et-answer" data-verdict={choice} title={CHOICES[choice].hint} aria-disabled={!isReady || isWaiting}
              onClick={() => isReady && !isWaiting && choose(choice)}>{CHOICES[choice].word}</button>
          );
        })}
        {review.row != null && !isQuestion && (
          <label class="et-review-all" title="Approve, Reject and End the run then hold for this review in every row">
            <input type="checkbox" checked={isForAll} onChange={(event) => setForAll(event.currentTarget.checked)} /> in all rows
          </label>
        )}
        <span class="et-review-hint" role="status">{hintOf(control, isSent)}</span>
      </div>
    </section>
  );
}

const needsText = (verdict: Verdict): boolean => CHOICES[verdict].field !== undefined && !CHOICES[verdict].isOptional;

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
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") cancel();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    send();
  };
  return (
    <label class="et-review-answer">
      <span class="et-role">{title}</span>
      <textarea ref={field} rows={rows} value={text} onKeyDown={onKey} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

/** How long a person still has, and what happens then. */
function Countdown({ review, began, view }: { review: Review; began: number | null | undefined; view: View }) {
  if (review.deadline_ms == null) return <span class="et-countdown">no time limit</span>;
  // The clock of this page may lag behind that of the kernel: more than the whole time is never left.
  const left = Math.max(0, review.deadline_ms - Math.max(view.age.value, began ?? 0));
  return (
    <span class="et-countdown" data-hurry={left < HURRY_MS}>
      <b>{formatClock(left + 999)}</b> left, {describeTimeout(review)}
    </span>
  );
}
