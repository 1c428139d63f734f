"""What is said of two sides, whole sentences, as a person reads them (V11, V12, V13)."""

from __future__ import annotations

import math
import pickle
from html.parser import HTMLParser
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ensemble_notebook import ValidationError
from ensemble_notebook.domain.outputs.score import ScoreKind
from ensemble_notebook.evaluation import summary
from ensemble_notebook.evaluation.agreement import describe_judge, measure_agreement
from ensemble_notebook.evaluation.comparison import Comparison, compare_sides
from ensemble_notebook.evaluation.scored_runs import Ending, ScoredRun, ask, shorten_names
from ensemble_notebook.evaluation.summary import summarize
from ensemble_notebook.notebook.picture.verdict_picture import draw_quality, draw_text, make_comparison_bundle
from tests.support.scored_runs import CUT, FAILED, compare, make_record, make_runs

T, F = True, False


def flip(rows: int, gained: int, lost: int) -> tuple[list[bool], list[bool]]:
    """Rows of which some are right under the second side alone, and some under the first."""
    a = [F] * gained + [T] * lost + [T] * (rows - gained - lost)
    return a, [not each for each in a[: gained + lost]] + a[gained + lost :]


def numbers(rows: int, shift: float, seed: int = 1) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(seed)
    a = random.normal(3, 1, rows)
    return list(a), list(a + random.normal(shift, 0.8, rows))


def test_difference_is_told_with_the_better_side_first_and_what_it_costs() -> None:
    a, b = flip(120, 14, 4)
    assert repr(compare(make_runs(a, cost=0.0100), make_runs(b, cost=0.0112))) == (
        "kindly passes 8 points more often than tersely (95%: 1 to 15; 120 rows, p = 0.031); it costs 12% more."
    )
    assert repr(compare(make_runs(b, cost=0.0112), make_runs(a, cost=0.0100))) == (
        "tersely passes 8 points more often than kindly (95%: 1 to 15; 120 rows, p = 0.031); it costs 12% more."
    )


def test_where_none_can_be_shown_it_says_what_would_settle_it() -> None:
    a, b = flip(40, 5, 4)
    assert repr(compare(make_runs(a), make_runs(b))) == (
        "No difference that 40 rows can show (-13 to +18 points); about 730 rows would settle a difference of 5 points."
    )
    assert "about 190 rows would settle a difference of 10 points" in repr(
        compare(make_runs(a), make_runs(b), detect=0.1)
    )
    a, b = flip(1_000, 55, 45)
    assert repr(compare(make_runs(a), make_runs(b))) == (
        "No difference that 1,000 rows can show (-1 to +3 points); a difference of 5 points would most likely have "
        "shown."
    )


def test_equal_sides_and_few_differing_rows_are_told_as_such() -> None:
    same = [T] * 30 + [F] * 10
    assert repr(compare(make_runs(same), make_runs(same))) == (
        "No difference that 40 rows can show (-7 to +7 points); not one row differs."
    )
    a, b = flip(40, 5, 0)
    assert repr(compare(make_runs(a), make_runs(b))) == (
        "No difference that 40 rows can show (+0.1 to +23.7 points, but p = 0.063); "
        "only 5 rows differ, and fewer than 6 can show nothing; about 360 rows would settle a difference of 5 points."
    )


def test_numbers_are_told_in_their_own_size_and_the_lower_one_first_where_less_is_better() -> None:
    a, b = numbers(40, 0.6)
    assert repr(compare(make_runs(a), make_runs(b))).startswith("kindly scores 0.48 higher than tersely (95%: 0.29 to")
    fewer = repr(compare(make_runs(b, higher_is_better=False), make_runs(a, higher_is_better=False)))
    assert fewer.startswith("kindly scores 0.48 lower than tersely, and less is better (95%: 0.29 to ")
    a, b = numbers(40, 0.0)
    assert "would settle" not in repr(compare(make_runs(a), make_runs(b)))
    assert "rows would settle a difference of 0.1" in repr(compare(make_runs(a), make_runs(b), detect=0.1))


def test_numbers_without_an_interval_are_never_claimed() -> None:
    assert repr(compare(make_runs([1.5] * 9), make_runs([2.5] * 9))) == (
        "No difference that 9 rows can show (+1.0 in every row alike, which gives no interval)."
    )
    assert repr(compare(make_runs([1.5]), make_runs([2.5]))) == (
        "No difference that 1 row can show (+1.0 in the only row, which gives no interval)."
    )
    assert repr(compare(make_runs([1.5] * 9), make_runs([1.5] * 9))) == (
        "No difference that 9 rows can show (not one row differs)."
    )


