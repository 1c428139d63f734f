"""Well-formed streams of events, written by hand on a clock of their own: for tests of everything that folds events.

Knows nothing of the engine; the plan in a stream is made by the domain from real definitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    DelegationStatus,
    ExitReason,
    OnTimeout,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    ToolOutcome,
    Workflow,
)
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit, Spending
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest, ReviewSubject
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TaskOutput, TokenUsage
from ensemble_notebook.domain.planning.execution_plan import PlannedAgent, make_plan
from ensemble_notebook.domain.planning.graph import HANDLER_ROLE, build_graph
from ensemble_notebook.errors import GuardrailViolationError, ReviewTimeoutError

T = TypeVar("T")

START: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

_RUN_STATUS: Final = {
    ExitReason.BUDGET_EXCEEDED: RunStatus.BUDGET_EXCEEDED,
    ExitReason.USER_EXIT_EARLY: RunStatus.EXITED_EARLY,
    ExitReason.NOBODY_TO_ASK: RunStatus.EXITED_EARLY,
    ExitReason.COMPLETED: RunStatus.COMPLETED_WITH_WARNINGS,
}
_TOOL_STATUS: Final = {
    ToolOutcome.SUCCESS: SpanStatus.OK,
    ToolOutcome.FAILURE: SpanStatus.ERROR,
    ToolOutcome.SKIPPED_MAX_ITERATIONS: SpanStatus.SKIPPED,
    ToolOutcome.DECLINED: SpanStatus.SKIPPED,
    ToolOutcome.PENDING: SpanStatus.SKIPPED,
    ToolOutcome.UNKNOWN: SpanStatus.INTERRUPTED,
}


@dataclass(slots=True, eq=False)
class _OpenSpan:
    """A span that is being written.

    Attributes:
        end: writes the event that ends it, with this status.
        error: what it is going to end with. hangs: it stays open.
        contains_failure: what fails in it does not fail what is around it, as in a tool call.
        is_fallback: a fallback agent has taken over.
        reply: the last text that a model gave in it. tool_calls: how many were executed in it. output: of a task.
        worked_s: of a task: its own time, of all its attempts that are over.
        startup_s: of a task: how long it has waited for a model to be made ready, in this attempt.
    """

    span_id: str
    parent: _OpenSpan | None
    task: str | None = None
    phase: str | None = None
    depends_on: tuple[str, ...] = ()
    end: Callable[[SpanStatus], None] | None = None
    error: BaseException | None = None
    hangs: bool = False
    contains_failure: bool = False
    is_fallback: bool = False
    reply: str | None = None
    tool_calls: int = 0
    output: TaskOutput | None = None
    worked_s: float = 0.0
    startup_s: float = 0.0

    def outwards(self) -> Iterator[_OpenSpan]:
        """This one and those around it, without the run."""
        scope = self
        while scope.parent is not None:
            yield scope
            scope = scope.parent


class EventBuilder:
    """Writes the events of one run, in the order and with the times that you tell it.

    Blocks open and close spans; ``seconds`` and `wait` move the clock; `beside` writes what happens at the same time::

        build = EventBuilder({"plan": (), "draft": ["plan"], "check": ["plan"]})
        with build.task("plan"), build.turn():
            build.llm("A plan.", seconds=2, input_tokens=40, output_tokens=10)
        for name in build.beside(["draft", "check"]):
            with build.task(name), build.turn():
                build.llm("Done.", seconds=1)
        events = build.finish()

    What fails makes everything around it fail, up to its phase; what hangs keeps everything around it open until
    `interrupt` or `time_out`. ``events`` gives what was written by now: the stream of a run that is still going on.

    Args:
        tasks: name -> names of the tasks it reads.
        phases: name -> names of its tasks; None for a flat run.
        after: phase name -> names of its predecessors.
        agents: task name -> role, ``"Handler"`` for a handler; ``"Writer"`` where there is none.
        model, provider: of every model call that names no other.
        name, workflow, inputs, max_concurrency, budget, rate_limit, capture_mode, run_id, replayed_from: of the run.

    Attributes:
        now_s: the clock, in seconds since the run started.
    """

    def __init__(
        self,
        tasks: Mapping[str, Sequence[str]],
        *,
        phases: Mapping[str, Sequence[str]] | None = None,
        after: Mapping[str, Sequence[str]] | None = None,
        agents: Mapping[str, str] | None = None,
        model: str = "scripted",
        provider: str | None = "scripted",
        name: str | None = "demo",
        workflow: Workflow = Workflow.PARALLEL,
        inputs: Mapping[str, str] | None = None,
        max_concurrency: int | None = None,
        budget: Budget | None = None,
        rate_limit: RateLimit | None = None,
        capture_mode: CaptureMode = CaptureMode.OFF,
        run_id: str = "run",
        replayed_from: str | None = None,
    ) -> None:
        self.now_s = 0.0
        self._run = self._scope = _OpenSpan(run_id, None)
        self._events: list[ev.Event] = []
        self._hanging: list[_OpenSpan] = []
        self._span_count = self._call_count = self._request_count = 0
        self._asked: list[ToolCall] = []
        self._model, self._provider = model, provider
        self._roles = {task: (agents or {}).get(task, "Writer") for task in tasks}
        self._budget = budget
        self._plan = make_plan(build_graph(_definition(self._roles, tasks, phases or {}, after or {}, workflow)))
        self._phases = {name: self._child(phase=name) for name in self._plan.phases}
        self._tasks = {
            task.name: self._child(self._phases.get(task.phase or ""), task=task.name) for task in self._plan.tasks
        }
        for phase_name, preceding in self._plan.phases.items():
            self._phases[phase_name].depends_on = preceding
        for planned in self._plan.tasks:
            self._tasks[planned.name].depends_on = planned.depends_on
        self._emit(
            ev.RunStarted,
            name=name,
            workflow=workflow.value,
            inputs=inputs or {},
            max_concurrency=max_concurrency,
            budget=budget,
            rate_limit=rate_limit,
            capture_mode=capture_mode,
            replayed_from=replayed_from,
            agents=tuple(map(_planned_agent, sorted({*self._roles.values()} - {HANDLER_ROLE}))),
        )
        self._emit(
            ev.PlanMade,
            plan=self._plan,
            task_span_ids=tuple(scope.span_id for scope in self._tasks.values()),
            phase_span_ids=tuple(scope.span_id for scope in self._phases.values()),
        )

    @property
    def now(self) -> datetime:
        """The clock, in UTC."""
        return START + timedelta(seconds=self.now_s)

    @property
    def events(self) -> tuple[ev.Event, ...]:
        """What was written by now, in order of time, numbered without gaps."""
        in_time = sorted(self._events, key=lambda event: event.offset_s)
        return tuple(replace(event, seq=seq) for seq, event in enumerate(in_time))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def beside(self, items: Iterable[T]) -> Iterator[T]:
        """Write what follows for each item from the same moment on; afterwards it is the latest end of them all."""
        start_s = latest_s = self.now_s
        for item in items:
            self.now_s = start_s
            yield item
            latest_s = max(latest_s, self.now_s)
        self.now_s = latest_s

    def fail(self, error: BaseException) -> None:
        """What is open, up to the phase or the tool call around it, is going to end with this error."""
        for scope in self._scope.outwards():
            if scope.contains_failure:
                break
            scope.error = scope.error or error

    def finish(self, exit_reason: ExitReason | None = None) -> tuple[ev.Event, ...]:
        """The run ends by itself, failed where a task failed, or for this reason. Gives all events."""
        if exit_reason is not None:
            self._emit(ev.RunEnded, status=_RUN_STATUS[exit_reason], exit_reason=exit_reason)
            return self.events
        errors = [scope.error for scope in self._tasks.values() if scope.error is not None]
        status, reason = (RunStatus.FAILED, ExitReason.ERROR) if errors else (RunStatus.COMPLETED, ExitReason.COMPLETED)
        self._emit(ev.RunEnded, status=status, exit_reason=reason, error=errors[0] if errors else None)
        return self.events

    def interrupt(self) -> tuple[ev.Event, ...]:
        """A person stops the run: what hangs is cancelled, innermost first. Gives all events."""
        return self._stop(RunStatus.INTERRUPTED, ExitReason.INTERRUPTED)

    def time_out(self) -> tuple[ev.Event, ...]:
        """The run's time is up: what hangs is cancelled, innermost first. Gives all events."""
        return self._stop(RunStatus.FAILED, ExitReason.TIMEOUT)

    def _stop(self, status: RunStatus, reason: ExitReason) -> tuple[ev.Event, ...]:
        for scope in self._hanging:
            if scope.end is not None:
                with self._at(scope):
                    scope.end(SpanStatus.CANCELLED)
        self._hanging.clear()
        self._emit(ev.RunEnded, status=status, exit_reason=reason)
        return self.events

    def warn(self, message: str) -> None:
        """A warning, where we are."""
        self._emit(ev.Warned, message=message)

    def warn_of_budget(self, message: str, spent: Spending) -> None:
        """A share of the budget is used up."""
        assert self._budget is not None
        self._emit_in(self._run, ev.BudgetWarning, message=message, spent=spent, budget=self._budget)

    def note(self, message: str) -> None:
        """Something is being prepared."""
        self._emit_in(self._run, ev.Noted, message=message)

    @contextmanager
    def startup(self, subject: str) -> Iterator[None]:
        """A model is loaded, fetched or started, for the task that we are in, if we are in one."""
        scope, began_s, around = self._child(self._run), self.now_s, tuple(self._scope.outwards())

        def end(status: SpanStatus) -> None:
            waited_s = self.now_s - began_s
            for each in around:
                each.startup_s += waited_s
            self._emit(ev.WaitEnded, cause="startup", waited_s=waited_s, status=status, error=scope.error)

        with self._inside(ev.WaitStarted, end, scope, cause="startup", subject=subject):
            yield

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase runs; it fails with the tasks in it."""

        def end(status: SpanStatus) -> None:
            ended = PhaseStatus.COMPLETED if status is SpanStatus.OK else PhaseStatus.FAILED
            self._emit(ev.PhaseEnded, status=ended, is_cancelled=status is SpanStatus.CANCELLED)

        with self._inside(ev.PhaseStarted, end, self._phases[name]):
            yield

    @contextmanager
    def task(self, name: str, *, output: str | None = None, queued_s: float = 0.0, prompt: str = "") -> Iterator[None]:
        """A task runs, in a phase that was sent back perhaps again. Its text is `output`, else its model's last."""
        index = list(self._tasks).index(name)
        place = {"index": index, "total": len(self._tasks), "queued_s": queued_s}
        with self._working(self._tasks[name], f"Do {name}.", output, prompt, self._plan.tasks[index].context, **place):
            yield

    def skip(self, name: str, reason: str = "not started") -> None:
        """A task will not run."""
        self._emit_in(self._tasks[name], ev.TaskSkipped, reason=reason)

    def skip_phase(self, name: str, reason: str = "not started") -> None:
        """A phase and its tasks will not run."""
        self._emit_in(self._phases[name], ev.PhaseSkipped, reason=reason)
        for task in self._plan.tasks:
            if task.phase == name:
                self.skip(task.name, f"phase {name!r} was skipped")

    def review(
        self,
        decision: ReviewDecision | None = None,
        *,
        subject: ReviewSubject = "output",
        text: str = "Shall it stay?",
        seconds: float = 1.0,
        timeout: float | None = 300.0,
        on_timeout: OnTimeout = OnTimeout.EXIT_EARLY,
        hangs: bool = False,
    ) -> None:
        """A person is asked, where we are, and answers after so many seconds; without a decision, in good time never.

        What follows from the decision is yours to write: `again`, `skip`, ...
        """
        request = ReviewRequest(
            subject=subject,
            text=text,
            task=self._scope.task,
            phase=self._scope.phase,
            agent=self._roles.get(self._scope.task or "", ""),
            timeout=timeout,
            on_timeout=on_timeout,
        )
        failure = None
        if decision is None and on_timeout is OnTimeout.FAIL and not hangs:
            failure = ReviewTimeoutError("Nobody answered.", request=request, timeout_s=seconds)

        def end(status: SpanStatus) -> None:
            answer = None if status is SpanStatus.CANCELLED else decision
            facts = {"is_timeout": decision is None, "error": failure}
            self._emit(ev.ReviewAnswered, decision=answer, waited_s=seconds, status=status, **facts)

        with self._inside(ev.ReviewRequested, end, request=request):
            self.wait(seconds)
            if failure is not None:
                self.fail(failure)
            if hangs:
                self._hang()

    def guardrail(self, name: str, kind: str = "output", *, violation: str = "", seconds: float = 0.0) -> None:
        """A guardrail looks at the task; a violation makes the task fail."""

        def end(status: SpanStatus) -> None:
            self._emit(ev.GuardrailEnded, status=status, message=violation)

        with self._inside(ev.GuardrailStarted, end, kind=kind, name=name):
            self.wait(seconds)
            if violation:
                self.fail(GuardrailViolationError(kind, violation))

    def memory(
        self,
        operation: str,
        scope: str,
        *,
        count: int = 1,
        seconds: float = 0.0,
        error: BaseException | None = None,
        store_kind: str = "long_term",
    ) -> None:
        """A scope of the memory is read (``"retrieve"``) or written (``"store"``); its failure stops nothing."""

        def end(status: SpanStatus) -> None:
            self._emit(ev.MemoryEnded, status=status, count=count if error is None else 0, error=error)

        with self._inside(ev.MemoryStarted, end, operation=operation, scope=scope, store_kind=store_kind) as inside:
            inside.contains_failure, inside.error = True, error
            self.wait(seconds)

    def score(self, name: str, *, seconds: float = 0.0, error: BaseException | None = None) -> None:
        """A scorer looks at what the task has put out; its failure stops nothing."""

        def end(status: SpanStatus) -> None:
            self._emit(ev.ScoreEnded, status=status, error=error)

        with self._inside(ev.ScoreStarted, end, name=name) as inside:
            inside.contains_failure, inside.error = True, error
            self.wait(seconds)

    def again(self, feedback: str, attempt: int = 2) -> None:
        """The task that we are in is sent back: what follows is its next attempt."""
        self._emit_in(self._work, ev.TaskRetried, attempt=attempt, feedback=feedback)
        self._emit_in(
            self._work, ev.TaskInputPrepared, system_prompt="", user_prompt=f"Once more: {feedback}", context=()
        )

    def phase_again(self, feedback: str, attempt: int = 2) -> None:
        """The phase that we are in is sent back: what follows are its tasks once more, in the same blocks."""
        self._emit(ev.PhaseRetried, attempt=attempt, feedback=feedback)

    def fall_back(self, role: str) -> None:
        """The task that we are in has failed, and another agent takes over."""
        work = self._work
        error = work.error or RuntimeError("no luck")
        for scope in work.outwards():
            if scope.error is error:
                scope.error = None
        self._emit_in(work, ev.TaskFellBack, agent=role, error=error, replaced=self._roles.get(work.task or "", ""))
        work.is_fallback = True
        self._roles[work.task or ""] = role

    def give_up(self, reason: str) -> None:
        """The task that we are in will not go on: it ends as skipped, e.g. since the budget is used up."""
        work = self._work

        def end(status: SpanStatus) -> None:
            if status is SpanStatus.CANCELLED:
                self._emit(ev.TaskFailed, agent=self._role, error=KeyboardInterrupt(), status=status)
            else:
                self._emit(ev.TaskSkipped, reason=reason)

        work.end = end

    @contextmanager
    def turn(self, iteration: int = 1, *, correction: str = "") -> Iterator[None]:
        """A round of the agent loop, perhaps to correct a structured output, by this prompt."""
        with self._inside(
            ev.TurnStarted,
            lambda status: self._emit(ev.TurnEnded, status=status),
            agent=self._role,
            iteration=iteration,
            is_fallback=self._work.is_fallback,
            is_correction=bool(correction),
            prompt=correction,
        ):
            yield

    def llm(
        self,
        text: str = "",
        *,
        seconds: float = 1.0,
        input_tokens: int | None = 10,
        output_tokens: int | None = 5,
        cache_read_tokens: int | None = None,
        asks: Sequence[str] = (),
        retries: Sequence[tuple[str, float]] = (),
        waits: Sequence[tuple[str, float]] = (),
        error: BaseException | None = None,
        stream: Sequence[str] = (),
        hangs: bool = False,
        model: str | None = None,
        provider: str | None = None,
        served_as: str | None = None,
    ) -> None:
        """A model call.

        Args:
            text: of the reply.
            seconds: of each attempt.
            input_tokens: usage of the last attempt, as the other two; None is unknown.
            output_tokens: of the last attempt.
            cache_read_tokens: of the last attempt.
            asks: names of the tools that the reply asks for; `tool` answers them.
            retries: reason and delay in seconds of each failed attempt before the last one.
            waits: cause (``"rate_limit"``, ``"budget"``) and length in seconds of each wait before the first attempt.
            error: the last attempt fails with it.
            stream: pieces that make up the text; they come evenly within the last attempt.
            hangs: no answer comes; everything around stays open.
            model: asked for, instead of the builder's.
            provider: instead of the builder's.
            served_as: name of the model in the reply, where it differs.
        """
        model, provider = model or self._model, provider or self._provider
        usage = TokenUsage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            source="scripted" if provider == "scripted" else "provider",
        )
        text = "".join(stream) or text
        asked_at_s = self.now_s
        with self._inside(
            ev.LlmCallStarted,
            agent=self._role,
            model=model,
            provider=provider,
            max_attempts=len(retries) + 1,
            is_scripted=provider == "scripted",
        ) as call:
            for cause, waited_s in waits:
                self._wait_for(cause, waited_s)
            for attempt, (reason, delay_s) in enumerate(retries, start=1):
                failure = ConnectionError(reason)
                self._attempt(attempt, seconds, NO_USAGE, failure)
                self._emit(ev.LlmCallRetried, attempt=attempt, delay_s=delay_s, reason=reason, error=failure)
                self.wait(delay_s)
            first_s = self.now_s + seconds / len(stream) - asked_at_s if stream else None

            def end(status: SpanStatus) -> None:
                if status is not SpanStatus.OK:
                    self._emit(ev.LlmCallFailed, error=call.error or KeyboardInterrupt(), status=status)
                    return
                self._emit(
                    ev.LlmCallCompleted,
                    text=text,
                    tool_calls=tuple(map(self._ask, asks)),
                    usage=usage,
                    model=served_as or model,
                    finish_reason="tool_calls" if asks else "stop",
                    time_to_first_token_s=first_s,
                )

            call.end = end
            self._attempt(len(retries) + 1, seconds, usage, error, stream, hangs=hangs)
            if error is not None:
                self.fail(error)
        for scope in self._scope.outwards():
            scope.reply = text

    def _wait_for(self, cause: str, seconds: float) -> None:
        kind = ev.RateLimitWaited if cause == "rate_limit" else ev.WaitEnded

        def end(status: SpanStatus) -> None:
            self._emit(kind, cause=cause, waited_s=seconds, status=status)

        with self._inside(ev.WaitStarted, end, cause=cause):
            self.wait(seconds)

    def _attempt(
        self,
        number: int,
        seconds: float,
        usage: TokenUsage,
        error: BaseException | None,
        stream: Sequence[str] = (),
        *,
        hangs: bool = False,
    ) -> None:
        call = self._scope

        def end(status: SpanStatus) -> None:
            spent = {SpanStatus.OK: usage, SpanStatus.ERROR: NO_USAGE}.get(status, TokenUsage())
            self._emit(ev.LlmAttemptEnded, attempt=number, status=status, usage=spent, error=scope.error)

        with self._inside(ev.LlmAttemptStarted, end, attempt=number) as scope:
            scope.error = error
            for piece in stream:
                self.wait(seconds / len(stream))
                self._emit_in(call, ev.LlmToken, text=piece)
            self.wait(0.0 if stream else seconds)
            if hangs:
                self._hang()

    def tool(self, name: str, *args: Any, seconds: float = 1.0, hangs: bool = False, **facts: Any) -> None:
        """A tool call that takes so many seconds; for the rest, see `tool_call`."""
        with self.tool_call(name, *args, **facts):
            self.wait(seconds)
            if hangs:
                self._hang()

    @contextmanager
    def tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result: str = "ok",
        error: BaseException | None = None,
        outcome: ToolOutcome = ToolOutcome.SUCCESS,
    ) -> Iterator[None]:
        """A tool call; answers the oldest open request for this tool. The failure of a tool stops nothing."""
        asked = next((call for call in self._asked if call.name == name), None) or self._ask(name)
        self._asked.remove(asked)
        outcome = outcome if error is None else ToolOutcome.FAILURE

        def end(status: SpanStatus) -> None:
            is_over = status is not SpanStatus.CANCELLED
            self._emit(
                ev.ToolCallCompleted,
                tool=name,
                tool_call_id=asked.id,
                status=_TOOL_STATUS[outcome] if is_over else status,
                outcome=outcome if is_over else None,
                result="" if not is_over else result if error is None else f"Tool error: {error}",
                error=error,
            )

        text = json.dumps(arguments or {})
        with self._inside(
            ev.ToolCallStarted, end, agent=self._role, tool=name, tool_call_id=asked.id, arguments=text
        ) as scope:
            scope.contains_failure = True
            yield
        self._work.tool_calls += _TOOL_STATUS[outcome] is not SpanStatus.SKIPPED

    def _ask(self, tool: str) -> ToolCall:
        self._call_count += 1
        call = ToolCall(id=f"call-{self._call_count}", name=tool, arguments={})
        self._asked.append(call)
        return call

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
        started_s = self.now_s

        def end(status: SpanStatus) -> None:
            answer, waited_s = decision if status is SpanStatus.OK else None, self.now_s - started_s
            self._emit(ev.ReviewAnswered, decision=answer, waited_s=waited_s, status=status, error=scope.error)

        with (
            self._inside(ev.ReviewRequested, end, request=request) as scope,
            self._working(work, "Look at it.", index=None, total=None, queued_s=0.0),
        ):
            yield

    @contextmanager
    def _delegating(self, role: str, description: str, tool: str) -> Iterator[DelegationRequest]:
        """The tool call and the delegation in it; the block is inside the delegation, and says how it ends."""
        delegator = self._role
        self._request_count += 1
        request = DelegationRequest(
            agent_role=role, task_description=description, task_id=f"request-{self._request_count}"
        )
        with self.tool_call(tool, {"agent_role": role, "task_description": description}):
            depth = sum(around.contains_failure for around in self._scope.outwards())
            with self._inside(ev.DelegationStarted, delegator=delegator, depth=depth, request=request):
                yield request

    @contextmanager
    def _working(
        self,
        scope: _OpenSpan,
        description: str,
        output: str | None = None,
        prompt: str = "",
        context: tuple[str, ...] = (),
        **place: Any,
    ) -> Iterator[None]:
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

        scope.startup_s = 0.0
        with self._inside(ev.TaskStarted, end, scope, agent=role, description=description, **place):
            system = "" if role == HANDLER_ROLE else f"You are {role}."
            self._emit(ev.TaskInputPrepared, system_prompt=system, user_prompt=prompt or description, context=context)
            yield

    @property
    def _role(self) -> str:
        """Of the agent whose task we are in."""
        return self._roles[self._scope.task or ""]

    @property
    def _work(self) -> _OpenSpan:
        """The task that we are in."""
        return [scope for scope in self._scope.outwards() if scope.task == self._scope.task][-1]

    def _child(self, parent: _OpenSpan | None = None, task: str | None = None, phase: str | None = None) -> _OpenSpan:
        """A new span inside another one, by default inside the one we are in."""
        self._span_count += 1
        parent = parent or self._scope
        span_id = f"{self._run.span_id}.{self._span_count}"
        return _OpenSpan(span_id, parent, task or parent.task, phase or parent.phase)

    @contextmanager
    def _inside(
        self,
        start: type[ev.Event],
        end: Callable[[SpanStatus], None] | None = None,
        /,
        span: _OpenSpan | None = None,
        **facts: Any,
    ) -> Iterator[_OpenSpan]:
        """Write inside a span that starts with this event; when the block is left, `end` writes the last one of it.

        `end` may also be given in the block. Nothing is written while something in the span hangs.
        """
        around, self._scope = self._scope, span or self._child()
        inside = self._scope
        inside.end = end
        self._emit(start, **facts)
        yield inside
        if inside.hangs:
            self._hanging.append(inside)
        elif inside.end is not None:
            inside.end(SpanStatus.OK if inside.error is None else SpanStatus.ERROR)
        self._scope = around

    def _hang(self) -> None:
        """Everything that is open stays open."""
        for scope in self._scope.outwards():
            scope.hangs = True

    @contextmanager
    def _at(self, scope: _OpenSpan) -> Iterator[None]:
        around, self._scope = self._scope, scope
        yield
        self._scope = around

    def _emit(self, kind: type[ev.Event], /, **fields: Any) -> None:
        """Write an event of the span we are in."""
        scope = self._scope
        self._events.append(
            kind(
                run_id=self._run.span_id,
                seq=len(self._events),
                span_id=scope.span_id,
                parent_id=None if scope.parent is None else scope.parent.span_id,
                time=self.now,
                offset_s=self.now_s,
                task=scope.task,
                phase=scope.phase,
                depends_on=scope.depends_on,
                **fields,
            )
        )

    def _emit_in(self, scope: _OpenSpan, kind: type[ev.Event], /, **fields: Any) -> None:
        """Write an event of another span."""
        with self._at(scope):
            self._emit(kind, **fields)


