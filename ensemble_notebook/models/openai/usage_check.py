"""What servers say a reply took: checked where it comes in, before anything adds it up (E65).

Counts that are no whole numbers, or contradict each other, are unknown: a budget then keeps what it has reserved. Knows
OpenAI's form of usage and the sums that hold in any form; nothing of conversations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

# The largest whole number that JSON keeps exact everywhere, the timeline's JavaScript included.
_LARGEST: Final = 2**53
_LONGEST_QUOTE: Final = 200

# What was refused while a reply was read. LangChain has no place for it in its messages, and stands between the server
# and whoever warns.
_refused_usage: ContextVar[list[str] | None] = ContextVar("refused_usage", default=None)


@contextmanager
def collect_refused_usage() -> Iterator[list[str]]:
    """Collect what is refused in here, as texts to quote."""
    refused: list[str] = []
    token = _refused_usage.set(refused)
    try:
        yield refused
    finally:
        _refused_usage.reset(token)


def refuse_usage(usage: Any) -> None:
    """Remember usage that can't be counted, for whoever collects it."""
    refused = _refused_usage.get()
    if refused is not None:
        refused.append(_quote(usage))


def check_usage(usage: Any) -> Any:
    """Give back the ``usage`` of a reply in OpenAI's form; None where it can't be counted, and is refused."""
    if isinstance(usage, Mapping):
        read, written = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
        counts = fit_counts(
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            usage.get("total_tokens"),
            input_parts=_pick(read, "cached_tokens", "cache_write_tokens"),
            reasoning=next(iter(_pick(written, "reasoning_tokens"))),
        )
        if counts is not None:
            output_tokens = counts[1]
            is_same = output_tokens == usage["completion_tokens"]
            return usage if is_same else {**usage, "completion_tokens": output_tokens}
    refuse_usage(usage)
    return None


def fit_counts(
    input_tokens: Any, output_tokens: Any, total: Any, *, input_parts: tuple[Any, ...], reasoning: Any
) -> tuple[int, int] | None:
    """Give input and output tokens where the counts are whole numbers from 0 to 2^53 that fit together; else None.

    Args:
        input_tokens: must be there.
        output_tokens: must be there.
        total: their sum, or None.
        input_parts: each a part of the input, or None.
        reasoning: a part of the output, or None. Some servers count it beside the output: where the total says so, it
            is added.
    """
    parts = [part for part in (*input_parts, reasoning, total) if part is not None]
    if not all(map(_is_count, (input_tokens, output_tokens, *parts))):
        return None
    if total is not None and reasoning and total == input_tokens + output_tokens + reasoning:
        output_tokens += reasoning
    if total not in (None, input_tokens + output_tokens) or (reasoning or 0) > output_tokens:
        return None
    if any((part or 0) > input_tokens for part in input_parts):
        return None
    return input_tokens, output_tokens


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _pick(details: Any, *names: str) -> tuple[Any, ...]:
    """The parts of a count; something that is none where the details have another shape."""
    if details is None:
        return (None,) * len(names)
    return tuple(details.get(name) for name in names) if isinstance(details, Mapping) else (details,) * len(names)


def _quote(usage: Any) -> str:
    try:
        text = json.dumps(usage, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = type(usage).__name__
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