def test_shares_that_differ_in_every_row_alike_still_have_a_width() -> None:
    found = compare(make_runs([F] * 12), make_runs([T] * 12))
    assert found.interval is not None
    assert 0 < found.interval[0] < found.interval[1] == 1
    assert repr(found).startswith("kindly passes 100 points more often than tersely (95%: 59 to 100; 12 rows")


def test_labels_are_asked_for_by_one_of_them() -> None:
    a, b = flip(80, 24, 5)
    words = [[("praise" if each else "blame") for each in side] for side in (a, b)]
    assert repr(compare(make_runs(words[0]), make_runs(words[1]), is_="praise")).startswith(
        "kindly gets praise 24 points more often than tersely (95%: 11 to 36; 80 rows, p < 0.001)"
    )
    for wrong, said in ((None, "say which one counts, is_='blame' or is_='praise'"), ("prise", "mean 'praise'")):
        with pytest.raises(ValidationError, match=said):
            compare(make_runs(words[0]), make_runs(words[1]), is_=wrong)
    with pytest.raises(ValidationError, match="is_ asks for a label, and 'accuracy' is pass or fail"):
        compare(make_runs(a), make_runs(b), is_="praise")


def test_failed_rows_count_as_not_passed_and_are_told() -> None:
    a, b = flip(40, 12, 0)
    runs = make_runs([FAILED if number < 7 else each for number, each in enumerate(a)])
    said = repr(compare(runs, make_runs(b)))
    assert said == (
        "kindly passes 30 points more often than tersely (95%: 15 to 45; 40 rows, p < 0.001); "
        "7 rows failed under tersely and count as not passed."
    )
    one = make_runs([FAILED, *a[1:]])
    assert "; 1 row failed under tersely and counts as not passed." in repr(compare(one, make_runs(b)))


def test_failed_rows_of_numbers_count_as_is_said_or_it_is_a_mistake() -> None:
    a, b = numbers(40, 0.6)
    failed = make_runs([FAILED, FAILED, *a[2:]])
    with pytest.raises(ValidationError, match="2 runs failed under tersely, and 'accuracy' is a number: say what they"):
        compare(failed, make_runs(b))
    assert "2 rows failed under tersely and count as 0." in repr(compare(failed, make_runs(b), failed=0))
    left = compare(failed, make_runs(b), failed="leave out")
    assert "38 rows" in repr(left)
    assert "2 rows failed under tersely and are left out." in repr(left)
    with pytest.raises(ValidationError, match="failed must be a number or 'leave out', got 'zero'"):
        compare(failed, make_runs(b), failed="zero")  # type: ignore[arg-type]


def test_rows_that_were_cut_short_leave_every_pair_and_close_the_gate() -> None:
    a, b = flip(400, 0, 0)
    found = compare(make_runs([CUT, *a[1:]]), make_runs(b))
    assert found.pairs[0].rows == 399
    assert "1 row never ran or was cut short under tersely and is left out." in repr(found)
    gate = found.not_worse(0.05)
    assert (gate.status, bool(gate)) == ("not complete", False)
    assert repr(gate).startswith("not complete: 1 row never ran or was cut short; No difference")


def test_runs_without_a_score_are_left_out_and_above_five_in_a_hundred_close_the_gate() -> None:
    a, b = flip(400, 0, 0)
    some_left, many_left = ([None] * count + a[count:] for count in (20, 21))
    assert compare(make_runs(some_left), make_runs(b)).not_worse(0.05)
    gate = compare(make_runs(many_left), make_runs(b)).not_worse(0.05)
    assert gate.status == "not shown with 379 rows"
    assert "21 of 400 rows have no score, and more than 5% may not" in repr(gate)
    assert "20 rows have no score under tersely and are left out" in repr(compare(make_runs(some_left), make_runs(b)))


def test_rows_of_one_side_alone_are_left_out() -> None:
    found = compare(make_runs([T] * 10), make_runs([T] * 10, start=4))
    assert found.pairs[0].rows == 6
    assert (found.difference, len(found.frame)) == (0.0, 1)
    nothing = compare(make_runs([T] * 3), make_runs([T] * 3, start=4))
    assert repr(nothing).startswith("Nothing to compare: no row has a score under both tersely and kindly")
    assert (nothing.difference, nothing.interval, nothing.is_different, nothing.better) == (None, None, False, None)
    assert not nothing.not_worse(0.05)


