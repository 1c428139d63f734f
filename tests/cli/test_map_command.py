"""V13: `jupyter ensemble map` runs a cell for each row of a file; its exit status says whether marks were reached."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from ensemble_notebook.cli.main import DONE, FAILED, MISTAKE, main

CELL = "tasks: {say: {description: 'Say {word}', handler: voices.say}}"
VOICES = """
def say(task):
    if task.inputs["word"] == "fail":
        raise ValueError("no voice")
    return task.inputs["word"]
"""
SCORERS = """
from ensemble_notebook import Score
def short(output): return Score(len(output.raw) < 9, reason="by its length")
def length(output): return len(output.raw)
def broken(output): raise OSError("no ruler")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a cell, its handlers, scorers and 40 rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, text in (("cell.yaml", CELL), ("voices.py", VOICES), ("rulers.py", SCORERS)):
        (tmp_path / name).write_text(text)
    write_rows(["tea"] * 40)
    yield tmp_path
    for name in ("voices", "rulers"):
        sys.modules.pop(name, None)


def write_rows(words: list[str]) -> None:
    pd.DataFrame({"word": words, "expected": words}).to_csv("rows.csv", index=False)


def run(*words: str) -> int:
    return main(["map", "cell.yaml", "rows.csv", *words])


def test_rows_are_run_and_scored_by_functions_of_a_file_and_ready_made_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = ["--scores", "rulers.py", "--score", "short", "--score", "size=length", "--score", "contains('t')"]
    assert run(*scored, "--repeat", "2", "-o", "out.csv") == DONE
    shown = capsys.readouterr()
    assert "40 rows x 2 repeats" in shown.out
    assert "short 100% (95%: 91 to 100; 40 rows x 2 repeats)." in shown.out
    assert "size 3.0 (40 rows x 2 repeats, which give no interval)." in shown.out
    assert "80 of 80 runs done" in shown.err
    rows = pd.read_csv("out.csv")
    assert (len(rows), rows.score_short.mean(), rows.score_size.mean(), rows.score_contains.mean()) == (80, 1, 3, 1)


def test_function_of_a_module_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--scores", "rulers:length", "--score", "length") == DONE
    assert "length 3.0 (40 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, status, said",
    [
        (["tea"] * 40, DONE, "✓ is_equal at least 0.9: shown"),
        (["tea"] * 34, FAILED, "✕ is_equal at least 0.9: not shown with 34 rows (about 35 would)"),
        (["tea"] * 99 + ["fail"], DONE, "✓ is_equal at least 0.9: shown"),
        (["tea"] * 20 + ["fail"] * 20, FAILED, "✕ is_equal at least 0.9: shown to be worse"),
        (["fail"] * 20, FAILED, "✕ is_equal at least 0.9: shown to be worse"),
    ],
)
def test_exit_status_is_that_of_the_gate_and_failed_rows_count_as_not_passed(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    write_rows(words)
    assert run("--score", "equals", "--fail-under", "equals=0.9") == status
    assert said in capsys.readouterr().out


def test_an_inserted_row_takes_no_partner_away_and_too_many_new_ones_close_the_gate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"word {place}" for place in range(60)]
    write_rows(words)
    assert run("--score", "equals", "-o", "before.trace.json") == DONE
    marks = ["--score", "equals", "--against", "before.trace.json", "--not-worse-by", "0.1"]
    write_rows(["new", *words])
    assert run(*marks) == DONE
    assert "60 rows paired; 1 new (row 0), 0 gone." in capsys.readouterr().out
    write_rows([f"new {place}" for place in range(9)] + words)
    assert run(*marks) == FAILED
    shown = capsys.readouterr().out
    assert "9 new (row 0, row 1, row 2, row 3, row 4 and 4 more), 0 gone." in shown
    assert "✕ is_equal not worse by 0.1: unpaired: more than 5% of the rows are in one map alone" in shown
    assert run(*marks, "--allow-unpaired") == DONE
    pd.DataFrame({"no": range(60), "word": words, "expected": words}).to_csv("rows.csv", index=False)
    assert run(*marks, "--id", "no") == DONE
    assert "60 rows paired; 0 new, 0 gone." in capsys.readouterr().out


