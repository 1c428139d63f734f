// What several tabs are made of: a text under its title with a button that copies it, a failure, a link to a span.

import type { ComponentChildren, VNode } from "preact";
import { CopyButton } from "../elements/copy-button";
import { Icon, iconOf } from "../elements/icon";
import { findPictures, Pictures, shortenMarks } from "../elements/pictures";
import { TextBlock } from "../elements/text-block";
import type { View } from "../view/view";
import type { Failure, Row } from "../wire/rows";
import { kindTitle, titleOf } from "../wording/labels";
import type { SpanText } from "./span-texts";

/** A title, and beside it a button that copies what is below; `name` says what that is. */
export function Head({ title, name, text }: { title: string; name?: string | false; text?: () => string | Promise<string> }): VNode {
  return <div class="et-part-head"><h4 class="et-role">{title}</h4>{name && text && <CopyButton label={`Copy ${name}`} text={text} />}</div>;
}

/** A text with a title over it. */
export function TextSection({ title, name, words, kind, isGrowing }: {
  title: string; name: string; words: SpanText; kind?: Kind; isGrowing?: boolean;
}): VNode {
  return <section class="et-part"><Head title={title} name={name} text={words.load} /><Words words={words} kind={kind} isGrowing={isGrowing} /></section>;
}

type Kind = "prose" | "code" | "plain" | undefined;

/** A text, and under it the pictures that stand in it. */
export function Words({ words, kind, isGrowing }: { words: SpanText; kind?: Kind; isGrowing?: boolean | undefined }): VNode {
  const text = isGrowing ? words.text : shortenMarks(words.text);
  return (
    <>
      <TextBlock {...words} text={text} length={words.length - words.text.length + text.length} kind={kind} isGrowing={isGrowing} />
      <Pictures pictures={findPictures(words.text, words.pictures)} />
    </>
  );
}

export const FailureNote = ({ error }: { error: Failure }): VNode => (
  <div class="et-failure" role="note">
    <b>{error.type}</b>
    {error.message && <TextBlock text={error.message} kind="code" />}
  </div>
);

/** A span as a button that goes there. */
export function SpanButton({ row, view, note, kind = true }: { row: Row; view: View; note?: ComponentChildren; kind?: boolean }): VNode {
  return (
    <button class="et-span" onClick={() => view.goTo(row.span_id)}>
      <span class="et-sign" data-status={row.status}><Icon name={iconOf(row.status)} /></span>
      {kind && <span class="et-kind">{kindTitle(row.kind)}</span>}
      <span class="et-title">{titleOf(view.store, row)}</span>
      <span class="et-time">{note}</span>
    </button>
  );
}
