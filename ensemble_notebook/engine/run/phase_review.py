"""Asks the reviewer of a phase about the outputs of its tasks, and reads the answer (E28)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, cast

from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewHandler, ReviewRequest, Verdict
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import PhaseNode
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.lifecycle.task_abandonment import abandonment_in
from ensemble_notebook.engine.lifecycle.task_lifecycle import run_unplanned_task
from ensemble_notebook.engine.run.review_answer import UndecidedError, read_answer
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.errors import ReviewRejectedError, summarize_error

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
                decision = await review_queue.ask(request, span, cast(ReviewHandler, review.by))
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
        """The answer of a reviewer that is a task. One that decides nothing is asked for once more (E28)."""
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
