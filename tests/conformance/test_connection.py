"""E76: connections are bounded by what the process may open, and closed when its last run ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, Task
from tests.support.few_descriptors import LIMIT
from tests.support.openai_server import Answer, OpenAIServer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets are no descriptors there")


def run_with_few_descriptors(server: OpenAIServer, count: int, kind: str) -> dict[str, Any]:
    """What a process says in which a task runs once for each of `count` items."""
    command = [sys.executable, "-m", "tests.support.few_descriptors", server.url, str(count), kind]
    environment = os.environ | {"ENSEMBLE_NOTEBOOK_STORE": "off"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize("count, kind", [(300, "spec"), (300, "object"), (1000, "spec")])
def test_e76_many_items_end_with_few_descriptors_as_they_do_with_many(count: int, kind: str) -> None:
    with OpenAIServer(default=Answer(delay=0.2)) as server:
        said = run_with_few_descriptors(server, count, kind)
        assert said["status"] == "completed"
        assert (len(server.requests), said["tokens"]) == (count, 18 * count)
        assert server.max_in_flight <= LIMIT // 2
    assert said["faults"] == []
    assert said["most"] <= LIMIT // 2
    assert said["left"] == 0
    assert said["waits"] >= count - LIMIT // 2
    assert said["kinds_around"] == ["llm"]  # not an attempt, to whose time llm_timeout applies


def test_e76_connections_are_closed_when_a_stopped_run_has_ended() -> None:
    with OpenAIServer(default=Answer(delay=60)) as server:
        said = run_with_few_descriptors(server, 400, "stopped")
        assert (said["status"], said["faults"], said["left"]) == ("interrupted", [], 0)
        assert len(server.requests) <= LIMIT // 2


def test_e76_wait_for_a_connection_is_no_part_of_llm_timeout() -> None:
    """What it applies to, an attempt, begins when the wait is over."""
    with OpenAIServer(default=Answer(delay=0.4)) as server:
        agent = Agent(role="Worker", goal="Work", llm=f"openai:m@{server.url}", llm_timeout=20.0)
        task = Task.of("Do {item}.", name="each", for_each="{parts}", agent=agent)
        output = Ensemble(tasks=[task], workflow="parallel").run({"parts": [*map(str, range(300))]})
        spans = output.frames.spans
        waits, attempts = spans[spans.wait_kind == "connection"], spans[spans.kind == "attempt"]
        assert server.max_in_flight <= 256
        assert len(waits) >= 300 - 256
        started = attempts.groupby("parent_id").start_ms.min()
        ended = (waits.start_ms + waits.duration_ms).groupby(waits.parent_id).max()
        assert (started[ended.index] >= ended).all()


def test_e76_a_connection_serves_all_requests_of_a_run_and_none_of_the_next() -> None:
    with OpenAIServer() as server:
        first = Task.of("Begin.", name="first")
        tasks = [first, Task.of("Go on.", name="second", context=[first])]
        ensemble = Ensemble(tasks=tasks, llm=f"openai:m@{server.url}")
        for _ in range(2):
            ensemble.run()
        peers = [each.peer for each in server.requests]
    assert peers[0] == peers[1] != peers[2] == peers[3]


def test_e76_a_run_that_goes_on_keeps_the_connections_of_others_open() -> None:
    with OpenAIServer() as server:
        llm = f"openai:m@{server.url}"

        def run_twice(_: Any) -> str:
            for _ in range(2):
                Ensemble(tasks=[Task.of("Inside.", name="inner")], llm=llm).run()
            return "done"

        outer = Task.of("Outside.", name="outer")
        Ensemble(tasks=[outer, Task.of("Twice.", name="twice", handler=run_twice, context=[outer])], llm=llm).run()
        assert len(server.requests) == 3
        assert len({each.peer for each in server.requests}) == 1