def test_repeats_are_averaged_inside_a_row_over_those_that_both_sides_have() -> None:
    a = make_runs([[T, F, CUT], [T, T, T], [F, F, F]])
    b = make_runs([[T, T, F], [T, CUT, CUT], [T, F, F]])
    found = compare(a, b)
    assert found.difference == pytest.approx((0.5 + 0 + 1 / 3) / 3)
    assert "3 rows x 3 repeats" in repr(found)
    assert "1 run never ran or was cut short under tersely" in repr(found)


def test_several_variants_are_compared_with_the_first_and_p_is_adjusted() -> None:
    a, b = flip(60, 8, 1)
    c = [*a[:50], *[not each for each in a[50:55]], *a[55:]]
    sides = [("kindly", make_runs(b)), ("plainly", make_runs(c))]
    question = ask(make_runs(a), None)
    found = Comparison([compare_sides(("tersely", make_runs(a)), each, question) for each in sides])
    alone = Comparison([compare_sides(("tersely", make_runs(a)), sides[0], question)])
    assert alone.is_different
    assert not found.is_different
    first, second = repr(found).splitlines()
    assert first.startswith("No difference between tersely and kindly that 60 rows can show (+1 to +21 points")
    assert ", but p = 0.079 by Holm over 2 comparisons)" in first
    assert second.startswith("No difference between tersely and plainly that 60 rows can show")
    for ask_one in (lambda: found.p, lambda: found.not_worse(0.05), lambda: found.better):
        with pytest.raises(ValidationError, match="Several variants are compared"):
            ask_one()


@settings(max_examples=150)
@given(
    rows=some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3)), min_size=1, max_size=60),
    is_share=some.booleans(),
)
def test_better_is_never_said_where_the_interval_holds_zero_or_p_is_above_the_level(
    rows: list[tuple[int, int]], is_share: bool
) -> None:
    sides: list[list[Any]] = [
        [[place < count for place in range(3)] for count in side] if is_share else list(map(float, side))
        for side in zip(*rows, strict=True)
    ]
    found = compare(make_runs(sides[0]), make_runs(sides[1]))
    interval, said = found.interval, repr(found)
    may_claim = interval is not None and (interval[0] > 0 or interval[1] < 0) and found.p <= 0.05
    assert found.is_different == may_claim
    assert (" than " in said.split("(")[0]) == may_claim
    assert said.startswith("No difference") != may_claim
    assert (found.better is not None) == may_claim


@pytest.mark.parametrize(
    "cost, said",
    [
        ((0.01, 0.01), None),
        ((0.01, 0.00999), None),
        ((0.01, 0.005), "kindly costs 50% less"),
        ((0.01, 0.031), "kindly costs 3.1 times as much"),
        ((0.0, 0.01), "kindly costs $0.010 a run, the other nothing"),
        ((0.01, 0.0), "kindly costs nothing, the other $0.010 a run"),
        ((0.0, 0.0), None),
        ((None, 0.01), None),
    ],
)
def test_costs_are_told_where_they_are_known_and_differ(cost: tuple[Any, Any], said: str | None) -> None:
    a, b = flip(40, 5, 4)
    found = repr(compare(make_runs(a, cost=cost[0]), make_runs(b, cost=cost[1])))
    assert ("cost" in found) == (said is not None)
    assert said is None or f"; {said}." in found


def judged(rows: int, checked: int, agreed: int, version: str = "v1", place: str = "") -> list[ScoredRun]:
    """Runs that a judge has scored, of which a person has scored some, too."""
    runs = []
    for row in range(rows):
        said = row % 3 != 0
        scores = {"good": make_record(said, "good", kind=ScoreKind.JUDGE, scorer_version=version)}
        if row < checked:
            person = said if row < agreed else not said
            scores["label"] = make_record(person, "label", kind=ScoreKind.HUMAN)
        runs.append(ScoredRun(variant="", row=(place, row) if place else row, scores=scores))
    return runs


