"""The documents of a recording beside those of `exchange`: answers of tools and reviewers, and the reader of all (E42).

Secrets are masked on both ways in, as in exchanges. Knows no files and no tools, nor what is done with the answers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.review import (
    ON_TIMEOUT,
    ReviewAnswer,
    ReviewDecision,
    ReviewRequest,
    Verdict,
)
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.secrets import MASK, mask
from ensemble_notebook.domain.seams.chat_port import ModelReply, Said, ToolAnswer, ToolSpec
from ensemble_notebook.errors import ReviewTimeoutError, get_message
from ensemble_notebook.models.recording.exchange import (
    PLAIN,
    Form,
    ModelRequest,
    PortInfo,
    RecordedExchange,
    RequestPart,
    make_replayed_error,
    outcome_from_document,
    read_seconds,
    read_text,
    request_from_document,
    to_call_part,
    to_plain,
    to_reply_parts,
    to_result_part,
    to_user_part,
    value_to_plain,
)


# Not frozen, as is no value that is made for each request: setting the fields of a frozen one takes several times as
# long. It does not change once it is handed on.
@dataclass(slots=True)
class RecordedTool:
    """A tool call of a recording, and what came of it.

    Attributes:
        exchange: the number of the exchange whose reply asked for it.
        call: as the tool got it.
        answer: None where it was stopped, or begins.
        seconds: how long the tool took.
        begins: nothing has come of it yet.
        is_masked: whether a secret was masked in the answer, so that it is not what the tool said.
    """

    exchange: int
    call: ToolCall
    answer: ToolAnswer | None
    seconds: float
    begins: bool = False
    is_masked: bool = False

    @property
    def part(self) -> RequestPart:
        """The call as it is compared."""
        return to_call_part(self.call)

    def fix(self) -> None:
        """Copy what could be another one later: arguments and values are the tool's, and so are its errors."""
        self.call, answer = copy_call(self.call), self.answer
        if answer is not None and (answer.value is not None or answer.error is not None):
            error = answer.error and make_replayed_error(type(answer.error).__name__, get_message(answer.error))
            self.answer = replace(answer, value=value_to_plain(answer.value), error=error)

    def to_document(self, form: Form) -> dict[str, Any]:
        """Convert it. The seconds come last: a document without them was cut off."""
        call, answer = self.call, self.answer
        document: dict[str, Any] = {
            "tool": call.name,
            "asked_in": self.exchange,
            "call": call.id,
            "arguments": form.inline(form.mask_value(call.arguments)),
        }
        if self.begins:
            document["begins"] = True
        elif answer is None:
            document["stopped"] = True
        else:
            document["outcome"] = answer.outcome.value
            document["answer"] = text = form.mask(answer.text)
            if text != answer.text:
                document["masked"] = True
            if answer.value is not None:
                document["value"] = form.inline(form.mask_value(value_to_plain(answer.value)))
            if answer.warning:
                document["warning"] = form.mask(answer.warning)
            if answer.error is not None:
                document["error"] = type(answer.error).__name__
                document["message"] = form.mask(get_message(answer.error))
        return document | {"seconds": round(self.seconds, 3)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_document` has written.

        Raises:
            KeyError, TypeError, ValueError: it is not whole.
        """
        begins, answer = bool(document.get("begins")), None
        if not begins and not document.get("stopped"):
            error = None
            if "error" in document:
                error = make_replayed_error(str(document["error"]), str(document.get("message", "")))
            answer = ToolAnswer(
                read_text(document, "answer"),
                ToolOutcome(document["outcome"]),
                error,
                value=document.get("value"),
                warning=str(document.get("warning", "")),
            )
        name, call_id = read_text(document, "tool"), read_text(document, "call")
        return cls(
            int(document["asked_in"]),
            ToolCall(id=call_id, name=name, arguments=document["arguments"]),
            answer,
            read_seconds(document, "seconds"),
            begins,
            bool(document.get("masked")),
        )


def pending_to_document(exchange: int, call: ToolCall, pending: PendingCall) -> dict[str, Any]:
    """Convert a call of a tool that waits for an answer."""
    form = RecordedTool(exchange, call, None, 0.0).to_document(PLAIN)
    del form["tool"], form["stopped"], form["seconds"]  # it is no call that was made
    return {
        "pending": call.name,
        **form,
        "id": pending.id,
        "since": pending.since.isoformat(),
        "task": pending.task,
        "agent": pending.agent,
        "row": pending.row,
        "unknown": pending.is_unknown,
    }


def copy_call(call: ToolCall) -> ToolCall:
    """The same call with arguments of its own."""
    return replace(call, arguments=to_plain(call.arguments))


# --- What reviewers were asked and decided, as a recording keeps it ---------------------------------------------
#
# Secrets are masked on both ways in, as in exchanges. Knows no files, and nobody who could be asked.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReview:
    """A review of a recording, and what came of it.

    Attributes:
        question: what was asked, as it is compared.
        outcome: the answer, or what the reviewer failed with, by type and message; None where the run was stopped.
        seconds: how long it took.
        is_masked: whether a secret was masked in the answer, so that it is not what the reviewer said.
        span: the id of the span of the review, where that is kept.
    """

    question: RequestPart
    outcome: ReviewAnswer | tuple[str, str] | None
    seconds: float
    is_masked: bool = False
    span: str | None = None

    def give(self, request: ReviewRequest) -> ReviewAnswer:
        """Give the answer, or fail as the reviewer did. There is an outcome.

        Raises:
            ReviewTimeoutError: nobody answered in time.
            ReplayedError: the reviewer failed.
        """
        assert self.outcome is not None
        if isinstance(self.outcome, ReviewAnswer):
            return self.outcome
        name, message = self.outcome
        if name == ReviewTimeoutError.__name__:
            raise ReviewTimeoutError(message, request=request, timeout_s=request.timeout or 0.0)
        raise make_replayed_error(name, message)


def to_question(request: ReviewRequest) -> RequestPart:
    """Convert what is asked to what it is found by: what it is about, and the text that is shown."""
    places = (("task", request.task), ("phase", request.phase), ("tool", request.tool))
    about = ", ".join(f"{word} {name}" for word, name in places if name is not None)
    return RequestPart(f"review of the {request.subject} ({about})", mask(request.text))


def review_to_document(
    request: ReviewRequest, outcome: ReviewAnswer | Exception | None, seconds: float, span: str | None = None
) -> dict[str, Any]:
    """Convert a review and its outcome. The seconds come last: a document without them was cut off."""
    question = to_question(request)
    document: dict[str, Any] = {"review": question.title, "text": question.text}
    if span is not None:
        document["span"] = span
    if outcome is None:
        document["stopped"] = True
    elif isinstance(outcome, Exception):
        document |= {"error": type(outcome).__name__, "message": mask(get_message(outcome))}
    else:
        document |= {"verdict": outcome.decision.verdict.value, "answer": mask(outcome.decision.text)}
        if outcome.decision.addressed:
            document["addressed"] = [{"to": name, "text": mask(text)} for name, text in outcome.decision.addressed]
        if any(mask(text) != text for text in (outcome.decision.text, *dict(outcome.decision.addressed).values())):
            document["masked"] = True
        if outcome.by == ON_TIMEOUT:
            document["nobody_in_time"] = True
        elif outcome.by is not None:
            document["by"] = outcome.by
    return document | {"seconds": round(seconds, 3)}


def review_from_document(document: Mapping[str, Any]) -> RecordedReview:
    """Read what `review_to_document` has written.

    Raises:
        KeyError, TypeError, ValueError: it is not whole.
    """
    outcome: ReviewAnswer | tuple[str, str] | None = None
    if "error" in document:
        outcome = (read_text(document, "error"), read_text(document, "message"))
    elif not document.get("stopped"):
        addressed = tuple((read_text(each, "to"), read_text(each, "text")) for each in document.get("addressed", ()))
        decision = ReviewDecision(
            verdict=Verdict(document["verdict"]), text=read_text(document, "answer"), addressed=addressed
        )
        by = mask(read_text(document, "by")) if "by" in document else None  # files of earlier versions do not say
        outcome = ReviewAnswer(decision, ON_TIMEOUT if document.get("nobody_in_time") else by)
    return RecordedReview(
        question=RequestPart(mask(read_text(document, "review")), mask(read_text(document, "text"))),
        outcome=outcome,
        seconds=read_seconds(document, "seconds"),
        is_masked=bool(document.get("masked")),
        span=document.get("span"),
    )


# --- Documents, read one after the other: what was asked of whom, and what came of it -----------------------------


# What `ExchangeReader.add` raises for a document that is not whole, or refers to what is not there.
BROKEN_DOCUMENT: Final = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)


class ExchangeReader:
    """What the documents so far hold.

    Args:
        known: has read all of these documents, so that what is in them is not made again; None: nobody has.

    Attributes:
        models: by the names of their specs.
        exchanges: by their numbers.
        tools: what came of tool calls, by the number of the exchange that asked for them and their id.
        begun: calls of tools that have no end, by the same and what they ask.
        waiting: calls of tools that were left pending, by the same.
        reviews: in order.
        left_out: the numbers of the exchanges that a task has failed for, and that are not to be given again.
        spans: of model calls, by id: the number of the last exchange that each has had, or has kept.
    """

    def __init__(self, known: ExchangeReader | None = None) -> None:
        self._known: Mapping[int, RecordedExchange] = {} if known is None else known.exchanges
        self.models: dict[str, PortInfo] = {}
        self.exchanges: dict[int, RecordedExchange] = {}
        self.tools: dict[tuple[int, str], list[RecordedTool]] = defaultdict(list)
        self.begun: dict[tuple[int, str, RequestPart], RecordedTool] = {}
        self.waiting: dict[tuple[int, str, RequestPart], PendingCall] = {}
        self._repeated: set[tuple[int, str, RequestPart]] = set()
        self.reviews: list[RecordedReview] = []
        self.left_out: set[int] = set()
        self.spans: dict[str, int] = {}

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
            self._add_tool(RecordedTool.from_document(content))
            return
        if "pending" in content:
            self._add_pending(content)
            return
        if "left_out" in content:
            self.left_out.add(int(content["left_out"]))
            return
        if "kept" in content:
            self.spans[read_text(content, "span")] = int(content["kept"])
            return
        number = self._add_exchange(content)
        if "span" in content:
            self.spans[read_text(content, "span")] = number

    def _add_exchange(self, content: Mapping[str, Any]) -> int:
        number, seconds = content["exchange"], read_seconds(content, "seconds")
        if type(number) is not int or number in self.exchanges:
            raise ValueError(f"exchange {number!r} needs a number of its own")
        if (read := self._known.get(number)) is not None:
            self.exchanges[number] = read
            return number
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
        return number

    def _add_tool(self, tool: RecordedTool) -> None:
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

    def _add_pending(self, content: Mapping[str, Any]) -> None:
        name, call_id = read_text(content, "pending"), read_text(content, "call")
        call = ToolCall(id=call_id, name=name, arguments=content["arguments"])
        self.waiting[int(content["asked_in"]), call_id, to_call_part(call)] = PendingCall(
            id=read_text(content, "id"),
            task=content["task"],
            tool=name,
            arguments=content["arguments"] if isinstance(content["arguments"], dict) else {},
            since=datetime.fromisoformat(read_text(content, "since")),
            agent=read_text(content, "agent"),
            row=content["row"],
            is_unknown=bool(content["unknown"]),
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
            added.append(to_user_part(read_text(content, "user")))
        return (*before.request, *to_reply_parts(before.outcome), *added)

    def _read_result(self, exchange: int, content: Mapping[str, Any]) -> RequestPart:
        """What a tool call added to a request; its text is kept with the call, unless the model got another one."""
        if "text" in content:
            return to_result_part(*(read_text(content, name) for name in ("call", "tool", "text")))
        # A call that was cut off by a kill is made once more by the run that goes on: it is the last one that counts.
        tool = self.tools[exchange, content["call"]][-1]
        if tool.answer is None:
            raise ValueError(f"the tool call {tool.call.id} has no answer")
        return to_result_part(tool.call.id, content["tool"], tool.answer.text)


# --- A call as it was made, to be made again (F1) -----------------------------------------------------------------


class RecordedCall(NamedTuple):
    """All that a model was told before a reply.

    Attributes:
        system, user: with what the conversation began.
        said: what was said after that.
        tools: that it was offered.
        schema: the JSON schema that it was held to.
        reply: what it replied; None where it did not.
        is_masked: whether a mask in any of these may stand for a secret; otherwise it was told so.
    """

    system: str
    user: str
    said: tuple[Said, ...]
    tools: tuple[ToolSpec, ...]
    schema: Mapping[str, Any] | None
    reply: ModelReply | None
    is_masked: bool


def find_call(documents: Iterable[Mapping[str, Any]], number: int) -> RecordedCall:
    """The call of an exchange.

    Args:
        documents: of a run, in order.
        number: of the exchange.

    Raises:
        AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError: one of them is not whole.
    """
    exchanges, answers = {}, {}
    for each in documents:
        if "exchange" in each:
            exchanges[each["exchange"]] = each
        elif "tool" in each and "answer" in each:  # the last one counts, as it does for `ExchangeReader`
            answers[each["asked_in"], each["call"]] = each
    said: list[Said] = []
    is_masked = False
    last = outcome_from_document(exchanges[number])[0]
    while "continues" in exchanges[number] or "repeats" in exchanges[number]:
        document = exchanges[number]
        if "repeats" in document:
            number = document["repeats"]
            continue
        number = document["continues"]
        reply = outcome_from_document(exchanges[number])[0]
        if not isinstance(reply, ModelReply):
            raise ValueError(f"exchange {number} has no reply that could be continued")
        calls = {call.id: call for call in reply.tool_calls}
        added: list[Said] = []
        for each in document.get("results", ()):
            answer = {} if "text" in each else answers[number, each["call"]]
            is_masked = is_masked or bool(answer.get("masked"))
            added.append((calls[each["call"]], each["text"] if "text" in each else answer["answer"]))
        is_masked = is_masked or bool(exchanges[number]["reply"].get("masked")) or _may_be_masked(document)
        if "user" in document:
            added.append(read_text(document, "user"))
        said = [reply, *added, *said]
    opening = exchanges[number]
    tools = [
        ToolSpec(name=each["name"], description=each["description"], parameters=each["parameters"])
        for each in opening.get("tools", ())
    ]
    return RecordedCall(
        system=read_text(opening, "system"),
        user=read_text(opening, "user"),
        said=tuple(said),
        tools=tuple(tools),
        schema=opening.get("schema"),
        reply=last if isinstance(last, ModelReply) else None,
        is_masked=is_masked or _may_be_masked(opening),
    )


def _may_be_masked(document: Mapping[str, Any]) -> bool:
    """Whether a mask in what a request adds may stand for a secret: it is not known to be in the prompt itself."""
    told = [document.get("system", ""), document.get("user", "")]
    told += [each.get("text", "") for each in document.get("results", ())]
    is_in_doubt = any(MASK in each for each in told) and not document.get("verbatim")
    return is_in_doubt or MASK in json.dumps([document.get("tools"), document.get("schema")])
