"""Asks the reviewer of a phase about the outputs of its tasks, and reads the answer (E28)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, cast

from ensemble_notebook.domain.definitions.review import (
    A_PERSON,
    ReviewDecision,
    ReviewHandler,
    ReviewRequest,
    Verdict,
    explain_answers,
    name_reviewer,
)
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import PhaseNode
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.run_spec import ResolvedTask
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.engine.task_lifecycle import abandonment_in, run_unplanned_task
from ensemble_notebook.errors import ReviewRejectedError, did_you_mean, summarize_error

_VERDICTS: Final = (Verdict.APPROVE, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)
NO_REASON: Final = "no reason given"
_LONGEST_QUOTE: Final = 300


class PhaseReviewer:
    """The reviews of all phases of one run.

    Args:
        runner: works on the tasks that review phases.
        resolver: tells what there is to look at.
    """

    def __init__(self, runner: TaskRunner, resolver: TaskResolver) -> None:
        self._runner = runner
        self._resolver = resolver

    async def review(
        self, phase: PhaseNode, tasks: Sequence[str], queued_s: float, span: SpanEmitter
    ) -> ReviewDecision:
        """To approve the phase, to do it again, or to leave the run. Says nothing of how often it may be done again.

        Args:
            phase: all its tasks are resolved.
            tasks: their names.
            queued_s: how long the review waited for a free place.
            span: the span of the phase.

        Raises:
            ReviewRejectedError: the phase fails: it was rejected, or its review broke.
            TaskAbandoned, BudgetExceededError: the review is not to go on.
        """
        review, reviewer = phase.phase.review, phase.reviewer
        assert review is not None  # this is asked for phases with a review
        resolved = None if reviewer is None else self._resolver.resolve_reviewer(reviewer, phase)
        outputs = self._resolver.find_outputs(phase.tasks) if resolved is None else resolved.context
        if resolved is None and self._runner.reuse.is_approved(phase, outputs):
            return ReviewDecision.approve()
        request = ReviewRequest(
            subject="phase",
            text="\n\n".join(f"### {each.name}\n{each.raw}" for each in outputs),
            phase=phase.name,
            agent="" if reviewer is None else reviewer.role,
            verdicts=_VERDICTS,
            timeout=None,
            tasks=tuple(tasks),
        )
        review_queue = self._runner.review_queue
        try:
            if resolved is None:
                by: ReviewHandler | None = cast(ReviewHandler, review.by)
                if _asks_person(by) and _asks_person(review_queue.handler):
                    by = None  # the same person, who is asked where everything else is
                decision = (await review_queue.ask(request, span, by)).decision
            else:
                work = functools.partial(self._run_reviewer, resolved, queued_s, span)
                decision = await review_queue.ask_without_waiting(request, span, work)
        except Exception as error:
            if abandonment_in(error) is not None:
                raise
            reason = summarize_error(error)
            raise ReviewRejectedError(f"The review of phase {phase.name!r} broke: {reason}", reason=reason) from error
        _raise_if_refused(phase, decision)
        return decision

    async def _run_reviewer(
        self, resolved: ResolvedTask, queued_s: float, phase: SpanEmitter, request: ReviewRequest
    ) -> ReviewDecision:
        """The answer of a reviewer that is a task. One that decides nothing is asked for once more."""
        output = await self._get_answer(resolved, queued_s, phase)
        try:
            return self._read_answer(resolved, output, request)
        except UndecidedError as error:
            resolved.revision = resolved.revision.follow(str(error), output.raw)
        output = await self._get_answer(resolved, 0.0, phase)
        try:
            return self._read_answer(resolved, output, request)
        except UndecidedError:
            answer = output.raw
            quoted = f"said {_shorten(answer)!r}" if answer.strip() else "gave an empty answer"
            return ReviewDecision.reject(f"asked twice, the reviewer decided nothing: it {quoted}")

    def _read_answer(self, resolved: ResolvedTask, output: TaskOutput, request: ReviewRequest) -> ReviewDecision:
        decision = read_answer(output.raw, request.tasks)
        if decision.verdict is Verdict.APPROVE:
            self._runner.reuse.keep_approving_answer(resolved.node, output)
        return decision

    async def _get_answer(self, resolved: ResolvedTask, queued_s: float, phase: SpanEmitter) -> TaskOutput:
        """What the reviewer says; it is worked on in a span of its own, inside the phase's."""
        node = resolved.node
        span = phase.task_child(node.name, phase.phase)
        work = self._runner.run(resolved, span)
        return await run_unplanned_task(
            span, work, agent=node.role, description=resolved.description, queued_s=queued_s
        )


