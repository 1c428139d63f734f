"""What tools answered, as a recording keeps it (E42).

Secrets are masked on both ways in, as in exchanges. Knows no files and no tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolCall
from ensemble_notebook.errors import get_message
from ensemble_notebook.models.recording.exchange import RequestPart, make_replayed_error, mask_json, to_call_part
from ensemble_notebook.models.recording.exchange_documents import read_seconds
from ensemble_notebook.models.recording.recording_format import InlineValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTool:
    """A tool call of a recording, and what came of it.

    Attributes:
        exchange: the number of the exchange whose reply asked for it.
        call: as the tool got it.
        answer: None where nobody waited for it any longer.
        seconds: how long the tool took.
        is_masked: whether a secret was masked in the answer, so that it is not what the tool said.
    """

    exchange: int
    call: ToolCall
    answer: ToolAnswer | None
    seconds: float
    is_masked: bool = False

    @property
    def part(self) -> RequestPart:
        """The call as it is compared."""
        return to_call_part(self.call)


def tool_to_document(exchange: int, call: ToolCall, answer: ToolAnswer | None, seconds: float) -> dict[str, Any]:
    """Convert a tool call and its answer. The seconds come last: a document without them was cut off."""
    document: dict[str, Any] = {
        "tool": call.name,
        "asked_in": exchange,
        "call": call.id,
        "arguments": InlineValue(mask_json(call.arguments)),
    }
    if answer is None:
        document["stopped"] = True
    else:
        document["outcome"] = answer.outcome.value
        document["answer"] = text = mask(answer.text)
        if text != answer.text:
            document["masked"] = True
        if answer.value is not None:
            document["value"] = InlineValue(mask_json(answer.value))
        if answer.warning:
            document["warning"] = mask(answer.warning)
        if answer.error is not None:
            document["error"] = type(answer.error).__name__
            document["message"] = mask(get_message(answer.error))
    return document | {"seconds": round(seconds, 3)}


def tool_from_document(document: Mapping[str, Any]) -> RecordedTool:
    """Read what `tool_to_document` has written.

    Raises:
        KeyError, TypeError, ValueError: it is not whole.
    """
    name, call_id = document["tool"], document["call"]
    if not isinstance(name, str) or not isinstance(call_id, str):
        raise TypeError(f"tool and call must be texts, got {name!r} and {call_id!r}")
    answer = None if document.get("stopped") else _answer_from_document(document)
    return RecordedTool(
        exchange=int(document["asked_in"]),
        call=ToolCall(id=call_id, name=name, arguments=document["arguments"]),
        answer=answer,
        seconds=read_seconds(document, "seconds"),
        is_masked=bool(document.get("masked")),
    )


def _answer_from_document(document: Mapping[str, Any]) -> ToolAnswer:
    text = document["answer"]
    if not isinstance(text, str):
        raise TypeError(f"answer must be text, got {text!r}")
    error = None
    if "error" in document:
        error = make_replayed_error(str(document["error"]), str(document.get("message", "")))
    return ToolAnswer(
        text,
        ToolOutcome(document["outcome"]),
        error,
        value=document.get("value"),
        warning=str(document.get("warning", "")),
    )
