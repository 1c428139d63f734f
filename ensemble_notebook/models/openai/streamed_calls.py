"""The tool calls of a streamed reply, put together from their pieces before LangChain sees them (E67).

Why not leave it to LangChain: it completes the JSON of each piece and of their sum by trying ever shorter texts, which
takes minutes for 400 KB that are no JSON. Nobody watches arguments as they come, so nothing is lost by waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ensemble_notebook.models.openai.malformed_arguments import mark_malformed_arguments


@dataclass(slots=True)
class _Call:
    """One call, as far as it has come."""

    index: Any
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class StreamedCalls:
    """Takes the tool calls out of the chunks of one reply, and gives them whole at its end."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._last_chunk: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """Take in a chunk; give it back without its pieces of calls."""
        choices = chunk.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        pieces = delta.get("tool_calls")
        if not pieces:
            return chunk
        for piece in pieces:
            self._add(piece)
        self._last_chunk = chunk
        rest = {name: value for name, value in delta.items() if name != "tool_calls"}
        return {**chunk, "choices": [{**choices[0], "delta": rest}]}

    def finish(self) -> list[dict[str, Any]]:
        """Give the chunk that holds all calls, if there are any."""
        if not self._calls:
            return []
        arguments = mark_malformed_arguments(["".join(call.arguments) for call in self._calls])
        calls = [
            {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}
            for index, (call, text) in enumerate(zip(self._calls, arguments, strict=True))
        ]
        choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}
        return [{**self._last_chunk, "choices": [choice], "usage": None}]

    def _add(self, piece: dict[str, Any]) -> None:
        index, call_id, function = piece.get("index"), piece.get("id"), piece.get("function") or {}
        call = self._find(index, call_id, function.get("name"))
        call.id = call.id or call_id
        call.name += function.get("name") or ""
        call.arguments.append(function.get("arguments") or "")

    def _find(self, index: Any, call_id: str | None, name: str | None) -> _Call:
        """The call that a piece goes on with: of its index, unless another id begins a new one there."""
        for call in reversed(self._calls):
            is_same = call.index == index if index is not None else not (call_id or name)
            if is_same and (not call_id or not call.id or call.id == call_id):
                return call
        self._calls.append(_Call(index))
        return self._calls[-1]
