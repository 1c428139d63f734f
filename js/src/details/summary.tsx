// The first tab: facts, then what went in and what came out.

import type { ComponentChildren, VNode } from "preact";
import type { View } from "../view/view";
import type { Row } from "../wire/rows";
import { splitReasoning } from "./conversation";
import { SpanFacts } from "./facts";
import { detailsFor } from "./kind-details";
import { FailureNote, TextSection } from "./parts";
import type { SpanTexts } from "./span-texts";

export function Summary({ row, view, change, texts, live, missing }: {
  row: Row; view: View; change: number; texts: SpanTexts; live: string; missing: ComponentChildren;
}): VNode {
  const { details } = texts;
  const [reasoning, reply] = splitReasoning(live);
  const error = details?.error ?? (row.error_type || row.error_message ? { type: row.error_type ?? "Error", message: row.error_message ?? "" } : null);
  const output = details?.output;
  const { input: asked, output: answered } = detailsFor(row.kind);
  const refusals = (row.delegation?.errors ?? []).filter((text) => text !== error?.message);
  const kind = row.kind === "tool" ? "code" : "prose";
  return (
    <>
      <SpanFacts row={row} view={view} change={change} />
      {error && <FailureNote error={error} />}
      {refusals.map((message) => <FailureNote error={{ type: "Refused", message }} />)}
      {row.kind === "task" && row.description && <TextSection title="Description" name="description" words={texts.of(null, row.description)} />}
      {asked && details?.input && <TextSection title={asked} name={asked.toLowerCase()} words={texts.of("input", details.input)} />}
      {live
        ? <TextSection key="output" title={reply ? "Reply so far" : "Reasoning so far"} name="what is written so far" words={texts.of(null, reply || reasoning)} isGrowing />
        : output && output !== error?.message
          && <TextSection key="output" title={answered} name={row.kind === "llm" || row.kind === "task" ? "reply" : "output"} words={texts.of("output", output)} kind={kind} />}
      {missing}
    </>
  );
}

/** What a tool was given, and gave. */
export function ToolTexts({ texts }: { texts: SpanTexts }): VNode {
  const { input, output, error } = texts.details ?? {};
  return (
    <>
      <TextSection title="Input" name="tool input" words={texts.of("input", input ?? "None.")} kind="code" />
      {(output != null || !error) && <TextSection title="Output" name="tool output" words={texts.of("output", output ?? "None.")} kind="code" />}
      {error && <FailureNote error={error} />}
    </>
  );
}