def _definition(
    roles: Mapping[str, str],
    tasks: Mapping[str, Sequence[str]],
    phases: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    workflow: Workflow,
) -> EnsembleDefinition:
    made = {name: _task(name, roles[name], context) for name, context in tasks.items()}
    if not phases:
        return EnsembleDefinition(tasks=tuple(made.values()), workflow=workflow)
    groups = tuple(
        Phase(name=name, tasks=tuple(made[task] for task in members), after=tuple(after.get(name, ())))
        for name, members in phases.items()
    )
    return EnsembleDefinition(phases=groups, workflow=workflow)


def _planned_agent(role: str) -> PlannedAgent:
    return PlannedAgent(role=role, goal="Help.", background=None, tools=(), allow_delegation=False)


def _task(name: str, role: str, context: Sequence[str]) -> Task:
    facts: dict[str, Any] = {"name": name, "context": tuple(context)}
    if role == HANDLER_ROLE:
        return Task.of(f"Do {name}.", handler=str, **facts)
    return Task.of(f"Do {name}.", agent=Agent(role=role, goal="Help.", llm="scripted"), **facts)


def _response(request: DelegationRequest, status: DelegationStatus, **facts: Any) -> DelegationResponse:
    return DelegationResponse(task_id=request.task_id, status=status, worker_role=request.agent_role, **facts)
