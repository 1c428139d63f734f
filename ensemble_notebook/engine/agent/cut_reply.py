"""Replies that their provider has cut off: why, and what a person can do about it (E58)."""

from __future__ import annotations

from typing import Final

from ensemble_notebook.domain.seams.chat_port import ChatPort, ModelReply

# The words of OpenAI, Anthropic, Google, Mistral, Cohere and Ollama.
_TOO_LONG: Final = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
_FILTERED: Final = {
    *("content_filter", "content_filtered", "refusal", "safety", "recitation", "blocklist", "prohibited_content"),
    *("spii", "error_toxic", "guardrail_intervened"),
}


def explain_cut(reply: ModelReply, port: ChatPort, budget_limit: int | None) -> str | None:
    """Say why a reply is not whole, and the remedy; None where it is whole.

    Args:
        reply: of the model.
        port: the model.
        budget_limit: the tokens that the budget allowed it; None where it did not limit it.
    """
    reason = (reply.finish_reason or "").strip().casefold()
    if reason in _FILTERED:
        return (
            f"the content filter of {port.name} stopped it ({reply.finish_reason}). Word the task or its inputs "
            f"differently, or use another model."
        )
    if reason not in _TOO_LONG:
        return None
    if budget_limit is not None:
        return (
            f"the budget left {budget_limit:,} tokens for it ({reply.finish_reason}). Raise the budget, or ask for a "
            f"shorter answer."
        )
    if port.max_tokens is not None:
        return (
            f"the max_tokens of {port.name} is {port.max_tokens:,} ({reply.finish_reason}). Give the model a higher "
            f"max_tokens, or ask for a shorter answer."
        )
    return (
        f"it reached the longest reply that {port.name} gives ({reply.finish_reason}). Ask for a shorter answer, make "
        f"the prompt shorter, or use a model with more room."
    )