def test_verdict_of_a_judge_says_how_far_a_person_agreed_with_it() -> None:
    unchecked, checked = judged(40, 19, 19), judged(40, 40, 36)
    assert "can show (-7 to +7 points), by a judge that nobody has checked;" in repr(
        compare(unchecked, judged(40, 0, 0), score="good")
    )
    said = repr(compare(judged(40, 0, 0), checked, score="good"))
    assert "; the judge agreed with a person on 36 of 40 rows (kappa 0.78, 0.5" in said
    changed = compare(checked, judged(40, 0, 0, version="v2"), score="good")
    assert "by a judge that was changed in between" in repr(changed)


@pytest.mark.parametrize(
    "earlier, said",
    [
        (
            [*judged(15, 15, 15, place="b")],
            "the judge agreed with a person on 25 of 25 rows (kappa 1.00, 1.00 to 1.00), earl",
        ),
        ([*judged(30, 30, 20, place="b")], "the judge agreed with a person on 30 of 40 rows (kappa 0.4"),
        ([*judged(9, 9, 9, place="b")], "by a judge that nobody has checked"),
        ([*judged(30, 30, 30, version="v0", place="b")], "by a judge that nobody has checked"),
    ],
)
def test_earlier_maps_check_the_very_same_judge_where_these_have_too_few_labels(
    earlier: list[ScoredRun], said: str
) -> None:
    asked: list[int] = []

    def find_earlier() -> list[ScoredRun]:
        asked.append(1)
        return earlier

    assert str(describe_judge(judged(40, 10, 10), "good", find_earlier)).startswith(said)
    assert asked == [1]
    own = describe_judge(judged(40, 40, 36), "good", find_earlier)
    assert own is not None
    assert own.startswith("the judge agreed with a person on 36 of 40 rows")
    assert not own.endswith("earlier maps included")
    assert asked == [1]  # these labels are enough


def test_agreement_is_measured_by_the_kind_of_the_scores() -> None:
    found = measure_agreement(judged(40, 40, 36), "good", "label")
    assert (found.rows, found.agreed, found.measure) == (40, 36, "kappa")
    assert found.value == pytest.approx(0.7802, abs=1e-3)
    assert repr(found).startswith("good and label agree on 36 of 40 rows (kappa 0.78, ")

    def rate(a: list[Any], b: list[Any]) -> list[ScoredRun]:
        return [
            ScoredRun(variant="", row=row, scores={"a": make_record(x, "a"), "b": make_record(y, "b")})
            for row, (x, y) in enumerate(zip(a, b, strict=True))
        ]

    levels, near = [1.0, 2.0, 3.0, 4.0, 5.0] * 6, [2.0, 2.0, 3.0, 4.0, 4.0] * 6
    weighted = measure_agreement(rate(levels, near), "a", "b", levels=[1, 2, 3, 4, 5])
    assert (weighted.measure, weighted.value) == ("weighted kappa", pytest.approx(0.8571, abs=1e-3))
    assert measure_agreement(rate(levels, near), "a", "b").measure == "concordance"
    same = measure_agreement(rate([T] * 20, [T] * 20), "a", "b")
    assert (same.value, same.interval) == (None, None)
    assert repr(same) == "a and b agree on 20 of 20 rows (no kappa, since both always say the same)."
    one_sided = measure_agreement(rate([T] * 20, [T, F] * 10), "a", "b")
    assert repr(one_sided) == "a and b agree on 10 of 20 rows (no kappa, since one of them always says the same)."
    assert "-0.00" not in repr(measure_agreement(rate([T, F] * 40, [T, T, F, F] * 20), "a", "b"))
    words = measure_agreement(rate(["x", "y", "x", "z"] * 5, ["x", "y", "y", "z"] * 5), "a", "b")
    assert (words.agreed, words.measure) == (15, "kappa")
    for pair, given_levels, problem in (
        (rate([T], [1.0]), None, "'a' and 'b' can't agree: one is passed, the other value"),
        (rate([1.0], [7.0]), [1, 2], "levels= are the whole numbers that both scores give"),
        (rate([1.0], [None]), None, "No run has both scores"),
    ):
        with pytest.raises(ValidationError, match=problem):
            measure_agreement(pair, "a", "b", given_levels)
    with pytest.raises(ValidationError, match="No score is called 'lable'"):
        measure_agreement(judged(4, 4, 4), "good", "lable")


