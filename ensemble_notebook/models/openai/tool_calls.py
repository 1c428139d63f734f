"""The tool calls of a reply, however a server writes them: put together from pieces, in one form, none lost.

Knows the JSON of chat completions; nothing of texts, usage or HTTP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

_KNOWN: Final = frozenset({"index", "id", "type", "function"})
_KNOWN_OF_FUNCTION: Final = frozenset({"name", "arguments"})
_MARKS: Final = re.compile(r'[{}"\\]')


@dataclass(slots=True)
class ToolCallPiece:
    """A call of a reply, or what one chunk of a stream has of it.

    Attributes:
        index: as the server says; of any type, None where it says none.
        id: empty where it says none.
        name: empty where it says none.
        arguments: their text; an object that was sent as one is its JSON, and nothing but blanks is empty.
        extras: what else stood there, such as ``extra_content``.
    """

    index: Any = None
    id: str = ""
    name: str = ""
    arguments: str = ""
    extras: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, said: Any) -> Self | None:
        """Read what a server says; None where that is no call at all."""
        if not isinstance(said, Mapping):
            return None
        function = said.get("function")
        if not isinstance(function, Mapping):
            function = said  # some leave the function out, and have its name and arguments in the call
        name, arguments = function.get("name"), function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        piece = cls(
            index=said.get("index"), id=_to_text(said.get("id")), name=_to_text(name), arguments=arguments or ""
        )
        if said.keys() - _KNOWN or function.keys() - _KNOWN_OF_FUNCTION:
            piece.extras = _collect(said, _KNOWN | _KNOWN_OF_FUNCTION)
            if function is not said and (inner := _collect(function, _KNOWN_OF_FUNCTION)):
                piece.extras["function"] = inner
        return piece

    def to_json(self, index: int) -> dict[str, Any]:
        """Convert it to the one form of a whole call."""
        function = {"name": self.name, "arguments": self.arguments if self.arguments.strip() else ""}
        return {**self.extras, "index": index, "id": self.id or None, "type": "function", "function": function}


def _to_text(value: Any) -> str:
    return "" if value is None else str(value)


def _collect(said: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in known and value is not None}


def read_calls(message: Mapping[str, Any]) -> list[ToolCallPiece]:
    """Read the calls of a message or a delta: in ``tool_calls``, else the one in ``function_call``, as it once was."""
    said = message.get("tool_calls") or message.get("function_call") or ()
    pieces = map(ToolCallPiece.read, said if isinstance(said, list) else (said,))
    return [piece for piece in pieces if piece is not None]


def list_tool_names(tools: Iterable[Any]) -> list[str]:
    """List the names of the tools on offer, as a request has them."""
    return [str((each.get("function") or each).get("name")) for each in tools if isinstance(each, Mapping)]


class CallJoiner:
    """Joins the pieces of the calls of one streamed reply.

    Servers disagree on what tells two calls apart: some have all calls on one index, some an id anew in each piece,
    some none, and some say the name again with each piece.

    Args:
        list_tools: gives the names of the tools on offer, which tell a whole name from a piece of one. Called where
            that is in doubt.
    """

    def __init__(self, list_tools: Callable[[], Iterable[str]] = tuple) -> None:
        self._list_tools = list_tools
        self._calls: list[_Call] = []

    def add(self, piece: ToolCallPiece) -> None:
        """Take in a piece."""
        call = self._find(piece)
        if call is None or self._begins_another(call, piece):
            name = piece.name or ("" if call is None else call.next_name)
            call = _Call(piece.index, piece.id, name)
            self._calls.append(call)
        else:
            call.id = call.id or piece.id
            self._add_name(call, piece)
        if piece.extras:
            call.extras = join_fields([call.extras, piece.extras])
        call.texts.append(piece.arguments)

    def finish(self) -> list[ToolCallPiece]:
        """Give the calls, each whole, in the order in which they began."""
        return [ToolCallPiece(each.index, each.id, each.name, "".join(each.texts), each.extras) for each in self._calls]

    def _find(self, piece: ToolCallPiece) -> _Call | None:
        """Find the call that a piece can go on with: by id and index, by the index, by the id, else the last one."""
        last = None
        for call in reversed(self._calls):
            if piece.index is None or call.index in (None, piece.index):
                if not piece.id or call.id == piece.id:
                    return call
                last = last or call
        if last is None and self._calls and not (piece.id or piece.name):
            return self._calls[-1]  # of a call without a name nobody could make anything
        return last

    def _begins_another(self, call: _Call, piece: ToolCallPiece) -> bool:
        """Whether a piece begins a call of its own, although it stands where `call` does."""
        begins_object = piece.arguments.lstrip().startswith("{")
        if piece.id and call.id and piece.id != call.id:
            if not piece.name:
                return call.is_whole()
            goes_on = piece.arguments.strip() and not begins_object
            return not (piece.name == call.name and call.has_arguments() and not call.is_whole() and goes_on)
        if not piece.name:
            return bool(call.next_name) and begins_object
        if piece.name != call.name:
            return bool(call.name) and (call.has_arguments() or {call.name, piece.name} <= set(self._list_tools()))
        return begins_object and call.is_whole()

    def _add_name(self, call: _Call, piece: ToolCallPiece) -> None:
        if piece.name == call.name:
            # Said once more: for nothing, or since a call of the same tool begins, whose arguments are still to come.
            call.next_name = piece.name if call.is_whole() else ""
        elif piece.name:
            is_longer = bool(call.name) and piece.name.startswith(call.name)
            call.name = piece.name if is_longer else call.name + piece.name


@dataclass(slots=True)
class _Call:
    """A call, as far as it has come.

    Attributes:
        texts: of the arguments.
        next_name: of the call that the next piece begins, if that begins an object.
    """

    index: Any
    id: str
    name: str
    texts: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    next_name: str = ""
    _read_count: int = 0
    _depth: int = 0
    _is_in_text: bool = False
    _is_escaped: bool = False
    _has_ended: bool = False

    def has_arguments(self) -> bool:
        return any(map(str.strip, self.texts))

    def is_whole(self) -> bool:
        """Whether its arguments are an object that has been closed. Reads what has come since it was asked last."""
        for text in self.texts[self._read_count :]:
            self._read(text)
        self._read_count = len(self.texts)
        return self._has_ended

    def _read(self, text: str) -> None:
        end = 0
        for found in _MARKS.finditer(text):
            if self._is_escaped and found.start() == end:
                self._is_escaped, end = False, found.end()
                continue
            self._is_escaped, end = False, found.end()
            match found[0]:
                case '"':
                    self._is_in_text = not self._is_in_text
                case "\\":
                    self._is_escaped = self._is_in_text
                case mark if not self._is_in_text:
                    self._depth += 1 if mark == "{" else -1
                    self._has_ended = self._depth == 0
        if text and end < len(text):
            self._is_escaped = False


# --- What stands beside texts and calls, joined from pieces as its kind needs -----------------------------------------


_TEXT: Final = re.compile(r"(?:text|content|thinking|thoughts?|summary|reasoning)$")


def join_fields(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the fields of pieces: texts are added, blocks joined, and of all else the last word counts."""
    values: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return {name: each[0] if len(each) == 1 else _join_values(name, each) for name, each in values.items()}


