"""Rate limits of ensembles, agents and tasks, seen by the server (E37).

A request can arrive later than it was let go, never earlier: each number of intervals is a lower bound, on any machine.
"""

from __future__ import annotations

import time

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import LlmAttemptStarted, RateLimitWaited
from ensemble_notebook.ensemble.ensemble import Ensemble
from ensemble_notebook.errors import RateLimitTimeoutError, TaskExecutionError
from tests.support.openai_server import Answer, OpenAIServer

INTERVAL_S = 0.05
ROUNDING_S = 1e-6


def limit() -> RateLimit:
    return RateLimit(20, 1.0)


def tasks(count: int, **fields: object) -> list[Task]:
    return [Task.of(f"Name soup {number}.", **fields) for number in range(count)]


def evenly_spaced(server: OpenAIServer, began: float) -> bool:
    arrivals = sorted(each.opened_at for each in server.requests)
    return all(at - began >= place * INTERVAL_S - ROUNDING_S for place, at in enumerate(arrivals))


def test_all_phases_share_the_limit_of_the_ensemble_e37(server: OpenAIServer, llm: str) -> None:
    phases = [Phase(name=name, tasks=tasks(3), workflow="parallel") for name in ("a", "b")]
    began = time.monotonic()
    output = Ensemble(phases=phases, llm=llm, rate_limit=limit()).run()
    assert len(server.requests) == 6
    assert evenly_spaced(server, began)
    waits = [event for event in output.trace.events if isinstance(event, RateLimitWaited)]
    assert {event.status for event in waits} == {SpanStatus.OK}


def test_runs_side_by_side_share_the_limit_that_they_hold_e37(server: OpenAIServer, llm: str) -> None:
    shared, began = limit(), time.monotonic()
    ensembles = [Ensemble(tasks=tasks(3), llm=llm, workflow="parallel", rate_limit=shared) for _ in range(2)]
    for handle in [ensemble.start() for ensemble in ensembles]:
        handle.result()
    assert len(server.requests) == 6
    assert evenly_spaced(server, began)


def test_the_limit_of_an_agent_and_of_a_task_holds_up_nobody_else_e37(server: OpenAIServer, llm: str) -> None:
    slow = RateLimit(1, 1.0)
    for held in ({"agent": Agent(role="A", goal="g", rate_limit=slow)}, {"rate_limit": RateLimit(1, 1.0)}):
        limited = [Task.of("limited", name=name, **held) for name in ("first", "second")]
        ensemble = Ensemble(tasks=[*limited, *tasks(5)], llm=llm, workflow="parallel")
        events = ensemble.run().trace.events
        started = [event.task for event in events if isinstance(event, LlmAttemptStarted)]
        assert started[-1] == "second"
        assert events[-1].offset_s >= 1.0


def test_retries_wait_for_their_turn_like_any_request_e37(server: OpenAIServer, llm: str) -> None:
    server.script(Answer.status(429), "ok")
    slow = RateLimit(1, 1.5)
    events = Ensemble(tasks=tasks(1), llm=llm, rate_limit=slow).run().trace.events
    _, second = [event.offset_s for event in events if isinstance(event, LlmAttemptStarted)]
    assert second >= 1.5 - ROUNDING_S  # the back-off alone is at most 1.25 s


def test_too_long_a_wait_fails_the_task_with_the_limit_as_its_cause_e37(server: OpenAIServer, llm: str) -> None:
    slow = RateLimit(1, 60, wait_timeout=0.01)
    with pytest.raises(TaskExecutionError, match=r"No place within 0\.01 s") as caught:
        Ensemble(tasks=tasks(2), llm=llm, rate_limit=slow).run()
    cause = caught.value.__cause__
    assert isinstance(cause, RateLimitTimeoutError)
    assert (cause.rate_limit, cause.wait_timeout) == (slow, 0.01)
    assert len(server.requests) == 1
    (wait,) = [event for event in caught.value.output.trace.events if isinstance(event, RateLimitWaited)]
    assert (wait.status, wait.error) == (SpanStatus.ERROR, cause)
