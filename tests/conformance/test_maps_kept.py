"""V10: a stored map keeps its design, and is a result again: the same table, and the outputs of its rows."""

from __future__ import annotations

import asyncio
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from ensemble_notebook import (
    Agent,
    Budget,
    DeadlineExceededError,
    Ensemble,
    ExecutionTrace,
    MapResult,
    Phase,
    PhaseReview,
    Task,
    TaskInput,
    ValidationError,
    load_traces,
)
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.errors import EnsembleError
from ensemble_notebook.evaluation.scorer import keep_scores
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.conformance.scene import scripted
from tests.support.store import wait_for_store

WORDS = ["tea", "rye", "bad", "oat"]


@dataclass
class Verdict:
    size: int
    status: str


def say(given: TaskInput) -> str:
    if given.inputs["word"] == "bad":
        raise ValueError("no such word")
    return given.description


def judge(given: TaskInput) -> Verdict:
    if given.inputs["word"] == "bad":
        raise ValueError("no such word")
    return Verdict(len(given.inputs["word"]), "ok")


def make_plain(**fields: Any) -> Ensemble:
    draft = Task.of("Say {word}", name="draft", handler=say)
    aside = Task.of("Say {word} twice", name="aside", handler=say)
    end = Task.of("End", name="end", context=[draft, aside], handler=lambda given: given.context[0].raw.upper())
    return Ensemble(tasks=[draft, aside, end], name="plain", **fields)


