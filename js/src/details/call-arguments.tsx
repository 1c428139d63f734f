// The arguments of a call that a person is asked about: as they are, and as a form by the schema of the tool (W165). The
// kernel says what the fields are and reads them again, so that texts alone come and go; nothing in them is run or laid out.

import { useLayoutEffect, useRef } from "preact/hooks";
import type { AskedCall, CallField } from "../wire/messages";
import { formatExactCount } from "../wording/numbers";

/** The arguments as a list. */
export const ArgumentList = ({ call }: { call: AskedCall }) => (
  <div class="et-review-text" tabIndex={0} role="group" aria-label="What it is called with">
    <dl class="et-arguments">
      {call.fields.filter((field) => field.text != null).map((field) => (
        <div key={field.name}><dt>{field.name}</dt><dd>{field.text}{field.left_out ? <Rest field={field} /> : null}</dd></div>
      ))}
    </dl>
    {call.fields.every((field) => field.text == null) && "No arguments"}
  </div>
);

const Rest = ({ field }: { field: CallField }) => <i class="et-review-hint">… and {formatExactCount(field.left_out ?? 0)} more characters</i>;

interface FieldsProps {
  call: AskedCall;
  /** What was changed, by field. */
  changes: Readonly<Record<string, string>>;
  setChanges: (changes: Readonly<Record<string, string>>) => void;
  send: () => void;
  cancel: () => void;
}

/** The keys of a form: Ctrl+Enter sends it, Escape leaves it. */
export const answerBy = (send: () => void, cancel: () => void) => (event: KeyboardEvent): void => {
  if (event.key === "Escape") cancel();
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  send();
};

/** A field for each argument; the first one has the focus, or the first that was refused. */
export function ArgumentFields({ call, changes, setChanges, send, cancel }: FieldsProps) {
  const place = useRef<HTMLDivElement>(null);
  const { faults } = call;
  useLayoutEffect(() => {
    const first = place.current?.querySelector<HTMLElement>("[aria-invalid=true]") ?? place.current?.querySelector<HTMLElement>("input, select, textarea");
    first?.focus();
  }, [faults]);
  return (
    <div ref={place} class="et-review-text et-argument-fields" role="group" aria-label="What it is to be called with" onKeyDown={answerBy(send, cancel)}>
      {call.fields.map((field) => (
        <ArgumentField key={field.name} field={field} fault={faults?.[field.name]} text={changes[field.name] ?? field.text ?? ""}
          write={(text) => setChanges({ ...changes, [field.name]: text })} />
      ))}
      {faults?.[""] && <p class="et-fault" role="alert">{faults[""]}</p>}
    </div>
  );
}

interface FieldProps {
  field: CallField;
  text: string;
  fault: string | undefined;
  write: (text: string) => void;
}

function ArgumentField({ field, text, fault, write }: FieldProps) {
  const { name, kind, choices, left_out, is_required } = field;
  const isAbsent = field.text == null;
  const given = {
    value: text, "aria-invalid": fault !== undefined, placeholder: isAbsent ? "not given" : undefined,
    onInput: (event: { currentTarget: { value: string } }) => write(event.currentTarget.value),
  };
  const known = choices?.includes(text) || (isAbsent && !text) ? choices : [text, ...(choices ?? [])];
  return (
    <label class="et-review-answer et-argument">
      <span class="et-role">{name}{is_required ? "" : " (may stay empty)"}</span>
      {field.about && <span class="et-review-hint">{field.about}</span>}
      {left_out ? <><span class="et-review-hint">It is too long to be edited here.</span><textarea rows={2} readOnly value={text} /></>
        : choices ? <select {...given}>{(!is_required || isAbsent) && <option value="">not given</option>}{known?.filter(Boolean).map((choice) => <option>{choice}</option>)}</select>
        : kind === "number" ? <input inputMode="decimal" autocomplete="off" {...given} />
        : <textarea rows={Math.min(6, text.split("\n").length)} data-kind={kind} spellcheck={kind === "text"} {...given} />}
      {fault && <span class="et-fault" role="alert">{fault}</span>}
    </label>
  );
}
