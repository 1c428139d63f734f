"""What reviewers were asked and decided, as a recording keeps it (E42).

Secrets are masked on both ways in, as in exchanges. Knows no files, and nobody who could be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewDecision, ReviewRequest, Verdict
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import ReviewTimeoutError, get_message
from ensemble_notebook.models.recording.exchange import RequestPart, make_replayed_error
from ensemble_notebook.models.recording.exchange_documents import read_seconds


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
        if outcome.is_timeout:
            document["nobody_in_time"] = True
    return document | {"seconds": round(seconds, 3)}


def review_from_document(document: Mapping[str, Any]) -> RecordedReview:
    """Read what `review_to_document` has written.

    Raises:
        KeyError, TypeError, ValueError: it is not whole.
    """
    outcome: ReviewAnswer | tuple[str, str] | None = None
    if "error" in document:
        outcome = (_read_text(document, "error"), _read_text(document, "message"))
    elif not document.get("stopped"):
        addressed = tuple((_read_text(each, "to"), _read_text(each, "text")) for each in document.get("addressed", ()))
        decision = ReviewDecision(
            verdict=Verdict(document["verdict"]), text=_read_text(document, "answer"), addressed=addressed
        )
        outcome = ReviewAnswer(decision, bool(document.get("nobody_in_time")))
    return RecordedReview(
        question=RequestPart(mask(_read_text(document, "review")), mask(_read_text(document, "text"))),
        outcome=outcome,
        seconds=read_seconds(document, "seconds"),
        is_masked=bool(document.get("masked")),
    )


def _read_text(document: Mapping[str, Any], name: str) -> str:
    text = document[name]
    if not isinstance(text, str):
        raise TypeError(f"{name} must be text, got {text!r}")
    return text