def make_typed(**fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Judge {word}", name="judge", handler=judge, output_type=Verdict)], **fields)


def make_phased(**fields: Any) -> Ensemble:
    look = Task.of("Look for {word}", name="look", agent=Agent(role="Finder", goal="Find"))
    check = Task.of("Check", name="check", agent=Agent(role="Judge", goal="Judge"))
    tell = Task.of("Tell {word}", name="tell", handler=say)
    phases = [
        Phase(name="find", tasks=[look], review=PhaseReview(check)),
        Phase(name="tell", tasks=[tell], after=["find"]),
    ]
    return Ensemble(phases=phases, llm=scripted(*["found", "APPROVE"] * 4), **fields)


def make_listed(**fields: Any) -> Ensemble:
    task = Task.of("Spell {item} of {word}", name="spell", for_each=["b", "a"], handler=say)
    return Ensemble(tasks=[task], **fields)


def make_managed(**fields: Any) -> Ensemble:
    return Ensemble(
        tasks=[Task.of("Serve {word}", name="serve", agent=Agent(role="Cook", goal="Cook"))],
        llm="scripted",
        workflow="hierarchical",
        **fields,
    )


MAKERS = {
    "plain": make_plain,
    "typed": make_typed,
    "phased": make_phased,
    "listed": make_listed,
    "managed": make_managed,
}


def make_rows() -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples([("de", 1), ("de", 2), ("fr", 1), ("fr", 2)], names=["land", None])
    return pd.DataFrame({"word": WORDS, "count": [1, None, 3, 4], "cost": [1, 2, 3, 4]}, index=index)


def assert_same(loaded: MapResult, live: MapResult) -> None:
    assert_frame_equal(loaded.frame, live.frame)
    assert loaded.describe() == live.describe()
    assert loaded.variants == live.variants
    assert (loaded.status, loaded.run_id, loaded.warnings) == (live.status, live.run_id, live.warnings)
    for a, b in zip(loaded, live, strict=True):
        assert (a.name, a.row, a.index, a.status, a.run_id, a.raw, a.reused, a.is_done) == (
            *(b.name, b.row, b.index, b.status, b.run_id, b.raw, b.reused, b.is_done),
        )
        if b.output is None or b.is_done:
            assert (a.output is None) == (b.output is None)
        if a.output is None or b.output is None:
            continue
        assert find_violations(a.output.trace) == []
        assert [each.name for each in a.output.task_outputs] == [each.name for each in b.output.task_outputs]
        assert a.output.metrics.total_tokens == b.output.metrics.total_tokens
        assert set(a.output.frames.tasks.task) == set(b.output.frames.tasks.dropna(subset="start_ms").task)


@pytest.mark.parametrize("name", MAKERS)
def test_v10_a_map_of_any_kind_is_the_same_when_it_is_loaded(name: str, store_path: Path, tmp_path: Path) -> None:
    live = MAKERS[name]().map(make_rows(), concurrency=1)
    wait_for_store()
    for loaded in (load_traces(), load_traces(), load_traces(live.trace.save(tmp_path / "a.trace.json"))):  # type: ignore[union-attr]
        assert live.run_id is not None
        assert_same(loaded.load_map(live.run_id), live)
        assert_frame_equal(loaded.rows, live.frames.rows)  # type: ignore[union-attr]


def test_v10_rows_are_a_table_with_prefixed_inputs_outputs_and_scores(store_path: Path) -> None:
    live = make_typed().variants({"low": {"word": "tea"}, "high": {"word": "bad"}}).map(make_rows()[["count", "cost"]])
    place = live._describe_place(live[0])
    now = datetime(2026, 1, 2, tzinfo=UTC)
    record = ScoreRecord(name="cost", kind=ScoreKind.CODE, scored_at=now, passed=True, value=1.0, **place)
    within = replace(record, id="within", span_id="some-span", passed=False, value=0.0)
    wait_for_store()
    keep_scores([record, within])
    rows = load_traces().rows
    assert_frame_equal(live._with_scores([record, within]).frames.rows, rows)  # type: ignore[union-attr]
    assert list(rows.columns) == [
        *("variant", "row", "repeat", "status", "duration_ms", "input_tokens", "output_tokens", "cost"),
        *("error_type", "error", "http_status", "currency", "active_ms", "human_wait_ms", "idle_ms", "reused"),
        *("map_run_id", "run_id", "row_key"),
        *("input_count", "input_cost", "input_word", "output_size", "output_status", "score_cost"),
    ]
    assert rows.variant.tolist() == ["low"] * 4 + ["high"] * 4
    assert rows.row.tolist() == ["de/1", "de/2", "fr/1", "fr/2"] * 2
    assert rows.output_size.tolist()[:5] == [3, 3, 3, 3, pd.NA]
    assert rows.error_type.tolist()[3:5] == [pd.NA, "ValueError"]
    assert rows.score_cost.tolist() == [True, *[pd.NA] * 7]
    assert (str(rows.score_cost.dtype), str(rows.output_size.dtype)) == ("boolean", "Int64")
    spans = live.frames.spans  # type: ignore[union-attr]
    assert set(spans.loc[rows.run_id].kind) == {"nested"}
    assert rows.run_id.tolist() == live.frame.run_id.tolist()
    assert set(rows.map_run_id) == {live.run_id}


def test_v10_rows_of_maps_and_of_other_runs_are_together_in_one_table(store_path: Path) -> None:
    make_plain().run(word="tea")
    first, second = make_plain().map([{"word": "tea"}]), make_typed().map([{"word": "rye", "more": 1}])
    wait_for_store()
    rows = load_traces().rows
    assert rows.map_run_id.tolist() == [first.run_id, second.run_id]
    assert rows.input_more.tolist() == [pd.NA, 1]
    assert rows.output.tolist() == ["SAY TEA", pd.NA]
    assert len(make_plain().run(word="tea").frames.rows) == 0


def test_v10_rows_that_never_ran_or_were_taken_over_are_kept(store_path: Path) -> None:
    rows = [{"word": each} for each in WORDS]
    ensemble = Ensemble(
        tasks=[Task.of("Say {word}", name="say")], llm=scripted("one", "two"), budget=Budget(max_llm_calls=2)
    )
    first = ensemble.map(rows, concurrency=1)
    wait_for_store()
    loaded = load_traces().load_map(first.run_id)  # type: ignore[arg-type]
    assert_same(loaded, first)
    assert [each.status for each in loaded].count("skipped") >= 1
    assert loaded[3].reason == first[3].reason
    whole = ensemble.replace(budget=Budget(max_llm_calls=9), llm=scripted("three", "four"))
    for earlier in (first, loaded):
        second = whole.map(rows, resume=earlier, concurrency=1)
        assert second.frame.reused.tolist() == [True, True, False, False]
        wait_for_store()
        again = load_traces().load_map(second.run_id)  # type: ignore[arg-type]
        assert_same(again, second)
        told = ["run_id", "status", "reused", "output", "input_tokens"]
        assert load_traces().rows.tail(4)[told].to_csv(index=False) == second.frames.rows[told].to_csv(index=False)  # type: ignore[union-attr]
        assert again[0].output is not None
        assert again[0].output.raw == "one"


def test_v10_reused_rows_are_known_when_they_are_loaded(store_path: Path) -> None:
    rows = [{"word": "tea"}, {"word": "rye"}]
    for make in (make_plain, make_listed):
        make().map(rows[:1])
        wait_for_store()
        live = make().map(rows, reuse=True)
        assert live.frame.reused.tolist() == [True, False]
        wait_for_store()
        assert_same(load_traces().load_map(live.run_id), live)  # type: ignore[arg-type]


def test_v10_a_map_that_was_stopped_is_loaded_as_far_as_it_came(store_path: Path) -> None:
    async def wait(given: TaskInput) -> str:
        if given.inputs["word"] == "bad":
            await asyncio.Event().wait()
        return given.description

    with pytest.raises(DeadlineExceededError) as caught:
        Ensemble(tasks=[Task.of("Say {word}", name="say", handler=wait)]).map(make_rows(), concurrency=1, timeout=0.5)
    live = caught.value.output
    assert isinstance(live, MapResult)
    wait_for_store()
    loaded = load_traces().load_map(live.run_id)  # type: ignore[arg-type]
    assert [each.status for each in loaded] == [each.status for each in live]
    assert [each.raw for each in loaded] == [each.raw for each in live]


def test_v10_rows_that_ran_elsewhere_are_loaded_as_well(store_path: Path) -> None:
    with ThreadPoolExecutor(2) as executor:
        live = make_plain().map(make_rows(), executor=executor)
    wait_for_store()
    assert_same(load_traces().load_map(live.run_id), live)  # type: ignore[arg-type]


def test_v10_two_variants_of_a_loaded_map_are_compared(store_path: Path) -> None:
    live = make_plain().variants({"low": {"word": "tea"}, "high": {"word": "rye"}}).run()
    wait_for_store()
    loaded = load_traces().load_map(live.run_id)  # type: ignore[arg-type]
    assert loaded.frame.index.tolist() == ["low", "high"]
    texts = [each.diff("low", "high").frame.drop(columns="delta_ms") for each in (loaded, live)]
    assert_frame_equal(*texts)
    again = pickle.loads(pickle.dumps(loaded))
    assert_frame_equal(again.frame, live.frame)
    with pytest.raises(ValidationError, match=r"can't run\. It was loaded from a trace"):
        loaded.ensemble.run()


def test_v10_an_unknown_map_is_refused_with_the_nearest(store_path: Path) -> None:
    live, other = make_plain().map([{"word": "tea"}]), make_plain().run(word="tea")
    wait_for_store()
    loaded = load_traces()
    assert live.run_id is not None
    with pytest.raises(ValidationError, match=f"is not among these maps. Did you mean '{live.run_id}'"):
        loaded.load_map(live.run_id[:-1] + "x")
    with pytest.raises(ValidationError, match=f"Run '{other.run_id}' is not a map"):
        loaded.load_map(other.run_id)


def test_v10_where_no_texts_are_kept_the_design_has_names_and_numbers_alone(store_path: Path) -> None:
    live = (
        make_typed(capture_mode="metadata")
        .variants({"of kanarie": {"how": "kanarie"}})
        .map([{"word": "kanarie"}, {"word": "bad"}])
    )
    wait_for_store()
    loaded = load_traces()
    rows = loaded.rows
    assert rows.status.tolist() == ["completed", "failed"]
    assert rows.variant.tolist() == ["variant 0", "variant 0"]
    assert rows[["input_word", "input_how", "output"]].isna().all().all()
    told = b"".join(each.read_bytes() for each in store_path.parent.glob("runs.db*"))
    assert b"kanarie" not in told
    assert_frame_equal(rows, live.frames.rows)  # type: ignore[union-attr]
    assert loaded.load_map(live.run_id).frame.status.tolist() == ["completed", "failed"]  # type: ignore[arg-type]


def test_v10_secrets_in_what_rows_were_given_are_masked(store_path: Path) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    live = make_plain().map([{"word": f"tea {secret}", "api_key": "hush-hush-hush"}])
    wait_for_store()
    rows = load_traces().rows
    assert_frame_equal(rows, live.frames.rows)  # type: ignore[union-attr]
    assert not any(word in rows.to_csv() for word in (secret, "hush-hush"))


def test_v10_a_map_of_an_older_version_has_rows_by_their_names(store_path: Path, tmp_path: Path) -> None:
    live = make_plain().map([{"word": "tea"}, {"word": "bad"}])
    assert live.trace is not None
    plan = live.trace.plan
    assert plan is not None
    old = [
        replace(each, plan=replace(plan, design=None)) if hasattr(each, "plan") else each for each in live.trace.events
    ]
    file = ExecutionTrace.from_events(old).save(tmp_path / "old.trace.json")
    assert "design" not in file.read_text()
    loaded = load_traces(file)
    assert loaded.rows.row.tolist() == ["row 0", "row 1"]
    assert loaded.rows.output.tolist() == ["SAY TEA", pd.NA]
    result = loaded.load_map(live.run_id)  # type: ignore[arg-type]
    assert_frame_equal(result.frame, live.frame.drop(columns="word"))


@pytest.mark.parametrize(
    "changes",
    [
        {"index": [{"name": "a", "dtype": "int64"}, {"name": "b", "dtype": "no such"}]},
        {"index": [{"name": "a", "dtype": "no such dtype"}]},
        {"fields": {"size": 3}},
        {"inputs": ["word", "word", "other"]},
        {"rows": []},
    ],
)
def test_v10_a_file_whose_design_was_edited_breaks_nothing(changes: dict[str, Any], tmp_path: Path) -> None:
    live = make_typed().map([{"word": "tea"}, {"word": "bad"}])
    file = live.trace.save(tmp_path / "edited.trace.json")  # type: ignore[union-attr]
    document = json.loads(file.read_text())
    plan = next(each["plan"] for each in document["events"] if each["type"] == "PlanMade")
    plan["design"] = {**plan["design"], **changes}
    file.write_text(json.dumps(document))
    loaded = load_traces(file)
    assert len(loaded.rows) == (2 if changes.get("rows") is None else 0)
    try:
        result = loaded.load_map(live.run_id)  # type: ignore[arg-type]
    except EnsembleError:
        assert changes == {"rows": []}
    else:
        assert result.frame.status.tolist() == ["completed", "failed"]
