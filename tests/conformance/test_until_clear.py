"""Maps that end where the verdict is clear (V60), its doors (V63), the rows left out (E120), and bounds (V61)."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import (
    Ensemble,
    RunInterrupted,
    RunStatus,
    Score,
    ScoringError,
    ScriptedChatModel,
    Task,
    TaskInput,
    TraceFormatError,
    ValidationError,
    load_traces,
)
from ensemble_notebook.cli.main import DONE, FAILED, MISTAKE, main
from ensemble_notebook.ensemble.many_runs.map_run import Variant, start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_map
from ensemble_notebook.evaluation.clear_verdict import order_rows
from ensemble_notebook.evaluation.standing import describe_standing
from ensemble_notebook.testing.trace_invariants import find_violations

ROWS = [{"n": place} for place in range(120)]
VARIANTS = {name: {"inputs": {"style": name}} for name in ("kindly", "tersely")}


def answer(given: TaskInput) -> str:
    return given.description


ENSEMBLE = Ensemble(name="answers", tasks=[Task(description="{style} {n}", handler=answer)])


def is_terse(output: Any) -> bool:
    """Right under the second variant, and under the first in every third row."""
    style, number = output.raw.split()
    return bool(style == "tersely" or int(number) % 3 == 0)


def is_even(output: Any) -> bool:
    """The same under both."""
    return int(output.raw.split()[1]) % 2 == 0


def run(**given: Any) -> Any:
    return ENSEMBLE.variants(VARIANTS).map(ROWS, **{"concurrency": 4, "score": is_terse, "until_clear": 0.05, **given})


def test_map_ends_where_its_verdict_is_clear_and_says_what_that_saved_v60() -> None:
    result = run()
    statuses = Counter(each.status for each in result)
    assert set(statuses) == {"completed", "settled"}
    assert statuses["settled"] > 100
    assert "tersely passes" in repr(result.compare())
    assert "95% after each row at once" in repr(result.compare())
    assert f"{statuses['settled'] // 2} rows saved" in repr(result.compare())
    assert result.compare().not_worse(by=0.05)
    assert result.summary()["incomplete"].tolist() == [0, 0]


def test_alike_sides_run_whole_v60() -> None:
    result = run(score=is_even)
    assert {each.status for each in result} == {"completed"}
    assert "No difference" in repr(result.compare())
    assert "95% after each row at once" in repr(result.compare())


def test_rows_run_in_an_order_that_a_seed_shuffles_v60() -> None:
    ended = run(score=is_even, concurrency=1)
    begun = [each.task for each in ended.output.events if type(each).__name__ == "TaskStarted"]
    rows = [int(name.rpartition(" ")[2]) for name in begun if name.startswith("kindly")]
    names = [str(place) for place in range(120)]
    assert [*map(str, rows)] == order_rows(names, 0)
    assert order_rows(names, 0) != order_rows(names, 1)
    assert [each.inputs["n"] for each in run() if each.variant == "kindly"] == list(range(120))


def test_stored_map_tells_the_same_verdict_v60(tmp_path: Path) -> None:
    result = run()
    result.export(tmp_path / "map.trace.json")
    loaded = load_traces(tmp_path / "map.trace.json").load_map(result.run_id)
    assert repr(loaded.compare()) == repr(result.compare())


def test_history_of_a_score_has_no_usual_interval_of_a_map_that_ended_early_v60(tmp_path: Path) -> None:
    result = run()
    result.export(tmp_path / "map.trace.json")
    kindly, tersely = load_traces(tmp_path / "map.trace.json").score_history("is_terse").points
    assert (kindly.summary.interval, tersely.summary.mean, tersely.summary.incomplete) == (None, 1, 0)


@pytest.mark.parametrize("level", ["0.0", "null", '"half"'])
def test_stored_map_with_a_level_that_is_none_is_damaged_v60(level: str, tmp_path: Path) -> None:
    path = tmp_path / "map.trace.json"
    result = run()
    result.export(path)
    path.write_text(path.read_text().replace('"level": 0.05', f'"level": {level}'))
    with pytest.raises(TraceFormatError, match="is damaged"):
        load_traces(path).load_map(result.run_id)


def test_all_that_was_seen_counts_where_a_map_goes_on_v60(tmp_path: Path) -> None:
    first = ENSEMBLE.variants(VARIANTS).map(ROWS[:60], score=is_terse)
    result = run(resume=first)
    assert sum(each.status == "settled" for each in result) == 120
    assert "60 rows" in repr(result.compare())
    assert describe_standing(result.trace._fold).reason == repr(result.compare())
    result.export(tmp_path / "map.trace.json")
    assert repr(load_traces(tmp_path / "map.trace.json").load_map(result.run_id).compare()) == repr(result.compare())


@pytest.mark.parametrize(
    "given, told",
    [
        ({"until_clear": 0}, "above 0 and below 1"),
        ({"until_clear": True}, "above 0 and below 1"),
        ({"until_clear": {"a": 0.05, "b": 0.05}}, "names one score"),
        ({"score": None}, "needs scores"),
        ({"until_clear": None, "seed": 3}, "seed is about until_clear"),
        ({"seed": -1}, "whole number from 0"),
    ],
)
def test_what_is_no_level_is_refused_v60(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        run(**given)


def test_one_row_has_nothing_to_end_v60() -> None:
    with pytest.raises(ValidationError, match="ends many rows"):
        ENSEMBLE.variants(VARIANTS).run({"n": 1}, until_clear=0.05)
    assert len(ENSEMBLE.variants(VARIANTS).map([], score=is_terse, until_clear=0.05)) == 0


def test_one_variant_has_nothing_to_compare_v60() -> None:
    with pytest.raises(ValidationError, match="there is only one"):
        ENSEMBLE.map([{"n": 1, "style": "kindly"}], score=is_terse, until_clear=0.05)


def test_level_is_for_all_variants_and_scores_together_v60() -> None:
    scores = {"right": is_terse, "even": is_even}
    result = run(score=scores, until_clear={"right": 0.05})
    assert "97.5% after each row at once" in repr(result.compare(score="right"))
    assert "97.5% after each row at once" in repr(result.compare(score="even"))
    with pytest.raises(ValidationError, match="There are several scores"):
        run(score=scores)


def test_variant_that_is_settled_stops_and_the_others_go_on_v60() -> None:
    variants = {name: {"inputs": {"style": name}} for name in ("kindly", "tersely", "plainly")}
    result = ENSEMBLE.variants(variants).map(ROWS, concurrency=4, score=is_terse, until_clear=0.05)
    settled = Counter(each.variant for each in result if each.status == "settled")
    assert settled.keys() == {"tersely"}
    first, second = result.compare().pairs
    assert first.better == "tersely"
    assert not second.is_different


def test_repeats_of_a_row_run_together_v60() -> None:
    result = run(score=is_even, repeat=2, concurrency=1)
    rows = {each.name: each.row for each in result}
    begun = [
        rows[each.task] for each in result.output.events if type(each).__name__ == "TaskStarted" and each.task in rows
    ]
    assert begun[:8] == [begun[0]] * 4 + [begun[4]] * 4


def test_labels_need_the_one_that_counts_v60() -> None:
    def tone(output: Any) -> str:
        return "short" if is_terse(output) else "long"

    with pytest.raises(ScoringError, match="is a label: say which one counts") as error:
        run(score=tone)
    assert sum(each.is_done for each in error.value.result) <= 8
    assert "tersely gets short" in repr(run(score=tone, is_="short").compare())


def test_score_that_nobody_gives_is_refused_v60() -> None:
    with pytest.raises(ScoringError, match="Did you mean 'is_terse'"):
        run(until_clear={"is_ters": 0.05})


def test_mark_is_passed_by_an_interval_that_holds_after_each_row_v60() -> None:
    gate = run().passes("is_terse", at_least=0.5, variant="tersely")
    assert gate
    assert "after each row at once" in repr(gate)


def mark(output: Any) -> Score:
    style, number = output.raw.split()
    return Score(int(number) * 7919 % 100 / 100 * (0.9 if style == "tersely" else 0.6), low=0, high=1)


def test_number_with_bounds_needs_no_approximation_v61() -> None:
    told = repr(run(score=mark).compare())
    assert "tersely scores" in told
    assert "approximate" not in told
    assert "approximate" in repr(run(score={"mark": lambda output: mark(output).value}).compare())


@pytest.mark.parametrize(
    "given, told",
    [
        ({"value": 2, "low": 0, "high": 1}, "outside of its bounds"),
        ({"value": 0.5, "low": 0}, "are two numbers"),
        ({"value": 0.5, "low": 1, "high": 0}, "are two numbers"),
        ({"value": True, "low": 0, "high": 1}, "about numbers"),
    ],
)
def test_bounds_that_are_none_are_refused_v61(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Score(**given)


def test_e120_row_that_was_not_needed_says_so_where_no_texts_are_kept() -> None:
    result = ENSEMBLE.replace(capture_mode="metadata").variants(VARIANTS).map(ROWS, score=is_terse, until_clear=0.05)
    assert {each.status for each in result} == {"completed", "settled"}
    assert "rows saved" in repr(result.compare())


def test_e120_rows_that_ran_are_shown_before_those_that_were_not_needed() -> None:
    shown = run()._repr_mimebundle_()["text/plain"]
    assert "completed" in shown
    assert "clear before its turn" not in shown.partition("tersely")[0]


def test_e120_row_that_was_not_needed_says_so_everywhere() -> None:
    result = run()
    assert result.status == RunStatus.COMPLETED
    left = result.frame[result.frame.status == "settled"]
    assert set(left.error) == {"settled: the verdict was clear before its turn"}
    rows = result.frames.rows
    assert (rows.status == "settled").sum() == len(left)
    assert rows[rows.status == "settled"][["run_id", "cost", "duration_ms"]].isna().all(axis=None)
    assert not find_violations(result.trace)


@pytest.fixture
def shell() -> Any:
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "ensemble_notebook")
    made.user_ns.update(answer=answer, is_terse=is_terse, is_even=is_even, df=ROWS)
    yield made
    made.run_line_magic("unload_ext", "ensemble_notebook")
    InteractiveShell.clear_instance()


CELL = "tasks: {say: {description: '{style} {n}', handler: answer}}"
VARY = "--map df -o res --vary style=kindly --vary style=tersely"


def test_cell_ends_where_its_verdict_is_clear_v63(shell: Any) -> None:
    shell.run_cell_magic("ensemble", f"{VARY} --score is_terse --until-clear 0.05 --seed 3", CELL)
    assert "rows saved" in repr(shell.user_ns["res"].compare())
    named = f"{VARY} --score is_terse --score is_even --until-clear is_terse=0.05"
    shell.run_cell_magic("ensemble", named, CELL)
    assert "97.5% after each row" in repr(shell.user_ns["res"].compare(score="is_terse"))


@pytest.mark.parametrize(
    "line, told",
    [
        (f"{VARY} --score is_terse --until-clear 1.5", "above 0 and below 1"),
        (f"{VARY} --until-clear 0.05", "and --score SCORER"),
        ("--map df --score is_terse --until-clear 0.05", "--vary NAME=VALUE twice"),
        (f"{VARY} --score is_terse --seed 3", "--seed is about --until-clear"),
        (f"{VARY} --score is_terse --is short", "--is is about --until-clear"),
        (f"{VARY} --score is_terse --until-clear 0.05 --seed -1", "whole number from 0"),
        (f"{VARY} --score is_terse --score is_even --until-clear 0.05", "There are several scores"),
    ],
)
def test_line_that_ends_nothing_is_refused_v63(shell: Any, line: str, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        shell.run_cell_magic("ensemble", line, CELL)
    assert told in str(caught.value)


CELL_FILE = "tasks: {say: {description: '{style} {n}', handler: voices_of_clear.answer}}"
VOICES = """
def answer(given): return given.description
def is_terse(output):
    style, number = output.raw.split()
    return style == "tersely" or int(number) % 3 == 0
