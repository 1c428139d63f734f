"""Work in a stream written by hand: that of a task, and what its agent delegates inside a tool call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import DelegationStatus, SpanStatus
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.testing.call_writer import CallWriter
from ensemble_notebook.testing.event_writer import OpenSpan


class DelegationWriter(CallWriter):
    """Writes the work of agents on tasks, in the plan or delegated."""

    def __init__(self, run_id: str, model: str, provider: str | None) -> None:
        super().__init__(run_id, model, provider)
        self._request_count = 0

    @contextmanager
    def delegate(
        self, role: str, description: str = "Help.", *, tool: str = "delegate_task", seconds: float = 0.0
    ) -> Iterator[None]:
        """A tool call by which the agent asks another one, who works inside the block, and fails alone.

        `seconds` pass before the worker starts.
        """
        with self._delegating(role, description, tool) as request:
            scope, work = self._scope, self._child(task=f"{role.lower()}_{self._request_count}")
            self._roles[work.task or ""] = role

            def end(status: SpanStatus) -> None:
                if status is SpanStatus.OK and work.output is not None:
                    answer = _response(request, DelegationStatus.SUCCESS, raw_output=work.output.raw)
                    self._emit(ev.DelegationCompleted, request=request, response=answer, output=work.output)
                    return
                answer = _response(request, DelegationStatus.FAILURE, errors=(str(scope.error or "stopped"),))
                self._emit(ev.DelegationFailed, request=request, response=answer, status=status, error=scope.error)

            scope.end = end
            self.wait(seconds)
            with self._working(work, description, index=None, total=None, queued_s=0.0):
                yield

    def refuse(self, role: str, reason: str, *, tool: str = "delegate_task", seconds: float = 0.0) -> None:
        """A tool call by which the agent asks for another one, and is refused after so many seconds."""
        with self._delegating(role, "Help.", tool) as request:
            answer = _response(request, DelegationStatus.FAILURE, errors=(reason,))
            self._scope.end = lambda _: self._emit(ev.DelegationFailed, request=request, response=answer)
            self.wait(seconds)

    @contextmanager
    def review_by(self, role: str, decision: ReviewDecision) -> Iterator[None]:
        """An agent looks at the phase that we are in; it works inside the block, in a span beside the review."""
        phase = self._scope
        self._request_count += 1
        work = self._child(phase, task=f"review_{self._request_count}")
        self._roles[work.task or ""] = role
        request = ReviewRequest(subject="phase", text="", phase=phase.phase, agent=role, timeout=None)
        with self._inside(self._child()) as scope:
            started_s = self.now_s

            def end(status: SpanStatus) -> None:
                answer, waited_s = decision if status is SpanStatus.OK else None, self.now_s - started_s
                self._emit(ev.ReviewAnswered, decision=answer, waited_s=waited_s, status=status, error=scope.error)

            scope.end = end
            self._emit(ev.ReviewRequested, request=request)
            with self._working(work, "Look at it.", index=None, total=None, queued_s=0.0):
                yield

    @contextmanager
    def _delegating(self, role: str, description: str, tool: str) -> Iterator[DelegationRequest]:
        """The tool call and the delegation in it; the block is inside the delegation, and says how it ends."""
        delegator = self._role
        self._request_count += 1
        request = DelegationRequest(
            agent_role=role, task_description=description, task_id=f"request-{self._request_count}"
        )
        with (
            self.tool_call(tool, {"agent_role": role, "task_description": description}),
            self._inside(self._child()) as scope,
        ):
            depth = sum(around.contains_failure for around in scope.outwards())
            self._emit(ev.DelegationStarted, delegator=delegator, depth=depth, request=request)
            yield request

    @contextmanager
    def _working(
        self,
        scope: OpenSpan,
        description: str,
        output: str | None = None,
        prompt: str = "",
        context: tuple[str, ...] = (),
        **place: Any,
    ) -> Iterator[OpenSpan]:
        """A task, in the plan or delegated."""
        role, started_s = self._roles[scope.task or ""], self.now_s

        def end(status: SpanStatus) -> None:
            scope.worked_s += self.now_s - started_s - scope.startup_s
            duration = timedelta(seconds=scope.worked_s)
            if status is not SpanStatus.OK:
                error = scope.error or KeyboardInterrupt()
                self._emit(ev.TaskFailed, agent=self._role, error=error, status=status, duration=duration)
                return
            scope.output = TaskOutput(
                name=scope.task or "",
                raw=output if output is not None else scope.reply or "",
                task_description=description,
                agent_role=self._role,
                completed_at=self.now,
                duration=duration,
                tool_call_count=scope.tool_calls,
                from_fallback=scope.is_fallback,
            )
            self._emit(ev.TaskCompleted, output=scope.output, duration=duration)

        with self._inside(scope):
            scope.end, scope.startup_s = end, 0.0
            self._emit(ev.TaskStarted, agent=role, description=description, **place)
            system = "" if role == HANDLER_ROLE else f"You are {role}."
            self._emit(ev.TaskInputPrepared, system_prompt=system, user_prompt=prompt or description, context=context)
            yield scope


def _response(request: DelegationRequest, status: DelegationStatus, **facts: Any) -> DelegationResponse:
    return DelegationResponse(task_id=request.task_id, status=status, worker_role=request.agent_role, **facts)
