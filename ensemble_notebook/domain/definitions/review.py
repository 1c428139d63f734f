"""Review: where a person, or a function in place of one, is asked before work goes on (E28, E45)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from ensemble_notebook.domain.definitions.definition import Converted, Definition, converted, definition
from ensemble_notebook.domain.definitions.enums import OnTimeout, OnTimeoutName, ReviewTiming, ReviewTimingName
from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.errors import ValidationError


class Verdict(StrEnum):
    """The kinds of `ReviewDecision`."""

    APPROVE = "approve"
    EDIT = "edit"
    RETRY = "retry"
    REJECT = "reject"
    EXIT_EARLY = "exit_early"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReviewDecision(Record):
    """The answer to a `ReviewRequest`. Make one with `approve`, `edit`, `retry`, `reject` or `exit_early`.

    Attributes:
        verdict: the kind of decision.
        text: the edited text, the feedback of a retry, or the reason of a rejection; otherwise empty.
        addressed: for a retry of only some tasks of a phase: pairs of task name and feedback. `text` has the same as
            lines.
        for_all: whether the same gate of all other rows of a map has this answer, too.
        always: of a call of a reviewed tool: whether all later calls of it in this run have this answer, too.

    Raises:
        ValidationError: a text is not a string, or `always` stands beside another decision than approve and reject.
    """

    verdict: Verdict
    text: str = ""
    addressed: tuple[tuple[str, str], ...] = ()
    for_all: bool = False
    always: bool = False

    def __post_init__(self) -> None:
        """Check the texts: they go into outputs and prompts."""
        if self.always and self.verdict not in (Verdict.APPROVE, Verdict.REJECT):
            raise ValidationError(f"ReviewDecision: always goes with approve and reject, not with {self.verdict}.")
        for text in (self.text, *(each for pair in self.addressed for each in pair)):
            found: object = text
            if not isinstance(found, str):
                raise ValidationError(f"ReviewDecision.{self.verdict} takes a text, got {type(found).__name__}.")

    @classmethod
    def approve(cls, *, always: bool = False) -> ReviewDecision:
        """Go on.

        Args:
            always: of a call of a reviewed tool: whether all later calls of it in this run are made, too.
        """
        return cls(verdict=Verdict.APPROVE, always=always)

    @classmethod
    def edit(cls, text: str | Mapping[str, Any]) -> ReviewDecision:
        """Go on, with another text in place of what was shown.

        Args:
            text: the new text; of a tool call, its arguments as a mapping or as JSON.

        Raises:
            ValidationError: the mapping holds something that JSON has no form for.
        """
        if isinstance(text, Mapping):
            try:
                text = json.dumps(dict(text), ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise ValidationError(f"ReviewDecision.edit takes arguments that JSON can hold: {error}.") from None
        return cls(verdict=Verdict.EDIT, text=text)

    @classmethod
    def retry(cls, feedback: str | Mapping[str, str]) -> ReviewDecision:
        """Do it again; the feedback is added to the next prompt as ``## Revision Instructions``.

        Args:
            feedback: a text for all, or, for a phase, names of tasks with the feedback for each. Those tasks and the
                ones that depend on them are done again, the others keep their outputs.

        Raises:
            ValidationError: the mapping is empty.
        """
        if not isinstance(feedback, Mapping):
            return cls(verdict=Verdict.RETRY, text=feedback)
        if not feedback:
            raise ValidationError("ReviewDecision.retry({}) names no task. Name one, or give a text that is for all.")
        text = "\n".join(f"{name}: {each}" for name, each in feedback.items())
        return cls(verdict=Verdict.RETRY, text=text, addressed=tuple(feedback.items()))

    @classmethod
    def reject(cls, reason: str, *, always: bool = False) -> ReviewDecision:
        """Fail the task or phase. If a tool call was reviewed, the model gets the reason as the result of the call.

        Args:
            reason: why.
            always: of a call of a reviewed tool: whether all later calls of it in this run are declined, too.
        """
        return cls(verdict=Verdict.REJECT, text=reason, always=always)

    @classmethod
    def exit_early(cls) -> ReviewDecision:
        """End the run: what is running finishes, nothing new starts."""
        return cls(verdict=Verdict.EXIT_EARLY)


def explain_answers(tasks: Sequence[str] = ()) -> str:
    """How a task that reviews a phase must answer, for its prompt.

    Args:
        tasks: names of the tasks of the phase.
    """
    text = "Begin your answer with one of these three words: `APPROVE`, or `RETRY: ` and what is to be done better,"
    text += " or `REJECT: ` and the reason."
    if len(tasks) > 1:
        text += f" To have only some of the tasks done again, write one line for each: `RETRY {tasks[0]}: ` and what it"
        text += f" is to do better. The tasks are: {', '.join(tasks)}."
    return text


ReviewSubject = Literal["task", "output", "tool", "question", "phase"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReviewRequest(Record):
    """What a review handler is asked.

    Attributes:
        subject: what is reviewed: ``"task"``, about to start; ``"output"`` of a task; ``"tool"``, a call about to be
            made; ``"question"`` of an agent; or a completed ``"phase"``.
        text: what is shown: the description, the output, the arguments of the tool call, the question, or the outputs
            of the phase.
        task: name of the task, if it is about one.
        phase: name of the phase, if it is about one, or the task is in one.
        agent: role of the agent that did or will do the work.
        tool: name of the tool; None for other subjects.
        verdicts: the decisions that make sense here; the first one is the plain "go on".
        timeout: seconds until `on_timeout` decides; None waits forever.
        on_timeout: what happens then.
        tasks: names of the tasks that a retry may address; empty where there is only one.
        row: name of the row that it is about, in a map; None elsewhere.
        call_id: of a call of a reviewed tool: by which ``run(resume=..., answers={call_id: ...})`` answers it later; it
            is left pending where nobody answers now, whatever `on_timeout` says. None for all others.
        arguments: of such a call, by name; None for all others.
        parameters: the JSON schema of the arguments of such a tool; None for all others.
        is_unknown: whether such a call was begun once before, and nobody knows whether it was done.
    """

    subject: ReviewSubject
    text: str
    task: str | None = None
    phase: str | None = None
    agent: str = ""
    tool: str | None = None
    verdicts: tuple[Verdict, ...] = (Verdict.APPROVE, Verdict.EDIT, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)
    timeout: float | None = 300.0
    on_timeout: OnTimeout = OnTimeout.EXIT_EARLY
    tasks: tuple[str, ...] = ()
    row: str | None = None
    call_id: str | None = None
    arguments: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    is_unknown: bool = False

    @property
    def may_be_for_all(self) -> bool:
        """Whether one answer may serve all rows of a map; each call of a reviewed tool has its own arguments."""
        return self.row is not None and self.call_id is None


A_PERSON: Final = "a person"
ON_TIMEOUT: Final = "on_timeout"
NOBODY_TO_ASK: Final = "nobody_to_ask"
NOBODY_HERE: Final = "nobody can be asked here: give review_handler=..., or resume where somebody can"


class ReviewAnswer(NamedTuple):
    """What a reviewer decided, or `on_timeout` in place of one who did not answer in time, or was not there.

    `by` says which of these: `A_PERSON`, the name of a handler, `ON_TIMEOUT` or `NOBODY_TO_ASK`; None where that is not
    known. `is_kept` where that was in an earlier run, and nobody was asked now.
    """

    decision: ReviewDecision
    by: str | None = None
    is_kept: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether somebody has decided it."""
        return self.by not in (ON_TIMEOUT, NOBODY_TO_ASK)


