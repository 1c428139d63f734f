// Text of models and tools as a person reads it: chat bubbles and blocks, long ones folded. Everything here is a text node:
// nothing a model says becomes markup, a link or an image (W6).

import { useState } from "preact/hooks";
import { count, pretty } from "./format";
import type { ChatMessage } from "./wire";

const FOLD_CHARS = 900;
const FOLD_LINES = 14;
const ROLES: Record<string, string> = { system: "System", user: "Prompt", assistant: "Model", tool: "Tool result" };

/** A text that shows its beginning until asked for the rest; all of it while it is still being written. */
export function Block({ text, isMono = false, isGrowing = false }: { text: string; isMono?: boolean; isGrowing?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = !isGrowing && (text.length > FOLD_CHARS || lines(text) > FOLD_LINES);
  return (
    <div class={isMono ? "et-block et-mono" : "et-block"} data-folded={isLong && !isOpen} data-grows={isGrowing}>
      <div class="et-text">{text}</div>
      {isLong && (
        <button class="et-more-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : `Show all ${count(text.length)} characters`}
        </button>
      )}
    </div>
  );
}

function lines(text: string): number {
  let found = 1;
  for (let at = text.indexOf("\n"); at >= 0 && found <= FOLD_LINES; at = text.indexOf("\n", at + 1)) found += 1;
  return found;
}

/** A conversation: what a call added stands open, what earlier calls had said is folded into a line; that of a task is whole. */
export function Conversation({ messages, live, isWhole }: { messages: readonly ChatMessage[]; live: string; isWhole: boolean }) {
  const [hasEarlier, setEarlier] = useState(false);
  const start = isWhole ? 0 : newFrom(messages);
  const shown = hasEarlier ? messages : messages.slice(start);
  return (
    <div class="et-chat">
      {start > 0 && (
        <button class="et-more-button" aria-expanded={hasEarlier} onClick={() => setEarlier(!hasEarlier)}>
          {hasEarlier ? "Hide what was said before" : `${start} earlier messages`}
        </button>
      )}
      {shown.map((message) => <Bubble message={message} />)}
      {live && <Bubble message={{ role: "assistant", text: live }} isGrowing />}
    </div>
  );
}

/** Where the new part begins: after the reply of the call before, which is the last but one of the model's. */
export function newFrom(messages: readonly ChatMessage[]): number {
  const last = messages.length - 1;
  for (let k = last - 1; k >= 0; k -= 1) if (messages[k]?.role === "assistant") return k + 1;
  return 0;
}

function Bubble({ message, isGrowing = false }: { message: ChatMessage; isGrowing?: boolean }) {
  const role = ROLES[message.role] ?? message.role;
  return (
    <article class="et-bubble" data-role={message.role}>
      <h4 class="et-role">{role}{message.name ? ` · ${message.name}` : ""}</h4>
      {message.text && <Block text={message.role === "tool" ? pretty(message.text) : message.text} isMono={message.role === "tool"} isGrowing={isGrowing} />}
      {message.tool_calls?.map((call) => (
        <div class="et-request">
          <span class="et-request-name">▪ {call.name}</span>
          <Block text={pretty(call.arguments)} isMono />
        </div>
      ))}
    </article>
  );
}
