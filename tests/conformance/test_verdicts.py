"""V11, V12 and V13: what scores come to, which variant is better, and whether that is shown."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from ensemble_notebook import (
    Budget,
    CostConfiguration,
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    MapResult,
    Task,
    TaskInput,
    ValidationError,
)
from tests.support.store import wait_for_store

ROWS = [{"word": number} for number in range(60)]
STYLES = {"style=kindly": {"style": "kindly"}, "style=tersely": {"style": "tersely"}}


def answer(given: TaskInput) -> str:
    """Right in nine of ten rows where it is to be kind, in half of them else, and fails in a few of these."""
    chance = random.Random(given.description).random()
    if "tersely" in given.description and chance > 0.9:
        raise ValueError("no words left")
    return "right" if chance < (0.9 if "kindly" in given.description else 0.5) else "wrong"


def is_right(output: EnsembleOutput) -> bool:
    return output.raw == "right"


def make_ensemble(style: str = "{style}", name: str = "sayer", **fields: object) -> Ensemble:
    task = Task.of(f"Say {{word}}, {style}", name="say", handler=answer)
    return Ensemble(tasks=[task], name=name, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result() -> MapResult:
    return make_ensemble().variants(STYLES, score=is_right).map(ROWS)


def always(output: EnsembleOutput) -> bool:
    return True


def test_v11_a_summary_has_a_row_for_each_variant_and_counts_failed_rows_as_not_passed(result: MapResult) -> None:
    frame = result.summary()
    assert list(frame.columns) == [
        *("variant", "score", "rows", "repeats", "failed", "incomplete", "unscored"),
        *("mean", "low", "high", "cost", "active_ms"),
    ]
    kindly, tersely = frame.to_dict("records")
    assert (kindly["variant"], kindly["rows"], kindly["failed"]) == ("kindly", 60, 0)
    assert (tersely["variant"], tersely["rows"]) == ("tersely", 60)
    right = sum(each.raw == "right" for each in result if each.variant == "style=tersely")
    assert tersely["failed"] > 0
    assert tersely["mean"] == pytest.approx(right / 60)
    assert tersely["low"] < tersely["mean"] < tersely["high"]


def test_v11_a_summary_without_scores_tells_rows_failures_cost_and_time_of_each_variant() -> None:
    frame = make_ensemble().variants(STYLES).map(ROWS, repeat=2).summary()
    assert list(frame.columns) == ["variant", "rows", "repeats", "failed", "incomplete", "cost", "active_ms"]
    kindly, tersely = frame.to_dict("records")
    assert (kindly["variant"], kindly["rows"], kindly["repeats"], kindly["failed"]) == ("kindly", 60, 2, 0)
    assert (tersely["variant"], tersely["rows"]) == ("tersely", 60)
    assert tersely["failed"] > 0
    assert kindly["active_ms"] > 0
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted", budget=Budget(max_llm_calls=30))
    alone = ensemble.map(ROWS, concurrency=1).summary()
    assert list(alone.columns) == ["rows", "repeats", "failed", "incomplete", "cost", "active_ms"]
    (found,) = alone.to_dict("records")
    assert (found["rows"], found["failed"], found["incomplete"], found["cost"]) == (30, 0, 30, 0)


def test_v11_a_row_that_a_budget_cut_short_is_in_no_mean_of_costs() -> None:
    rates = CostConfiguration(input_rate=Decimal("0.01"), output_rate=Decimal("0.01"))
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted", cost=rates, budget=Budget(max_llm_calls=5))
    result = ensemble.map(ROWS[:8], concurrency=1)
    (found,) = result.summary().to_dict("records")
    paid = result.frame.query("status == 'completed'")
    assert (found["rows"], found["incomplete"], len(paid)) == (5, 3, 5)
    assert found["cost"] == pytest.approx(paid.cost.mean())
    assert found["active_ms"] == pytest.approx(paid.active_ms.mean())


def test_v11_rows_that_a_budget_cut_short_are_no_bad_score() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted", budget=Budget(max_llm_calls=30))
    result = ensemble.map(ROWS, concurrency=1, score=always)
    (found,) = result.summary().to_dict("records")
    assert (found["rows"], found["failed"], found["mean"]) == (30, 0, 1.0)
    assert found["incomplete"] == 30
    gate = result.passes("always", at_least=0.5)
    assert not gate
    assert repr(gate).startswith("not complete: 30 rows never ran or were cut short; always 100% (95%: 89 to 100;")


def test_v11_rows_of_an_executor_that_a_budget_cut_short_are_no_bad_score_either() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {word}")], llm="scripted", budget=Budget(max_llm_calls=30))
    with ThreadPoolExecutor(2) as pool:
        result = ensemble.map(ROWS, executor=pool, score=always)
    (found,) = result.summary().to_dict("records")
    assert (found["rows"], found["failed"], found["incomplete"], found["mean"]) == (30, 0, 30, 1.0)


def test_v11_rows_that_the_end_of_a_map_cut_short_are_incomplete_and_a_row_with_its_own_error_has_failed() -> None:
    with pytest.raises(EnsembleError) as caught:
        make_ensemble("tersely").map(ROWS, on_error="raise", concurrency=1, score=is_right)
    result = caught.value.output
    assert isinstance(result, MapResult)
    (found,) = result.summary().to_dict("records")
    done = sum(each.is_done for each in result)
    assert (found["rows"], found["failed"], found["incomplete"]) == (done + 1, 1, 60 - done - 1)
    assert result.passes("is_right", at_least=0.1).status == "not complete"


def test_v12_a_comparison_is_one_sentence_with_the_better_variant_first(result: MapResult) -> None:
    found = result.compare("tersely", "style=kindly", score="is_right")
    assert repr(found).startswith("kindly passes ")
    assert " points more often than tersely (95%: " in repr(found)
    assert "failed under tersely and count as not passed." in repr(found)
    assert (found.is_different, found.better) == (True, "kindly")
    assert found.interval is not None
    assert found.interval[0] > 0
    assert found.p <= 0.05
    assert repr(result.compare()) == repr(result.compare("style=kindly", "style=tersely"))
    assert repr(result.compare(baseline="tersely")) == repr(found)
    assert "<table" in found._repr_mimebundle_()["text/html"]


def test_v12_results_of_two_maps_are_paired_by_what_their_runs_read_wherever_a_row_stands(result: MapResult) -> None:
    old, new = (
        make_ensemble(style, name).map(rows, score=is_right)
        for style, name, rows in (("tersely", "old", ROWS), ("kindly", "new", [*reversed(ROWS[10:]), {"word": 99}]))
    )
    with pytest.raises(ValidationError, match="compare two of its variants"):
        new.compare(result)
    found = repr(new.compare(old))
    assert found.startswith("new passes ")
    assert "; 50 rows, p " in found
    named = "row 0, row 1, row 2, row 3, row 4 and 5 more"
    assert found.endswith(f"; 50 rows paired; 1 new (row 50), 10 gone ({named}).")
    assert repr(new.compare(old, new)) == found
    (line,) = new.compare(old).frame[["paired", "changed", "new", "gone"]].to_dict("records")
    assert line == {"paired": 50, "changed": 0, "new": 1, "gone": 10}
    with pytest.raises(ValidationError, match="can't be compared with itself"):
        new.compare(new)


def count(*shares: float) -> list[dict[str, str]]:
    return [{"q": f"{each:g}"} for each in shares]


def make_asker(**fields: object) -> Ensemble:
    return Ensemble(tasks=[Task.of("{q}", name="ask", handler=lambda given: given.description)], **fields)  # type: ignore[arg-type]


def test_v13_one_inserted_row_does_not_hide_that_half_of_the_others_fell() -> None:
    old = count(*range(200))
    new = [*old[:100], {"q": "new"}, *old[100:]]
    before = make_asker().map(old, score={"s": lambda output: True})
    after = make_asker().map(new, score={"s": lambda inputs: inputs["q"] != "new" and int(inputs["q"]) < 100})
    found = after.compare(before, score="s")
    assert found.difference == -0.5
    assert found.not_worse(by=0.05).status == "shown to be worse"
    assert "; 200 rows paired; 1 new (row 100), 0 gone." in repr(found)
    for rows in ([{"q": "new"}, *old], old[::-1], [{**each, "author": "me"} for each in old]):
        same = make_asker().map(rows, score={"s": lambda output: True}).compare(before)
        assert same.pairs[0].rows == 200
        assert same.not_worse(by=0.05)


def test_v13_a_gate_stays_shut_where_more_than_5_percent_of_the_rows_have_no_partner() -> None:
    before, after = (make_asker().map(rows, score=always) for rows in (count(*range(100)), count(*range(6, 106))))
    found = after.compare(before)
    gate = found.not_worse(by=0.1)
    assert (bool(gate), gate.status) == (False, "unpaired")
    assert "94 rows paired; 6 new (row 94, row 95, row 96, row 97, row 98 and 1 more), 6 gone (row 0, " in repr(gate)
    assert found.not_worse(by=0.1, allow_unpaired=True).status == "shown"


def test_v12_rows_with_an_id_are_the_same_whatever_they_are_given_and_that_is_counted() -> None:
    old = [{"id": each, "q": f"{each}"} for each in range(40)]
    new = [{**each, "q": "another" if each["id"] in (3, 5) else each["q"]} for each in reversed(old)]
    before, after = (make_asker().map(rows, score=always) for rows in (old, new))
    assert repr(after.compare(before)).endswith("; 40 rows paired, 2 with other inputs; 0 new, 0 gone.")
    ticket = [{"ticket": each["id"], "q": each["q"]} for each in new]
    by_name = make_asker().map(ticket, score=always, id="ticket")
    again = make_asker().map(ticket[::-1], score=always)
    assert "40 rows paired; 0 new" in repr(again.compare(by_name))
    for twice, said in (
        (
            {"rows": [*old, *old[:2]]},
            "'id' tells the rows apart, and '0' stands several times, in row 0, row 40, as 1 ",
        ),
        ({"rows": old, "id": "q_"}, "The id column 'q_' is not there. Did you mean 'q'"),
        ({"rows": old, "id": 3}, "id must be the name of a column or None, got 3"),
    ):
        with pytest.raises(ValidationError, match=said):
            make_asker().map(**twice)  # type: ignore[arg-type]


def test_v12_maps_whose_values_are_not_kept_are_paired_by_a_digest_of_their_ids(store_path: Path) -> None:
    rows = [{"id": f"ticket-{each}", "q": f"{each}"} for each in range(40)]
    before, after = (
        make_asker(name=name, capture_mode="metadata").map(given, score=always)
        for name, given in (("old", rows), ("new", rows[::-1]))
    )
    wait_for_store()
    assert "ticket-7" not in str(before.trace.to_dict() if before.trace is not None else "")
    live, stored = after.compare(before), after.compare(before.run_id, after)
    assert repr(stored) == repr(live)
    assert repr(live).endswith("; 40 rows paired; 0 new, 0 gone.")
    assert live.not_worse(by=0.1).status == "shown"
    bare = [make_asker(capture_mode="metadata").map(count(*range(40)), score=always) for _ in range(2)]
    gate = bare[1].compare(bare[0]).not_worse(by=0.1)
    assert gate.status == "unpaired"
    assert "no rows paired, since no values are kept of them" in repr(gate)


def test_v10_rows_of_many_maps_have_a_key_that_is_the_same_wherever_a_row_stands() -> None:
    def find_keys(rows: list[dict[str, str]], **fields: object) -> list[str]:
        made = make_asker(**fields).map(rows)
        assert made.frames is not None
        return [str(each) for each in made.frames.rows.row_key]

    first = find_keys(count(1, 2, 1))
    assert len(set(first)) == 3
    assert find_keys(count(9, 1, 2, 1))[1:] == first
    assert find_keys([{**each, "expected": "x"} for each in count(2, 1, 1)]) == [first[1], first[0], first[2]]
    named = [{"id": each["q"], **each} for each in count(1, 2)]
    by_id = find_keys(named)
    assert find_keys([{**each, "q": "another"} for each in named[::-1]]) == by_id[::-1]
    assert find_keys(named, capture_mode="metadata") == by_id
    assert find_keys(count(1), capture_mode="metadata") == ["<NA>"]


def test_v12_two_maps_are_looked_at_row_by_row() -> None:
    old, new = count(0, 1, 2, 3), [{"q": "new"}, *count(3, 1, 2)]
    before = make_asker(name="old").map(old, score={"s": lambda output: output.raw != "2"})
    after = make_asker(name="new").map(new, score={"s": lambda output: output.raw != "3"})
    rows = after.compare(before).rows
    assert list(rows.columns) == ["a", "b", "row_a", "row_b", "is_changed", "value_a", "value_b", "difference"]
    told = [[None if pd.isna(each) else each for each in line[2:]] for line in rows.itertuples(index=False)]
    assert told == [
        [None, "row 0", False, None, 1.0, None],
        ["row 3", "row 1", False, 1.0, 0.0, -1.0],
        ["row 1", "row 2", False, 1.0, 1.0, 0.0],
        ["row 2", "row 3", False, 0.0, 1.0, 1.0],
        ["row 0", None, False, 1.0, None, None],
    ]
    inside = make_ensemble().variants(STYLES, score=is_right).map(ROWS[:5]).compare().rows
    assert inside.row_a.tolist() == inside.row_b.tolist() == [f"row {each}" for each in range(5)]
    found = after.diff(before, row=1)
    assert found.labels == ("row 3", "row 1")
    assert (found.before.run_id, found.after.run_id) == (before[3].run_id, after[1].run_id)
    assert repr(after.diff(before, after, row=1)) == repr(found)
    two = before.diff(0, 1)
    assert (two.before.run_id, two.after.run_id) == (before[0].run_id, before[1].run_id)
    for ask, said in (
        (lambda: after.diff(before, row=0), "The other map has no row that is the same as row 0"),
        (lambda: after.diff(0), "diff takes two names of variants, two places in this result, or results"),
        (lambda: after.diff(0, 9), "There is no row 9: there are 4 rows, from 0"),
        (lambda: after.diff(before, row=9), "There is no row 9: there are 4 rows, from 0"),
        (lambda: after.diff(0, "a"), "diff takes two names"),
    ):
        with pytest.raises(ValidationError, match=said):
            ask()


def test_v12_a_stored_map_is_compared_by_its_id_and_its_rows_are_found_again(store_path: Path) -> None:
    rows = [{"word": number, "said": f"{number}", "at": pd.Timestamp("2026-01-02")} for number in range(30)]
    old = make_ensemble("tersely", "old").map(rows, score=is_right)
    new = make_ensemble("kindly", "new").map(rows, score=is_right)
    wait_for_store()
    assert old.run_id is not None
    live, stored = new.compare(old), new.compare(old.run_id, new)
    assert repr(stored) == repr(live)
    assert stored.pairs[0].rows == 30
    with pytest.raises(EnsembleError, match="no-such-id"):
        new.compare("no-such-id")


def test_v12_what_is_not_there_is_refused_with_the_nearest(result: MapResult) -> None:
    for said, ask in (
        ("No variant is called 'kindyl'.*'kindly'", lambda: result.compare("tersely", "kindyl")),
        ("No score is called 'is_rigth'. Did you mean 'is_right'", lambda: result.compare(score="is_rigth")),
        ("compare takes two: names of variants", lambda: result.compare("tersely")),
        ("is_ asks for a label", lambda: result.compare(is_="praise")),
        ("detect must be a number above 0", lambda: result.compare(detect=0)),
        ("by must be a number above 0", lambda: result.compare("tersely", "kindly").not_worse(0)),
        ("There are 2 variants: say which", lambda: result.passes("is_right", at_least=0.9)),
        ("at_least must be a share between 0 and 1", lambda: result.passes("is_right", 90, variant="kindly")),
        ("k must be a whole number from 1 to 1", lambda: result.summary(k=2)),
        ("No score is called 'label'", lambda: result.agreement("is_right", "label")),
    ):
        with pytest.raises(ValidationError, match=said):
            ask()
    with pytest.raises(ValidationError, match="There are no scores yet"):
        make_ensemble().variants(STYLES).map(ROWS).compare()


def test_v13_a_gate_gives_one_of_three_answers_and_is_true_for_the_first_alone(result: MapResult) -> None:
    better = result.compare("tersely", "kindly").not_worse(by=0.05)
    worse = result.compare("kindly", "tersely").not_worse(by=0.05)
    unsure = result.passes("is_right", at_least=0.9, variant="kindly")
    assert (bool(better), better.status) == (True, "shown")
    assert (bool(worse), worse.status) == (False, "shown to be worse")
    assert not unsure
    assert unsure.status.startswith("not shown with 60 rows")
    with pytest.raises(AssertionError, match="not shown with 60 rows"):
        assert unsure, unsure


@pytest.mark.parametrize(
    "rows, right, answer", [(34, 34, "not shown with 34 rows (about 35 would)"), (35, 35, "shown")]
)
def test_v13_fewer_than_35_rows_cannot_show_nine_of_ten(rows: int, right: int, answer: str) -> None:
    result = make_ensemble("kindly").map(ROWS[:rows], score=always)
    assert result.passes("always", at_least=0.9).status == answer


def test_v12_a_short_name_is_one_wherever_a_variant_is_asked_for() -> None:
    styles = {f"style={name}": {"style": name} for name in ("kindly", "tersely")}
    result = make_ensemble().variants(styles, score=is_right).map(ROWS)
    labelled = result.annotate(0, True, variant="kindly")
    assert labelled.frame.label.dropna().index.tolist() == [("style=kindly", 0)]
    assert repr(result.diff("kindly", "tersely")) == repr(result.diff("style=kindly", "style=tersely"))
    with pytest.raises(ValidationError, match="No variant is called 'kind'"):
        result.diff("kind", "tersely")


def test_v12_secrets_in_names_are_masked_and_short_names_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    styles = {f"style={key}": {"style": "kindly"}, "style=tersely": {"style": "tersely"}}
    result = make_ensemble().variants(styles, score=is_right).map(ROWS)
    found = result.compare()
    assert key not in repr(found) + found._repr_mimebundle_()["text/html"]
    assert "passes" in repr(found)
