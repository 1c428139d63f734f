"""V7: judges, asked at a real server inside the map that they score."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

from ensemble_notebook import CostConfiguration, Ensemble, RunStatus, ScoringError, Task, ValidationError, scorers
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store

ROWS = [{"city": "Paris", "expected": "France"}, {"city": "Rome", "expected": "Italy"}]
RATES = CostConfiguration(input_rate=Decimal("0.01"), output_rate=Decimal("0.01"))


class Courts:
    """A server that knows the countries of two cities, and judges what was said of them."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server = server
        self.verdict: dict[str, Any] = {"passed": True, "reason": "as it is"}
        server.choose = lambda request: self.answer(request.prompt)

    @property
    def llm(self) -> str:
        return f"openai:test-model@{self.server.url}"

    def answer(self, prompt: str) -> Answer:
        if "Judge" in prompt:
            return Answer(json.dumps(self.verdict), usage=(100, 10))
        return Answer("France" if "Paris" in prompt else "Spain", usage=(10, 1))


@pytest.fixture
def courts() -> Iterator[Courts]:
    with OpenAIServer() as server:
        yield Courts(server)


def make(courts: Courts, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("In which country is {city}?", name="ask")], llm=courts.llm, **fields)


def make_judge(courts: Courts, text: str = "Judge {output}, which should be {expected}", **fields: Any) -> Ensemble:
    kind = fields.pop("output_type", {"passed": "bool", "reason": "str"})
    task = Task.of(text, name="judge", output_type=kind)
    return Ensemble(tasks=[task], llm=courts.llm, name=fields.pop("name", "right"), **fields)


def test_v9_the_model_of_a_judge_is_the_one_that_was_asked_where_it_does_not_name_itself() -> None:
    task = Task.of("Judge {output}", name="judge", output_type={"passed": "bool"})
    judge = Ensemble(tasks=[task], llm=GenericFakeChatModel(messages=iter(['{"passed": true}'])), name="right")
    result = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted").map([{"word": "tea"}], score=judge)
    assert result.frames is not None
    calls = result.frames.llm_calls
    (asked,) = calls[calls.task == "judge"].model
    assert result.frames.scores.model.tolist() == [asked]
    assert isinstance(asked, str)


FRESH = """
import sys
from ensemble_notebook import Ensemble, Task
task = Task.of("Judge {output}", name="judge", output_type={"passed": "bool", "reason": "str"})
judge = Ensemble(tasks=[task], llm=sys.argv[1], name="right")
ensemble = Ensemble(tasks=[Task.of("In which country is {city}?")], llm="scripted")
result = ensemble.map([{"city": str(number)} for number in range(6)], score=judge)
frames = result.frames
print((frames.spans.wait_kind == "startup").sum(), file=sys.stderr)
calls = frames.llm_calls.query("is_scripted").duration_ms.tolist()
for row, call, a, b in zip(result, calls, result.frame.duration_ms, frames.rows.duration_ms):
    took_ms = row.output.events[-1].duration.total_seconds() * 1000
    print(a == b, abs(a - took_ms) < 0.001, a >= call, took_ms <= frames.spans.duration_ms[row.run_id], file=sys.stderr)
"""


