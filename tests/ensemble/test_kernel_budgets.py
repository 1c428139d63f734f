"""What a class sets for all runs of a kernel: budgets, models, a rate, and who is told to have set them.

Holds E142.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    CostConfiguration,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    RateLimit,
    RateLimitTimeoutError,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ValidationError,
)
from ensemble_notebook.domain.kernel_limits import AllowedModels, kernel_limits
from ensemble_notebook.ensemble.kernel_budgets import find_kernel_budgets
from ensemble_notebook.trace.timeline.run_sentence import describe_run
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store
from tests.support.tickets import make_rewriter, make_rows, make_team, right

FILE = "kernel_budget in /etc/ipython/ipython_config.py"
RATES = CostConfiguration(input_rate="0.000001", output_rate="0.000002")


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """The kernel has no limits before a test, nor after it."""
    kernel_limits.clear()
    yield
    kernel_limits.clear()


def limit(name: str, set_by: str = FILE, **fields: Any) -> None:
    budget = Budget(**fields)
    budget._set("set_by", set_by)
    kernel_limits.put(name, budget)


def team(count: int = 1, llm: Any = None, **fields: Any) -> Ensemble:
    model = llm or ScriptedChatModel(default="done")
    tasks = [Task.of(f"Task {number}", name=f"t{number}") for number in range(count)]
    return Ensemble(tasks=tasks, llm=model, workflow="sequential", **fields)


def asks_inside() -> Task:
    """A task whose function runs a team."""
    return Task.of("Ask", handler=lambda _: team(1).run().raw)


def reasons(output: EnsembleOutput) -> str:
    return " ".join(each.reason for each in output.skipped)


def test_runs_of_a_kernel_spend_from_one_budget_and_are_told_who_has_set_it():
    limit("kernel_budget", max_llm_calls=3)
    assert team(2).run().status is RunStatus.COMPLETED
    output = team(2).run()
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert len(output.task_outputs) == 1
    told = reasons(output)
    assert FILE in told
    assert "ask whoever runs this class or hub" in told
    assert FILE in describe_run(output.trace._fold)


def test_what_one_cell_begins_has_one_budget_and_the_next_cell_a_new_one():
    limit("cell_budget", max_llm_calls=2)
    kernel_limits.begin_cell()
    assert [team(1).run().status for _ in range(3)] == [*[RunStatus.COMPLETED] * 2, RunStatus.BUDGET_EXCEEDED]
    kernel_limits.begin_cell()
    assert team(2).run().status is RunStatus.COMPLETED
    kernel_limits.end_cell()
    assert [team(2).run().status for _ in range(2)] == [RunStatus.COMPLETED] * 2  # as a button of a view does


def test_an_own_budget_above_it_is_capped_and_a_warning_says_by_whom():
    limit("cell_budget", "ENSEMBLE_NOTEBOOK_CELL_BUDGET", max_llm_calls=1, max_tokens=50_000)
    output = team(2, budget=Budget(max_llm_calls=5)).run()
    (warning,) = [each for each in output.warnings if "capped" in each]
    assert warning == "The budget of 5 calls is capped at 1 call, by ENSEMBLE_NOTEBOOK_CELL_BUDGET."
    assert output.status is RunStatus.BUDGET_EXCEEDED
    assert output.trace._fold.budget.limits == {"max_llm_calls": 1, "max_tokens": 50_000}
    assert len([each for each in output.warnings if "running low" in each]) == 1
    mixed = team(2, budget=Budget(max_llm_calls=5, max_tokens=40_000)).run()
    assert mixed.trace._fold.budget.limits == {"max_llm_calls": 1, "max_tokens": 40_000}
    below = team(2, budget=Budget(max_llm_calls=1)).run()
    assert not [each for each in below.warnings if "capped" in each]


def test_a_shared_budget_of_ones_own_is_capped_too():
    limit("cell_budget", max_llm_calls=1)
    own = Budget(max_llm_calls=9).shared()
    assert team(2, budget=own).run().status is RunStatus.BUDGET_EXCEEDED
    assert own.remaining == {"max_llm_calls": 8}


def test_a_map_ends_where_the_budget_of_the_class_is_used_up_and_keeps_its_rows():
    limit("kernel_budget", max_llm_calls=3)
    result = team(1).map([{"x": number} for number in range(6)], concurrency=1)
    assert [row.status for row in result] == [*["completed"] * 3, "budget_exceeded", "skipped", "skipped"]
    assert FILE in str(result[5].error or result[3].error)


def test_judges_nested_ensembles_forks_reruns_and_conversations_count():
    limit("kernel_budget", max_llm_calls=100)
    account = kernel_limits.kernel_budget

    def spent(act: Any) -> int:
        before = account.remaining["max_llm_calls"]
        act()
        return before - account.remaining["max_llm_calls"]

    inner = team(1).replace(name="inner")
    assert spent(lambda: Ensemble(tasks=[Task.of("Outer", name="o", ensemble=inner)]).run()) == 1
    judge = Ensemble(
        name="judge",
        tasks=[Task.of("Judge {output}", output_type={"ok": "bool"})],
        llm=ScriptedChatModel(default='{"ok": true}'),
    )
    output = team(1).run()
    assert spent(lambda: output.score(judge)) == 1
    assert spent(lambda: team(1).map([{"x": 1}], score=judge)) == 2
    assert spent(lambda: team(1).run(continue_from=output)) == 1
    llm_span = next(each for each in output.trace.spans if each.kind == "llm")
    assert spent(lambda: output.rerun(llm_span, llm=ScriptedChatModel(default="other"))) == 1
    assert spent(lambda: Ensemble(tasks=[asks_inside()]).run()) == 1
    assert spent(lambda: output.fork(llm_span, llm=ScriptedChatModel(default="other"))) >= 1


def test_a_search_for_better_texts_counts_and_ends_where_the_budget_of_the_class_does() -> None:
    limit("kernel_budget", max_llm_calls=60)
    account = kernel_limits.kernel_budget
    searched = make_team(lambda rules: 1.0 if rules else 0.3)
    with suppress(EnsembleError):
        searched.improve(
            make_rows(45), score=right, change="task.label.description", budget="$5", llm=make_rewriter(), seed=1
        )
    assert account is not None
    assert account.remaining == {"max_llm_calls": 0}


def test_rows_on_an_executor_spend_from_the_budget_of_the_class(server: OpenAIServer, llm: str):
    server.script(*[Answer(usage=(20, 10))] * 8)
    limit("kernel_budget", max_llm_calls=3)
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        result = team(1, llm=llm).map([{"x": number} for number in range(6)], executor=pool, concurrency=1)
    assert len(server.requests) <= 3
    assert sum(row.status == "completed" for row in result) == len(server.requests)
    assert any(FILE in str(row.error) for row in result)


def test_a_replay_spends_nothing_and_asks_no_model(server: OpenAIServer, llm: str, tmp_path: Path):
    recording = tmp_path / "lesson.jsonl"
    team(2, llm=llm).run(record=recording)
    limit("kernel_budget", max_llm_calls=1)
    kernel_limits.put("allowed_models", AllowedModels(("local",), "allowed_models in x.py"))
    assert team(2, llm=llm).run(replay=recording).status is RunStatus.COMPLETED
    assert kernel_limits.kernel_budget.remaining == {"max_llm_calls": 1}


def test_a_recording_may_lie_in_the_folder_of_the_class(server: OpenAIServer, llm: str, tmp_path: Path, monkeypatch):
    (tmp_path / "shared").mkdir()
    (tmp_path / "mine").mkdir()
    team(1, llm=llm).run(record=tmp_path / "shared" / "lesson.jsonl")
    monkeypatch.chdir(tmp_path / "mine")
    kernel_limits.put("recordings", tmp_path / "shared")
    assert team(1, llm=llm).run(replay="lesson.jsonl").status is RunStatus.COMPLETED
    assert len(server.requests) == 1


def test_a_model_that_is_not_allowed_is_refused_before_anything_runs(server: OpenAIServer, llm: str):
    kernel_limits.put(
        "allowed_models", AllowedModels(("local", "openai:gpt-4.1-*"), "ENSEMBLE_NOTEBOOK_ALLOWED_MODELS")
    )
    with pytest.raises(ValidationError) as caught:
        team(1, llm=llm).run()
    assert "ENSEMBLE_NOTEBOOK_ALLOWED_MODELS allows local, openai:gpt-4.1-*" in str(caught.value)
    assert not server.requests
    inner = team(1, llm=llm, name="inner")
    with pytest.raises(ValidationError, match="not allowed in this kernel"):
        Ensemble(tasks=[Task.of("Outer", ensemble=inner)]).run()
    fallback = Agent(role="A", goal="b", llm=ScriptedChatModel(default="x"))
    assert Ensemble(tasks=[Task.of("x", agent=fallback)]).run().status is RunStatus.COMPLETED


def test_a_model_object_is_known_by_provider_and_name(server: OpenAIServer):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="test-model", base_url=server.url, api_key="none")
    kernel_limits.put("allowed_models", AllowedModels(("openai:gpt-*",), FILE))
    with pytest.raises(ValidationError, match=re.escape(FILE)):
        team(1, llm=model).run()
    assert not server.requests


def test_money_is_refused_for_a_model_without_a_price_before_anything_runs(server: OpenAIServer, llm: str):
    limit("day_budget", max_cost=1)
    with pytest.raises(ValidationError, match=re.escape(FILE)):
        team(1, llm=llm).run()
    euros = CostConfiguration(input_rate="0.000001", output_rate="0.000002", currency="EUR")
    with pytest.raises(ValidationError, match=re.escape(FILE)):
        team(1, llm=llm, cost=euros).run()
    assert team(1, llm=llm, cost=RATES).run().status is RunStatus.COMPLETED
    assert len(server.requests) == 1


def test_the_rate_of_the_class_holds_for_all_runs_together():
    rate = RateLimit(1, 60, wait_timeout=0.1)
    rate._set("set_by", "class_rate_limit in c.py")
    kernel_limits.put("class_rate_limit", rate)
    assert team(1).run().status is RunStatus.COMPLETED
    with pytest.raises(TaskExecutionError) as caught:
        team(1).run()
    assert isinstance(caught.value.__cause__, RateLimitTimeoutError)
    assert "class_rate_limit in c.py" in str(caught.value.__cause__)


ELSEWHERE = """
import sys
from ensemble_notebook import Ensemble, ScriptedChatModel, Task, config
config.store = sys.argv[1]
Ensemble(tasks=[Task.of("a"), Task.of("b")], llm=ScriptedChatModel(default="x")).run()
"""


def test_a_day_counts_what_other_kernels_with_this_store_have_spent_today(store: Path):
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(store)], check=True, timeout=120)
    limit("day_budget", max_llm_calls=4)
    assert team(1).run().status is RunStatus.COMPLETED
    assert team(1).run().status is RunStatus.COMPLETED
    assert team(1).run().status is RunStatus.BUDGET_EXCEEDED
    wait_for_store()
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat().replace("+00:00", "Z")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE runs SET started_at = ? WHERE number = 1", (yesterday,))
    kernel_limits.clear()
    limit("day_budget", max_llm_calls=4)
    assert [team(2).run().status for _ in range(3)] == [*[RunStatus.COMPLETED] * 2, RunStatus.BUDGET_EXCEEDED]


def test_a_day_is_the_local_one_of_the_kernel_and_the_next_begins_anew():
    limit("day_budget", max_llm_calls=4)
    late = datetime(2026, 11, 28, 23, 59, tzinfo=UTC)
    (first,), (again,), (other,) = (find_kernel_budgets(late + timedelta(seconds=each)) for each in (0, 30, 90))
    assert first is again
    assert other is not first
    assert other.set_by == first.set_by == FILE


def test_with_the_store_off_the_limit_of_a_day_is_that_of_the_kernel():
    limit("day_budget", max_llm_calls=2)
    assert [team(1).run().status for _ in range(3)] == [*[RunStatus.COMPLETED] * 2, RunStatus.BUDGET_EXCEEDED]


def test_the_same_limit_set_again_does_not_forget_what_was_spent():
    limit("kernel_budget", max_llm_calls=1)
    team(1).run()
    limit("kernel_budget", max_llm_calls=1)
    assert team(1).run().status is RunStatus.BUDGET_EXCEEDED
    limit("kernel_budget", max_llm_calls=1, allow_unknown_cost=True)
    assert team(1).run().status is RunStatus.COMPLETED