"""


def test_command_ends_where_it_is_clear_that_nothing_is_lost_v63(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("cell.yaml").write_text(CELL_FILE)
    Path("voices_of_clear.py").write_text(VOICES)
    Path("rows.csv").write_text("n\n" + "\n".join(str(place) for place in range(300)))
    scored = ["map", "cell.yaml", "rows.csv", "--scores", "voices_of_clear:is_terse", "--score", "is_terse"]
    assert main([*scored, "-i", "style=tersely", "-o", "before.trace.json"]) == DONE
    held = [*scored, "--against", "before.trace.json", "--not-worse-by", "0.2", "--until-clear", "0.05"]
    assert main([*held, "-i", "style=tersely"]) == DONE
    told = capsys.readouterr().out
    assert "rows saved" in told
    assert "not worse by 0.2: shown" in told
    assert main([*held, "-i", "style=kindly"]) == FAILED
    told = capsys.readouterr().out
    assert "rows saved" in told
    assert "not worse by 0.2: shown to be worse" in told
    assert main([*scored, "-i", "style=kindly", "--until-clear", "0.05"]) == MISTAKE
    assert "name that with --against" in capsys.readouterr().err


def test_budget_and_stop_end_a_map_before_its_verdict_and_leave_no_row_settled_v60() -> None:
    spoken = ScriptedChatModel(default="kindly 1")
    team = Ensemble(tasks=[Task.of("{style} {n}", name="say", llm=spoken)])
    variants = team.variants({name: {"inputs": {"style": name}} for name in ("kindly", "tersely")})
    given: dict[str, Any] = {"score": is_even, "until_clear": 0.05, "concurrency": 1}
    poor = variants.map(ROWS[:20], budget={"max_llm_calls": 6}, **given)
    assert Counter(each.status for each in poor) == {"completed": 6, "budget_exceeded": 1, "skipped": 33}
    assert not poor.compare().is_different
    rest = variants.map(ROWS[:20], resume=poor, **given)
    assert Counter(each.reused for each in rest) == {True: 6, False: 34}

    async def stop(given: TaskInput) -> str:
        begun.append(given.description)
        if len(begun) == 5:
            handle.cancel()
            await asyncio.Event().wait()
        return given.description

    begun: list[str] = []
    sides = [
        Variant(name, Ensemble(tasks=[Task(description="{style} {n}", handler=stop)]), each["inputs"])
        for name, each in VARIANTS.items()
    ]
    handle = start_map(sides[0].ensemble, read_map(ROWS[:20], **given), variants=sides)
    handle._begin()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    result: Any = caught.value.output
    assert Counter(each.status for each in result)["completed"] == 4
    assert "settled" not in {each.status for each in result}