def test_e50_a_row_takes_as_long_as_its_own_run_whatever_its_judge_waits_for(courts: Courts) -> None:
    """The models of rows and judge are made ready while rows are open, which is on the clock of none."""
    done = subprocess.run([sys.executable, "-c", FRESH, courts.llm], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines() == ["2", *["True True True True"] * 6]


def test_v7_a_judge_is_asked_inside_the_map_and_its_cost_stands_apart(courts: Courts) -> None:
    judge = make_judge(courts, cost=RATES)
    result = make(courts, cost=RATES).map(ROWS, score=judge, concurrency=1)
    frame = result.frame
    assert frame.right.tolist() == [True, True]
    assert frame.cost.tolist() == pytest.approx([0.11, 0.11])
    assert frame.score_cost.tolist() == pytest.approx([1.1, 1.1])
    assert frame.input_tokens.tolist() == [10, 10]
    assert result.metrics.cost == Decimal("2.42")
    assert result.metrics.llm_call_count == 4
    prompts = [each.prompt for each in courts.server.requests if "Judge" in each.prompt]
    assert ["Judge <output>Spain</output>, which should be Italy" in each for each in prompts] == [False, True]
    assert result.frames is not None
    scores, spans = result.frames.scores, result.frames.spans
    assert scores.kind.tolist() == ["judge", "judge"]
    assert scores.reason.tolist() == ["as it is", "as it is"]
    assert scores.model.tolist() == ["test-model", "test-model"]
    assert scores.cost.tolist() == pytest.approx([1.1, 1.1])
    assert spans.query("kind == 'score'").name.tolist() == ["right", "right"]
    assert result.trace is not None
    assert find_violations(result.trace) == []


@pytest.mark.parametrize(
    "kind, said, scores",
    [
        ({"passed": "bool", "why": "str"}, {"passed": False, "why": "x"}, {"right": False}),
        ({"points": "int"}, {"points": 3}, {"right": 3.0}),
        ({"tone": "warm | cold"}, {"tone": "warm"}, {"right": "warm"}),
        (
            {"good": "bool", "points": "float?"},
            {"good": True, "points": None},
            {"right.good": True, "right.points": pd.NA},
        ),
        (
            {"points": "int", "tone": "str", "reason": "str"},
            {"points": 3, "tone": "warm", "reason": "x"},
            {"right": 3.0, "right.tone": "warm"},
        ),
    ],
)
def test_v7_fields_become_scores_by_their_types(courts: Courts, kind: Any, said: Any, scores: Any) -> None:
    courts.verdict = said
    result = make(courts).map(ROWS[:1], score=make_judge(courts, output_type=kind))
    frame = result.frame
    for name, value in scores.items():
        assert frame[name][0] is value or frame[name][0] == value
    assert {each.name for each in result.score_records} == set(scores)


@pytest.mark.parametrize(
    "text, kind, message",
    [
        ("Judge {output}", None, "The judge right has no typed output: give its last task an output_type"),
        ("Judge {output}", {"reason": "str"}, "The judge right puts out no score: it has reason."),
        ("Judge {output}", {"names": ["str"]}, "The judge right puts out no score: it has names."),
        ("Judge {answer}", {"good": "bool"}, "The judge right asks for {answer}, which is no column of the rows."),
        ("Judge {outputs}", {"good": "bool"}, "Did you mean 'output'?"),
    ],
)
def test_v7_a_judge_that_can_not_judge_is_refused_before_anything_is_paid(
    courts: Courts, text: str, kind: Any, message: str
) -> None:
    judge = make_judge(courts, text, output_type=kind)
    for score in (judge, {"kind": scorers.judged_by(judge)}):
        with pytest.raises(ValidationError) as caught:
            make(courts).map(ROWS, score=score)
        assert message in str(caught.value)
    assert courts.server.requests == []


def test_v7_a_judge_that_fails_leaves_na_and_one_warning(courts: Courts) -> None:
    judge = make_judge(courts, "Judge {output} of {city}", name="kind")
    courts.verdict = {"nothing": 1}
    with pytest.raises(ScoringError) as caught:
        make(courts).map(ROWS, score=[judge, scorers.contains("France")])
    result = caught.value.result
    assert result.frame.status.tolist() == ["completed", "completed"]
    assert result.frame.kind.isna().all()
    assert result.frame.contains.tolist() == [True, False]
    (warning,) = result.warnings
    assert warning.startswith(
        "The scorer kind failed for 2 of 2 runs: Task 'judge' (Reviewer) failed: None of 4 replies"
    )


def test_v7_a_budget_that_is_used_up_is_no_bad_score(courts: Courts) -> None:
    judge = make_judge(courts)
    result = make(courts, budget="3 calls").map(ROWS, score=[judge, scorers.equals()], concurrency=1)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert result.frame.status.tolist() == ["completed", "completed"]
    assert result.frame.right.tolist() == [True, pd.NA]
    assert result.frame["is_equal"].tolist() == [True, False]
    assert result.frame.score_error[1].startswith("The budget's requests are used up: 3 of 3.")
    assert len(courts.server.requests) == 3


def test_v7_a_map_that_goes_on_asks_only_for_what_was_not_judged(courts: Courts) -> None:
    judge = make_judge(courts)
    first = make(courts, budget="3 calls").map(ROWS, score=judge, concurrency=1)
    courts.server.requests.clear()
    again = make(courts).map(ROWS, score=judge, resume=first)
    assert again.frame.right.tolist() == [True, True]
    assert len(courts.server.requests) == 1
    courts.server.requests.clear()
    same = make(courts).map(ROWS, score=judge, resume=again)
    assert (same.frame.right.tolist(), courts.server.requests) == ([True, True], [])
    changed = make(courts).map(ROWS, score=make_judge(courts, "Judge {output} well"), resume=again)
    assert (changed.frame.right.tolist(), len(courts.server.requests)) == ([True, True], 2)
    courts.server.requests.clear()
    rows = [{**ROWS[1], "expected": "another"}, ROWS[0]]
    told = make(courts).map(rows, score=judge, resume=again)
    assert [each.run_id for each in told] == [again[1].run_id, again[0].run_id]
    (asked,) = courts.server.requests  # a row that should come to something else is judged anew, and not run
    assert "should be another" in asked.prompt


def test_c34_what_a_judge_took_that_is_not_asked_again_is_saved(courts: Courts, store_path: Path) -> None:
    first = make(courts).map(ROWS, score=make_judge(courts))
    again = make(courts).map(ROWS, score=make_judge(courts), reuse=True)
    (row,) = again.frames.runs.query("kind == 'map'").to_dict("records")
    assert again.metrics.total_tokens == 0
    assert row["saved_tokens"] == first.metrics.total_tokens
    assert row["tasks_reused"] == len(ROWS)


def test_v7_judges_are_asked_here_where_rows_run_elsewhere(courts: Courts) -> None:
    with ThreadPoolExecutor(1) as executor:
        result = make(courts).map(ROWS, score=[make_judge(courts), scorers.equals()], executor=executor)
    assert result.frame.right.tolist() == [True, True]
    assert result.frame["is_equal"].tolist() == [True, False]


def test_v12_labels_of_a_stored_map_of_the_same_name_check_the_same_judge(courts: Courts, store_path: Path) -> None:
    def judge(words: str = "Judge {output}") -> Ensemble:
        task = Task.of(words, name="judge", output_type={"passed": "bool", "reason": "str"})
        return Ensemble(tasks=[task], llm=courts.llm, name="fair")

    def compare(name: str, judged_by: Ensemble, first: int) -> str:
        rows = [{"city": f"Paris {number}"} for number in range(first, first + 12)]
        ensemble = Ensemble(tasks=[Task.of("Where is {city}? {style}")], llm=courts.llm, name=name)
        variants = ensemble.variants({"a": {"style": "short"}, "b": {"style": "long"}}, score=judged_by)
        return repr(variants.map(rows).compare("a", "b"))

    ensemble = Ensemble(tasks=[Task.of("Where is {city}?")], llm=courts.llm, name="asking")
    earlier = ensemble.map([{"city": f"Paris {number}"} for number in range(24)], score=judge())
    for row in earlier:
        earlier = earlier.annotate(row, row.index % 8 != 0)
    wait_for_store()
    assert "by a judge that nobody has checked" in compare("something else", judge(), 24)
    assert "by a judge that nobody has checked" in compare("asking", judge("Judge well: {output}"), 36)
    assert "the judge agreed with a person on 21 of 24 rows" in compare("asking", judge(), 48)
    assert compare("asking", judge(), 60).count("earlier maps included") == 1
