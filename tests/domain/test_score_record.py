"""Records of scores: what kind of score one is, which of them count, and what is kept without texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord, list_current


def make(name: str = "good", **fields: Any) -> ScoreRecord:
    given = {"kind": ScoreKind.CODE, "run_id": "run", "scored_at": datetime(2026, 1, 2, tzinfo=UTC), **fields}
    return ScoreRecord(name=name, **given)


def test_a_score_passes_counts_names_or_says_nothing() -> None:
    found = [make(passed=False, value=0.0), make(value=0.5), make(label="praise"), make(), make(error="ValueError: no")]
    assert [each.measure for each in found] == ["passed", "value", "label", None, None]


def test_what_is_replaced_does_not_count_and_what_two_people_say_at_once_does() -> None:
    first, second = make("label", label="good"), make("label", label="bad")
    other, inside = make("label", label="good", run_id="other"), make("label", label="good", span_id="span")
    assert list_current([first, second, other, inside, first]) == (first, second, other, inside)
    last = make("label", label="fair", replaces=True)
    assert list_current([first, second, other, inside, last]) == (other, inside, last)
    assert list_current([last, second]) == (last, second)


def test_without_texts_only_numbers_and_the_labels_of_code_are_left() -> None:
    told = {"label": "praise", "reason": "it says thanks", "error": "ValueError: 'thanks'"}
    code, judge = make(**told).without_texts(), make(**told, kind=ScoreKind.JUDGE, value=1.0).without_texts()
    assert (code.label, code.reason, code.error) == ("praise", None, "ValueError")
    assert (judge.label, judge.reason, judge.value) == (None, None, 1.0)
