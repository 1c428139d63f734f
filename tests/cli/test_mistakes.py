"""Every mistake in a command of `jupyter ensemble` that can be known before is said before, with the status 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensemble_notebook.cli.main import DONE, FAILED, MISTAKE, main
from tests.support.store import wait_for_store

HANDLER = """
from pathlib import Path
def say(task):
    Path("it-ran").touch()
    if task.inputs["word"] == "fail":
        raise ValueError("no voice")
    return task.inputs["word"]
"""
RUN = ["run", "cell.yaml", "-i", "word=tea"]
MAP = ["map", "cell.yaml", "rows.csv"]
SCORED = [*MAP, "--score", "equals"]
HELD = [*SCORED, "--not-worse-by", "0.1", "--against"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_path: Path) -> Iterator[Path]:
    """A working folder with a cell, rows, and files that are not what they are taken for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    files = {
        "cell.yaml": "tasks: {say: {description: 'Say {word}', handler: voices.say}}",
        "keyless.yaml": "- Say {word}",
        "voices.py": HANDLER,
        "rows.csv": "word,expected\ntea,tea\noil,oil\n",
        "empty.csv": "",
        "bad.yaml": "a: b",
        "bad.trace.json": "no trace",
        "plain.json": "{}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    yield tmp_path
    sys.modules.pop("voices", None)


def of_runs(*options: str) -> list[list[str]]:
    """The same options of all three commands that read a cell."""
    return [[*RUN, *options], [*MAP, *options], ["validate", "cell.yaml", *options]]


MISTAKES = [
    (["run", "no.yaml"], "there is no such file"),
    (["run", "folder"], "it is a folder"),
    (["run", "cell.yaml"], "-i word="),
    (["run", "keyless.yaml", "-i", "word=x", "--llm", "openai:x"], "OPENAI_API_KEY"),
    (["validate", "no.yaml"], "there is no such file"),
    *((words, "nobody:x") for words in of_runs("--llm", "nobody:x")),
    *((words, "can't be 'x'") for words in of_runs("--workflow", "x")),
    *((words, "can't be 'x'") for words in of_runs("--capture", "x")),
    *((words, "no limit") for words in of_runs("--budget", "x")),
    *((words, "must be seconds > 0") for words in of_runs("--timeout", "x")),
    *((words, "must not be blank") for words in of_runs("--name", " ")),
    *((words, "NAME=VALUE") for words in of_runs("-i", "x")),
    *((words, "there is no such file") for words in of_runs("-i", "other=@no.txt")),
    *((words, "there is no folder") for words in of_runs("--record", "no/where.yaml")),
    *((words, "is a folder") for words in of_runs("--record", "folder")),
    *((words, "There is no recording") for words in of_runs("--replay", "no.yaml")),
    *((words, "this is no recording") for words in of_runs("--replay", "bad.yaml")),
    *((words, "is about a replay") for words in of_runs("--replay-tools", "live")),
    *((words, "is about a replay") for words in of_runs("--pace", "recorded")),
    *((words, "no task 'nothing'") for words in of_runs("--only", "nothing")),
    ([*RUN, "-o", "folder"], "that is a folder"),
    ([*RUN, "-o", "cell.yaml/answer.txt"], "is no folder"),
    ([*RUN, "-o", "run.otel.json"], "can't be exported to 'run.otel.json'"),
    ([*MAP, "-o", "folder"], "that is a folder"),
    ([*MAP, "-o", "out.xyz"], "can't be exported to 'out.xyz'"),
    ([*MAP, "-o", "out.foo.json"], "can't be exported to 'out.foo.json'"),
    ([*MAP, "-o", "cell.yaml/out.csv"], "is no folder"),
    ([*MAP, "--summary", "folder"], "that is a folder"),
    ([*MAP, "--summary", "cell.yaml/verdict.md"], "is no folder"),
    ([*MAP, "--repeat", "x"], "must be a whole number"),
    ([*MAP, "--id", "no"], "The id column 'no' is not there"),
    ([*MAP, "--expected", "word"], "nothing scores"),
    ([*MAP, "--failed", "0"], "nothing scores"),
    ([*MAP, "--allow-unpaired"], "is about --not-worse-by"),
    ([*SCORED, "--expected", "no"], "no column is called so"),
    ([*SCORED, "--failed", "x"], "wants a number, got 'x'"),
    ([*SCORED, "--failed", "nan"], "wants a number, got 'nan'"),
    ([*SCORED, "--fail-under", "equals=1.5"], "the mark must be a share between 0 and 1"),
    ([*SCORED, "--fail-under", "is_equal=-1"], "the mark must be a share between 0 and 1"),
    ([*SCORED, "--fail-under", "is_equal=nan"], "wants a number, got 'nan'"),
    ([*SCORED, "--fail-under", "equals=0.5", "--fail-under", "is_equal=0.6"], "each name once"),
    ([*SCORED, "--not-worse-by", "0.1"], "name it with --against"),
    ([*HELD, "no-such-run"], "No run 'no-such-run' is remembered"),
    ([*HELD, "no.trace.json"], "there is no such file"),
    ([*HELD, "bad.trace.json"], "bad.trace.json"),
    ([*HELD, "plain.json"], "no execution trace"),
    ([*HELD, "bad.yaml"], "No run 'bad.yaml' is remembered"),
    ([*SCORED, "--against", "before.trace.json", "--not-worse-by", "nan"], "wants a number"),
    ([*SCORED, "--against", "before.trace.json", "--not-worse-by", "5"], "nothing can lose so much"),
    (
        [*MAP, "--score", "contains('t')", "--against", "before.trace.json", "--not-worse-by", "0.1"],
        "that map has none of these scores, but 'is_equal'",
    ),
    ([*HELD, "run.trace.json"], "that map has no scores"),
    (["map", "cell.yaml", "no.csv"], "There is no file 'no.csv'"),
    (["map", "cell.yaml", "empty.csv"], "empty.csv"),
    (["map", "cell.yaml", "cell.yaml"], "is no file of rows"),
    (["trace", "nowhere.trace.json"], "The trace nowhere.trace.json is not there"),
    (["trace", "folder"], "The trace folder is a folder"),
    (["trace", "bad.trace.json"], "bad.trace.json"),
    (["trace", "plain.json"], "no execution trace"),
    (["trace", "run.trace.json", "-o", "page.xyz"], "can't be exported to 'page.xyz'"),
    (["trace", "run.trace.json", "-o", "page.otel.json"], "can't be exported to 'page.otel.json'"),
    (["trace", "run.trace.json", "-o", "folder"], "that is a folder"),
    (["demo", "--dir", "cell.yaml", "--no-open"], "that is no folder"),
    (["enable", "--user", "--sys-prefix"], "not allowed with"),
    (["disable", "--user", "--sys-prefix"], "not allowed with"),
    (["models", "x"], "invalid choice: 'x'"),
    (["schema", "x"], "unrecognized arguments: x"),
    (["nothing"], "invalid choice: 'nothing'"),
]


def test_mistakes_are_said_before_anything_runs_with_the_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main([*SCORED, "-o", "before.trace.json"]) == DONE
    assert main([*RUN, "-o", "run.trace.json"]) == DONE
    wait_for_store()
    capsys.readouterr()
    ran = folder / "it-ran"
    ran.unlink()
    wrong = []
    for words, said in MISTAKES:
        try:
            status: object = main(words)
        except SystemExit as ended:  # argparse's own
            status = ended.code
        shown = capsys.readouterr().err
        if (status, said in shown, "[Errno" in shown, ran.exists()) != (MISTAKE, True, False, False):
            wrong.append((words, status, shown))
    assert not wrong


def test_what_goes_wrong_in_a_run_is_no_mistake_in_the_command(folder: Path) -> None:
    assert main(["run", "cell.yaml", "-i", "word=fail"]) == FAILED
    (folder / "rows.csv").write_text("word\nfail\n")
    assert main(MAP) == FAILED


def test_files_are_written_into_folders_that_are_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "-o", "new/answer.txt"]) == DONE
    assert Path("new/answer.txt").read_text() == "tea"
    assert main([*MAP, "-o", "pages/map.html", "--summary", "said/verdict.md"]) == DONE
    assert "<html" in Path("pages/map.html").read_text()
    assert "2 rows: 2 completed" in Path("said/verdict.md").read_text()
    capsys.readouterr()
