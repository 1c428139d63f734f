"""What a scorer may be (V3): its parameters, its name, what it gives, and what is said of one that can't be."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ensemble_notebook import Ensemble, Score, Task, TaskOutput, ValidationError, scorers
from ensemble_notebook.evaluation.scorer import (
    Subject,
    find_expected_column,
    find_lacking_columns,
    read_scorers,
)

OUTPUT = TaskOutput(
    name="a",
    raw="Tides",
    task_description="",
    agent_role="Cook",
    completed_at=datetime(2026, 1, 1, tzinfo=UTC),
    duration=timedelta(seconds=1),
)
SUBJECT = Subject(output=OUTPUT, inputs={"topic": "sea"}, expected="Tides", run="the run")


def give(function: Any) -> Any:
    (scorer,) = read_scorers(function)
    return scorer.bind(SUBJECT)()


def value_of(given: Any) -> Any:
    (scorer,) = read_scorers(lambda output: given)
    ((name, score),) = scorer.read(given).items()
    assert name == "score"
    return score.value


def with_all(run: Any, expected: Any, *, inputs: Any, output: Any) -> Any:
    return [run, expected, inputs, output]


def positional(inputs: Any, output: Any, /) -> Any:
    return [inputs, output]


def with_more(output: Any, limit: int) -> Any:
    return [output, limit]


def with_anything(**given: Any) -> Any:
    return list(given)


class Rated:
    def __call__(self, output: Any) -> Any:
        return output


def test_a_scorer_gets_what_its_parameters_name_in_any_order() -> None:
    assert give(with_all) == ["the run", "Tides", {"topic": "sea"}, OUTPUT]
    assert give(positional) == [{"topic": "sea"}, OUTPUT]
    assert give(with_anything) == ["output", "inputs", "expected", "run"]
    assert give(lambda output: output) is OUTPUT
    assert give(functools.partial(with_more, limit=3)) == [OUTPUT, 3]


def test_a_single_parameter_of_another_name_gets_the_run_e73() -> None:
    assert give(lambda result: result) == "the run"
    assert give(len) == len("the run")


def test_a_score_is_called_as_its_function_is() -> None:
    def polite(output: Any) -> bool:
        return True

    assert [each.name for each in read_scorers([polite, lambda output: 1, Rated(), scorers.contains("a")])] == [
        *("polite", "score", "Rated", "contains")
    ]
    assert [each.name for each in read_scorers({"a": polite, "b": scorers.contains("a")})] == ["a", "b"]
    assert [each.name for each in read_scorers(functools.partial(with_more, limit=3))] == ["with_more"]


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda output, expectd: 1, "'expectd'. Did you mean 'expected'?"),
        (lambda output, limit=3: 1, "a parameter that is not known: 'limit'. A scorer takes any of output, inputs"),
        (lambda: 1, "takes no parameter"),
        (lambda *, word: 1, "a parameter that is not known: 'word'"),
        (3, "score must be a function, got 3"),
        ("equals()", "Did you mean scorers.equals()?"),
        ("right", "Pass the function itself, not its name."),
        (str, "score must be a function, got the class str"),
        pytest.param([], "score is empty", id="empty list"),
        pytest.param({}, "score is empty", id="empty dict"),
        ({3: len}, "The name of a score must be text, got 3"),
        ([lambda output: 1, lambda output: 2], "Two scores are called 'score'"),
        ([scorers.contains("a"), scorers.contains("b")], "contains('a') and contains('b')"),
    ],
)
def test_what_can_be_no_scorer_is_refused_with_the_nearest(function: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read_scorers(function)
    assert message in str(caught.value)


def test_all_that_is_wrong_with_scorers_is_said_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        read_scorers([lambda outputs, x: 1, 3])
    assert "'outputs'" in str(caught.value)
    assert "got 3" in str(caught.value)


@pytest.mark.parametrize(
    "given, value",
    [
        (True, True),
        (np.bool_(False), False),
        (3, 3),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (Decimal("0.5"), 0.5),
        ("praise", "praise"),
        *((each, None) for each in (None, float("nan"), pd.NA, pd.NaT)),
        pytest.param(np.float64("nan"), None, id="numpy's"),
    ],
)
def test_a_bool_passes_a_number_scores_a_text_labels_and_what_is_missing_is_no_opinion(given: Any, value: Any) -> None:
    assert value_of(given) == value
    assert type(value_of(given)) is type(value)
    assert value_of(Score(given)) == value


def test_a_dict_is_several_scores_by_name() -> None:
    (scorer,) = read_scorers(lambda output: 1)
    read = scorer.read({"length": 3, "good": Score(value=True, reason="it is")})
    assert {name: (score.value, score.reason) for name, score in read.items()} == {
        "length": (3, None),
        "good": (True, "it is"),
    }


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "it gave an empty dict"),
        ([1], "it gave a list"),
        (b"a", "it gave a bytes"),
        ({"a": {"b": 1}}, "it gave a dict"),
        ({3: 1}, "the key 3"),
        (float("inf"), "infinite"),
        (object(), "it gave a object"),
    ],
)
def test_what_is_no_score_is_said(given: Any, message: str) -> None:
    (scorer,) = read_scorers(lambda output: 1)
    with pytest.raises(ValidationError) as caught:
        scorer.read(given)
    assert message in str(caught.value)


@pytest.mark.parametrize("fields", [{"reason": 3}, {"higher_is_better": 1}, {"value": [1]}])
def test_a_score_of_wrong_parts_is_refused(fields: Any) -> None:
    with pytest.raises(ValidationError):
        Score(**{"value": 1, **fields})


def test_what_a_row_should_come_to_is_found_by_its_usual_names() -> None:
    assert find_expected_column(["topic", "target"], None) == "target"
    assert find_expected_column(["expected_output", "expected"], None) == "expected"
    assert find_expected_column(["topic"], None) is None
    assert find_expected_column(["topic"], "topic") == "topic"
    with pytest.raises(ValidationError, match=r"no column is called so. Did you mean 'topic'\?"):
        find_expected_column(["topic"], "topics")


def test_a_scorer_that_needs_a_column_says_so() -> None:
    needing = read_scorers([scorers.equals(), scorers.close_to("price", 1), lambda output, expected: 1])
    told = [each.message for each in find_lacking_columns(needing, ["topic", "prices"], None)]
    assert "The scorer equals() needs a column 'expected'. The columns are topic, prices." in told
    assert "The scorer close_to('price', 1) needs a column 'price'. Did you mean 'prices'?" in told[1]
    assert "no column is called expected, target or expected_output" in told[2]
    assert list(find_lacking_columns(needing, ["price", "gold"], "gold")) == []
    assert list(find_lacking_columns(read_scorers(lambda output, expected=None: 1), [], None)) == []


def test_an_ensemble_is_a_judge() -> None:
    judge = Ensemble(tasks=[Task.of("Judge {output}", output_type={"good": "bool"})], name="kind")
    assert [(each.name, each.judge) for each in read_scorers([judge])] == [("kind", judge)]
    assert [(each.name, each.judge) for each in read_scorers({"x": scorers.judged_by(judge)})] == [("x", judge)]
    assert read_scorers(judge.replace(name=None))[0].name == "judge"
