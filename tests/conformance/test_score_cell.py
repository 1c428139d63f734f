"""V4, V6 from a cell: ``--score``, ``--expected``, and ``%ensemble score``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import (
    Ensemble,
    EnsembleOutput,
    MapResult,
    ScoringError,
    StoreError,
    Task,
    ValidationError,
    load_traces,
    scorers,
)
from ensemble_notebook.cell.completion import propose_options
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.store import wait_for_store

CELL = "- {name: ask, description: 'In which country is {city}?'}\n"
JUDGE = "- {name: judge, description: 'Judge {output}', output_type: {passed: bool, why: str}}\n"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    def choose(request: Any) -> Answer:
        if "Judge" in request.prompt:
            return Answer(json.dumps({"passed": "France" in request.prompt, "why": "so it is"}))
        return Answer("France" if "Paris" in request.prompt else "Spain")

    with OpenAIServer() as running:
        running.choose = choose
        yield running


def is_right(output: Any, expected: Any) -> bool:
    return bool(output.raw == expected)


def fail(output: Any) -> float:
    return float(output.nothing)


@pytest.fixture
def shell(server: OpenAIServer) -> Any:
    """One that knows rows, functions, and a judge that a cell has defined."""
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ensemble_notebook")
    made.run_line_magic("config", f"EnsembleMagics.llm = 'openai:test-model@{server.url}'")
    table = pd.DataFrame({"city": ["Paris", "Rome"], "gold": ["France", "Italy"]})
    made.user_ns.update(df=table, is_right=is_right, fail=fail, scorers=scorers, city="Paris", three=3, nothing=None)
    made.user_ns["has_a"] = scorers.contains("a")
    made.run_cell_magic("ensemble", "--define -o fair", JUDGE)
    return made


def test_v4_a_cell_with_rows_is_scored_by_all_that_its_line_names(
    shell: Any, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "--map df -o res --expected gold --score is_right --score \"no_a=contains('a')\" --score fair --score equals"
    shell.run_cell_magic("ensemble", f"{line} --score has_a --score 'scorers.matches(\"^F\")'", CELL)
    result = shell.user_ns["res"]
    assert isinstance(result, MapResult)
    frame = result.frame
    columns = ["is_right", "no_a", "fair", "is_equal", "contains", "matches"]
    assert frame[columns].to_numpy().tolist() == [[True] * 6, [False, True, False, False, True, False]]
    assert len(server.requests) == 4
    assert "is_right" in capsys.readouterr().out


def test_v4_a_cell_that_runs_once_scores_that_run(
    shell: Any, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("ensemble", "-o one --score \"contains('Fr')\" --score fair", CELL)
    output = shell.user_ns["one"]
    assert isinstance(output, EnsembleOutput)
    assert [(each.name, each.passed) for each in output.score_records] == [("contains", True), ("fair", True)]
    assert "contains: passed; fair: passed (so it is)" in capsys.readouterr().out
    shell.run_cell_magic(
        "ensemble", "-o told -i city=Rome -i gold=Italy --score is_right --expected gold", f"{CELL}- And {{gold}}"
    )
    assert [each.passed for each in shell.user_ns["told"].score_records] == [False]


def test_v4_where_a_scorer_fails_for_all_the_runs_are_bound(shell: Any) -> None:
    with pytest.raises(ScoringError, match="The scorer fail failed for each of 2 runs: AttributeError"):
        shell.run_cell_magic("ensemble", "--map df -o res --score fail", CELL)
    with pytest.raises(
        ScoringError, match="`%ensemble score NAME fail --replace`, where NAME is the variable after -o"
    ):
        shell.run_cell_magic("ensemble", "--map df -o res --score fail", CELL)
    assert shell.user_ns["res"].frame.raw.tolist() == ["France", "Spain"]
    with pytest.raises(ScoringError, match="The scorer fail failed for the only run"):
        shell.run_cell_magic("ensemble", "-o one --score fail", CELL)
    assert shell.user_ns["one"].raw == "France"


@pytest.mark.parametrize(
    "typed, written",
    [
        ("contains('v')", "contains('v')"),
        ("contains('v w')", "contains('v w')"),
        ("called_in_order(['a','b'])", "called_in_order(['a', 'b'])"),
        ("equals('gold',field='city')", "equals('gold', field='city')"),
        ("contains('v', ignore_case=True)", "contains('refund')"),
    ],
)
def test_v4_quotes_that_the_line_takes_away_are_told_with_how_to_write_them(
    shell: Any, typed: str, written: str
) -> None:
    shell.run_cell_magic("ensemble", "-o run --llm scripted", "- Say it")
    told = f'Quotes inside a word get lost in this line. Put the whole between double quotes: "{written}".'
    with pytest.raises(ValidationError, match=re.escape(told)):
        shell.run_line_magic("ensemble", f"score run {typed}")
    if " " not in typed:
        with pytest.raises(CellError) as caught:
            shell.run_cell_magic("ensemble", f"--llm scripted --score {typed}", "- Say it")
        assert caught.value.mistakes[0].hint == told


@pytest.mark.parametrize(
    "score, word, message",
    [
        ("is_rigt", "is_rigt", "there is no scorer 'is_rigt'. Did you mean 'is_right'?"),
        ("contans('a')", "contans", "there is no ready-made scorer 'contans'. Did you mean 'contains'?"),
        ("contains(text='a', txt=1)", "txt", "unexpected keyword argument 'txt'. Did you mean 'text'?"),
        ("contains()", "contains", "missing a required argument: 'text'"),
        ("contains('')", "contains", "text must not be blank"),
        ("contains(city)", "city", "is no plain value, and nothing is evaluated here"),
        ("contains(open('/etc/passwd').read())", "open", "nothing is evaluated here"),
        ("is_right('a')", "is_right", "is of the notebook, whose functions are not called here"),
        ("lambda output: True", "lambda", "nothing else is evaluated here"),
        ("__import__('os').system('true')", "__import__", "nothing else is evaluated here"),
        ("contains(**{})", "contains", "without **"),
        ("contains('a'", "contains", "can't be read"),
        ("judged_by(fair)", "judged_by", "a judge is named by its variable"),
        ("three", "three", "is no scorer, but a value of type int"),
        ("nothing", "nothing", "is no scorer, but a value of type NoneType"),
        ("two=", "two", "the scorer is missing"),
        ("equals('golden')", "equals", "needs a column 'golden'. Did you mean 'gold'?"),
        ("is_right", "is_right", "needs what a row should come to"),
    ],
)
def test_v4_mistakes_are_at_their_character_and_nothing_is_run(
    shell: Any, server: OpenAIServer, score: str, word: str, message: str
) -> None:
    line = f'--map df --score "{score}"'
    with pytest.raises(CellError) as caught:
        shell.run_cell_magic("ensemble", line, CELL)
    (mistake,) = caught.value.mistakes
    assert message in f"{mistake.message} {mistake.hint}"
    assert mistake.line == 0
    assert f"%%ensemble {line}"[mistake.column - 1 : mistake.end_column - 1].startswith(word)
    assert server.requests == []


@pytest.mark.parametrize(
    "line, message",
    [
        ("--score is_right --score is_right", "given twice"),
        ("--score a=has_a --score \"a=contains('b')\" --map df", "two scores are called 'a'"),
        ("--expected gold --map df", "--expected is what scorers look at"),
        ("--score has_a --define", "leave out --score or --define"),
        ("--score has_a -b", "leave out -b or --score"),
        ("--score has_a --expected golden --map df", "no column is called so. Did you mean 'gold'"),
        ("--score ''", "wants [NAME=]SCORER"),
    ],
)
def test_v4_options_that_do_not_fit_are_refused(shell: Any, server: OpenAIServer, line: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        shell.run_cell_magic("ensemble", line, CELL)
    assert message in str(caught.value)
    assert server.requests == []


def test_v4_a_key_in_a_scorer_is_refused(shell: Any, server: OpenAIServer) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    with pytest.raises(CellError, match="this looks like a key") as caught:
        shell.run_cell_magic("ensemble", f"--map df --score \"contains('{secret}')\"", CELL)
    assert secret not in str(caught.value)


def test_v4_scorers_and_columns_are_proposed(shell: Any) -> None:
    found = [each.text for each in propose_options("%%ensemble --map df --score ", CELL, shell.user_ns).found]
    assert found[:1] == ["is_right"] or "is_right" in found
    assert {"fair", "has_a", "contains(", "no_errors()", "equals()"} <= set(found)
    assert "judged_by(" not in found
    columns = [each.text for each in propose_options("%%ensemble --map df --expected ", CELL, shell.user_ns).found]
    assert columns == ["city", "gold"]
    assert "--score" in [each.text for each in propose_options("%%ensemble --sc", CELL, shell.user_ns).found]


def test_v6_a_line_scores_a_run_of_the_notebook_or_a_remembered_one(
    shell: Any, server: OpenAIServer, store_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("ensemble", "--map df -o res", CELL)
    asked = len(server.requests)
    scored = shell.run_line_magic("ensemble", "score res is_right --expected gold -o better")
    assert scored is shell.user_ns["better"]
    assert scored.frame.is_right.tolist() == [True, False]
    assert "is_right" not in shell.user_ns["res"].frame
    wait_for_store()
    run_id = shell.user_ns["res"].run_id
    shell.run_line_magic("ensemble", f"score {run_id} \"early=contains('F')\" has_a -o old")
    assert shell.user_ns["old"].frame.early.tolist() == [True, False]
    assert load_traces().load_map(run_id).frame[["early", "contains", "is_right"]].notna().all(axis=None)
    assert len(server.requests) == asked
    shell.run_cell_magic("ensemble", "-o one", CELL)
    wait_for_store()
    capsys.readouterr()
    shell.run_line_magic("ensemble", "score -1 fair -o one")
    assert [each.passed for each in shell.user_ns["one"].score_records] == [True]
    assert "fair: passed (so it is)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line, error, message",
    [
        ("score res", ValidationError, "takes a run"),
        ("score res is_rigt", ValidationError, "Did you mean 'is_right'?"),
        ("score nothing is_right", StoreError, "nothing"),
        ("score res has_a -o 3", ValidationError, "wants the name of a variable"),
        ("score res has_a has_a", ValidationError, "two scores are called 'contains'"),
    ],
)
def test_v6_mistakes_of_the_line_are_said(shell: Any, store_path: Path, line: str, error: Any, message: str) -> None:
    shell.run_cell_magic("ensemble", "--map df -o res", CELL)
    wait_for_store()
    with pytest.raises(error) as caught:
        shell.run_line_magic("ensemble", line)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", ["--dry-run", "-o never"])
@pytest.mark.parametrize(
    "judge, message",
    [
        (Task.of("Judge {outptu}", output_type={"ok": "bool"}), "asks for {outptu}, which is no column of the rows."),
        (Task.of("Judge {output}"), "has no typed output"),
        (Task.of("Judge {output}", output_type={"places": ["str"]}), "puts out no score"),
    ],
)
def test_v7_what_a_judge_lacks_is_said_before_the_plan(
    shell: Any, server: OpenAIServer, judge: Task, message: str, option: str
) -> None:
    shell.user_ns["by"] = Ensemble(tasks=[judge], llm="local", name="by")
    with pytest.raises(CellError) as caught:
        shell.run_cell_magic("ensemble", f"--map df {option} --score by", CELL)
    assert message in str(caught.value)
    assert server.requests == []


def test_v7_a_judge_is_in_the_estimate_of_a_cell(
    shell: Any, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def count_calls(options: str) -> str:
        shell.run_cell_magic("ensemble", f"--map df --dry-run {options}", CELL)
        (told,) = re.findall(r"model calls: ([\d to,]+)", capsys.readouterr().out)
        return str(told).strip(" ,")

    assert count_calls("") == "2"
    assert count_calls("--score fair --score has_a").startswith("4")
    assert server.requests == []
