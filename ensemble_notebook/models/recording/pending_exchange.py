"""Exchanges on their way into a recording: what was said, held as it is until somebody makes a document of it (E42).

The loop of the run only holds on to the texts; who keeps exchanges may write them later, on another thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ensemble_notebook.domain.seams.chat_port import ModelReply, ToolCall, ToolSpec
from ensemble_notebook.models.recording.exchange import Outcome
from ensemble_notebook.models.recording.exchange_documents import (
    Form,
    outcome_to_document,
    request_to_document,
    result_to_document,
)
from ensemble_notebook.models.recording.recording_format import to_plain


# Not frozen, as is no value that is made for each request: setting the fields of a frozen one takes several times as
# long. Neither changes once it is handed on.
@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """What a request says beyond the one before it.

    Attributes:
        opening: model, system message, user message, tools and schema, for the request that begins a conversation.
        continues: the number of the exchange whose conversation goes on.
        repeats: the number of the exchange that failed, and is tried once more.
        results: of tool calls; a text is None where it is written with its call.
        user: what was said to the model after its last reply.
    """

    opening: tuple[str, str, str, Sequence[ToolSpec], Mapping[str, Any] | None] | None = None
    continues: int | None = None
    repeats: int | None = None
    results: list[tuple[ToolCall, str | None]] = field(default_factory=list)
    user: str | None = None

    def copy(self) -> PendingRequest:
        """The same request, which may grow."""
        return replace(self, results=[*self.results])

    def to_document(self, form: Form) -> dict[str, Any]:
        """Make the document, without what came of it."""
        if self.opening is not None:
            document = request_to_document(*self.opening, form)
        else:
            name, number = ("continues", self.continues) if self.repeats is None else ("repeats", self.repeats)
            document = {name: number}
        if self.results:
            document["results"] = [result_to_document(call, text, form) for call, text in self.results]
        if self.user is not None:
            document["user"] = form.mask(self.user)
        return document


@dataclass(slots=True)
class PendingExchange:
    """A request and what came of it.

    Attributes:
        number: of the exchange.
        task: the path of the task that it was for, as far as that is to be known.
        pieces: those in which the reply was streamed, as far as they are to be known.
        seconds: from the request to the outcome.
        facts: the document of the outcome, where that may change: the arguments of a tool call are the tool's.
    """

    number: int
    task: str | None
    request: PendingRequest
    outcome: Outcome
    pieces: Sequence[str]
    seconds: float
    facts: dict[str, Any] | None = None

    def fix(self, form: Form) -> None:
        """Make now, as plain values, what could be another one later."""
        if isinstance(self.outcome, ModelReply) and self.outcome.tool_calls:
            self.facts = to_plain(outcome_to_document(self.outcome, self.pieces, form))

    def to_document(self, form: Form) -> dict[str, Any]:
        """Make the document. The seconds come last: a document without them was cut off."""
        of_task = {} if self.task is None else {"task": form.mask(self.task)}
        facts = outcome_to_document(self.outcome, self.pieces, form) if self.facts is None else self.facts
        request = self.request.to_document(form)
        return {"exchange": self.number, **of_task, **request, **facts, "seconds": round(self.seconds, 3)}
