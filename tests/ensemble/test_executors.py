"""Rows in other processes: an executor, a cluster of Dask; grants, workers that die, what can't travel (E72)."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import (
    Budget,
    Ensemble,
    MapResult,
    RateLimit,
    RunInterrupted,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskInput,
    ValidationError,
)
from ensemble_notebook.domain.events import TaskCompleted
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.support.openai_server import Answer, OpenAIServer


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        yield pool


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(default=Answer("ok", usage=(11, 7))) as serving:
        yield serving


def make_shouter(suffix: str) -> Any:
    """A function like one of a cell: it closes over a value, and no module has it."""

    def shout(given: TaskInput) -> str:
        if given.inputs["word"] == "bad":
            raise ValueError("burnt")
        return f"{given.inputs['word']}{suffix} {os.getpid()}".upper()

    return shout


def make(handler: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Shout {word}", name="shout", handler=handler)], **fields)


def test_rows_run_in_other_processes_and_come_home_with_their_traces(processes: ProcessPoolExecutor) -> None:
    rows = pd.DataFrame({"word": ["tea", "bad", "rye"]}, index=["x", "y", "y"])
    heard: list[Any] = []
    result = make(make_shouter("!"), listeners=[heard.append]).map(rows, executor=processes)
    assert result.frame.index.tolist() == ["x", "y", "y"]
    assert [each.status for each in result] == ["completed", "failed", "completed"]
    assert result.frame.raw.iloc[0].startswith("TEA!")
    assert not result.frame.raw.iloc[0].endswith(f" {os.getpid()}")
    assert f"ValueError: burnt (at {Path(__file__).relative_to(Path.cwd())}:" in result.frame.error.iloc[1]
    assert result.output is not None
    assert find_violations(result.output.trace) == []
    spans = result.output.frames.spans
    nested = spans[spans.kind == "nested"]
    assert set(spans.loc[nested.parent_id, "name"]) == {each.name for each in result}
    assert len(heard) == len(result.output.events)


def test_rows_that_keep_no_text_come_home_live_and_are_pickled_without(processes: ProcessPoolExecutor) -> None:
    ensemble = make(make_shouter("!"), capture_mode="metadata")
    result = ensemble.map([{"word": "tea"}], executor=processes)
    assert result.frame.raw.iloc[0].startswith("TEA!")
    row = next(iter(result)).output
    assert row is not None
    assert row["shout"].raw.startswith("TEA!")
    for shown in (pickle.dumps(result), repr(row["shout"]).encode(), repr(row.events).encode()):
        assert b"TEA!" not in shown


def test_row_of_a_model_spec_is_asked_for_elsewhere_and_its_tokens_count_once(
    processes: ProcessPoolExecutor, server: OpenAIServer
) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}", name="say")], llm=f"openai:m@{server.url}")
    asked = len(server.requests)
    result = ensemble.map([{"word": each} for each in "abcd"], executor=processes)
    assert result.frame.raw.tolist() == ["ok"] * 4
    assert len(server.requests) - asked == 4
    assert result.metrics.total_tokens == 4 * 18 == result.frame[["input_tokens", "output_tokens"]].sum().sum()


def test_account_is_never_passed_by_rows_elsewhere(processes: ProcessPoolExecutor, server: OpenAIServer) -> None:
    budget = Budget(max_llm_calls=3)
    ensemble = Ensemble(tasks=[Task.of("Say {word}", name="say")], llm=f"openai:m@{server.url}", budget=budget)
    asked = len(server.requests)
    result = ensemble.map([{"word": each} for each in "abcdefgh"], executor=processes)
    assert len(server.requests) - asked == 3
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert (result.frame.status == "completed").sum() == 3


def test_limit_of_an_ensemble_holds_over_two_processes_e137(
    processes: ProcessPoolExecutor, server: OpenAIServer
) -> None:
    tasks = [Task.of("Say {word}", name="say"), Task.of("Say it again", name="again", context=["say"])]
    ensemble = Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", rate_limit=RateLimit(20, 1.0))
    began = time.monotonic()
    result = ensemble.map([{"word": each} for each in "abcdefgh"], executor=processes)
    # A machine that has much to do makes requests late, never early.
    assert time.monotonic() - began >= (16 - 2) / 20
    assert [each.status for each in result] == ["completed"] * 8


def test_worker_that_dies_costs_its_rows_and_nothing_is_lost(server: OpenAIServer) -> None:
    def die(given: TaskInput) -> str:
        if given.inputs["word"] == "bad":
            os._exit(1)
        return "alive"

    limit = RateLimit(100, 1.0)
    tasks = [Task.of("Do {word}", name="do", handler=die), Task.of("Say it", name="say", context=["do"])]
    dying = Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", rate_limit=limit)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        result = dying.map([{"word": "a"}, {"word": "bad"}, {"word": "c"}], executor=pool, concurrency=1)
    assert [each.status for each in result] == ["completed", "failed", "failed"]
    assert "did not come back from its worker: BrokenProcessPool" in result.frame.error.iloc[1]
    assert dying.run(word="a").raw == "ok"  # so the parts of the limit have come back
    again = make(make_shouter("")).map([{"word": "a"}, {"word": "bad2"}, {"word": "c"}], resume=result)
    assert [each.status for each in again] == ["completed"] * 3


def test_what_can_not_travel_is_refused_before_the_first_row(threads: ThreadPoolExecutor) -> None:
    lock, calls = threading.Lock(), list[str]()

    def locked(given: TaskInput) -> str:
        with lock:
            calls.append(given.name)
            return ""

    with pytest.raises(ValidationError, match="handler can't go to another process: TypeError: cannot pickle"):
        make(locked).map([{"word": "a"}], executor=threads)
    assert calls == []


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"review_handler": lambda request: None}, "Nobody can be asked from another process"),
    ],
)
def test_what_processes_can_not_share_is_refused(
    threads: ThreadPoolExecutor, fields: dict[str, Any], message: str
) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm=ScriptedChatModel(replies=["x"]), **fields)
    with pytest.raises(ValidationError, match=message):
        ensemble.map([{"word": "a"}], executor=threads)


class Plain:
    """The least that runs rows: a thread for each, and what waits for it."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2)

    def submit(self, function: Any, *arguments: Any) -> Any:
        return SimpleNamespace(result=self.pool.submit(function, *arguments).result)


