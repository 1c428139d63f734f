// A conversation with a model as chat bubbles. Everything here is a text node: nothing a model says becomes markup, a link
// or an image (W6).

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { ChatMessage } from "../wire/messages";
import { formatExactCount } from "../wording/numbers";
import { Head, Words } from "./parts";
import type { SpanTexts } from "./span-texts";

const ROLES: Record<string, string> = { system: "System", user: "Prompt", assistant: "Model", tool: "Tool result" };
const COPIES: Record<string, string> = { system: "system prompt", user: "prompt", assistant: "reply", tool: "tool result" };

/** A conversation: what a call added stands open, what earlier calls had said is folded into a line; that of a task is whole. */
export function Conversation({ messages, texts, live, isWhole }: {
  messages: readonly ChatMessage[]; texts: SpanTexts; live: string; isWhole: boolean;
}): VNode {
  const [hasEarlier, setEarlier] = useState(false);
  // While a reply is written, the details have only what led to it, and all of that was sent for it.
  const start = isWhole ? 0 : newFrom(messages, live !== "");
  const first = hasEarlier ? 0 : start;
  const [reasoning, reply] = splitReasoning(live);
  return (
    <div class="et-chat">
      {start > 0 && (
        <button class="et-more-button" aria-expanded={hasEarlier} onClick={() => setEarlier(!hasEarlier)}>
          {hasEarlier ? "Hide what was said before" : start === 1 ? "1 earlier message" : `${formatExactCount(start)} earlier messages`}
        </button>
      )}
      {messages.slice(first).map((message, k) => <Bubble key={first + k} message={message} texts={texts} />)}
      {live && <Bubble key={messages.length} message={{ role: "assistant", reasoning, text: reply }} texts={texts} isGrowing />}
    </div>
  );
}

/** Where the new part begins: after the reply of the call before, which is the model's last but one, or its last while it writes. */
export function newFrom(messages: readonly ChatMessage[], isWriting = false): number {
  const last = messages.length - 1;
  for (let k = isWriting ? last : last - 1; k >= 0; k -= 1) if (messages[k]?.role === "assistant") return k + 1;
  return 0;
}

/** The reasoning that a reply begins with, as far as it is written, and what is behind it. */
export function splitReasoning(live: string): [reasoning: string, reply: string] {
  const reasoning = /^\s*<(think|thinking|reasoning)>[^]*?(?:<\/\1>\s*|$)/.exec(live)?.[0] ?? "";
  return [reasoning, live.slice(reasoning.length)];
}

function Bubble({ message, texts, isGrowing = false }: { message: ChatMessage; texts: SpanTexts; isGrowing?: boolean }): VNode {
  const isNote = message.name === "left_out";
  if (isNote) return <p class="et-none et-left-out">{message.text.replace(/^\[|\]$/g, "")}</p>;
  const role = ROLES[message.role] ?? message.role;
  const thought = message.reasoning && texts.of(message.field ? `${message.field}.reasoning` : null, message.reasoning);
  const words = texts.of(message.field, message.text);
  const kind = message.role === "tool" ? "code" : "prose";
  return (
    <article class="et-bubble" data-role={message.role} aria-label={role}>
      <Head title={message.name ? `${role} · ${message.name}` : role} name={message.text !== "" && (COPIES[message.role] ?? "message")} text={words.load} />
      {thought && (
        <details class="et-request">
          <summary class="et-role">Reasoning, no part of the reply</summary>
          <Words words={thought} kind="prose" isGrowing={isGrowing} />
        </details>
      )}
      {message.text && <Words words={words} kind={kind} isGrowing={isGrowing} />}
      {message.tool_calls?.map((call, k) => {
        const asked = typeof call.arguments === "string" ? call.arguments : (JSON.stringify(call.arguments) ?? "");
        const given = texts.of(message.field ? `${message.field}.${k}` : null, asked);
        return (
          <div class="et-request">
            <Head title={`▪ ${call.name}`} name={`the arguments of ${call.name}`} text={given.load} />
            <Words words={given} kind="code" />
          </div>
        );
      })}
    </article>
  );
}
