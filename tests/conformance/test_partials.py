"""Typed outputs while they are streamed (E132, E133), through the public interface alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ensemble_notebook import (
    Ensemble,
    EnsembleError,
    ExitReason,
    Fail,
    GuardrailResult,
    Partial,
    Phase,
    Reply,
    ReviewDecision,
    RunStream,
    Task,
    TaskExecutionError,
    ToolUse,
)
from tests.conformance.scene import agent, done, scripted


class Rating(BaseModel):
    title: str
    score: int
    tags: list[str] = []


WHOLE = '{"title": "Low tide", "score": 12, "tags": ["sea", "sand"]}'
OTHER = '{"title": "High tide", "score": 7}'


def rate(*replies: Any, name: str = "rate", **fields: Any) -> Task:
    return Task.of("Rate it", name=name, output_type=Rating, **{"llm": scripted(*replies), **fields})


def partials(ensemble: Ensemble, task: str | None = None, **settings: Any) -> list[tuple[str, int, dict[str, Any]]]:
    """Task, attempt and fields of all partials, until the run ends in whatever way."""
    found: list[tuple[str, int, dict[str, Any]]] = []

    async def read() -> None:
        async with ensemble.stream(**settings) as run:
            found.extend([(each.task, each.attempt, dict(each)) async for each in run.partials(task)])

    with contextlib.suppress(TaskExecutionError):
        asyncio.run(read())
    return found


def fields(*tasks: Task, **settings: Any) -> list[dict[str, Any]]:
    return [each for _, _, each in partials(Ensemble(tasks=tasks), **settings)]


def test_e132_fields_come_as_the_model_writes_them() -> None:
    assert fields(rate(WHOLE)) == [
        {"title": "Low"},
        {"title": "Low tide"},
        {"title": "Low tide", "score": 12},
        {"title": "Low tide", "score": 12, "tags": ["sea"]},
        {"title": "Low tide", "score": 12, "tags": ["sea", "sand"]},
    ]


@pytest.mark.parametrize(
    "around", ["Here it is:\n\n```json\n{}\n```\nThat is all.", "I say {}, no more", "<think>{}</think>{}"]
)
def test_e132_they_are_found_where_the_whole_is(around: str) -> None:
    assert fields(rate(around.replace("{}", WHOLE)))[-1] == json.loads(WHOLE)


def test_e132_a_partial_is_a_dict_that_belongs_to_who_reads_it() -> None:
    async def read() -> list[Partial]:
        found = []
        async with Ensemble(tasks=[rate(WHOLE)]).stream() as run:
            async for each in run.partials():
                found.append(json.loads(json.dumps(each)))
                each.clear()
                with pytest.raises(AttributeError, match="'attempt'"):
                    _ = each.attempts
        return found

    assert asyncio.run(read())[-1] == json.loads(WHOLE)


def test_e132_the_last_one_is_whole_also_where_the_type_reads_it_in_another_way() -> None:
    assert fields(rate('{"title": "Low", "score": "7"}'))[-1] == {"title": "Low", "score": 7, "tags": []}


class Price(BaseModel):
    amount: Decimal


def test_e132_numbers_are_as_json_has_them_also_of_decimals() -> None:
    task = Task.of(
        "Price it", name="price", output_type=Price, llm=scripted('{"amount": 0.1234567890123456789012345 }')
    )
    assert partials(Ensemble(tasks=[task])) == [("price", 1, {"amount": 0.12345678901234568})]


def test_e132_who_takes_long_is_given_the_newest_next() -> None:
    text = "word " * 400

    async def read() -> list[int]:
        found = []
        async with Ensemble(tasks=[rate(json.dumps({"title": text, "score": 1}))]).stream() as run:
            async for each in run.partials():
                found.append(len(each["title"]))
                for _ in range(200):  # other work, while the model goes on
                    await asyncio.sleep(0)
        return found

    found = asyncio.run(read())
    assert found[-1] == len(text)
    assert len(found) < 100


def test_e132_leaving_early_stops_the_run() -> None:
    async def read() -> RunStream:
        async with Ensemble(tasks=[rate(WHOLE)]).stream() as run:
            async for _ in run.partials():
                break
        return run

    run = asyncio.run(read())
    assert run.output is not None
    assert run.output.exit_reason is ExitReason.INTERRUPTED


def test_e132_a_reply_that_never_becomes_valid_gives_what_fits_and_then_the_error_of_the_run() -> None:
    seen = []

    async def read() -> None:
        async with Ensemble(
            tasks=[rate('{"title": "Low", "score": "none", "tags": ["a"', max_output_retries=0)]
        ).stream() as run:
            seen.extend([dict(each) async for each in run.partials()])

    with pytest.raises(TaskExecutionError, match=r"score|complete"):
        asyncio.run(read())
    assert seen[-1] == {"title": "Low", "tags": ["a"]}


def test_e132_a_long_reply_is_read_in_steps() -> None:
    title = "word " * 4000
    found = fields(rate(json.dumps({"title": title, "score": 1})))
    assert found[-1] == {"title": title, "score": 1}
    assert len(found) < 1500


def test_e133_each_task_says_whose_it_is() -> None:
    team = Ensemble(tasks=[rate(WHOLE, name="low"), rate(OTHER, name="high"), done("aside")], workflow="parallel")
    found = partials(team)
    last = {name: each for name, _, each in found}
    assert last == {"low": json.loads(WHOLE), "high": json.loads(OTHER)}
    assert [name for name, _, _ in found[:2]] == ["low", "high"]  # as they grow
    assert {
        name for name, _, _ in partials(Ensemble(tasks=[rate(WHOLE, name="low"), rate(OTHER, name="high")]), "high")
    } == {"high"}


def test_e133_items_are_told_apart() -> None:
    task = rate(WHOLE, OTHER, for_each=["ebb", "flood"], llm=scripted(WHOLE, OTHER))
    found = partials(Ensemble(tasks=[task]), "rate")
    assert {name: each for name, _, each in found} == {"rate[0]": json.loads(WHOLE), "rate[1]": json.loads(OTHER)}


def test_e133_a_name_that_is_none_is_answered_with_the_nearest() -> None:
    team = Ensemble(tasks=[rate(WHOLE), done("aside")])
    with pytest.raises(EnsembleError, match=r"no task 'rats'.*Did you mean 'rate'"):
        team.stream().partials("rats")
    with pytest.raises(EnsembleError, match=r"task 'aside' does not have.*run\.text\(\)"):
        team.stream().partials("aside")
    with pytest.raises(EnsembleError, match="no task of this ensemble has"):
        Ensemble(tasks=[done("aside")]).stream().partials()


def last_of_attempts(ensemble: Ensemble) -> list[tuple[int, dict[str, Any]]]:
    return list({number: each for _, number, each in partials(ensemble)}.items())


def attempts(task: Task, **settings: Any) -> list[tuple[int, dict[str, Any]]]:
    return last_of_attempts(Ensemble(tasks=[task], **settings))


def test_e133_after_a_correction_it_begins_anew() -> None:
    assert attempts(rate('{"title": "Low", "score": "none"}', OTHER)) == [(1, {"title": "Low"}), (2, json.loads(OTHER))]
    assert attempts(rate("no JSON", OTHER)) == [(2, json.loads(OTHER))]


def test_e133_what_is_said_before_a_tool_call_is_void_after_it() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    asks = Reply('{"title": "Guess"', calls=[ToolUse("look", {})])
    worker = agent(asks, OTHER, tools=[look])
    assert attempts(rate(agent=worker, llm=None)) == [(1, {"title": "Guess"}), (2, json.loads(OTHER))]
    worker = agent(Reply("Let me look.", calls=[ToolUse("look", {})]), OTHER, tools=[look])
    assert attempts(rate(agent=worker, llm=None)) == [(1, json.loads(OTHER))]


def test_e133_a_request_that_is_refused_does_not_count() -> None:
    assert attempts(rate(Fail(429, retry_after=0.0), OTHER)) == [(1, json.loads(OTHER))]


def test_e133_a_review_a_guardrail_and_another_round_are_attempts() -> None:
    expected = [(1, json.loads(WHOLE)), (2, json.loads(OTHER))]
    decisions = [ReviewDecision.retry("Be kinder"), ReviewDecision.approve()]
    assert attempts(rate(WHOLE, OTHER, review="after"), review_handler=lambda _: decisions.pop(0)) == expected

    def guard(output: Any) -> GuardrailResult:
        return GuardrailResult.success() if "High" in output.raw else GuardrailResult.failure("Higher")

    assert attempts(rate(WHOLE, OTHER, output_guardrails=[guard], max_guardrail_retries=1)) == expected
    low_enough = {"rate": {"field": "score", "equals": 7}}
    rounds = Phase(name="draft", tasks=[rate(WHOLE, OTHER)], until=low_enough, max_rounds=2)
    assert last_of_attempts(Ensemble(phases=[rounds])) == expected


@pytest.mark.parametrize(
    "made",
    [
        Task.of("Do", name="rate", output_type=Rating, handler=lambda _: Rating(title="Low", score=1)),
        Task.of("Do", name="rate", output_type=Rating, handler=lambda _: '{"title": "Low", "score": 1, "tags": []}'),
    ],
)
def test_e133_what_is_not_streamed_comes_whole(made: Task) -> None:
    assert partials(Ensemble(tasks=[made])) == [("rate", 1, {"title": "Low", "score": 1, "tags": []})]


def test_e133_without_texts_in_the_events_it_comes_whole() -> None:
    assert partials(Ensemble(tasks=[rate(WHOLE)], capture_mode="metadata")) == [("rate", 1, json.loads(WHOLE))]


def test_e133_a_replayed_run_gives_the_same(tmp_path: Path) -> None:
    team, path = Ensemble(tasks=[rate('{"title": "no"', OTHER)]), tmp_path / "run.yaml"
    assert partials(team, record=path) == partials(team, replay=path)


def test_e133_a_run_inside_has_a_stream_of_its_own() -> None:
    inner = Ensemble(tasks=[rate(OTHER)])
    assert {
        name
        for name, _, _ in partials(Ensemble(tasks=[rate(WHOLE), Task(ensemble=inner, name="inner", description="Go")]))
    } == {"rate"}
