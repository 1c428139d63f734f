// A conversation with a model as chat bubbles. Everything here is a text node: nothing a model says becomes markup, a link
// or an image (W6).

import { useState } from "preact/hooks";
import { TextBlock } from "../elements/text-block";
import type { ChatMessage } from "../wire/messages";
import { prettyPrint } from "../wording/text";

const ROLES: Record<string, string> = { system: "System", user: "Prompt", assistant: "Model", tool: "Tool result" };

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
      {message.text && <TextBlock text={message.role === "tool" ? prettyPrint(message.text) : message.text} isMono={message.role === "tool"} isGrowing={isGrowing} />}
      {message.tool_calls?.map((call) => (
        <div class="et-request">
          <span class="et-request-name">▪ {call.name}</span>
          <TextBlock text={prettyPrint(call.arguments)} isMono />
        </div>
      ))}
    </article>
  );
}
