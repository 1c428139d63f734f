"""Rows of a map on Ray, by an executor of a few lines, with one rate limit and one budget over its workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.others.venv import Venv
from tests.support.openai_server import Answer, OpenAIServer

PROGRAM: Final = """
import json, sys, time
import ray
from ensemble_notebook import Budget, Ensemble, Task

@ray.remote(max_retries=0)
def run(function, *arguments):
    return function(*arguments)

class OnRay:
    def submit(self, function, *arguments):
        return run.remote(function, *arguments).future()

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
style = "loud"
tasks = [
    Task.of("Say {word}", name="say"),
    Task.of("Shout it", name="shout", context=["say"], handler=lambda given: f"{given.inputs['word']} {style}"),
]
ensemble = Ensemble(
    tasks=tasks, llm=f"openai:m@{sys.argv[1]}", rate_limit="10/s", budget=Budget(max_llm_calls=30).shared()
)
rows = [{"word": f"word {place}"} for place in range(20)]
ensemble.map(rows[:2], executor=OnRay(), concurrency=2)  # workers import what they need
began = time.monotonic()
result = ensemble.map(rows, executor=OnRay(), concurrency=2)
took_s = time.monotonic() - began
short = ensemble.map(rows, executor=OnRay(), concurrency=2)

def die(given):
    import os
    os._exit(1)

dying = Task.of("Die", name="die", handler=die, context=["say"])
lost = ensemble.replace(tasks=[tasks[0], dying], budget="5 calls").map(rows[:2], executor=OnRay(), concurrency=1)
print(json.dumps([
    result.frame.raw.tolist(), took_s, result.metrics.llm_call_count, short.status.value, short.metrics.llm_call_count,
    [each.status for each in result], lost.frame.error.tolist(),
]))
"""


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("ray", "ray")


def test_rows_on_ray_share_a_rate_limit_and_a_budget(
    venv: Venv, tmp_path: Path, add_figures: Callable[..., None]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with OpenAIServer(default=Answer("ok")) as server:
        told = venv.run("python", program, server.url, cwd=tmp_path, HOME=str(tmp_path), RAY_USAGE_STATS_ENABLED="0")
    told = next(each for each in told.splitlines() if each.startswith("[["))  # Ray writes between
    raw, took_s, calls, ended, calls_of_short, statuses, errors = json.loads(told)
    assert statuses == ["completed"] * 20
    assert raw == [f"word {place} loud" for place in range(20)]
    assert (calls, ended, calls_of_short) == (20, "budget_exceeded", 8)
    assert all("did not come back from its worker: WorkerCrashedError" in each for each in errors)
    assert len(server.requests) == 2 + 20 + 8 + 2
    assert took_s >= (20 - 2) / 10
    add_figures(rows="20", limit="10/s", workers="2", seconds=f"{took_s:.2f}", at_best=f"{19 / 10:.2f}")