def _join_values(name: str, values: Sequence[Any]) -> Any:
    if all(isinstance(each, str) for each in values):
        return "".join(values) if _TEXT.search(name) else next(filter(None, reversed(values)), "")
    if all(isinstance(each, list) for each in values):
        return join_blocks(block for each in values for block in each)
    return join_fields(values) if all(isinstance(each, Mapping) for each in values) else values[-1]


def join_blocks(pieces: Iterable[Any]) -> list[Any]:
    """Join blocks of reasoning, as ``reasoning_details`` has them: a piece goes on with the block before it.

    It does so where both are of one type and index, until that block has its signature. What is encrypted comes whole.
    """
    blocks: list[list[Any]] = []
    for piece in pieces:
        if blocks and _goes_on(blocks[-1][-1], piece):
            blocks[-1].append(piece)
        else:
            blocks.append([piece])
    return [each[0] if len(each) == 1 else join_fields(each) for each in blocks]


def _goes_on(last: Any, piece: Any) -> bool:
    if not isinstance(last, Mapping) or not isinstance(piece, Mapping) or last.get("data") or piece.get("data"):
        return False
    if any(last.get(name) != piece.get(name) for name in ("type", "index")):
        return False
    return not last.get("signature") or not any(piece[name] for name in piece if _TEXT.search(str(name)))
