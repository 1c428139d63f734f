// All that this page knows of a span, as JSON: the row as it came, and the details.

import type { VNode } from "preact";
import type { Details } from "../wire/messages";
import type { Row } from "../wire/rows";
import { TextSection } from "./parts";
import type { SpanTexts } from "./span-texts";

export function Raw({ row, details, texts }: { row: Row; details: Details | undefined; texts: SpanTexts }): VNode {
  const show = (title: string, value: object): VNode =>
    <TextSection title={title} name="as JSON" words={texts.of(null, JSON.stringify(value, null, 2))} kind="plain" />;
  return <>{show("Row", row)}{details && show("Details", details)}</>;
}
