"""What goes on between a run and its models, tools and reviewers, as numbered documents (E42).

Knows what documents say; where they are kept is known to their sink: a file, or the store of runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.seams.asking_task import get_asking_task
from ensemble_notebook.domain.seams.chat_port import ModelReply, ToolAnswer, ToolCall
from ensemble_notebook.models.recording.exchange import Outcome
from ensemble_notebook.models.recording.exchange_documents import PLAIN, UNMASKED
from ensemble_notebook.models.recording.pending_exchange import PendingExchange, PendingRequest
from ensemble_notebook.models.recording.port_info import PortInfo
from ensemble_notebook.models.recording.recording_format import to_plain
from ensemble_notebook.models.recording.reviews import review_to_document
from ensemble_notebook.models.recording.tool_answers import tool_to_document


class ExchangeSink(Protocol):
    """Where the documents of a run are kept. `write` never raises.

    Attributes:
        warnings: what could not be kept, for the person.
        keeps_pieces: whether it is to know in which pieces a reply was streamed.
        keeps_tasks: whether it is to know which task each exchange was for.
    """

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def keeps_pieces(self) -> bool: ...

    @property
    def keeps_tasks(self) -> bool: ...

    def write(self, document: Mapping[str, Any], /) -> None:
        """Keep a document after those before it."""

    def write_exchange(self, exchange: PendingExchange, /) -> None:
        """Keep the document of an exchange after those before it; it may be made later."""


MakeDocument = Callable[[bool], Mapping[str, Any]]
"""Makes a plain document, on whatever thread: secrets masked, or, where that is False, perhaps not yet."""


class ExchangeJournal:
    """A sink that hands plain documents on, ready for JSON, to what keeps them with the run.

    Args:
        put: takes what makes the next document; it warns of its own faults.
    """

    warnings: Final = ()
    keeps_pieces: Final = False
    keeps_tasks: Final = True

    def __init__(self, put: Callable[[MakeDocument], object]) -> None:
        self._put = put

    def write(self, document: Mapping[str, Any]) -> None:
        """Hand the next document on."""
        plain = to_plain(document)
        self._put(lambda _: plain)

    def write_exchange(self, exchange: PendingExchange) -> None:
        """Hand the next exchange on."""
        exchange.fix(PLAIN)
        self._put(lambda is_masking: exchange.to_document(PLAIN if is_masking else UNMASKED))


class ExchangeLog:
    """Numbers exchanges and makes their documents, from whichever loop they come.

    Args:
        sink: keeps the documents.
        last_number: of the exchanges that the sink has already; later ones may go on from those.
        models: the names of those that the sink has already.
    """

    def __init__(self, sink: ExchangeSink, *, last_number: int = 0, models: Sequence[str] = ()) -> None:
        self._sink = sink
        self._models = set(models)
        self._count = last_number
        self._last_replies: dict[str, int] = {}
        self._lock = threading.RLock()  # a nested run may be on another loop (E52)

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be kept."""
        return self._sink.warnings

    def add_model(self, llm: str, info: PortInfo) -> None:
        """Note what is known of a model, once."""
        with self._lock:
            if llm in self._models:
                return
            self._sink.write({"llm": llm, **info.to_document()})
            self._models.add(llm)

    def add_exchange(self, request: PendingRequest, outcome: Outcome, pieces: Sequence[str], seconds: float) -> int:
        """Note an exchange, and give back its number."""
        sink, task = self._sink, get_asking_task()
        with self._lock:
            self._count = number = self._count + 1
            sink.write_exchange(
                PendingExchange(
                    number,
                    task if sink.keeps_tasks else None,
                    request,
                    outcome,
                    pieces if sink.keeps_pieces else (),
                    seconds,
                )
            )
            if task is not None and isinstance(outcome, ModelReply):
                self._last_replies[task] = number
        return number

    def note_request(self) -> None:
        """The task that asks wants a reply: if it fails before there is one, that is not for what it had by then."""
        if (task := get_asking_task()) is not None:
            with self._lock:
                self._last_replies.pop(task, None)

    def note_reply(self, exchange: int) -> None:
        """The task that asks goes on with the reply of this exchange."""
        if (task := get_asking_task()) is not None:
            with self._lock:
                self._last_replies[task] = exchange

    def leave_out_reply(self, task: str) -> None:
        """A task has failed: where that was for its last reply, a run that goes on from here asks for another one."""
        with self._lock:
            if (exchange := self._last_replies.pop(task, None)) is not None:
                self._sink.write({"left_out": exchange})

    def add_review(self, request: ReviewRequest, outcome: ReviewAnswer | Exception | None, seconds: float) -> None:
        """Note what a reviewer was asked and decided; it may come before any model."""
        with self._lock:
            self._sink.write(review_to_document(request, outcome, seconds))

    def add_tool(self, exchange: int, call: ToolCall, answer: ToolAnswer | None, seconds: float) -> None:
        """Note what came of a tool call that the reply of an exchange asked for."""
        if answer is None:
            self.note_request()  # what fails now does so for the tool that was cut off
        with self._lock:
            self._sink.write(tool_to_document(exchange, call, answer, seconds))