def test_scores_that_mix_kinds_are_refused_when_they_are_summed_up() -> None:
    runs = make_runs([T, F, 0.5])
    with pytest.raises(ValidationError, match="'accuracy' mixes kinds of scores, so it can't be summed up: it is pass"):
        compare(runs, runs)
    with pytest.raises(ValidationError, match="mixes kinds"):
        summarize({"": runs})


def test_scores_that_are_not_numbers_are_no_opinion() -> None:
    found = compare(make_runs([math.nan, 1.0, 2.0]), make_runs([1.0, 2.0, 3.5]))
    assert found.pairs[0].rows == 2
    assert "1 row has no score under tersely and is left out." in repr(found)


def test_summary_counts_rows_and_gives_shares_wilsons_interval() -> None:
    from statsmodels.stats.proportion import proportion_confint

    runs = make_runs([[T, T], [T, FAILED], [CUT, F], [None, T]], cost=0.01)
    (found,) = summarize({"": runs}, k=2).to_dict("records")
    assert (found["rows"], found["repeats"], found["failed"], found["incomplete"], found["unscored"]) == (4, 2, 1, 1, 1)
    assert found["mean"] == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert (found["low"], found["high"]) == pytest.approx(proportion_confint(2.5, 4, method="wilson"), abs=1e-3)
    assert (found["pass@2"], found["pass^2"]) == (1.0, 0.5)
    assert found["cost"] == 0.01
    for wrong in (0, 3, True, 1.5):
        with pytest.raises(ValidationError, match="k must be a whole number from 1 to 2, the repeats of a row"):
            summarize({"": runs}, k=wrong)


def test_summary_of_rows_that_all_failed_says_so() -> None:
    (found,) = summarize({"": make_runs([FAILED] * 5)}).to_dict("records")
    assert (found["score"], found["rows"], found["failed"], found["mean"]) == ("score", 5, 5, 0.0)
    assert len(summarize({"": []})) == 0


def test_summary_has_a_row_for_each_word_of_a_label_and_without_scores_one_of_what_was_done() -> None:
    frame = summarize({"a": make_runs(["x", "y", "x"]), "b": make_runs(["y"] * 3)})
    assert frame[["variant", "score", "mean"]].values.tolist() == [
        ["a", "accuracy=x", pytest.approx(2 / 3)],
        ["b", "accuracy=x", 0],
        ["a", "accuracy=y", pytest.approx(1 / 3)],
        ["b", "accuracy=y", 1],
    ]
    unscored = summarize({"": [ScoredRun(variant="", row=0, ending=Ending.DONE)]})
    assert unscored[["rows", "failed", "incomplete"]].values.tolist() == [[1, 0, 0]]
    assert "score" not in unscored
    assert len(summarize({"": []})) == 0


def test_p_is_never_written_smaller_than_it_is() -> None:
    written = {0.0504: "= 0.051", 0.02: "= 0.02", 0.0196: "= 0.02", 0.0009: "< 0.001", 0.342: "= 0.35", 1.0: "= 1"}
    assert {p: summary.format_p(p) for p in written} == written


@given(some.lists(some.floats(-1, 1), min_size=2, max_size=3))
def test_no_amount_but_zero_is_written_as_zero(values: list[float]) -> None:
    for each, text in zip(values, summary.Scale(values, "points").write_signed(), strict=True):
        if abs(each) > 1e-8:
            assert text.removesuffix(" points").removesuffix(" point") not in ("0", "+0", "-0")
        assert "-0 " not in f"{text} "


@pytest.mark.parametrize(
    "names, short",
    [
        (["style=kindly", "style=tersely"], ["kindly", "tersely"]),
        (["style=kindly, llm=a", "style=tersely, llm=a"], ["kindly", "tersely"]),
        (["style=x, llm=a", "style=x, llm=b", "style=y, llm=a"], ["x, a", "x, b", "y, a"]),
        (["low", "loud"], ["low", "loud"]),
        (["a=1", "b=1"], ["a=1", "b=1"]),
        (["style=", "style=x"], ["style=", "style=x"]),
        ([f"style={'long ' * 20}1", "style=x"], [f"{'long ' * 20}1"[:39] + "…", "x"]),
        (["style=kindly"], ["style=kindly"]),
    ],
)
def test_names_of_variants_are_as_short_as_is_unambiguous(names: list[str], short: list[str]) -> None:
    assert shorten_names(names) == short


