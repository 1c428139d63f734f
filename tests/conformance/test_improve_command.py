"""`%ensemble improve` in a real IPython shell (C118, C119), and what its verdict looks like (W178)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import Ensemble, Improvement, Task
from tests.notebook.conftest import ip, shell  # noqa: F401 - fixtures
from tests.support.tickets import make_rewriter, make_rows, make_team, right

CELL = """%%ensemble --map tickets --score right -o labelled
# costs what it costs
cost: {input_rate: 0.000001, output_rate: 0.000002}
llm: model
tasks:
  - name: label     # the only one
    description: "Label this. Ticket {ticket}"
"""
LINE = "%ensemble improve labelled --change task.label.description --llm writer --budget '$0.2'"


@pytest.fixture
def desk(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """A shell with a map in `labelled`, which the store has, too."""
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    team = make_team(lambda rules: 1.0 if rules else 0.3)
    shell.names.update(model=team.llm, team=team, tickets=make_rows(45), right=right, writer=make_rewriter())
    assert shell.run(CELL).success
    return shell


@pytest.mark.parametrize("where", ["variable", "store"])
def test_c118_a_map_gets_better_texts_and_says_of_each_candidate_what_it_came_to(
    desk: Any, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    line = LINE
    if where == "store":
        line = LINE.replace("labelled", "-1") + " --score right"
        del desk.names["labelled"]
    capsys.readouterr()
    assert desk.run(f"verdict = {line} -o better").success
    told = capsys.readouterr().out
    better = desk.names["better"]
    assert isinstance(better, Improvement)
    assert desk.names["verdict"] is better
    assert better.is_confirmed
    assert told.index("30 rows of the search, 15 held-out rows twice") < told.index("as it is: 0.")
    assert "Estimate without candidates: model calls" in told
    assert "candidate 1 (+'Mind rule " in told
    assert " on all rows of the search, as it is 0." in told
    assert " of $0.200" in told


@pytest.mark.parametrize("option", ["", " --no-timeline"])
def test_c118_the_timeline_may_be_left_out(desk: Any, capsys: pytest.CaptureFixture[str], option: str) -> None:
    shown = len(desk.displayed)
    assert desk.run(f"verdict = {LINE}{option} -o better").success
    assert (len(desk.displayed) > shown) is (option == "")
    assert "candidate 1 (+'Mind rule " in capsys.readouterr().out


def test_c118_a_dry_run_says_what_the_rows_take_and_what_candidates_may_add(
    desk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = len(desk.names["model"].calls)
    capsys.readouterr()
    assert desk.run(f"{LINE} --dry-run").success
    told = capsys.readouterr().out
    assert "Estimate without candidates: model calls" in told
    assert "With them $0.200 at most: each takes a call that rewrites and up to 30 rows, until" in told
    assert len(desk.names["model"].calls) == asked
    assert "_ensemble" not in desk.names


@pytest.mark.parametrize("where", ["variable", "store"])
def test_c118_inputs_of_the_cell_of_the_map_are_taken(desk: Any, where: str) -> None:
    told = CELL.replace("-o labelled", "-o labelled -i town=Graz").replace("Label this.", "Label this in {town}.")
    assert desk.run(told).success
    line = LINE
    if where == "store":
        line = f"{LINE.replace('labelled', desk.names.pop('labelled').run_id)} --score right"
    assert desk.run(f"{line} -o better").success
    assert desk.names["better"].is_confirmed
    assert "Label this in Graz. Ticket" in desk.names["model"].calls[-1].prompt


def test_c119_the_cell_with_the_better_texts_comes_below_and_nothing_else_of_it_changes(
    desk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert desk.run(f"verdict = {LINE} -o better").success
    told = capsys.readouterr().out
    cell = told[told.index("%%ensemble --map tickets") :]
    text = desk.names["better"].changes["task.label.description"].replace("\n", "\\n")
    assert cell.rstrip() == CELL.replace("Label this. Ticket {ticket}", text).rstrip()


def test_c119_an_ensemble_that_no_cell_can_say_keeps_its_verdict(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    desk.names["mapped"] = make_team(lambda rules: 1.0 if rules else 0.3).map(make_rows(45), score=right)
    assert desk.run(f"verdict = {LINE.replace('labelled', 'mapped')} -o better").success
    assert desk.names["verdict"].is_confirmed
    told = capsys.readouterr().out
    assert "There is no cell with the better texts, which `changes` has: The llm of the ensemble is an object" in told


def test_c119_a_result_keeps_its_name(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    desk.names["mapped"] = desk.names["team"].map(make_rows(45), score=right)
    assert desk.run(LINE.replace("labelled", "mapped")).success
    assert "%%ensemble --define -o improved" in capsys.readouterr().out


def test_c118_an_ensemble_takes_rows_and_a_score(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    line = LINE.replace("labelled", "team") + " --map tickets --score right --held-out 0.4 --seed 2"
    assert desk.run(line).success
    found = desk.names["_ensemble"]
    assert len(found.comparison.rows) == 18
    assert "%%ensemble --define -o team" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line, told",
    [
        ("", "takes the result of a map"),
        ("labelled", "change must list the texts"),
        ("labelled --change", "--change wants a value behind it"),
        ("labelled --chang task.label.description", "Did you mean '--change'?"),
        ("labelled --change task.label.description --seed 1 --seed 2", "--seed is given 2 times"),
        ("labelled --change task.label.description --seed x", "seed must be a whole number"),
        ("team --change task.label.description", "An ensemble alone has no rows"),
        ("team --change task.label.description --map tickets", "improve needs a score"),
        ("team --change task.label.description --map tickts --score right", "Did you mean 'tickets'?"),
        ("tickets --change task.label.description", "is no result of a map and no ensemble, but a list"),
        ("labelled --change task.lable.description", "No task is called 'lable'. Did you mean 'label'?"),
        ("labelled --change task.label.description --budget '$0.0001'", "The 15 held-out rows take about"),
        ("labelled two --change task.label.description", "takes the result of a map"),
    ],
)
def test_c118_mistakes_are_told(desk: Any, line: str, told: str) -> None:
    error = str(desk.error(f"%ensemble improve {line}"))
    assert told in error
    assert "Variant" not in error
    assert len(desk.names["model"].calls) == 45


def test_c118_what_is_dear_is_asked_about_first(desk: Any) -> None:
    desk.run("%config EnsembleMagics.confirm_cost = 0.001")
    assert "confirm_cost" in str(desk.error(LINE))
    assert len(desk.names["model"].calls) == 45


def test_c118_a_stored_map_whose_ensemble_is_gone_says_so(desk: Any) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {ticket}", name="say", handler=lambda given: "x")])
    result = ensemble.map(make_rows(12), score=right)
    error = desk.error(f"%ensemble improve {result.run_id} --change task.say.description --score right")
    assert "is not here any more, so its texts can't be improved" in str(error)
    model = desk.names.pop("model")
    del desk.names["labelled"]
    told = str(desk.error(LINE.replace("labelled", "-2") + " --score right"))
    assert "model" in told
    assert len(model.calls) == 45


def test_w178_the_verdict_shows_its_sentence_the_changed_words_and_every_candidate(desk: Any) -> None:
    assert desk.run(f"verdict = {LINE} -o better").success
    better = desk.names["better"]
    bundle = better._repr_mimebundle_()
    assert bundle["text/plain"].startswith(repr(better))
    assert "task.label.description:\n- Label this." in bundle["text/plain"]
    assert "\n+ Mind rule " in bundle["text/plain"]
    page = bundle["text/html"]
    assert "that it never saw" in page
    assert "candidate 1" in page
    assert "<svg" in page
    assert "Mind" in page
    rows = [each.name for each in better.output.trace._fold.spans.values() if each.kind.value == "task"]
    assert {"as it is", "candidate 1", "held out, as it is"} <= set(rows)


def test_w178_foreign_words_are_no_html(desk: Any) -> None:
    desk.names["writer"] = make_rewriter(*["```\n<b>Label this. Ticket {ticket} rule 1</b>\n```"] * 30)
    assert desk.run(f"verdict = {LINE} -o better").success
    page = desk.names["better"]._repr_mimebundle_()["text/html"]
    assert "<b>Label" not in page
    assert "&lt;b&gt;" in page
