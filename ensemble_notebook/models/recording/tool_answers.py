"""What tools answered, as a recording keeps it (E42).

Secrets are masked on both ways in, as in exchanges. Knows no files and no tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.review import (
    ON_TIMEOUT,
    ReviewAnswer,
    ReviewDecision,
    ReviewRequest,
    Verdict,
)
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import ToolAnswer
from ensemble_notebook.errors import ReviewTimeoutError, get_message
from ensemble_notebook.models.recording.exchange import (
    Form,
    RequestPart,
    make_replayed_error,
    read_seconds,
    read_text,
    to_call_part,
    value_to_plain,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTool:
    """A tool call of a recording, and what came of it.

    Attributes:
        exchange: the number of the exchange whose reply asked for it.
        call: as the tool got it.
        answer: None where it was stopped, or begins.
        seconds: how long the tool took.
        is_masked: whether a secret was masked in the answer, so that it is not what the tool said.
        begins: nothing has come of it yet.
    """

    exchange: int
    call: ToolCall
    answer: ToolAnswer | None
    seconds: float
    is_masked: bool = False
    begins: bool = False

    @property
    def part(self) -> RequestPart:
        """The call as it is compared."""
        return to_call_part(self.call)


def tool_to_document(
    exchange: int, call: ToolCall, answer: ToolAnswer | None, seconds: float, form: Form, *, begins: bool = False
) -> dict[str, Any]:
    """Convert a tool call and its answer. The seconds come last: a document without them was cut off."""
    document: dict[str, Any] = {
        "tool": call.name,
        "asked_in": exchange,
        "call": call.id,
        "arguments": form.inline(form.mask_value(call.arguments)),
    }
    if begins:
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
    return document | {"seconds": round(seconds, 3)}


def tool_from_document(document: Mapping[str, Any]) -> RecordedTool:
    """Read what `tool_to_document` has written.

    Raises:
        KeyError, TypeError, ValueError: it is not whole.
    """
    begins = bool(document.get("begins"))
    answer = None if begins or document.get("stopped") else _answer_from_document(document)
    return RecordedTool(
        exchange=int(document["asked_in"]),
        call=ToolCall(
            id=read_text(document, "call"), name=read_text(document, "tool"), arguments=document["arguments"]
        ),
        answer=answer,
        seconds=read_seconds(document, "seconds"),
        is_masked=bool(document.get("masked")),
        begins=begins,
    )


def _answer_from_document(document: Mapping[str, Any]) -> ToolAnswer:
    error = None
    if "error" in document:
        error = make_replayed_error(str(document["error"]), str(document.get("message", "")))
    return ToolAnswer(
        read_text(document, "answer"),
        ToolOutcome(document["outcome"]),
        error,
        value=document.get("value"),
        warning=str(document.get("warning", "")),
    )


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
    """

    question: RequestPart
    outcome: ReviewAnswer | tuple[str, str] | None
    seconds: float
    is_masked: bool = False

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
    request: ReviewRequest, outcome: ReviewAnswer | Exception | None, seconds: float
) -> dict[str, Any]:
    """Convert a review and its outcome. The seconds come last: a document without them was cut off."""
    question = to_question(request)
    document: dict[str, Any] = {"review": question.title, "text": question.text}
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
    )
