"""V3, V4: scorers of maps and variants, on models behind a real server."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import Ensemble, Score, ScoringError, Task, TaskInput, ValidationError, scorers
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from tests.support.openai_server import OpenAIServer

ROWS = [{"city": "Paris", "expected": "France"}, {"city": "Rome", "expected": "Italy"}]
COUNTRIES = {"Paris": "France", "Rome": "Spain"}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def make(server: OpenAIServer, **fields: Any) -> Ensemble:
    server.script(*(COUNTRIES[each] for each in ("Paris", "Rome")))
    task = Task.of("In which country is {city}?", name="ask")
    return Ensemble(tasks=[task], llm=f"openai:test-model@{server.url}", max_concurrency=1, **fields)


def is_right(output: Any, expected: Any) -> bool:
    return bool(output.raw == expected)


def count_letters(output: Any, inputs: Any) -> dict[str, Any]:
    return {"letters": len(output.raw), "city_letters": len(inputs["city"])}


def name_tone(run: Any) -> Score:
    return Score("plain", reason=f"{run.metrics.llm_call_count} call")


async def rate_slowly(output: Any) -> float:
    await asyncio.sleep(0)
    return len(output.raw) / 2


def fail_for_spain(output: Any) -> float:
    if output.raw == "Spain":
        raise ValueError(f"no number for {output.raw}")
    return 1.0


def test_v3_scorers_get_what_they_name_and_give_what_they_like(server: OpenAIServer) -> None:
    result = make(server).map(ROWS, score=[is_right, count_letters, name_tone, rate_slowly], concurrency=1)
    frame = result.frame
    assert frame.is_right.tolist() == [True, False]
    assert (frame.letters.tolist(), frame.city_letters.tolist()) == ([6.0, 5.0], [5.0, 4.0])
    assert frame.name_tone.tolist() == ["plain", "plain"]
    assert frame.rate_slowly.tolist() == [3.0, 2.5]
    assert {name: str(frame[name].dtype) for name in ("is_right", "letters", "name_tone")} == {
        "is_right": "boolean",
        "letters": "Float64",
        "name_tone": "string",
    }
    assert len(server.requests) == 2
    assert result.warnings == ()
    assert result.frames is not None
    assert result.frames.scores.query("name == 'name_tone'").reason.tolist() == ["1 call", "1 call"]


def test_v3_a_scorer_that_raises_is_one_warning_with_count_and_place_and_fails_no_row(server: OpenAIServer) -> None:
    result = make(server).map(ROWS, score=[fail_for_spain, is_right], concurrency=1)
    (warning,) = result.warnings
    assert warning.startswith("The scorer fail_for_spain failed for 1 of 2 runs: ValueError: no number for Spain (at ")
    assert "test_scorers.py:" in warning
    assert result.frame.status.tolist() == ["completed", "completed"]
    assert result.frame.fail_for_spain.isna().tolist() == [False, True]
    assert result.frame.score_error.isna().tolist() == [True, False]
    assert result.frame.is_right.tolist() == [True, False]
    assert repr(result.frame).endswith(f"\n! {warning}")
    assert "! The scorer fail_for_spain failed for 1 of 2 runs" in result.frame._repr_html_()  # type: ignore[operator]
    assert repr(pickle.loads(pickle.dumps(result)).frame) == repr(result.frame)
    assert "!" not in repr(result.frame.head(1))


def test_v5_one_warning_says_which_field_was_meant_where_no_whole_output_was_equal() -> None:
    def place(given: TaskInput) -> dict[str, str]:
        return {"city": given.inputs["city"], "land": "here"}

    task = Task.of("Place {city}", name="place", handler=place, output_type={"city": "str", "land": "str"})
    rows = [{"city": each, "expected": each} for each in ("Paris", "Rome", "Oslo")]
    result = Ensemble(tasks=[task]).map(rows, score=scorers.equals())
    assert result.warnings == (
        "The scorer equals() found none of 3 typed outputs equal as a whole: say which field is meant, field='city'.",
    )
    assert Ensemble(tasks=[task]).map(rows, score=scorers.equals(field="city")).warnings == ()
    some = [*rows, {"city": "Bern", "expected": '{"city": "Bern", "land": "here"}'}]
    assert Ensemble(tasks=[task]).map(some, score=scorers.equals()).warnings == ()


def test_v5_scores_that_an_older_version_called_equals_are_found_and_compared() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {city}", name="say", handler=lambda given: "Paris")])
    rows = [{"city": f"{each}", "expected": "Paris"} for each in range(40)]
    new = ensemble.map(rows, score=scorers.equals())
    bare = ensemble.map(rows)
    old = bare._with_scores(
        ScoreRecord(
            name="equals",
            kind=ScoreKind.CODE,
            scored_at=datetime(2026, 11, 1, tzinfo=UTC),
            **bare._describe_place(each),
            passed=True,
            value=1.0,
            scorer="equals()",
        )
        for each in bare
    )
    for name in ("equals", "is_equal"):
        assert new.compare(old, score=name).not_worse(by=0.1)
        assert old.passes(name, at_least=0.9)
    assert repr(new.compare(old)) == repr(new.compare(old, score="equals"))
    assert old.agreement("equals", "is_equal").rows == 40


def test_v3_a_scorer_that_raises_for_every_row_ends_the_call_with_all_rows_kept(server: OpenAIServer) -> None:
    with pytest.raises(ScoringError) as caught:
        make(server).map(ROWS, score=[lambda output: output.nothing, is_right], concurrency=1)
    result = caught.value.result
    assert result.frame.raw.tolist() == ["France", "Spain"]
    assert result.frame.is_right.tolist() == [True, False]
    assert pickle.loads(pickle.dumps(caught.value)).result.frame.is_right.tolist() == [True, False]


@pytest.mark.parametrize(
    "score, message",
    [
        (lambda output, expectd: 1, "'expectd'. Did you mean 'expected'?"),
        (scorers.equals("country"), "needs a column 'country'. The columns are city, expected."),
        (scorers.close_to("cty", 1), "needs a column 'cty'. Did you mean 'city'?"),
        (3, "score must be a function"),
        ([is_right, is_right], "Two scores are called 'is_right'"),
    ],
)
def test_v3_mistakes_are_said_before_anything_is_paid(server: OpenAIServer, score: Any, message: str) -> None:
    ensemble = make(server)
    for start in (lambda: ensemble.map(ROWS, score=score), lambda: ensemble.variants({"a": {}}, score=score).map(ROWS)):
        with pytest.raises(ValidationError) as caught:
            start()
        assert message in str(caught.value)
    assert server.requests == []


def test_v3_rows_without_what_they_should_come_to_are_refused(server: OpenAIServer) -> None:
    rows = [{"city": "Paris", "gold": "France"}]
    for score in (is_right, scorers.equals()):
        with pytest.raises(ValidationError, match="column"):
            make(server).map(rows, score=score)
    with pytest.raises(ValidationError, match="Did you mean 'gold'"):
        make(server).map(rows, score=is_right, expected="golden")
    assert server.requests == []
    result = make(server).map(rows, score=[is_right, scorers.equals()], expected="gold")
    assert (result.frame["is_right"].tolist(), result.frame["is_equal"].tolist()) == ([True], [True])


def test_v3_rows_that_failed_are_not_scored() -> None:
    def burn(given: Any) -> str:
        if given.inputs["city"] == "Rome":
            raise ValueError("burnt")
        return "France"

    result = Ensemble(tasks=[Task.of("Cook", name="cook", handler=burn)]).map(ROWS, score=is_right)
    assert result.frame.is_right.tolist() == [True, pd.NA]
    assert [each.run_id for each in result.score_records] == [result[0].run_id]


def make_travelling() -> tuple[Any, list[Any]]:
    """A handler and scorers that are of no module, so that they travel by value."""
    countries = dict(COUNTRIES)

    def is_told(output: Any, expected: Any) -> bool:
        return bool(output.raw == expected)

    def find_process(output: Any, inputs: Any) -> dict[str, float]:
        import os

        return {"process": os.getpid(), "length": len(inputs["city"])}

    def fail_once(output: Any) -> float:
        if output.raw == "Spain":
            raise ValueError(f"no number for {output.raw}")
        return 1.0

    return (lambda given: countries[given.inputs["city"]]), [is_told, find_process, fail_once, scorers.equals()]


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_v3_functions_score_where_rows_run(kind: str) -> None:
    handler, score = make_travelling()
    is_elsewhere = kind == "processes"
    with ProcessPoolExecutor(1, get_context("forkserver")) if is_elsewhere else ThreadPoolExecutor(1) as executor:
        result = Ensemble(tasks=[Task.of("Answer", handler=handler)]).map(ROWS, score=score, executor=executor)
    assert (os.getpid() in result.frame.process.tolist()) == (not is_elsewhere)
    assert result.frame[["is_told", "is_equal"]].to_numpy().tolist() == [[True, True], [False, False]]
    assert result.frame.length.tolist() == [5.0, 4.0]
    assert result.warnings[0].startswith("The scorer fail_once failed for 1 of 2 runs: ValueError: no number for Spain")
    assert {each.map_run_id for each in result.score_records} == {result.run_id}
    assert {each.row for each in result.score_records} == {"row 0", "row 1"}


def test_v3_a_function_that_can_not_travel_is_refused_before_the_first_row() -> None:
    lock = threading.Lock()
    ran: list[str] = []
    handler = Task.of("Answer", name="answer", handler=lambda given: ran.append("x") or "x")

    def hold(output: Any) -> bool:
        return lock.locked()

    with ProcessPoolExecutor(1, get_context("forkserver")) as executor, pytest.raises(ValidationError) as caught:
        Ensemble(tasks=[handler]).map(ROWS, score=hold, executor=executor)
    assert "The scorer hold can't go to another process: TypeError" in str(caught.value)
    assert ran == []


def test_v4_score_is_one_a_list_or_a_dict_by_name(server: OpenAIServer) -> None:
    variants = make(server).variants({"plain": {}}, score={"right": is_right, "has_s": scorers.contains("S")})
    both = variants.map(ROWS)
    assert (both.frame.right.tolist(), both.frame.has_s.tolist()) == ([True, False], [False, True])
    server.script("Spain")
    one = variants.run({"city": "Rome", "expected": "Spain"}, score=is_right)
    assert (one.frame.is_right.tolist(), "right" in one.frame) == ([True], False)


def test_v4_a_scorer_of_one_run_is_not_left_unheard(server: OpenAIServer) -> None:
    with pytest.raises(ValidationError, match="score goes with repeat=N here"):
        make(server).run({"city": "Paris"}, score=is_right)
    assert server.requests == []
    twice = make(server).run({"city": "Paris", "expected": "France"}, repeat=2, score=is_right)
    assert twice.frame.is_right.tolist() == [True, False]


def test_v4_rows_that_are_taken_over_are_scored_anew_without_a_request(server: OpenAIServer) -> None:
    first = make(server).map(ROWS, score={"right": is_right, "old": lambda output: 1}, concurrency=1)
    asked = len(server.requests)
    again = make(server).map(ROWS, score={"right": lambda output: output.raw == "Spain"}, resume=first)
    assert len(server.requests) == asked
    assert again.frame.right.tolist() == [False, True]
    assert again.frame.old.tolist() == [1.0, 1.0]
    assert first.frame.right.tolist() == [True, False]
    server.script("Portugal")
    more = make(server).map([*ROWS, {"city": "Porto", "expected": "Portugal"}], score=is_right, resume=first)
    assert len(server.requests) == asked + 1
    assert more.frame.old.tolist() == [1.0, 1.0, pd.NA]
    assert {each.map_run_id for each in more.score_records} == {more.run_id}


def test_v3_a_stop_leaves_the_scores_that_were_given_by_then(server: OpenAIServer) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say", name="say", handler=lambda given: "x")])

    def stop(output: Any, inputs: Any) -> float:
        if inputs["city"] == "Rome":
            raise KeyboardInterrupt
        return 1.0

    result = ensemble.map(ROWS, score=stop, concurrency=1)
    assert result.frame.stop.tolist() == [1.0, pd.NA]
    assert "KeyboardInterrupt" in result.warnings[0]
