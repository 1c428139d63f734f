"""A session told as our events: a task for each prompt, a turn for each reply, a delegation for each sub-agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import (
    DelegationStatus,
    ExitReason,
    RunStatus,
    SpanStatus,
    ToolOutcome,
)
from ensemble_notebook.domain.outputs.conversation import write_arguments
from ensemble_notebook.domain.outputs.task_output import TaskOutput, TokenUsage
from ensemble_notebook.domain.planning.execution_plan import PlannedAgent
from ensemble_notebook.errors import RecordedError, make_recorded_error
from ensemble_notebook.importers.coding_sessions.session import Call, Failure, Prompt, Reply, Session, make_tool_call
from ensemble_notebook.importers.event_list import EventList

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_NOTHING_USED: Final = TokenUsage(input_tokens=0, output_tokens=0)


def to_events(session: Session, program: str) -> tuple[ev.Event, ...]:
    """The events that such a run would have had, in order, and which program had it."""
    return _Teller(session, program).tell()


class _Teller:
    """Tells one session."""

    def __init__(self, session: Session, program: str) -> None:
        self._session = session
        self._program = program
        moments = [each.at for each in session.notes]
        for prompt in (*session.prompts, *session.beside):
            moments += [prompt.started_at, _find_end(prompt)]
        moments = moments or [session.opened_at]
        self._end = max(moments)
        self._events = EventList(session.run_id, min(moments))
        self._names: Counter[str] = Counter()
        self._last_end = _NEVER

    def tell(self) -> tuple[ev.Event, ...]:
        """All events."""
        session, events, run_id = self._session, self._events, self._session.run_id
        run: dict[str, Any] = {"span_id": run_id, "parent_id": None}
        roles = dict.fromkeys(_list_agents((*session.prompts, *session.beside)))
        events.add(
            ev.RunStarted,
            events.start,
            **run,
            name=session.name,
            workflow=self._program,
            inputs=session.inputs,
            max_concurrency=None,
            agents=tuple(
                PlannedAgent(role=role, goal="", background=None, tools=(), allow_delegation=False) for role in roles
            ),
        )
        for note in session.notes:
            events.add(ev.Warned if note.is_warning else ev.Noted, note.at, **run, message=note.text)
        for place, prompt in enumerate(session.prompts):
            facts: dict[str, int | None] = {"index": place, "total": len(session.prompts)}
            self._tell_prompt(prompt, run_id, facts, is_first=place == 0)
        for prompt in session.beside:
            self._tell_prompt(prompt, run_id, {"index": None, "total": None})
        status, reason, error = RunStatus.COMPLETED, ExitReason.COMPLETED, None
        if session.prompts:
            last = session.prompts[-1]
            failure = _find_error(last)
            if last.was_interrupted:
                status, reason = RunStatus.INTERRUPTED, ExitReason.INTERRUPTED
            elif failure is not None:
                status, reason, error = RunStatus.FAILED, ExitReason.ERROR, _make_error(failure)
        events.add(ev.RunEnded, self._end, **run, status=status, exit_reason=reason, error=error)
        return events.to_events()

    def _tell_prompt(
        self, prompt: Prompt, parent_id: str, facts: dict[str, int | None], *, is_first: bool = False
    ) -> TaskOutput | None:
        """A task; gives its output, None where it has none."""
        events, start, end = self._events, prompt.started_at, _find_end(prompt)
        kind = "prompt" if facts["index"] is not None else "sub_agent"
        # Prompts of a session follow one another: a person reads the answer before the next one.
        after = (f"prompt_{self._names[kind]}",) if kind == "prompt" and self._last_end <= start else ()
        if kind == "prompt":
            self._last_end = end
        self._names[kind] += 1
        span = {"span_id": events.make_id(), "parent_id": parent_id, "task": f"{kind}_{self._names[kind]}"}
        agent, text = prompt.agent, prompt.text
        asked: dict[str, Any] = {
            "agent": agent,
            "description": text,
            "label": prompt.title,
            "queued_s": 0.0,
            "depends_on": after,
        }
        events.add(ev.TaskStarted, start, **span, **asked, **facts)
        told: dict[str, Any] = {"system_prompt": "", "earlier": ()}
        if is_first:
            told = {"system_prompt": self._session.system_prompt, "earlier": self._session.earlier}
        events.add(ev.TaskInputPrepared, start, **span, user_prompt=text, context=(), build_s=0.0, **told)
        for number, reply in enumerate(prompt.replies, start=1):
            self._tell_reply(reply, agent, span, number, end)
        failure = _find_error(prompt)
        if prompt.was_interrupted or failure is not None:
            stopped = Failure("Interrupted", "A person stopped it.", end)
            status = SpanStatus.CANCELLED if prompt.was_interrupted else SpanStatus.ERROR
            error = _make_error(failure or stopped)
            events.add(ev.TaskFailed, end, **span, agent=agent, error=error, status=status)
            return None
        output = TaskOutput(
            name=span["task"],
            raw=next((each.text for each in reversed(prompt.replies) if each.text), ""),
            task_description=text,
            agent_role=agent,
            completed_at=end,
            duration=end - start,
            tool_call_count=sum(_get_status(each) is not SpanStatus.SKIPPED for each in prompt.calls),
        )
        events.add(ev.TaskCompleted, end, **span, output=output)
        return output

    def _tell_reply(self, reply: Reply, agent: str, task: dict[str, Any], number: int, end: datetime) -> None:
        """A turn."""
        events, session = self._events, self._session
        turn, call = events.make_span(task), events.make_span(task)
        call["parent_id"] = turn["span_id"]
        start, replied = reply.started_at, max(reply.started_at, reply.ended_at)
        events.add(ev.TurnStarted, start, **turn, agent=agent, iteration=number, prompt=reply.told)
        events.add(
            ev.LlmCallStarted,
            start,
            **call,
            agent=agent,
            model=reply.model,
            provider=session.provider,
            max_attempts=len(reply.failures) + 1,
            is_scripted=False,
            context_window=session.context_window,
        )
        since = self._tell_failures(reply, call, replied)
        attempt = events.make_span(call)
        attempt_facts: dict[str, Any] = {**attempt, "attempt": len(reply.failures) + 1}
        events.add(ev.LlmAttemptStarted, since, **attempt_facts)
        if reply.error is not None:
            error = _make_error(reply.error)
            ending: dict[str, Any] = {"status": SpanStatus.ERROR, "error": error}
            events.add(ev.LlmAttemptEnded, replied, **attempt_facts, **ending, usage=_NOTHING_USED)
            events.add(ev.LlmCallFailed, replied, **call, **ending)
            events.add(ev.TurnEnded, replied, **turn, status=SpanStatus.ERROR)
            return
        events.add(ev.LlmAttemptEnded, replied, **attempt_facts, status=SpanStatus.OK, usage=reply.usage)
        events.add(
            ev.LlmCallCompleted,
            replied,
            **call,
            text=reply.text,
            tool_calls=tuple(map(make_tool_call, reply.calls)),
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
            time_to_first_token_s=None,
            reasoning=reply.reasoning,
        )
        ends = [self._tell_call(each, agent, turn, end) for each in reply.calls]
        events.add(ev.TurnEnded, max([replied, *ends]), **turn, status=SpanStatus.OK)

    def _tell_failures(self, reply: Reply, call: dict[str, Any], replied: datetime) -> datetime:
        """The requests that failed before a reply came; gives when the one began that brought it."""
        since = reply.started_at
        for number, failure in enumerate(reply.failures, start=1):
            attempt: dict[str, Any] = {**self._events.make_span(call), "attempt": number}
            failed, error = min(max(since, failure.at), replied), _make_error(failure)
            self._events.add(ev.LlmAttemptStarted, since, **attempt)
            ending: dict[str, Any] = {"status": SpanStatus.ERROR, "usage": _NOTHING_USED, "error": error}
            self._events.add(ev.LlmAttemptEnded, failed, **attempt, **ending)
            reason = str(failure.http_status or failure.name)
            again = min(failed + timedelta(seconds=failure.delay_s or 0.0), replied)
            delay_s = (again - failed).total_seconds()
            facts: dict[str, Any] = {"attempt": number, "delay_s": delay_s, "reason": reason, "error": error}
            self._events.add(ev.LlmCallRetried, failed, **call, **facts)
            since = again
        return since

    def _tell_call(self, call: Call, agent: str, turn: dict[str, Any], latest: datetime) -> datetime:
        """A call of a tool, with what a sub-agent did in it; gives its end."""
        events = self._events
        span = events.make_span(turn)
        start, end = call.started_at, _find_call_end(call, latest)
        facts = {"tool": call.name, "tool_call_id": call.id}
        arguments = write_arguments(call.arguments)
        events.add(ev.ToolCallStarted, start, **span, **facts, agent=agent, arguments=arguments)
        for prompt in call.work:
            self._tell_delegation(prompt, agent, span)
        outcome = ToolOutcome.UNKNOWN if call.ended_at is None else call.outcome
        ending: dict[str, Any] = {"status": _get_status(call), "outcome": outcome, "result": call.result}
        events.add(ev.ToolCallCompleted, end, **span, **facts, **ending)
        return end

    def _tell_delegation(self, prompt: Prompt, agent: str, tool: dict[str, Any]) -> None:
        """What a sub-agent did in the call that asked for it."""
        events = self._events
        span = events.make_span(tool)
        start, end = prompt.started_at, _find_end(prompt)
        request = DelegationRequest(agent_role=prompt.agent, task_description=prompt.text, task_id=span["span_id"])
        events.add(ev.DelegationStarted, start, **span, delegator=agent, depth=1, request=request)
        output = self._tell_prompt(prompt, span["span_id"], {"index": None, "total": None})
        status = DelegationStatus.FAILURE if output is None else DelegationStatus.SUCCESS
        said: dict[str, Any] = {"status": status, "worker_role": prompt.agent, "duration": end - start}
        if output is None:
            answer = DelegationResponse(task_id=request.task_id, **said, errors=("It did not come to its end.",))
            events.add(ev.DelegationFailed, end, **span, request=request, response=answer)
        else:
            answer = DelegationResponse(task_id=request.task_id, **said, raw_output=output.raw)
            events.add(ev.DelegationCompleted, end, **span, request=request, response=answer, output=output)


def _list_agents(prompts: Iterable[Prompt]) -> Iterable[str]:
    for prompt in prompts:
        yield prompt.agent
        for call in prompt.calls:
            yield from _list_agents(call.work)


def _find_end(prompt: Prompt) -> datetime:
    """The last moment of a prompt that is known."""
    ends = [prompt.started_at, prompt.ended_at]
    for reply in prompt.replies:
        ends += [reply.started_at, reply.ended_at]
        for call in reply.calls:
            ends.append(_find_call_end(call, call.started_at))
    return max(ends)


def _find_call_end(call: Call, latest: datetime) -> datetime:
    """When a call was over; one whose result is not there was still open at the latest moment of its prompt."""
    inside = [_find_end(each) for each in call.work]
    return max([call.started_at, latest if call.ended_at is None else call.ended_at, *inside])


def _find_error(prompt: Prompt) -> Failure | None:
    """What a prompt failed with: its last reply did."""
    return prompt.replies[-1].error if prompt.replies else None


def _get_status(call: Call) -> SpanStatus:
    if call.was_interrupted:
        return SpanStatus.CANCELLED
    if call.ended_at is None or call.outcome is None:
        return SpanStatus.INTERRUPTED
    return _STATUSES[call.outcome]


_STATUSES = {
    ToolOutcome.SUCCESS: SpanStatus.OK,
    ToolOutcome.FAILURE: SpanStatus.ERROR,
    ToolOutcome.DECLINED: SpanStatus.SKIPPED,
}


def _make_error(failure: Failure) -> RecordedError:
    return make_recorded_error(failure.name, failure.message, http_status=failure.http_status)