def test_page_has_the_sentence_a_table_and_drawings_and_escapes_names() -> None:
    a, b = flip(120, 14, 4)
    found = compare(make_runs(a, cost=0.01), make_runs(b, cost=0.0112), names=("<i>terse</i>", "k&ly"))
    bundle = make_comparison_bundle(found)
    assert bundle["text/plain"] == repr(found)
    page = bundle["text/html"]
    assert page.count("<svg") == 2
    assert "<span>&#36;</span>0.011 (+<span>&#36;</span>0.0012)" in page
    assert "95% each, not adjusted" in page
    assert "<i>" not in page
    assert "k&amp;ly passes 8 points more often" in page
    assert "currentColor" in page
    assert make_comparison_bundle(compare(make_runs(a), make_runs(b)))["text/html"].count("<svg") == 1
    assert "<svg" not in make_comparison_bundle(compare(make_runs([1.0]), make_runs([2.0])))["text/html"]


class _Text(HTMLParser):
    """What is left of a page where elements that are not HTML are dropped, with or without what is in them."""

    def __init__(self, page: str, *, keeps_words: bool) -> None:
        super().__init__()
        self._drawings, self._keeps_words = 0, keeps_words
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._drawings += tag == "svg"
        self.text += "\n" if tag in ("div", "tr", "td", "th") else ""

    def handle_endtag(self, tag: str) -> None:
        self._drawings -= tag == "svg"

    def handle_data(self, data: str) -> None:
        self.text += data if self._keeps_words or not self._drawings else ""


def test_v12_a_page_without_drawings_reads_as_a_text() -> None:
    a, b = flip(120, 14, 4)
    runs = (make_runs(a, cost=0.01), make_runs(b, cost=0.0112))
    page = make_comparison_bundle(compare(*runs, names=("one", "other")))["text/html"]
    assert "Differences from one" not in _Text(page, keeps_words=False).text
    assert _Text(page, keeps_words=True).text.splitlines()[-1] == (
        "Differences from one, with 95% intervals, not adjusted, on a line from 0 to +15 points on which no difference "
        "is as one; other: +8, +1 to +15 points. "
        "accuracy against cost: accuracy from 81% to 99%, cost from 0 to $0.011 a run; other: 97%; one: 88%. "
    )
    drawn = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])
    assert {each.text for each in drawn if each.tag == "text"} == {"0", "+15 points", "as one", "other"}


def test_v12_names_of_variants_of_like_cost_and_quality_are_not_written_over_each_other() -> None:
    a, b = flip(120, 14, 4)
    names = ("short", "a variant whose name is long", "cheap", "one that costs a little more", "another")
    costs = (0.0110, 0.0112, 0.0010, 0.0113, 0.0111)
    first, *others = (
        (name, make_runs(b if number % 2 else a, cost=cost))
        for number, (name, cost) in enumerate(zip(names, costs, strict=True))
    )
    question = ask(first[1], None, None, None)
    found = Comparison([compare_sides(first, each, question, currency="USD") for each in others])
    drawn = ElementTree.fromstring(draw_quality(found))
    boxes = []
    for each in drawn.iter("text"):
        if each.text in names:
            x, y, width = float(each.attrib["x"]), float(each.attrib["y"]), 7 * len(each.text)
            left = x - width if each.attrib["text-anchor"] == "end" else x
            assert 0 <= left <= left + width <= 460
            boxes.append((left, left + width, y))
    assert len(boxes) == len(names)
    for (left, right, y), (other_left, other_right, other_y) in combinations(boxes, 2):
        assert right <= other_left or other_right <= left or abs(y - other_y) >= 12


def test_drawing_in_characters_has_a_line_for_each_comparison() -> None:
    a, b = flip(40, 10, 2)
    lines = draw_text(compare(make_runs(a), make_runs(b))).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("kindly  ")
    assert lines[1].count("●") == lines[1].count("├") == lines[1].count("┤") == 1
    assert draw_text(compare(make_runs([1.0]), make_runs([2.0]))) == ""


def test_comparison_has_a_frame_and_can_be_pickled() -> None:
    a, b = flip(120, 14, 4)
    found = compare(make_runs(a, cost=0.01), make_runs(b, cost=0.0112))
    (row,) = found.frame.to_dict("records")
    assert (row["a"], row["b"], row["rows"], row["is_different"]) == ("tersely", "kindly", 120, True)
    assert (row["low"], row["high"]) == found.interval
    assert row["cost_difference"] == pytest.approx(0.0012)
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