def test_without_a_gate_rows_that_failed_set_the_status(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(["tea", "fail"])
    assert run() == FAILED
    assert "no voice" in capsys.readouterr().out


def test_map_that_is_cut_short_closes_every_gate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cell.yaml").write_text("llm: scripted\nbudget: 38 calls\ntasks: {say: 'Say {word}'}")
    assert run("--score", "contains('a')", "--fail-under", "contains=0.5") == FAILED
    shown = capsys.readouterr().out
    assert "✕ contains at least 0.5: not complete" in shown
    assert "contains 100% (95%: 91 to 100; 38 rows)." in shown


def test_scorer_that_always_fails_is_no_success(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--scores", "rulers.py", "--score", "broken") == FAILED
    assert "no ruler" in capsys.readouterr().err


def test_summary_is_added_to_what_is_there_and_is_no_markup(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("summary.md").write_text("# Before\n")
    assert run("--score", "equals", "-o", "before.trace.json") == DONE
    marks = ["--against", "before.trace.json", "--not-worse-by", "0.2", "--fail-under", "a*b=0.9"]
    assert run("--score", "a*b=equals", "--score", "equals", *marks, "--summary", "summary.md") == DONE
    text = Path("summary.md").read_text()
    assert text.startswith("# Before\n### 40 rows: 40 completed")
    assert "- ✅ **a\\*b at least 0.9**: shown: a\\*b 100% (95%: 91 to 100; 40 rows)." in text
    assert "- ✅ **is\\_equal not worse by 0.2**: shown: No difference" in text
    assert "```text\n" in text
    assert "●" in text
    capsys.readouterr()


@pytest.mark.parametrize(
    "words, said",
    [
        (["--score", "equalz"], "there is no scorer"),
        (["--score", "equals('nowhere')"], "nowhere"),
        (["--score", "contains()"], "contains"),
        (["--score", "equals", "--score", "equals"], "two scores are called 'is_equal'"),
        (["--scores", "rulers.py"], "say which with --score NAME"),
        (["--scores", "nowhere.py", "--score", "x"], "there is no such file"),
        (["--scores", "rulers:lenght", "--score", "x"], "Did you mean 'length'"),
        (["--scores", "rulers", "--score", "x"], "wants FILE.py or module:function"),
        (["--fail-under", "equals=0.9"], "nothing scores"),
        (["--score", "equals", "--fail-under", "is_equl=0.9"], "no scorer gives 'is_equl'. Did you mean 'is_equal'"),
        (["--score", "equals", "--fail-under", "equals"], "wants NAME=MARK"),
        (["--score", "equals", "--fail-under", "equals=much"], "wants a number, got 'much'"),
        (["--score", "equals", "--not-worse-by", "0.05"], "name it with --against"),
        (["--score", "equals", "--against", "no.trace.json"], "there is no such file"),
        (["--against", "no.trace.json"], "nothing scores"),
        (["--repeat", "0"], "must be a whole number from 1"),
        (["--expected", "nothing", "--score", "equals"], "nothing"),
        (["--id", "nothing"], "The id column 'nothing' is not there"),
        (["--id", "expected"], "'tea' stands several times, in row 0, row 1, row 2"),
        (["--score", "equals", "--allow-unpaired"], "--allow-unpaired is about --not-worse-by"),
    ],
)
def test_mistakes_are_said_before_anything_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (folder / "voices.py").write_text("def say(task): raise SystemExit('it ran')")
    if words[0] == "--repeat":  # argparse's own
        with pytest.raises(SystemExit, match=str(MISTAKE)):
            run(*words)
    else:
        assert run(*words) == MISTAKE
    shown = capsys.readouterr()
    assert said in shown.err
    assert "it ran" not in shown.out + shown.err


def test_file_of_rows_that_is_not_there_is_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "cell.yaml", "row.csv"]) == MISTAKE
    assert "'rows.csv'" in capsys.readouterr().err


def test_numbers_of_failed_rows_count_as_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(["tea", "oil", "leek"] * 12 + ["fail"])
    marks = ["--scores", "rulers.py", "--score", "length", "--fail-under", "length=3"]
    assert run(*marks) == MISTAKE
    assert "say what they count as with failed=0" in capsys.readouterr().err
    assert run(*marks, "--failed", "0") == DONE
    assert "1 row failed and counts as 0." in capsys.readouterr().out
    assert run(*marks, "--failed", "leave out") == DONE
    assert "1 row failed and is left out." in capsys.readouterr().out


def test_what_an_earlier_map_lacks_is_said_before_a_row_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--scores", "rulers.py", "--score", "length", "-o", "before.trace.json") == DONE
    capsys.readouterr()
    (folder / "rulers.py").write_text(f"{SCORERS}\ndef both(output): return {{'length': 3, 'width': 1}}\n")
    sys.modules.pop("rulers", None)
    scored = ["--scores", "rulers.py", "--score", "short", "--score", "both"]
    assert run(*scored, "--against", "before.trace.json") == DONE
    shown = capsys.readouterr()
    for name in ("short", "both"):
        told = shown.err.index(f"The earlier map has no score {name!r}, but 'length': only what is called so")
        assert told < shown.err.index(" of 40 ")
    assert shown.out.count("length ") >= 2  # summed up, and compared
    assert run("--scores", "rulers.py", "--score", "length", "--against", "before.trace.json") == DONE
    assert "has no score" not in capsys.readouterr().err
