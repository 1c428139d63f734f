"""V6, V8: scores that come after the end, by scorers, judges and people, without a second payment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleError,
    RunStatus,
    ScoringError,
    Task,
    ValidationError,
    load_traces,
    scorers,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store

ROWS = [{"city": "Paris", "expected": "France"}, {"city": "Rome", "expected": "Italy"}]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    def choose(request: Any) -> Answer:
        if "Judge" in request.prompt:
            return Answer(json.dumps({"passed": "France" in request.prompt, "why": "so it is"}), usage=(100, 10))
        return Answer("France" if "Paris" in request.prompt else "Spain")

    with OpenAIServer() as running:
        running.choose = choose
        yield running


def make(server: OpenAIServer, **fields: Any) -> Ensemble:
    task = Task.of("In which country is {city}?", name="ask")
    return Ensemble(tasks=[task], llm=f"openai:test-model@{server.url}", name="asked", **fields)


def make_judge(server: OpenAIServer, text: str = "Judge {output}") -> Ensemble:
    task = Task.of(text, name="judge", output_type={"passed": "bool", "why": "str"})
    return Ensemble(tasks=[task], llm=f"openai:test-model@{server.url}", name="fair")


def is_right(output: Any, expected: Any) -> bool:
    return bool(output.raw == expected)


def test_v6_a_map_is_scored_after_its_end_and_stays_as_it_was(server: OpenAIServer, store_path: Path) -> None:
    result = make(server).variants({"plain": {}, "same": {}}).map(ROWS)
    events, asked = result.frames.events, len(server.requests)  # type: ignore[union-attr]
    scored = result.score([is_right, scorers.contains("a")])
    assert scored.frame.is_right.tolist() == [True, False, True, False]
    assert scored.frame.contains.tolist() == [True, True, True, True]
    assert "is_right" not in result.frame
    named = scored.score(is_right, name="right")
    assert named.frame.right.tolist() == named.frame.is_right.tolist()
    assert len(server.requests) == asked
    pd.testing.assert_frame_equal(scored.frames.events, events)  # type: ignore[union-attr]
    wait_for_store()
    assert result.run_id is not None
    loaded = load_traces().load_map(result.run_id)
    assert loaded.frame.is_right.tolist() == [True, False, True, False]
    again = loaded.score(scorers.equals(), name="equal")
    assert again.frame.equal.tolist() == [True, False, True, False]
    assert load_traces().load_map(result.run_id).frame.equal.tolist() == [True, False, True, False]
    assert len(server.requests) == asked


def test_v6_scores_of_the_same_name_are_replaced_only_where_that_is_said(server: OpenAIServer) -> None:
    result = make(server).map(ROWS, score=is_right)
    with pytest.raises(ValidationError, match=r"scores called 'is_right' already. replace=True puts these"):
        result.score(is_right)
    with pytest.raises(ValidationError, match=r"scores called 'is_right' already"):
        result.score(lambda output: {"is_right": 3})
    changed = result.score(lambda output: output.raw == "Spain", name="is_right", replace=True)
    assert (changed.frame.is_right.tolist(), result.frame.is_right.tolist()) == ([False, True], [True, False])
    with pytest.raises(ValidationError, match="name= is that of one scorer"):
        result.score([is_right], name="other")


def test_v6_a_scorer_that_fails_for_all_raises_with_the_scored_result(server: OpenAIServer) -> None:
    result = make(server).map(ROWS)
    with pytest.raises(ScoringError, match="The scorer score failed for each of 2 runs: AttributeError") as caught:
        result.score(lambda output: output.nothing)
    assert caught.value.result.frame.score.isna().all()
    assert caught.value.result.score(is_right).frame.is_right.tolist() == [True, False]


@pytest.mark.parametrize(
    "score, message",
    [
        (lambda output, expectd: 1, "'expectd'. Did you mean 'expected'?"),
        (scorers.equals("country"), "needs a column 'country'"),
        (None, "score() takes a scorer"),
        ([], "score is empty"),
    ],
)
def test_v6_mistakes_are_said_at_once(server: OpenAIServer, score: Any, message: str) -> None:
    result = make(server).map(ROWS)
    with pytest.raises(ValidationError) as caught:
        result.score(score)
    assert message in str(caught.value)


def test_v6_a_single_run_is_scored(server: OpenAIServer, store_path: Path) -> None:
    output = make(server).run(city="Paris")
    scored = output.score([scorers.contains("France"), lambda run: run.metrics.llm_call_count])
    assert [(each.name, each.value) for each in scored.score_records] == [("contains", 1.0), ("score", 1.0)]
    assert output.score_records == ()
    assert scored.frames.scores.name.tolist() == ["contains", "score"]
    wait_for_store()
    assert load_traces().scores.run_id.tolist() == [output.run_id] * 2


def test_v6_loaded_runs_are_scored_those_of_their_own_and_the_rows_of_maps(
    server: OpenAIServer, store_path: Path
) -> None:
    alone = make(server).run(city="Paris")
    result = make(server).map(ROWS)
    with pytest.raises(EnsembleError):
        Ensemble(tasks=[Task.of("Fail", handler=lambda _: 1 / 0)]).run()
    wait_for_store()
    asked = len(server.requests)
    loaded = load_traces()
    scored = loaded.score(scorers.contains("France"))
    wanted = {alone.run_id: True, result[0].run_id: True, result[1].run_id: False}
    assert dict(zip(scored.scores.run_id, scored.scores.passed, strict=True)) == wanted
    assert len(loaded.scores) == 0
    assert scored.rows.score_contains.tolist() == [True, False]
    assert dict(zip(load_traces().scores.run_id, load_traces().scores.passed, strict=True)) == wanted
    assert len(server.requests) == asked
    with pytest.raises(ValidationError, match="There are scores called 'contains' already"):
        scored.score(scorers.contains("Spain"))
    again = scored.score(scorers.contains("Spain"), replace=True)
    assert dict(zip(again.scores.run_id, again.scores.passed, strict=True)) == {k: not v for k, v in wanted.items()}
    judged = again.score(make_judge(server)).scores.query("name == 'fair'")
    assert dict(zip(judged.run_id, judged.passed, strict=True)) == wanted
    wait_for_store()
    assert len(load_traces().score(is_told).scores.query("name == 'is_told'")) == 3  # what judged is not judged
    with pytest.raises(ValidationError, match="No run has come to its end"):
        load_traces(status="failed").score(is_told)


def is_told(output: Any) -> bool:
    return bool(output.raw)


def test_t24_runs_are_loaded_by_name_time_and_status(server: OpenAIServer, store_path: Path, tmp_path: Path) -> None:
    output = make(server).run(city="Paris")
    broken = make(server).replace(name="broken", tasks=[Task.of("Fail", handler=lambda _: 1 / 0)])
    with pytest.raises(EnsembleError):
        broken.run()
    wait_for_store()
    for wanted, names in (
        ({"name": "asked"}, ["asked"]),
        ({"name": ["asked", "broken"]}, ["asked", "broken"]),
        ({"status": "failed"}, ["broken"]),
        ({"status": RunStatus.COMPLETED}, ["asked"]),
        ({"status": ["failed", "completed"]}, ["asked", "broken"]),
        ({"name": "asked", "status": "failed"}, []),
        ({"since": timedelta(days=1)}, ["asked", "broken"]),
        ({"since": "2020-01-01"}, ["asked", "broken"]),
        ({"since": date(2020, 1, 1)}, ["asked", "broken"]),
        ({"since": datetime.now(UTC) + timedelta(days=1)}, []),
        ({"since": "2999-01-01T12:00+02:00"}, []),
    ):
        found = load_traces(**wanted)  # type: ignore[arg-type]
        assert found.runs.name.tolist() == names, wanted
    for wanted, said in (
        ({"name": "aksed"}, "No run is called 'aksed'. Did you mean 'asked'"),
        ({"status": "fail"}, "status can't be 'fail'. Did you mean 'failed'"),
        ({"since": "soon"}, "since must be a time, a date, a timedelta or ISO text"),
    ):
        with pytest.raises(ValidationError, match=said):
            load_traces(**wanted)  # type: ignore[arg-type]
    filed = [output.trace.save(tmp_path / "a.trace.json"), output.trace.save(tmp_path / "b.trace.json")]
    assert len(load_traces(filed, name="asked").runs) == 1


def test_v6_a_judge_that_comes_later_is_a_run_of_its_own(server: OpenAIServer, store_path: Path) -> None:
    result = make(server).map(ROWS)
    asked = len(server.requests)
    judged = result.score(make_judge(server))
    assert judged.frame.fair.tolist() == [True, False]
    assert len(server.requests) == asked + 2
    assert judged.metrics == result.metrics
    (judge_run_id,) = {each.judge_run_id for each in judged.score_records}
    assert judge_run_id not in (None, result.run_id)
    wait_for_store()
    runs = load_traces()
    assert runs.spans.query("kind == 'run' and run_id == @judge_run_id").name.tolist() == [f"fair of {result.run_id}"]
    assert set(runs.spans.query("kind == 'score'").run_id) == {judge_run_id}
    assert find_violations(runs._load_trace(str(judge_run_id))) == []
    single = make(server).run(city="Paris").score(make_judge(server), name="kind")
    assert [(each.name, each.passed, each.reason) for each in single.score_records] == [("kind", True, "so it is")]


def test_v6_a_judge_that_can_not_judge_is_refused_before_it_is_asked(server: OpenAIServer) -> None:
    result = make(server).map(ROWS)
    asked = len(server.requests)
    with pytest.raises(ValidationError, match="The judge fair asks for"):
        result.score(make_judge(server, "Judge {answer}"))
    assert len(server.requests) == asked


def test_v6_where_no_text_is_kept_a_judge_keeps_none_either(server: OpenAIServer, store_path: Path) -> None:
    result = make(server, capture_mode="metadata").map(ROWS)
    judged = result.score(make_judge(server))
    assert judged.frame.fair.tolist() == [True, False]
    wait_for_store()
    told = b"".join(each.read_bytes() for each in store_path.parent.glob(f"{store_path.name}*"))
    assert not any(word in told for word in (b"so it is", b"France", b"Judge "))


def test_v6_some_rows_are_judged_and_the_others_are_not_asked_about(server: OpenAIServer) -> None:
    result = make(server).map(ROWS)
    asked = len(server.requests)
    judged = result.score(make_judge(server), rows=["row 1"])
    assert (judged.frame.fair.tolist(), len(server.requests) - asked) == ([pd.NA, False], 1)
    both = judged.score(make_judge(server), rows=result.rows[:1])  # the name is taken by the other row alone
    assert (both.frame.fair.tolist(), len(server.requests) - asked) == ([True, False], 2)
    with pytest.raises(ValidationError, match="There are scores called 'fair' already"):
        both.score(make_judge(server), rows=0)
    with pytest.raises(ValidationError, match="There is no row 7: there are 2 rows"):
        both.score(make_judge(server), rows=[0, 7])


def test_v8_a_person_labels_several_rows_at_once(server: OpenAIServer) -> None:
    result = make(server).map(ROWS)
    labelled = result.annotate([1, "row 0", 1], "dull", reason="both are")
    assert labelled.frame.label.tolist() == ["dull", "dull"]
    assert len(labelled.score_records) == 2
    with pytest.raises(ValidationError, match="There is a score called 'label' of this already"):
        labelled.annotate([0, 1], "good")
    assert labelled.annotate([1], "good", replace=True).frame.label.tolist() == ["dull", "good"]


def test_v8_people_score_runs_and_rows(server: OpenAIServer, store_path: Path) -> None:
    result = make(server).variants({"plain": {}, "same": {}}).map(ROWS)
    labelled = result.annotate(0, True, variant="plain", reason="it is there")
    labelled = labelled.annotate("row 1", "wrong", variant="same", name="tone")
    labelled = labelled.annotate("same/row 0", 0.5, name="points").annotate(result[3], False)
    assert labelled.frame.label.tolist() == [True, pd.NA, pd.NA, False]
    assert labelled.frame.tone.tolist() == [pd.NA, pd.NA, pd.NA, "wrong"]
    assert labelled.frame.points.tolist() == [pd.NA, pd.NA, 0.5, pd.NA]
    assert result.score_records == ()
    first = labelled.score_records[0]
    assert (first.kind, first.reason, first.author is not None, first.scorer) == ("human", "it is there", True, None)
    wait_for_store()
    assert sorted(load_traces().scores.name.astype(str)) == ["label", "label", "points", "tone"]
    output = make(server).run(city="Paris")
    span = output.frames.spans.query("kind == 'llm'").index[0]
    told = output.annotate("clear", span=span).annotate(True, name="good")
    assert [(each.span_id, each.label, each.passed) for each in told.score_records] == [
        (span, "clear", None),
        (None, None, True),
    ]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda result: result.annotate(None, True), "row must be a place, a name or a row of this result, got None"),
        (lambda result: result.annotate(True, True), "row must be a place, a name or a row of this result, got True"),
        (lambda result: result.annotate(0, True), "Row 0 has 2 runs: say which variant='plain' or 'same'."),
        (lambda result: result.annotate(2, True), "There is no row 2: there are 2 rows."),
        (lambda result: result.annotate("row1", True), "Did you mean 'row 1'?"),
        (lambda result: result.annotate(0, True, variant="plan"), "Did you mean 'plain'?"),
        (lambda result: result.annotate(0, None, variant="plain"), "annotate takes True or False"),
        (lambda result: result.annotate(0, [1], variant="plain"), "it gave a list"),
        (lambda result: result.annotate(0, True, variant="plain", name=" "), "The name of a score must be text"),
        (lambda result: result.annotate(0, True, variant="plain", span="x"), "The run has no span 'x'."),
        (lambda result: result.annotate(0, True, variant="plain", repeat=2), "Row 0 has no repeat 2."),
        (
            lambda result: result.annotate(0, True, variant="plain").annotate(0, False, variant="plain"),
            "There is a score called 'label' of this already.",
        ),
    ],
    ids=range(12),
)
def test_v8_what_is_meant_has_to_be_clear(server: OpenAIServer, call: Any, message: str) -> None:
    result = make(server).variants({"plain": {}, "same": {}}).map(ROWS)
    with pytest.raises(ValidationError) as caught:
        call(result)
    assert message in str(caught.value)


def test_v8_two_who_annotate_at_once_both_keep_theirs(server: OpenAIServer, store_path: Path) -> None:
    result = make(server).map(ROWS)
    wait_for_store()
    threads = [threading.Thread(target=result.annotate, args=(0, each)) for each in ("good", "bad")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(load_traces().scores.label) == {"good", "bad"}


def test_v8_a_time_of_a_run_is_marked_and_is_no_score_of_the_whole(server: OpenAIServer, store_path: Path) -> None:
    output = make(server).run(city="Paris")
    end_ms = output.total_duration.total_seconds() * 1000
    marked = output.annotate("slow", name="pace", range=(0, end_ms / 2)).annotate(
        "quick", name="pace", range=(1, end_ms)
    )
    assert [(each.label, each.from_ms, each.to_ms) for each in marked.score_records] == [
        ("slow", 0, end_ms / 2),
        ("quick", 1, end_ms),
    ]
    assert marked.trace._fold.score_names == [], "no span has it"
    wait_for_store()
    assert load_traces().scores.from_ms.tolist() == [0, 1]
    again = marked.annotate("brisk", name="pace", range=(1, end_ms), replace=True)
    assert [each.label for each in again.score_records] == ["slow", "brisk"]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"range": (5, 5)}, "range= must be a time of the run, from 0 to"),
        ({"range": (1e9, 2e9)}, "range= must be a time of the run, from 0 to"),
        ({"range": 3}, "range= takes (from_ms, to_ms), as timeline.range gives it; got 3."),
        ({"range": (0, 1), "span": "SPAN"}, "leave out span= or range=."),
    ],
)
def test_v8_what_is_no_time_of_a_run_is_refused(server: OpenAIServer, given: dict[str, Any], message: str) -> None:
    output = make(server).run(city="Paris")
    if "span" in given:
        given = {**given, "span": output.frames.spans.index[0]}
    with pytest.raises(ValidationError) as caught:
        output.annotate(True, **given)
    assert message in str(caught.value)