def _asks_person(handler: ReviewHandler | None) -> bool:
    return handler is not None and name_reviewer(handler) == A_PERSON


def _raise_if_refused(phase: PhaseNode, decision: ReviewDecision) -> None:
    """Raise for every decision that neither goes on nor does it again."""
    match decision.verdict:
        case Verdict.REJECT:
            reason = decision.text.strip() or NO_REASON
            message = f"Phase {phase.name!r} was rejected by its review: {reason}"
        case Verdict.EDIT:
            reason = "the outputs of a phase can't be edited; approve, retry or reject"
            message = f"The review of phase {phase.name!r} broke: {reason}"
        case _:
            return
    raise ReviewRejectedError(message, reason=reason)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]} ..."


# --- Reads the answer of a task that reviews a phase: its first word is the verdict. Pure -----------------------------


_MARKUP: Final = " \t\r\n*_`\"'#>~-"
_END_MARKUP: Final = " \t\r\n*_`"
_AFTER_WORD: Final = f"{_MARKUP}:.,"
_FIRST_WORD: Final = re.compile(r"[^\W_]+(?=_*(?:\W|$))")  # the underscores behind it are Markdown, as in _APPROVE_
_NAME: Final = re.compile(r"[\w.\-]+")


class UndecidedError(ValueError):
    """An answer that decides nothing; says why, and how to answer instead."""


def read_answer(answer: str, tasks: Sequence[str]) -> ReviewDecision:
    """What a reviewer's answer means: ``APPROVE``, ``RETRY: feedback``, ``RETRY task: feedback``, ``REJECT: reason``.

    Letter case doesn't matter, nor does Markdown around the first word. A line that begins with ``RETRY`` and the name
    of a task is for that task, up to the next such line; what else is said is for all of them.

    Args:
        answer: of the reviewer.
        tasks: names of those that feedback may be addressed to.

    Raises:
        UndecidedError: it begins with none of the three words, or addresses a task that is not there.
    """
    text = _unquote(answer.strip()).lstrip(_MARKUP).rstrip(_END_MARKUP)
    found = _FIRST_WORD.match(text)
    word = "" if found is None else found[0]
    match word.upper():
        case "APPROVE":
            return ReviewDecision.approve()
        case "REJECT":
            return ReviewDecision.reject(text[len(word) :].lstrip(_AFTER_WORD))
        case "RETRY":
            return _read_retry(text, word, tasks)
    said = "Your answer decides nothing." if text else "Your answer was empty."
    raise UndecidedError(f"{said} {explain_answers(tasks)}")


def _unquote(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def _read_retry(text: str, word: str, tasks: Sequence[str]) -> ReviewDecision:
    """The feedback of a retry, by the tasks that it is for; each further part begins with the same word."""
    begins = re.compile(rf"[{re.escape(_MARKUP)}]*{re.escape(word)}(?=_*(?:\W|$))")
    for_all: list[str] = []
    by_task: dict[str, list[str]] = {}
    lines = for_all
    for line in text.splitlines():
        if (begun := begins.match(line)) is None:
            lines.append(line)
            continue
        name, feedback = _split_address(line[begun.end() :], tasks)
        lines = for_all if name is None else by_task.setdefault(name, [])
        lines.append(feedback)
    common = "\n".join(for_all).strip()
    if not by_task:
        return ReviewDecision.retry(common)
    meant = tasks if common else tuple(by_task)
    return ReviewDecision.retry({name: "\n".join([common, *by_task.get(name, ())]).strip() for name in meant})


def _split_address(rest: str, tasks: Sequence[str]) -> tuple[str | None, str]:
    """The task that a line is for, None for all, and what the line says.

    Raises:
        UndecidedError: it is for one that is not there.
    """
    address, colon, feedback = rest.partition(":")
    address = address.strip(_MARKUP)
    if colon and address:
        if (name := _find_task(address, tasks)) is not None:
            return name, feedback.lstrip(_MARKUP).rstrip(_END_MARKUP)
        if _NAME.fullmatch(address):  # one word before a colon is meant for a name; several are a sentence
            message = f"This phase has no task {address!r}.{did_you_mean(address, tasks)}"
            raise UndecidedError(f"{message} {explain_answers(tasks)}")
    return None, rest.lstrip(_AFTER_WORD).rstrip(_END_MARKUP)


def _find_task(address: str, tasks: Sequence[str]) -> str | None:
    if address in tasks:
        return address
    return next((name for name in tasks if name.casefold() == address.casefold()), None)