def test_anything_with_submit_and_result_runs_rows_e138(server: OpenAIServer) -> None:
    ensemble = Ensemble(
        tasks=[Task.of("Say {word}", name="say")],
        llm=f"openai:m@{server.url}",
        budget=Budget(max_llm_calls=4),
        rate_limit="20/s",
    )
    began = time.monotonic()
    result = ensemble.map([{"word": each} for each in "abcdef"], executor=Plain(), concurrency=2)
    assert time.monotonic() - began >= (4 - 2) / 20
    assert [each.status for each in result].count("completed") == 4
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert result.output is not None
    assert find_violations(result.output.trace) == []


def test_rows_on_any_executor_stop_and_bring_home_what_they_did_e138(tmp_path: Path) -> None:
    file = tmp_path / "begun"

    async def wait(given: TaskInput) -> str:
        file.touch()
        await asyncio.sleep(60)
        return ""

    tasks = [Task.of("Do {word}", name="do", handler=lambda given: "done"), Task.of("Wait", name="wait", handler=wait)]
    ensemble = Ensemble(tasks=tasks, workflow="sequential")
    handle = start_map(ensemble, read_map([{"word": "a"}, {"word": "b"}], executor=Plain(), concurrency=1))
    handle._begin()
    while not file.exists():
        time.sleep(0.01)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result(20)
    assert isinstance(caught.value.output, MapResult)
    assert [each.status for each in caught.value.output] == ["interrupted", "skipped"]
    output = caught.value.output[0].output
    assert output is not None
    assert output["do"].raw == "done"


