"""Asks the reviewer of a phase about the outputs of its tasks, and reads the answer (E28)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewHandler, ReviewRequest, Verdict
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.lifecycle.task_abandonment import abandonment_in
from ensemble_notebook.engine.lifecycle.task_lifecycle import run_unplanned_task
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.errors import ReviewRejectedError, summarize_error

_VERDICTS: Final = (Verdict.APPROVE, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)
_DECORATION: Final = " \t\r\n*_`\"'"
_ANSWER: Final = re.compile(r"(RETRY|REJECT)[*_`\"'\s]*(?::(.*))?", re.DOTALL | re.IGNORECASE)


class PhaseReviewer:
    """The reviews of all phases of one run."""

    def __init__(self, runner: TaskRunner, inputs: Mapping[str, Any]) -> None:
        self._runner = runner
        self._inputs = inputs

    async def review(
        self, phase: PhaseNode, outputs: Sequence[TaskOutput], attempt: int, queued_s: float, span: SpanEmitter
    ) -> ReviewDecision:
        """To approve the phase, to do it again, or to leave the run.

        Args:
            phase: all its tasks are resolved.
            outputs: theirs, in order of declaration.
            attempt: how often they were done.
            queued_s: how long the review waited for a free place.
            span: the span of the phase.

        Raises:
            ReviewRejectedError: the phase fails: it was rejected, sent back too often, or its review broke.
            TaskAbandoned, BudgetExceededError: the review is not to go on.
        """
        review = phase.phase.review
        assert review is not None  # this is asked for phases with a review
        request = ReviewRequest(
            subject="phase",
            text="\n\n".join(f"### {each.name}\n{each.raw}" for each in outputs),
            phase=phase.name,
            agent="" if phase.reviewer is None else phase.reviewer.role,
            verdicts=_VERDICTS,
            timeout=None,
        )
        review_queue = self._runner.review_queue
        try:
            if phase.reviewer is None:
                decision = await review_queue.ask(request, span, cast(ReviewHandler, review.by))
            else:
                work = functools.partial(self._run_reviewer, phase.reviewer, tuple(outputs), queued_s, span)
                decision = await review_queue.ask_without_waiting(request, span, work)
        except Exception as error:
            if abandonment_in(error) is not None:
                raise
            reason = summarize_error(error)
            raise ReviewRejectedError(f"The review of phase {phase.name!r} broke: {reason}", reason=reason) from error
        _raise_if_refused(phase, decision, attempt, review.max_retries)
        return decision

    async def _run_reviewer(
        self, reviewer: TaskNode, outputs: tuple[TaskOutput, ...], queued_s: float, phase: SpanEmitter, _: ReviewRequest
    ) -> ReviewDecision:
        """The answer of a reviewer that is a task; it is worked on in a span of its own, inside the phase's."""
        resolved = ResolvedTask(
            node=reviewer,
            description=render(reviewer.task.description, self._inputs),
            expected_output=render(reviewer.task.expected_output, self._inputs),
            context=outputs,
        )
        span = SpanEmitter(phase.stream, phase.stream.new_span_id(), phase.span_id, reviewer.name, phase.phase)
        work = self._runner.run(resolved, span)
        output = await run_unplanned_task(
            span, work, agent=reviewer.role, description=resolved.description, queued_s=queued_s
        )
        return to_decision(output.raw)


def to_decision(answer: str) -> ReviewDecision:
    """What a reviewer's answer means: ``RETRY: feedback`` and ``REJECT: reason``; anything else approves (E28).

    Letter case doesn't matter, nor do the quotes and asterisks that models like to put around.
    """
    found = _ANSWER.fullmatch(answer.strip(_DECORATION))
    if found is None:
        return ReviewDecision.approve()
    decide = ReviewDecision.retry if found[1].upper() == "RETRY" else ReviewDecision.reject
    return decide((found[2] or "").strip(_DECORATION))


def _raise_if_refused(phase: PhaseNode, decision: ReviewDecision, attempt: int, max_retries: int) -> None:
    """Raise for every decision by which the phase does not go on."""
    reason = decision.text.strip() or "no reason given"
    match decision.verdict:
        case Verdict.REJECT:
            message = f"Phase {phase.name!r} was rejected by its review: {reason}"
        case Verdict.RETRY if attempt > max_retries:
            message = f"Phase {phase.name!r} was sent back by its review and has no retry left: {reason}"
        case Verdict.EDIT:
            reason = "the outputs of a phase can't be edited; approve, retry or reject"
            message = f"The review of phase {phase.name!r} broke: {reason}"
        case _:
            return
    raise ReviewRejectedError(message, reason=reason)
