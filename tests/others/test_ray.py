"""Rows of a map on Ray, by an executor of four lines, with one rate limit and one budget over its workers."""

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

class OnRay:
    def submit(self, function, *arguments):
        return ray.remote(function).remote(*arguments).future()

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
print(json.dumps([
    result.frame.raw.tolist(), took_s, result.metrics.llm_call_count, short.status.value, short.metrics.llm_call_count,
    [each.status for each in result],
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
    raw, took_s, calls, ended, calls_of_short, statuses = json.loads(told.splitlines()[-1])
    assert statuses == ["completed"] * 20
    assert raw == [f"word {place} loud" for place in range(20)]
    assert (calls, ended, calls_of_short) == (20, "budget_exceeded", 8)
    assert took_s >= (20 - 2) / 10
    add_figures(rows="20", limit="10/s", workers="2", seconds=f"{took_s:.2f}", at_best=f"{19 / 10:.2f}")
