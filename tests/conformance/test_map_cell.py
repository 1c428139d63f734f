"""E72 from a cell: ``--map VARIABLE`` runs it for each row, tells mistakes in its words, and asks before it is dear."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import MapResult, RunInterrupted, ScriptedChatModel, TaskInput, ValidationError
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.notebook.magics import map_cell
from ensemble_notebook.notebook.picture.map_picture import make_map_bundle
from tests.conformance.scene import scripted
from tests.support.openai_server import OpenAIServer

CELL = "- {name: say, description: 'Say {topic} in {tone}', handler: echo}\n"


def echo(given: TaskInput) -> str:
    """Say what was asked for."""
    if given.inputs["topic"] == "bad":
        raise ValueError("burnt")
    return given.description


@pytest.fixture
def shell() -> Any:
    """One that knows some rows."""
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ensemble_notebook")
    table = pd.DataFrame({"topic": ["a", "bad", "c"]}, index=["x", "y", "x"])
    made.user_ns.update(df=table, echo=echo, tone="prose", model=scripted(*"abc"))
    return made


def test_e72_a_cell_runs_for_each_row_and_shows_the_first_ones(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("ensemble", "--map df -o res", CELL)
    result = shell.user_ns["res"]
    assert isinstance(result, MapResult)
    assert result.frame.raw.tolist()[0] == "Say a in prose"
    assert [row.status for row in result] == ["completed", "failed", "completed"]
    assert result["x #2"].raw == "Say c in prose"
    told = capsys.readouterr().out
    assert "3 rows: 2 completed, 1 failed" in told
    assert "ValueError: burnt" in told
    assert "res.frame" in told
    assert "Say c in prose" in result._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    "line, body, error, words",
    [
        ("--map df", CELL.replace("topic", "toppic"), CellError, "{toppic} has no value. Did you mean 'topic'"),
        ("--map dff", CELL, ValidationError, "no variable of this name. Did you mean 'df'"),
        ("--map tone", CELL, ValidationError, "--map tone: map takes a DataFrame"),
        ("--map df --define", CELL, ValidationError, "leave out --map or --define"),
        ("--map df --map df", CELL, ValidationError, "given twice"),
    ],
)
def test_e72_mistakes_of_a_map_are_told_before_the_first_call(
    shell: Any, line: str, body: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        shell.run_cell_magic("ensemble", line, body)


def test_e72_a_missing_input_is_shown_with_what_rows_and_variants_provide(shell: Any) -> None:
    shell.user_ns["df"].insert(0, "week", 1)
    for line, given in {"--map df --vary moood=dry": "week, topic, moood", "--vary moood=dry": "moood"}.items():
        with pytest.raises(CellError) as caught:
            shell.run_cell_magic("ensemble", line, "- Say {mood} hello")
        shown = " ".join("\n".join(caught.value._render_traceback_()).split())
        assert f"Rows and variants provide: {given}. Pass" in shown


def test_e72_a_map_in_the_background_gives_a_handle(shell: Any) -> None:
    shell.run_cell_magic("ensemble", "--map df -b -o res", CELL)
    assert len(shell.user_ns["res"].result().failures) == 1


def test_e72_a_dry_run_estimates_all_rows(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("ensemble", "--map df --dry-run --llm model", "- Say {topic}")
    told = capsys.readouterr().out
    assert "3 runs, one for each row" in told
    assert "model calls: 3" in told


def test_e72_a_map_that_may_cost_much_asks_first(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "tasks:\n- Say {topic}\nllm: model\ncost: {input_rate: 0.001, output_rate: 0.001}\n"
    with pytest.raises(ValidationError, match=r"3 runs.*more than confirm_cost \(\$1.00\).*confirm_cost = None"):
        shell.run_cell_magic("ensemble", "--map df", body)
    answers = ["no", "y"]
    monkeypatch.setattr(map_cell, "can_answer", lambda shell: True)
    monkeypatch.setattr("builtins.input", lambda prompt: answers.pop(0))
    with pytest.raises(RunInterrupted, match="nothing was run"):
        shell.run_cell_magic("ensemble", "--map df -o res", body)
    assert "res" not in shell.user_ns
    shell.run_cell_magic("ensemble", "--map df -o res", body)
    assert shell.user_ns["res"].frame.raw.tolist() == ["a", "b", "c"]
    shell.run_line_magic("config", "EnsembleMagics.confirm_cost = None")
    shell.user_ns["model"] = ScriptedChatModel(replies=list("def"))
    shell.run_cell_magic("ensemble", "--map df -o res", body)
    assert answers == []


def test_e72_a_map_of_unknown_price_says_so_before_it_runs(
    shell: Any, server: OpenAIServer, llm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell_magic("ensemble", "--map df -o res", f"tasks:\n- Say {{topic}}\nllm: {llm}\n")
    told = capsys.readouterr().out
    assert told.startswith("What they may cost is unknown, since no price is known of test-model: 3 runs, one for each")
    assert "model calls: 3; tokens: " in told
    assert "--budget '3 calls' limits them" in told
    assert len(server.requests) == 3


def test_e72_the_preview_has_whole_errors_and_texts_from_the_left(shell: Any) -> None:
    def fail(given: Any) -> str:
        raise OSError(" ".join(["the reason is long"] * 8))

    shell.user_ns["echo"] = fail
    shell.run_cell_magic("ensemble", "--map df -o res", CELL)
    bundle = make_map_bundle(shell.user_ns["res"])
    error = " ".join(["the reason is long"] * 8)
    assert all(error in bundle[kind] for kind in ("text/html", "text/plain"))
    assert re.search('<td style="text-align:left;[^"]*">Task', bundle["text/html"])
    assert re.search('<th style="text-align:right;[^"]*">duration</th>', bundle["text/html"])
    lines = bundle["text/plain"].splitlines()
    assert lines[1].index("error") == lines[2].index("Task")


def test_e72_a_cell_of_a_map_is_resumed_with_its_rows(shell: Any, store_path: Any) -> None:
    shell.run_cell_magic("ensemble", "--map df -o res", CELL)
    shell.user_ns["df"] = shell.user_ns["df"].assign(topic=["a", "b", "c"])
    shell.run_cell("%ensemble resume -1 -o again")
    again = shell.user_ns["again"]
    assert again.frame.status.tolist() == ["completed"] * 3
    tasks = [row.output.task_outputs[0].reused for row in again]
    assert tasks == [True, False, True]


def test_e72_a_map_that_goes_on_asks_before_what_is_left_may_cost_much(
    shell: Any, store_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
llm: model
cost: {input_rate: 0.001, output_rate: 0.001}
tasks:
  look: {description: 'Look at {topic}', handler: echo}
  say: {description: 'Say {topic}', context: [look]}
"""
    shell.user_ns["model"] = scripted(*"abc")
    shell.run_line_magic("config", "EnsembleMagics.confirm_cost = None")
    shell.run_cell_magic("ensemble", "--map df -o res", body)
    assert shell.user_ns["res"].frame.status.tolist() == ["completed", "failed", "completed"]
    shell.run_line_magic("config", "EnsembleMagics.confirm_cost = 1.0")
    shell.user_ns["df"] = shell.user_ns["df"].assign(topic=["a", "b", "c"])
    with pytest.raises(ValidationError, match=r"1 of 3 runs.*more than confirm_cost \(\$1.00\).*confirm_cost = None"):
        shell.run_line_magic("ensemble", "resume -1 -o again")
    answers = ["no", "y"]
    monkeypatch.setattr(map_cell, "can_answer", lambda shell: True)
    monkeypatch.setattr("builtins.input", lambda prompt: answers.pop(0))
    with pytest.raises(RunInterrupted, match="nothing was run"):
        shell.run_line_magic("ensemble", "resume -1 -o again")
    assert "again" not in shell.user_ns
    shell.run_line_magic("ensemble", "resume -1 -o again")
    assert shell.user_ns["again"].frame.status.tolist() == ["completed"] * 3
    shell.run_line_magic("ensemble", "resume -1 -o once_more")
    assert answers == []


def test_e72_the_head_of_a_column_of_short_texts_stays_whole(shell: Any) -> None:
    shell.user_ns["echo"] = lambda given: {"language": "Greek"}
    typed = CELL.replace("handler: echo", "handler: echo, output_type: {language: str}")
    shell.run_cell_magic("ensemble", "--map df -o res", typed)
    page = make_map_bundle(shell.user_ns["res"])["text/html"]
    assert re.search('<th style="[^"]*min-width:8ch[^"]*">language</th>', page)
