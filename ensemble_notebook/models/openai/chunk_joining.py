"""Chunks of a streamed reply that came at once, joined before LangChain sees them.

Why: for each chunk LangChain makes and validates several objects, which takes a tenth of a millisecond and more. A
server that is faster than we are, or a slow moment of ours, leaves many chunks in one read, and nobody sees them one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

# What differs from chunk to chunk, and is told by the last one as well.
_VARYING: Final = frozenset({"choices", "usage", "created", "obfuscation"})
_TEXT: Final = frozenset({"role", "content"})
_CHOICE: Final = frozenset({"index", "delta", "finish_reason"})


def join_chunks(chunks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same in fewer chunks: pieces of text that follow each other, and the end and the usage behind them."""
    last: dict[str, Any] | None = None
    for chunk in chunks:
        joined = None if last is None else _join(last, chunk)
        if last is not None and joined is None:
            yield last
        last = joined or chunk
    if last is not None:
        yield last


def _join(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any] | None:
    """Both in one; None where that would tell something else."""
    if first.get("usage") is not None or _get_rest(first) != _get_rest(second):
        return None
    choice = _find_choice(first)
    if choice is None:
        return None
    if second.get("choices") == []:
        return {**second, "choices": [choice]}
    other = _find_choice(second)
    if other is None or choice.get("finish_reason") is not None or choice.get("index") != other.get("index"):
        return None
    return {**second, "choices": [{**other, "delta": _join_texts(choice["delta"], other["delta"])}]}


def _get_rest(chunk: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chunk.items() if name not in _VARYING}


def _find_choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """The one choice of a chunk, if it tells nothing but a piece of an assistant's text, and maybe the end."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice: dict[str, Any] = choices[0]
    delta = choice.get("delta")
    if not isinstance(delta, dict) or any(choice[name] is not None for name in choice.keys() - _CHOICE):
        return None
    is_text = all(value is None or name in _TEXT for name, value in delta.items())
    is_text = is_text and isinstance(delta.get("content"), str | None) and delta.get("role") in (None, "assistant")
    return choice if is_text else None


def _join_texts(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    texts = [each["content"] for each in (first, second) if each.get("content") is not None]
    role = first.get("role") or second.get("role")
    return {"content": "".join(texts) if texts else None, **({} if role is None else {"role": role})}
