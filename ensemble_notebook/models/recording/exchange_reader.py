"""Documents of a recording, read one after the other: what was asked of whom, and what came of it (E42).

The counterpart of `recorder`. Knows nothing of files, nor what is done with the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.domain.seams.chat_port import ModelReply
from ensemble_notebook.models.recording.exchange import (
    ModelRequest,
    PortInfo,
    RecordedExchange,
    RequestPart,
    outcome_from_document,
    read_seconds,
    request_from_document,
    result_from_document,
    to_reply_parts,
    to_result_part,
    user_from_document,
)
from ensemble_notebook.models.recording.tool_answers import (
    RecordedReview,
    RecordedTool,
    review_from_document,
    tool_from_document,
)

# What `ExchangeReader.add` raises for a document that is not whole, or refers to what is not there.
BROKEN_DOCUMENT: Final = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)


class ExchangeReader:
    """What the documents so far hold.

    Attributes:
        models: by the names of their specs.
        exchanges: by their numbers.
        tools: what came of tool calls, by the number of the exchange that asked for them and their id.
        begun: calls of tools that have no end, by the same and what they ask.
        reviews: in order.
        left_out: the numbers of the exchanges that a task has failed for, and that are not to be given again.
    """

    def __init__(self) -> None:
        self.models: dict[str, PortInfo] = {}
        self.exchanges: dict[int, RecordedExchange] = {}
        self.tools: dict[tuple[int, str], list[RecordedTool]] = defaultdict(list)
        self.begun: dict[tuple[int, str, RequestPart], RecordedTool] = {}
        self._repeated: set[tuple[int, str, RequestPart]] = set()
        self.reviews: list[RecordedReview] = []
        self.left_out: set[int] = set()

    def add(self, content: Mapping[str, Any]) -> None:
        """Read the next document.

        Raises:
            AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError: it is not whole.
        """
        if "llm" in content:
            if not isinstance(content["llm"], str):
                raise TypeError(f"llm must be text, got {content['llm']!r}")
            self.models[content["llm"]] = PortInfo.from_document(content)
            return
        if "review" in content:
            self.reviews.append(review_from_document(content))
            return
        if "tool" in content:
            tool = tool_from_document(content)
            key, ended = (tool.exchange, tool.call.id, tool.part), self.tools[tool.exchange, tool.call.id]
            if tool.begins:  # once more, where it has an answer: that came too late for the run that makes it again
                if key in self.begun:
                    self._repeated.add(key)
                self.begun[key] = tool
                ended[:] = [each for each in ended if each.part != tool.part]
            else:
                if tool.answer is not None or key not in self._repeated:  # else the first one's end is still not known
                    self.begun.pop(key, None)
                    self._repeated.discard(key)
                ended.append(tool)
            return
        if "left_out" in content:
            self.left_out.add(int(content["left_out"]))
            return
        number, seconds = content["exchange"], read_seconds(content, "seconds")
        if type(number) is not int or number in self.exchanges:
            raise ValueError(f"exchange {number!r} needs a number of its own")
        outcome, pieces = outcome_from_document(content)
        self.exchanges[number] = RecordedExchange(
            number=number,
            request=self._read_request(content),
            outcome=outcome,
            pieces=pieces,
            seconds=seconds,
            is_masked=isinstance(outcome, ModelReply) and bool(content["reply"].get("masked")),
            task=content.get("task"),
        )

    def _read_request(self, content: Mapping[str, Any]) -> ModelRequest:
        if "repeats" in content:
            return self.exchanges[content["repeats"]].request
        if "continues" not in content:
            return request_from_document(content)
        before = self.exchanges[content["continues"]]
        if not isinstance(before.outcome, ModelReply):
            raise ValueError(f"exchange {before.number} has no reply that could be continued")
        added = [self._read_result(before.number, each) for each in content.get("results", ())]
        if "user" in content:
            added.append(user_from_document(content))
        return (*before.request, *to_reply_parts(before.outcome), *added)

    def _read_result(self, exchange: int, content: Mapping[str, Any]) -> RequestPart:
        """What a tool call added to a request; its text is kept with the call, unless the model got another one."""
        if "text" in content:
            return result_from_document(content)
        # A call that was cut off by a kill is made once more by the run that goes on: it is the last one that counts.
        tool = self.tools[exchange, content["call"]][-1]
        if tool.answer is None:
            raise ValueError(f"the tool call {tool.call.id} has no answer")
        return to_result_part(tool.call.id, content["tool"], tool.answer.text)
