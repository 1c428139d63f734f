"""The answers in a recording: found by what was asked, not by when (E42).

Why not simply in order: tasks run side by side, so that requests come in another order in each run.
Knows nothing of runs; what is asked of whom is the replay's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ensemble_notebook.domain.seams.chat_port import ModelReply
from ensemble_notebook.errors import ReplayError
from ensemble_notebook.models.recording.exchange import ModelRequest, RecordedExchange, to_reply_parts
from ensemble_notebook.models.recording.exchange_documents import (
    outcome_from_document,
    request_from_document,
    result_from_document,
    user_from_document,
)
from ensemble_notebook.models.recording.port_info import PortInfo
from ensemble_notebook.models.recording.recording_format import Document, describe_remedy, read_documents
from ensemble_notebook.models.recording.request_difference import describe_difference, find_nearest


class RecordedAnswers:
    """What a recording holds: its models, and its exchanges, each of which answers once.

    Raises:
        ReplayError: the file is none, or not whole; names it and the line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.models: dict[str, PortInfo] = {}
        self._exchanges: dict[int, RecordedExchange] = {}
        for document in read_documents(path):
            try:
                self._add(document.content)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ReplayError(self._describe_incomplete(document, error)) from error
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        for exchange in self._exchanges.values():
            self._by_request[exchange.request].append(exchange)
        self._taken_counts: dict[ModelRequest, int] = defaultdict(int)

    def _add(self, content: Mapping[str, Any]) -> None:
        if "llm" in content:
            self.models[content["llm"]] = PortInfo.from_document(content)
            return
        number, seconds = content["exchange"], float(content["seconds"])
        outcome, pieces = outcome_from_document(content)
        self._exchanges[number] = RecordedExchange(
            number=number, request=self._request(content), outcome=outcome, pieces=pieces, seconds=seconds
        )

    def _request(self, content: Mapping[str, Any]) -> ModelRequest:
        if "repeats" in content:
            return self._exchanges[content["repeats"]].request
        if "continues" not in content:
            return request_from_document(content)
        before = self._exchanges[content["continues"]]
        if not isinstance(before.outcome, ModelReply):
            raise ValueError(f"exchange {before.number} has no reply that could be continued")
        added = [*map(result_from_document, content.get("results", ()))]
        if "user" in content:
            added.append(user_from_document(content))
        return (*before.request, *to_reply_parts(before.outcome), *added)

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
