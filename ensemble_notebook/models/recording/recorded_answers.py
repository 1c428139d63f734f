"""The answers in a recording: found by what was asked, not by when (E42).

Why not simply in order: tasks run side by side, so that requests come in another order in each run.
Knows nothing of runs; what is asked of whom is the replay's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ensemble_notebook.domain.definitions.review import ReviewRequest
from ensemble_notebook.domain.seams.chat_port import ToolCall
from ensemble_notebook.errors import ReplayError
from ensemble_notebook.models.recording.exchange import ModelRequest, RecordedExchange, to_call_part
from ensemble_notebook.models.recording.exchange_reader import BROKEN_DOCUMENT, ExchangeReader
from ensemble_notebook.models.recording.recording_format import (
    TOOLS_FORMAT,
    Document,
    describe_remedy,
    read_documents,
    read_format,
)
from ensemble_notebook.models.recording.request_difference import describe_difference, find_nearest
from ensemble_notebook.models.recording.reviews import RecordedReview, to_question
from ensemble_notebook.models.recording.tool_answers import RecordedTool


class RecordedAnswers:
    """What a recording holds: its models, its exchanges, each of which answers once, what tools and reviewers answered.

    Attributes:
        path: of the file.
        models: by the names of their specs.
        has_tool_answers: False for files of the first version, which kept none.
        has_reviews: True where reviewers were asked; files of the first version don't tell.

    Raises:
        ReplayError: the file is none, or not whole; names it and the line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        reader = ExchangeReader()
        for document in read_documents(path):
            try:
                reader.add(document.content)
            except BROKEN_DOCUMENT as error:
                raise ReplayError(self._describe_incomplete(document, error)) from error
        self.models = reader.models
        self._exchanges, self._tools, self._reviews = reader.exchanges, reader.tools, reader.reviews
        self.has_tool_answers = read_format(path) >= TOOLS_FORMAT
        self.has_reviews = bool(self._reviews)
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        for exchange in self._exchanges.values():
            self._by_request[exchange.request].append(exchange)
        self._taken_counts: dict[ModelRequest, int] = defaultdict(int)

    def _describe_incomplete(self, document: Document, error: Exception) -> str:
        wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return (
            f"{self.path}, line {document.line}: here the recording is not whole: {wrong}. {describe_remedy(self.path)}"
        )

    def take(self, request: ModelRequest) -> RecordedExchange:
        """Take the exchange that answers a request; equal ones are answered in the order of the recording.

        Raises:
            ReplayError: there is none, or none left; shows what differs.
        """
        equal = self._by_request.get(request, [])
        taken = self._taken_counts[request]
        if taken == len(equal):
            raise ReplayError(self._describe_missing(request, equal))
        self._taken_counts[request] = taken + 1
        return equal[taken]

    def take_tool(self, exchange: int, call: ToolCall) -> RecordedTool:
        """Take what came of a tool call that the reply of an exchange asked for.

        Raises:
            ReplayError: there is none, or another one was made; shows what differs.
        """
        recorded = self._tools.get((exchange, call.id), [])
        part = to_call_part(call)
        for tool in recorded:
            if tool.part == part:
                recorded.remove(tool)
                return tool
        if recorded:
            differs = describe_difference((part,), (recorded[0].part,))
            problem = f"has another call of a tool after exchange {exchange}; {differs}\n"
        else:
            problem = f"has no answer of the tool {call.name} after exchange {exchange}. "
        raise ReplayError(f"The recording {self.path} {problem}{describe_remedy(self.path)}")

    def take_review(self, request: ReviewRequest) -> RecordedReview:
        """Take what came of a review; equal ones are answered in the order of the recording.

        Raises:
            ReplayError: there is none, or another question was asked; shows what differs.
        """
        question = to_question(request)
        for review in self._reviews:
            if review.question == question:
                self._reviews.remove(review)
                return review
        alike = [each.question for each in self._reviews if each.question.title == question.title]
        if alike:
            problem = f"has another question; {describe_difference((question,), (alike[0],))}\n"
        else:
            problem = f"has no answer for the {question.title}, or none left. "
        raise ReplayError(f"The recording {self.path} {problem}{describe_remedy(self.path)}")

    def _describe_missing(self, request: ModelRequest, equal: Sequence[RecordedExchange]) -> str:
        if equal:
            times = "once" if len(equal) == 1 else f"{len(equal)} times"
            return (
                f"The recording {self.path} answers this request {times} (exchange {equal[0].number}), and now it was "
                f"made once more. {describe_remedy(self.path)}"
            )
        llm = request[0].text
        closest = find_nearest(request, (each for each in self._exchanges.values() if each.request[0].text == llm))
        if closest is None:
            return f"The recording {self.path} has no request to the model {llm}. {describe_remedy(self.path)}"
        return (
            f"The recording {self.path} has no answer to this request. The nearest is exchange {closest.number}; "
            f"{describe_difference(request, closest.request)}\n{describe_remedy(self.path)}"
        )
