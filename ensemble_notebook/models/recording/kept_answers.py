"""The answers that an earlier run has had, for a run that goes on from there: found where they are, missed in silence.

What failed, was stopped or had a secret in it that was masked is no answer, nor is the reply that a task failed for.
Knows nothing of stores and runs.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest, Verdict
from ensemble_notebook.domain.seams.chat_port import ModelReply, ToolAnswer, ToolCall
from ensemble_notebook.models.recording.exchange import ModelRequest, RecordedExchange, to_call_part
from ensemble_notebook.models.recording.exchange_reader import BROKEN_DOCUMENT, ExchangeReader
from ensemble_notebook.models.recording.reviews import to_question


class KeptAnswers:
    """The answers in the documents of an `ExchangeJournal`, each of which answers once, equal ones in order.

    A document that is not whole is passed over, and so are those that refer to it: what they answered is asked again.

    Args:
        documents: as the journal has handed them on, in order.

    Attributes:
        last_number: of the exchanges.
        models: the names of those that were asked.
        has_reviews: whether reviewers were asked.
    """

    def __init__(self, documents: Iterable[Mapping[str, Any]]) -> None:
        reader = ExchangeReader()
        numbers = [0]
        for each in documents:
            try:
                numbers.append(int(each.get("exchange", 0)))
                reader.add(each)
            except BROKEN_DOCUMENT:
                continue
        self.last_number: int = max(numbers)
        self.models: tuple[str, ...] = tuple(reader.models)
        self.has_reviews: bool = bool(reader.reviews)
        self._tools = reader.tools
        self._reviews = reader.reviews
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        for exchange in reader.exchanges.values():
            is_answer = isinstance(exchange.outcome, ModelReply) and not exchange.is_masked
            if is_answer and exchange.number not in reader.left_out:
                self._by_request[exchange.request].append(exchange)
        self._finished: frozenset[str] = frozenset()
        self._lock = threading.Lock()  # a nested run may be on another loop (E52)

    def reserve(self, tasks: Collection[str]) -> None:
        """Keep what finished tasks were answered for themselves: their results hold it already."""
        self._finished = frozenset(tasks)

    def take(self, request: ModelRequest, task: str | None = None) -> RecordedExchange | None:
        """Take the exchange that answers a request, if there is one left: one of the same task before others."""
        with self._lock:
            equal = self._by_request.get(request, [])
            fitting = [each for each in equal if each.task == task or each.task not in self._finished]
            found = min(fitting, key=lambda each: each.task != task, default=None)
            if found is not None:
                equal.remove(found)
            return found

    def take_tool(self, exchange: int, call: ToolCall) -> ToolAnswer | None:
        """Take what a tool answered to a call that the reply of an exchange asked for, if it did."""
        part = to_call_part(call)
        with self._lock:
            calls = self._tools.get((exchange, call.id), [])
            for tool in calls:
                if tool.answer is not None and not tool.is_masked and tool.part == part:
                    calls.remove(tool)
                    return tool.answer
        return None

    def take_review(self, request: ReviewRequest) -> ReviewAnswer | None:
        """Take what a reviewer decided about the same question, if that let the run go on.

        Who has left or rejected is asked again, since otherwise nobody could ever get past that; so is who was late.
        """
        question = to_question(request)
        with self._lock:
            for review in self._reviews:
                answer = review.outcome
                if review.question != question or review.is_masked or not isinstance(answer, ReviewAnswer):
                    continue
                if not answer.is_timeout and not _has_ended_work(request, answer.decision.verdict):
                    self._reviews.remove(review)
                    return answer
        return None


def _has_ended_work(request: ReviewRequest, verdict: Verdict) -> bool:
    """Whether a task, a phase or the run was over with a decision; a rejected tool call is only told to the model."""
    return verdict is Verdict.EXIT_EARLY or (verdict is Verdict.REJECT and request.subject != "tool")