@pytest.mark.parametrize(
    "executor, message",
    [
        ("dask", r"executor must be .* submit\(function, \*arguments\) .*; got str, which has no submit"),
        (ThreadPoolExecutor, r"is a class: ThreadPoolExecutor\(\)"),
        (SimpleNamespace(submit=asyncio.sleep), r"SimpleNamespace.submit is async"),
    ],
)
def test_what_is_no_executor_is_refused_before_the_first_row_e138(executor: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make(make_shouter("")).map([{"word": "a"}], executor=executor)


def fail(*_: Any) -> Any:
    raise OSError("the cluster is gone")


@pytest.mark.parametrize(
    "submit, message",
    [
        (fail, "OSError: the cluster is gone"),
        (lambda *_: 3, r"SimpleNamespace.submit\(...\) must give an object with result\(\), got int"),
        (
            lambda *_: SimpleNamespace(result=lambda: None),
            r"SimpleNamespace.submit\(...\).result\(\) must give what the function returned, got NoneType",
        ),
        (lambda *_: SimpleNamespace(result=fail), "OSError: the cluster is gone"),
    ],
)
def test_executor_that_gives_no_result_fails_its_rows_and_keeps_no_part_of_a_limit_e138(
    server: OpenAIServer, submit: Any, message: str
) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm=f"openai:m@{server.url}", rate_limit="100/s")
    result = ensemble.map([{"word": "a"}, {"word": "b"}], executor=SimpleNamespace(submit=submit))
    assert [each.status for each in result] == ["failed"] * 2
    assert re.search(message, result.frame.error.iloc[0])
    assert ensemble.run(word="here").raw == "ok"


def test_interrupt_keeps_the_rows_that_are_home(threads: ThreadPoolExecutor, tmp_path: Path) -> None:
    release = tmp_path / "release"

    def work(given: TaskInput) -> str:
        while given.inputs["word"] == "slow" and not Path(given.inputs["release"]).exists():
            time.sleep(0.01)
        return "done"

    rows = [{"word": each, "release": str(release)} for each in ("quick", "slow", "later")]
    handle = start_map(make(work), read_map(rows, executor=threads, concurrency=1))
    handle._begin()
    while not any(isinstance(each, TaskCompleted) and each.task == "row 0" for each in handle.events):
        time.sleep(0.01)
    handle.cancel()
    with pytest.raises(RunInterrupted, match="1 of 3 rows are done and kept") as caught:
        handle.result(20)
    release.touch()
    assert isinstance(caught.value.output, MapResult)
    assert [each.status for each in caught.value.output] == ["completed", "interrupted", "skipped"]


def test_variants_go_to_an_executor_as_rows_do(threads: ThreadPoolExecutor) -> None:
    ensemble = Ensemble(tasks=[Task.of("Shout {word} {style}", name="shout", handler=lambda given: given.description)])
    variants = ensemble.variants({"a": {"style": "loudly"}, "b": {"style": "softly"}})
    frame = variants.map([{"word": "x"}, {"word": "y"}], executor=threads).frame
    assert frame.raw.tolist() == ["Shout x loudly", "Shout y loudly", "Shout x softly", "Shout y softly"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_cluster_of_dask_runs_rows_and_gives_those_of_a_dead_worker_to_another_one(
    tmp_path: Path, server: OpenAIServer
) -> None:
    import distributed  # when it is needed, since it takes long

    file = tmp_path / "died"

    def work(given: TaskInput) -> str:
        if given.inputs["word"] == "b" and not file.exists():
            file.touch()
            os._exit(1)
        return f"{given.inputs['word']} {os.getpid()}"

    tasks = [Task.of("Do {word}", name="do", handler=work), Task.of("Say {word}", name="say", context=["do"])]
    ensemble = Ensemble(tasks=tasks, llm=f"openai:m@{server.url}", budget=Budget(max_llm_calls=6), rate_limit="5/s")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        free = make(make_shouter("")).map([{"word": each} for each in "abcd"], executor=client)
        asked = len(server.requests)
        began = time.monotonic()
        result = ensemble.map([{"word": each} for each in "abcd"], executor=client)
        assert time.monotonic() - began >= (4 - 2) / 5
    assert [each.status for each in free] == ["completed"] * 4
    assert [each.status for each in result] == ["completed"] * 4
    assert len(server.requests) - asked == 4
    assert result.output is not None
    assert find_violations(result.output.trace) == []