ReviewHandler = Callable[[ReviewRequest], ReviewDecision | Awaitable[ReviewDecision]]


def name_reviewer(handler: ReviewHandler) -> str:
    """Who decides where this handler is asked, for views: `A_PERSON`, or its name."""
    if getattr(handler, "is_person", False):
        return A_PERSON
    function = getattr(handler, "func", handler)  # that of a partial
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


@definition
class Review(Definition):
    """A review gate of a task: a person, or the `review_handler`, is asked.

    Args:
        timing: ``"before"`` the task, ``"after"`` it, or ``"during"``, which asks before every tool call.
        timeout: seconds to answer; None waits forever.
        on_timeout: ``"exit_early"``, ``"continue"`` or ``"fail"``.

    Raises:
        ValidationError: a field has a wrong value.
    """

    timing: Converted[ReviewTiming, ReviewTiming | ReviewTimingName] = converted(
        default=ReviewTiming.AFTER, kw_only=False
    )
    timeout: float | None = 300.0
    on_timeout: Converted[OnTimeout, OnTimeout | OnTimeoutName] = converted(default=OnTimeout.EXIT_EARLY)

    def __post_init__(self) -> None:
        """Check one gate by itself."""
        self._make_enum("timing", ReviewTiming)
        self._check_optional_seconds("timeout")
        self._make_enum("on_timeout", OnTimeout)


AnyReview = Review | ReviewTiming | ReviewTimingName | bool | Mapping[str, Any]
"""The forms of one gate; True is after the task."""

_ANY_REVIEW: Final = "a Review, before, during, after, or a mapping such as {'timing': 'after', 'timeout': 300}"


def normalize_reviews(owner: Definition) -> None:
    """Make the `review` of a definition a tuple of gates; None becomes an empty one.

    Raises:
        ValidationError: something in it has none of the forms of a gate.
    """
    given: Any = getattr(owner, "review")  # noqa: B009 - the base of all definitions has none
    if given is None or given == ():
        owner._set("review", ())
        return
    gates = []
    for index, each in enumerate(given if isinstance(given, list | tuple) else [given]):
        if each is False:
            message = f"{owner._label} review can't be False: without it there is none. Leave it out."
            raise owner._refuse("review", message, item=index)
        part = {} if each is True else each
        gates.append(owner._to_part("review", part, Review, _ANY_REVIEW, lambda timing: {"timing": timing}, index))
    owner._set("review", tuple(gates))
