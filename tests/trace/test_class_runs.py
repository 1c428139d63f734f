"""What a class has done: each student's last run of each exercise, its checks, cost and mistakes; frame and page.

Holds C124.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from ensemble_notebook import CheckFailed, ValidationError, check, load_class, load_traces
from ensemble_notebook.cli.main import main
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.scorers import called, contains
from tests.support.class_runs import REASON, SECRET, fill_class, work


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return fill_class(tmp_path / "RUNS")


def test_each_students_last_run_of_each_exercise_is_a_row(runs: Path) -> None:
    found = load_class(runs / "*")
    frame = found.frame.set_index(["student", "exercise"])
    assert found.students == ("anna", "ben", "carl", "dora", "elif")
    assert found.idle == ("carl",)
    assert list(found.exercises) == ["lesson 1", "lesson 2"]
    anna, ben = frame.loc[("anna", "lesson 1")], frame.loc[("ben", "lesson 1")]
    assert (anna["status"], anna["runs"], anna["checks"], anna["checks_passed"]) == ("completed", 3, 2, 2)
    assert pd.isna(anna["first_mistake"])
    assert (anna["frequent_error"], anna["frequent_error_count"]) == ("ValueError in say", 2)
    assert (ben["status"], ben["first_mistake"]) == ("failed", "ValueError in say")
    assert frame.loc[("anna", "lesson 2"), "first_mistake"] == "check.called('x')"
    assert frame.loc[("dora", "lesson 1"), "first_mistake"] == "check.matches('x')"
    assert anna["cost"] > 0
    assert anna["total_cost"] == anna["cost"]
    assert frame.loc[("elif", "lesson 1"), "checks"] == 0


def test_a_damaged_file_is_named_and_the_rest_is_shown(runs: Path) -> None:
    (runs / "elif" / "other.db").write_bytes(b"SQLite format 3\0" + b"x" * 4000)
    (problem, other) = load_class(runs / "*").problems
    assert problem.startswith("dora/1.trace.json can't be read: ")
    assert other.startswith("elif/other.db can't be read: ")


def test_a_store_of_a_student_is_not_written_to(runs: Path) -> None:
    before = (runs / "elif" / "runs.db").read_bytes()
    load_class(runs / "elif").frame.to_string()
    assert (runs / "elif" / "runs.db").read_bytes() == before


def test_texts_are_shown_where_they_are_asked_for_alone(runs: Path, tmp_path: Path) -> None:
    silent, full = (load_class(runs / "*", texts=texts) for texts in (False, True))
    assert not {"mistake_text", "error_text"} & {*silent.frame.columns}
    row = full.frame.set_index(["student", "exercise"]).loc[("ben", "lesson 1")]
    assert SECRET in row["mistake_text"]
    assert SECRET in row["error_text"]
    pages = [each.save(tmp_path / f"{at}.html").read_text() for at, each in enumerate((silent, full))]
    for text in (SECRET, REASON[:23]):
        assert [text in page for page in pages] == [False, True]


def test_the_same_run_in_two_folders_is_one_run_that_both_have(runs: Path) -> None:
    (runs / "carl" / "2.trace.json").write_bytes((runs / "anna" / "3.trace.json").read_bytes())
    frame = load_class(runs / "*").frame.set_index(["student", "exercise"])
    assert frame.loc[("carl", "lesson 1"), "also_in"] == ("anna",)
    assert frame.loc[("anna", "lesson 1"), "also_in"] == ("carl",)


def test_a_run_that_many_have_names_some_of_them(runs: Path, tmp_path: Path) -> None:
    for name in ("f", "g", "h", "i", "j"):
        (runs / name).mkdir()
        (runs / name / "1.trace.json").write_bytes((runs / "anna" / "3.trace.json").read_bytes())
    page = load_class(runs / "*").save(tmp_path / "class.html").read_text()
    assert "(the same run as f, g, h, 2 more)" in page


def test_a_file_and_a_store_with_the_same_run_count_it_once_with_its_checks(runs: Path) -> None:
    frames = load_traces(runs / "elif" / "runs.db")
    trace = frames._load_trace(frames.runs.index[0])
    record = ScoreRecord(
        name="check.ok", kind=ScoreKind.CODE, scored_at=datetime.now(UTC), run_id=trace.run_id, passed=True, value=1.0
    )
    trace._with_scores([record]).save(runs / "elif" / "again.trace.json")
    row = load_class(runs / "*").frame.set_index(["student", "exercise"]).loc[("elif", "lesson 1")]
    assert (row["runs"], row["checks_passed"]) == (1, 1)


def test_a_run_of_another_day_is_marked_on_the_page(runs: Path, tmp_path: Path) -> None:
    for file in (runs / "ben").iterdir():
        text = re.sub(r"20\d\d-\d\d-\d\dT", "2020-02-03T", file.read_text())
        file.write_text(text)
    page = load_class(runs / "*").save(tmp_path / "class.html").read_text()
    assert "2020-02-03" in page
    assert "(another day)" in page
    assert "1 of another day" in page


def test_the_page_names_who_has_no_run_and_loads_nothing(runs: Path, tmp_path: Path) -> None:
    page = load_class(runs / "*").save(tmp_path / "class.html").read_text()
    assert "<h2>Without a run</h2><ul><li>carl</li></ul>" in page
    assert "No run of it: ben, dora." in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.search(r"<script|src=|href=", page)


def test_what_students_call_things_is_text(runs: Path, tmp_path: Path) -> None:
    (runs / "<b>fox").mkdir()
    work("<img src=x onerror=alert(1)>").trace.save(runs / "<b>fox" / "1.trace.json")
    page = load_class(runs / "*").save(tmp_path / "class.html").read_text()
    assert "<img" not in page
    assert "<b>" not in page


def test_what_is_no_class_is_refused_and_says_what_one_is(runs: Path, tmp_path: Path) -> None:
    hint = re.escape("Name a folder for each student, with *.trace.json files or a run store in it, such as RUNS/*.")
    with pytest.raises(ValidationError, match=f"There is no folder '.*nobody'. {hint}"):
        load_class(tmp_path / "nobody")
    with pytest.raises(ValidationError, match=f"There is no run in .*carl. {hint}"):
        load_class(runs / "carl")
    with pytest.raises(ValidationError, match=r"ends in \.html or \.csv"):
        load_class(runs / "*").save(tmp_path / "class.pdf")


def test_the_command_writes_the_page_and_says_what_it_could_not_read(runs: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "class.html"
    folders = [str(each) for each in sorted(runs.iterdir())]  # as the shell makes it, with a file among them
    assert main(["class", *folders, "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    assert "dora/1.trace.json can't be read" in said.err
    assert "<h1>Class: lesson 1, lesson 2</h1>" in out.read_text()
    assert main(["class", *folders, "--texts", "-o", str(tmp_path / "class.csv")]) == 0
    assert SECRET in (tmp_path / "class.csv").read_text()
    assert main(["class", str(tmp_path / "nobody")]) == 2


def test_what_check_leaves_in_a_run_is_counted(tmp_path: Path) -> None:
    output = work()
    with pytest.raises(CheckFailed):
        check(output, contains("done"), called("search"))
    (tmp_path / "ada").mkdir()
    output.trace.save(tmp_path / "ada" / "1.trace.json")
    row = load_class(tmp_path / "ada").frame.iloc[0]
    assert (row["checks"], row["checks_passed"], row["first_mistake"]) == (2, 1, "check.called('search')")
