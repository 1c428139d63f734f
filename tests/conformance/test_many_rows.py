"""E72: one ensemble, many rows: a result for each, errors beside the good ones, one account and one rate limit."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import (
    Budget,
    CaptureMode,
    CostConfiguration,
    DeadlineExceededError,
    Ensemble,
    MapResult,
    PromptTemplateError,
    RateLimit,
    ReviewDecision,
    ReviewRequest,
    RunInterrupted,
    RunStatus,
    Task,
    TaskExecutionError,
    TaskInput,
    ValidationError,
    load_traces,
)
from ensemble_notebook.ensemble.many_runs.earlier_rows import list_remaining
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.ensemble.many_runs.rows import read_rows
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store.run_store import RunStore
from tests.conformance.scene import scripted
from tests.support.limits import meet_limit
from tests.support.openai_server import OpenAIServer
from tests.support.store import wait_for_store

MULTI = pd.MultiIndex.from_tuples([("de", 2019), ("de", 2019), ("fr", 2020)], names=["land", "year"])


@dataclass
class Verdict:
    """A typed output with a field that is called as a column of the frame is."""

    score: int
    status: str


async def shout(given: TaskInput) -> str:
    """Fail for what is called bad."""
    if given.inputs["topic"] == "bad":
        raise ValueError("burnt")
    return str(given.inputs["topic"]).upper()


def make(handler: Any = shout, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Shout {topic}", name="shout", handler=handler)], **fields)


def ask(llm: Any, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Say {topic}", name="say")], llm=llm, **fields)


def statuses(result: MapResult) -> list[str]:
    return [row.status for row in result]


def test_e72_each_row_has_a_result_at_its_place_and_errors_stand_beside_the_good_ones() -> None:
    table = pd.DataFrame({"topic": ["a", "bad", None], "other column": [1, 2, 3]}, index=MULTI)
    result = make().map(table)
    assert result.status is RunStatus.COMPLETED_WITH_WARNINGS
    assert [row.index for row in result] == [("de", 2019), ("de", 2019), ("fr", 2020)]
    assert [row.name for row in result] == ["de/2019", "de/2019 #2", "fr/2020"]
    assert result[2].inputs == {"topic": None, "other column": 3}
    assert isinstance(result[1].error, TaskExecutionError)
    assert result.failures == (result[1],)
    assert result[0].output is not None
    assert result[0].output["shout"].raw == "A"
    frame = result.frame
    assert frame.index.equals(table.index)
    assert frame.index.names == ["land", "year"]
    names = [
        "status",
        "raw",
        "error",
        "error_type",
        "http_status",
        "input_tokens",
        "output_tokens",
        "cost",
        *("duration_ms", "active_ms", "human_wait_ms", "idle_ms"),
        "run_id",
        "reused",
    ]
    assert list(frame.columns) == [*names, "topic", "other column"]
    assert frame.status.tolist() == ["completed", "failed", "completed"]
    assert frame.raw.isna().tolist() == [False, True, False]
    assert "ValueError: burnt" in frame.error.iloc[1]
    assert frame.run_id.tolist() == [row.output.run_id for row in result if row.output]
    assert repr(result).startswith("<MapResult 3 rows: 2 completed, 1 failed, ")
    assert result.trace is not None
    assert not find_violations(result.trace)


def test_e72_texts_have_nothing_where_a_table_has_no_value_and_rows_come_before_inputs() -> None:
    rows = [{"topic": float("nan"), "tone": "dry"}, {"topic": pd.NaT}, {"topic": pd.NA}, {"topic": "tides"}]
    ensemble = Ensemble(tasks=[Task.of("{topic}/{tone}")], llm=scripted(*"abcd"), inputs={"tone": "warm"})
    result = ensemble.map(rows, concurrency=1)
    descriptions = [row.output.task_outputs[0].task_description for row in result if row.output]
    assert descriptions == ["/dry", "/warm", "/warm", "tides/warm"]
    assert result.frame.index.equals(pd.RangeIndex(4))


def test_e72_fields_of_a_typed_output_are_columns() -> None:
    async def judge(given: TaskInput) -> Any:
        return (
            "no judgement" if given.inputs["topic"] == "bad" else Verdict(score=len(given.inputs["topic"]), status="ok")
        )

    task = Task.of("Judge {topic}", handler=judge, output_type=Verdict)
    frame = Ensemble(tasks=[task]).map(pd.DataFrame({"topic": ["abc", "bad", "x"]}, index=[7, 7, 9])).frame
    assert list(frame.columns[:4]) == ["status", "score", "output_status", "error"]
    assert (str(frame.score.dtype), frame.score.sum()) == ("Int64", 4)
    assert frame.index.tolist() == [7, 7, 9]


def test_e72_sums_of_the_rows_are_those_of_the_map_and_its_trace() -> None:
    result = ask(scripted(*"abc")).map([{"topic": "a" * n} for n in (1, 20, 300)])
    assert result.frames is not None
    assert result.trace is not None
    for name in ("input_tokens", "output_tokens", "cost"):
        assert result.frame[name].sum() == result.frames.tasks[name].sum() == getattr(result.metrics, name)
    ends = [each.output.events[-1].duration for each in result if each.output]
    assert result.frame.duration_ms.tolist() == pytest.approx([each.total_seconds() * 1000 for each in ends])
    assert result.metrics.llm_call_count == 3


@pytest.mark.parametrize(
    "rows, error, words",
    [
        ([{"Topic": 1}], PromptTemplateError, "Rename the column 'Topic' to 'topic'"),
        ([{"topic": 1}, {"topics": 1}], PromptTemplateError, "'topic' is missing in row 1"),
        (pd.DataFrame({"to pic": [1]}), PromptTemplateError, "Rename the column 'to pic'"),
        ([{"topic": "a"}, 7, None], ValidationError, "row 1 is 7, row 2 is None"),
        (pd.Series(["a"]), ValidationError, "to_frame"),
        ({"topic": "a"}, ValidationError, "got a dict: of columns make a DataFrame"),
        (pd.DataFrame([[1, 2]], columns=["topic", "topic"]), ValidationError, "several columns called 'topic'"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), ValidationError, "several levels"),
        ([{"topic": "a"}, {"topic": b"x"}], ValidationError, "row 1: The input 'topic'"),
    ],
)
def test_e72_rows_that_can_t_be_run_are_refused_before_the_first_call(
    rows: Any, error: type[Exception], words: str
) -> None:
    model = scripted("never")
    with pytest.raises(error, match=words):
        ask(model).map(rows)
    assert ask(model).run(topic="x").raw == "never"


def test_e72_all_missing_columns_are_named_together() -> None:
    with pytest.raises(PromptTemplateError) as caught:
        Ensemble(tasks=[Task.of("{a} {b} {c}")], llm=scripted()).map(pd.DataFrame({"b": [1]}))
    assert caught.value.missing_variables == ("a", "c")


@pytest.mark.parametrize("rows", [[], pd.DataFrame({"topic": []}, index=MULTI[:0])])
def test_e72_no_rows_are_an_empty_result_with_a_warning(rows: Any) -> None:
    result = make().map(rows)
    assert (len(result), len(result.frame), result.status) == (0, 0, RunStatus.COMPLETED)
    assert "no rows" in result.warnings[0]
    full = make().map([{"topic": 1}]).frame.drop(columns="topic")
    assert result.frame.dtypes.drop("topic", errors="ignore").map(str).tolist() == full.dtypes.map(str).tolist()


def test_e72_one_account_holds_for_all_rows(server: OpenAIServer, llm: str) -> None:
    result = ask(llm, budget=Budget(max_llm_calls=2)).map([{"topic": n} for n in range(5)], concurrency=2)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert len(server.requests) == 2
    assert statuses(result).count("completed") == 2
    assert set(statuses(result)) <= {"completed", "budget_exceeded", "skipped"}
    assert (statuses(result)[4], "budget" in result[4].reason) == ("skipped", True)


def test_e72_one_rate_limit_holds_for_all_rows(server: OpenAIServer, llm: str) -> None:
    ask(llm, rate_limit=RateLimit(10, 1)).map([{"topic": n} for n in range(6)])
    starts = sorted(each.opened_at for each in server.requests)
    assert starts[-1] - starts[0] > 0.3


def test_e72_the_first_failure_ends_the_map_where_that_is_asked_for() -> None:
    rows = [{"topic": each} for each in ("a", "bad", "b")]
    with pytest.raises(TaskExecutionError, match=r"Row 'row 1' failed: .*burnt") as caught:
        make().map(rows, on_error="raise", concurrency=1)
    assert statuses(caught.value.output) == ["completed", "failed", "skipped"]


def test_e72_at_most_as_many_rows_run_at_once_as_were_asked_for() -> None:
    running, most = 0, 0

    async def count(given: TaskInput) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ""

    make(count).map([{"topic": n} for n in range(20)], concurrency=3)
    assert most == 3


def test_e72_a_stop_keeps_the_rows_that_are_done_and_resume_runs_the_others() -> None:
    calls: list[str] = []

    async def wait(given: TaskInput) -> str:
        calls.append(given.inputs["topic"])
        if len(calls) == 3:
            await asyncio.sleep(60)
        return given.inputs["topic"].upper()

    rows = [{"topic": each} for each in "abcd"]

    def run(limit_s: float) -> MapResult:
        calls.clear()
        with pytest.raises(DeadlineExceededError) as caught:
            make(wait).map(rows, concurrency=1, timeout=limit_s)
        return caught.value.output

    partial = meet_limit(run, lambda _: len(calls) == 3, 0.2)
    assert statuses(partial) == ["completed", "completed", "interrupted", "skipped"]
    rows[0] = {"topic": "new"}
    result = make(wait).map(rows, resume=partial)
    assert calls[3:] == ["new", "c", "d"]
    assert result.frame.raw.tolist() == ["NEW", "B", "C", "D"]
    assert result[1].run_id == partial[1].run_id
    assert make(wait).map(rows, resume=result).output is None


def test_e72_resume_takes_over_the_same_rows_wherever_they_stand_and_no_row_of_other_inputs() -> None:
    calls: list[str] = []

    def work(given: TaskInput) -> str:
        calls.append(given.inputs["topic"])
        return given.inputs["topic"].upper()

    first = make(work).map([{"topic": each} for each in "abc"])
    calls.clear()
    rows = [{"topic": each} for each in "cnab"]
    second = make(work).map(rows, resume=first)
    assert calls == ["n"]
    assert second.frame.raw.tolist() == ["C", "N", "A", "B"]
    assert [(each.name, each.index, each.inputs) for each in second] == [
        (f"row {place}", place, row) for place, row in enumerate(rows)
    ]
    assert [each.run_id for each in second if each._spending is not None] == [first[n].run_id for n in (2, 0, 1)]
    calls.clear()
    told = [{**row, "expected": "something"} for row in rows]
    assert make(work).map(told, resume=second).frame.raw.tolist() == ["C", "N", "A", "B"]
    assert not calls  # what a row should come to is nothing that it is given
    make(work).map([{**row, "author": "me"} for row in rows], resume=second)
    assert sorted(calls) == ["a", "b", "c", "n"]  # a handler may read it
    calls.clear()
    numbered = [{"id": place, **row} for place, row in enumerate(rows)]
    third = make(work).map(
        [{**row, "topic": "new"} if row["id"] == 1 else row for row in numbered[::-1]], resume=second
    )
    assert sorted(calls) == ["a", "b", "c", "new"]  # the id is a new column, too
    calls.clear()
    make(work).map(numbered, resume=third)
    assert calls == ["n"]


def test_e72_what_is_left_of_an_earlier_map_is_told_wherever_its_rows_stand() -> None:
    def fail(given: TaskInput) -> str:
        if given.inputs["topic"] == "b":
            raise ValueError("no")
        return "done"

    earlier = make(fail).map([{"topic": each} for each in "abc"]).trace
    assert earlier is not None
    (left,) = list_remaining([None], read_rows([{"topic": each} for each in "ncab"]), None, None, [earlier])
    assert [each.values["topic"] for each in left] == ["n", "b"]


def test_e72_resume_takes_over_rows_whose_other_columns_no_text_names() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {topic}")], llm="scripted")
    first = ensemble.map([{"topic": each} for each in "abc"])
    second = ensemble.map([{"topic": each, "author": "me"} for each in "cab"], resume=first)
    assert second.output is None
    assert [each.run_id for each in second] == [first[n].run_id for n in (2, 0, 1)]
    third = ensemble.map([{"topic": each, "author": "you"} for each in "cab"], resume=second)
    assert third.metrics.llm_call_count == 3  # a tool may ask for it


def test_e72_an_interrupt_raises_with_what_is_done() -> None:
    async def wait(given: TaskInput) -> str:
        if given.inputs["topic"] == "b":
            handle.cancel()
            await asyncio.sleep(60)
        return "done"

    handle = start_map(make(wait), read_map([{"topic": each} for each in "abc"], concurrency=1))
    handle._begin()
    with pytest.raises(RunInterrupted, match="1 of 3 rows are done and kept") as caught:
        handle.result()
    assert statuses(caught.value.output) == ["completed", "interrupted", "skipped"]


def test_e72_resume_by_id_does_in_each_row_what_was_not_done(store_path: Path) -> None:
    async def judge(given: TaskInput) -> str:
        if given.context[0].raw == broken:
            raise ValueError("not yet")
        return "good"

    broken = "two"
    tasks = [Task.of("Say {topic}", name="say"), Task.of("Judge", name="judge", context=["say"], handler=judge)]
    ensemble = Ensemble(tasks=tasks, llm=scripted("one", "two"))
    rows = [{"topic": 1}, {"topic": 2}]
    first = ensemble.map(rows, concurrency=1)
    assert statuses(first) == ["completed", "failed"]
    broken = ""
    second = ensemble.map(rows, resume=first.run_id)
    assert statuses(second) == ["completed", "completed"]
    assert second.metrics.llm_call_count == 0
    third = ensemble.map(rows, reuse=True)
    assert (statuses(third), third.metrics.llm_call_count) == (["completed", "completed"], 0)


def test_e72_one_recording_has_all_rows(tmp_path: Path) -> None:
    rows, file = [{"topic": each} for each in "ab"], tmp_path / "rows.json"
    recorded = ask(scripted("one", "two")).map(rows, record=file)
    replayed = ask(scripted()).map(rows, replay=file)
    assert replayed.frame.raw.tolist() == recorded.frame.raw.tolist()


def test_e72_only_one_task_runs_in_each_row() -> None:
    tasks = [Task.of("A", name="a", handler=lambda _: "a"), Task.of("B", name="b", handler=lambda _: "b")]
    frame = Ensemble(tasks=tasks, workflow="parallel").map([{}, {}], only="a").frame
    assert frame.raw.tolist() == ["a", "a"]


def test_e72_no_text_of_any_row_is_kept_where_none_is_to_be() -> None:
    table = pd.DataFrame({"topic": ["secret words", "bad"]}, index=["Ms Smith", "Mr Jones"])
    result = make(capture_mode=CaptureMode.METADATA).map(table)
    assert [row.name for row in result] == ["row 0", "row 1"]
    assert result.output is not None
    told = repr(result.output.events) + repr(result) + str(result.output.trace.to_dict())
    for text in ("Smith", "secret", "burnt", "SECRET"):
        assert text not in told
    packed = pickle.dumps(result)
    assert b"Smith" not in packed
    assert b"secret words" not in packed


def test_e72_a_result_pickles_with_its_frame() -> None:
    result = make().map(pd.DataFrame({"topic": ["a", "bad", "c"]}, index=MULTI))
    copied = pickle.loads(pickle.dumps(result))
    assert copied.frame.equals(result.frame)


def test_e72_listeners_hear_one_run() -> None:
    heard: list[str] = []
    make(listeners=[lambda event: heard.append(type(event).__name__)]).map([{"topic": n} for n in "ab"])
    assert (heard.count("RunStarted"), heard.count("NestedRunStarted"), heard.count("RunEnded")) == (1, 2, 1)


def test_e72_a_person_is_asked_one_question_at_a_time() -> None:
    asked, most = 0, 0

    async def decide(request: ReviewRequest) -> ReviewDecision:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= 1
        return ReviewDecision.edit("seen")

    ensemble = make(review_handler=decide, review_policy="after_every_task")
    assert ensemble.map([{"topic": n} for n in "abcd"]).frame.raw.tolist() == ["seen"] * 4
    assert most == 1


@pytest.mark.parametrize("wrong", [{"on_error": "skip"}, {"concurrency": 0}, {"concurrency": True}])
def test_e72_wrong_settings_are_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        make().map([{"topic": "a"}], **wrong)


def test_e72_a_map_that_goes_on_with_another_one_has_one_account(store_path: Path) -> None:
    rates = CostConfiguration(input_rate=Decimal("0.01"), output_rate=Decimal("0.01"))
    tasks = [Task.of("Say {topic}", name="say"), Task.of("End {topic}", name="end", context=["say"])]
    rows = [{"topic": each} for each in ("tides", "reefs", "winds")]

    def make(**fields: Any) -> Ensemble:
        return Ensemble(tasks=tasks, llm="scripted", cost=rates, name="account", **fields)

    whole = make().map(rows, concurrency=1)
    first = make(budget=Budget(max_llm_calls=3)).map(rows, concurrency=1)
    wait_for_store()
    second = make(budget=Budget(max_llm_calls=2)).map(rows, concurrency=1, resume=first.run_id)
    wait_for_store()
    third = make().map(rows, concurrency=1, resume=second.run_id)
    wait_for_store()
    assert third.metrics.llm_call_count == 1
    assert third.metrics.total.llm_call_count == 6
    assert " in all, " in third.describe()
    assert third.metrics.total.cost == whole.metrics.cost == sum(each.metrics.cost for each in (first, second, third))
    loaded = load_traces().load_map(third.run_id)
    for result in (third, loaded):
        assert result.frame.cost.tolist() == pytest.approx(whole.frame.cost.tolist())
        assert result.frames.rows.cost.tolist() == pytest.approx(whole.frame.cost.tolist())
        assert result.metrics.total.cost == whole.metrics.cost
        assert result.summary().cost.item() == pytest.approx(whole.summary().cost.item())
    listed = make_run_table(RunStore.open()).total_cost
    assert listed[third.run_id] == pytest.approx(float(whole.metrics.cost))
    assert listed[first.run_id] == pytest.approx(float(first.metrics.cost))


def second_cost(result: MapResult, topic: str) -> Decimal:
    """What a row took in this map alone."""
    row = next(each for each in result if each.inputs["topic"] == topic)
    assert row.output is not None
    return row.output.metrics.cost or Decimal(0)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_e72_a_row_that_runs_again_has_its_own_cost_wherever_it_was_paid(store_path: Path, is_loaded: bool) -> None:
    rates = CostConfiguration(input_rate=Decimal("0.01"), output_rate=Decimal("0.01"))
    is_broken = True

    def end(task: TaskInput) -> str:
        if is_broken and task.inputs["topic"] != "tides":
            raise ValueError("lost")
        return "done"

    tasks = [Task.of("Say {topic}", name="say"), Task.of("End {topic}", name="end", context=["say"], handler=end)]
    ensemble = Ensemble(tasks=tasks, llm="scripted", cost=rates, name="again")
    rows = [{"topic": each} for each in ("tides", "reefs", "winds")]
    first = ensemble.map(rows[:2], concurrency=1)
    wait_for_store()
    is_broken = False
    resumed = load_traces().load_map(first.run_id) if is_loaded else first
    second = ensemble.map(rows[::-1], concurrency=1, resume=resumed)
    wait_for_store()
    loaded = load_traces().load_map(second.run_id)
    paid = {str(row.inputs["topic"]): result._get_spending(row).cost for result in (first,) for row in result}
    assert all(paid.values())
    for result in (second, loaded):
        costs = result.frame.set_index("topic").cost
        assert costs["tides"] == pytest.approx(float(paid["tides"]))
        assert costs["reefs"] == pytest.approx(float(paid["reefs"]) + float(second_cost(second, "reefs")))
        assert result.frames.rows.cost.tolist() == pytest.approx(result.frame.cost.tolist())
        assert result.metrics.total.cost == first.metrics.cost + second.metrics.cost
        assert result.summary().cost.item() == pytest.approx(costs.mean())
        assert costs.sum() == pytest.approx(float(result.metrics.total.cost))


def test_c33_a_run_that_goes_on_with_another_one_has_one_account(store_path: Path) -> None:
    tasks = [Task.of("Say it", name="say"), Task.of("End it", name="end", context=["say"])]
    stopped = Ensemble(tasks=tasks, llm="scripted", name="single", budget=Budget(max_llm_calls=1)).run()
    wait_for_store()
    output = Ensemble(tasks=tasks, llm="scripted", name="single").run(resume=stopped)
    assert (output.metrics.llm_call_count, output.metrics.total.llm_call_count) == (1, 2)
    assert output.metrics.total.total_tokens == output.metrics.total_tokens + stopped.metrics.total_tokens
