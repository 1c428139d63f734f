"""The answers in a recording: found by what was asked, not by when (E42).

Why not simply in order: tasks run side by side, so that requests come in another order in each run.
Knows nothing of runs; what is asked of whom is the replay's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ensemble_notebook.domain.seams.chat_port import ModelReply, ToolCall
from ensemble_notebook.errors import ReplayError
from ensemble_notebook.models.recording.exchange import (
    ModelRequest,
    RecordedExchange,
    RequestPart,
    to_call_part,
    to_reply_parts,
    to_result_part,
)
from ensemble_notebook.models.recording.exchange_documents import (
    outcome_from_document,
    read_seconds,
    request_from_document,
    result_from_document,
    user_from_document,
)
from ensemble_notebook.models.recording.port_info import PortInfo
from ensemble_notebook.models.recording.recording_format import (
    TOOLS_FORMAT,
    Document,
    describe_remedy,
    read_documents,
    read_format,
)
from ensemble_notebook.models.recording.request_difference import describe_difference, find_nearest
from ensemble_notebook.models.recording.tool_answers import RecordedTool, tool_from_document


class RecordedAnswers:
    """What a recording holds: its models, its exchanges, each of which answers once, and what tools answered.

    Attributes:
        path: of the file.
        models: by the names of their specs.
        has_tool_answers: False for files of the first version, which kept none.

    Raises:
        ReplayError: the file is none, or not whole; names it and the line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.models: dict[str, PortInfo] = {}
        self._exchanges: dict[int, RecordedExchange] = {}
        self._tools: dict[tuple[int, str], list[RecordedTool]] = defaultdict(list)
        for document in read_documents(path):
            try:
                self._add(document.content)
            except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
                raise ReplayError(self._describe_incomplete(document, error)) from error
        self.has_tool_answers = read_format(path) >= TOOLS_FORMAT
        self._by_request: dict[ModelRequest, list[RecordedExchange]] = defaultdict(list)
        for exchange in self._exchanges.values():
            self._by_request[exchange.request].append(exchange)
        self._taken_counts: dict[ModelRequest, int] = defaultdict(int)

    def _add(self, content: Mapping[str, Any]) -> None:
        if "llm" in content:
            self.models[_read_name(content["llm"])] = PortInfo.from_document(content)
            return
        if "tool" in content:
            tool = tool_from_document(content)
            self._tools[tool.exchange, tool.call.id].append(tool)
            return
        number, seconds = content["exchange"], read_seconds(content, "seconds")
        if type(number) is not int or number in self._exchanges:
            raise ValueError(f"exchange {number!r} needs a number of its own")
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
        added = [self._result(before.number, each) for each in content.get("results", ())]
        if "user" in content:
            added.append(user_from_document(content))
        return (*before.request, *to_reply_parts(before.outcome), *added)

    def _result(self, exchange: int, content: Mapping[str, Any]) -> RequestPart:
        """What a tool call added to a request; its text is kept with the call, unless the model got another one."""
        if "text" in content:
            return result_from_document(content)
        tool = self._tools[exchange, content["call"]][0]
        if tool.answer is None:
            raise ValueError(f"the tool call {tool.call.id} has no answer")
        return to_result_part(tool.call.id, content["tool"], tool.answer.text)

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


def _read_name(llm: Any) -> str:
    if not isinstance(llm, str):
        raise TypeError(f"llm must be text, got {llm!r}")
    return llm
