"""The answer below a run is folded where it is long, in every form of the cell's output (C30)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ensemble_notebook import ScriptedChatModel
from ensemble_notebook.notebook.picture.answer_picture import LONGEST_ANSWER, Answer
from tests.notebook.conftest import Shell
from tests.support.hostile_texts import Page

ADDRESSES = "see https://example.org/a?b=c and mail bob@example.org\n"
COUNT = LONGEST_ANSWER // len(ADDRESSES)
REST = f"{1_000_000 - COUNT * len(ADDRESSES) + 1:,} more characters are left out here. All of it:"
KEY = "sk-" + "abcdefgh" * 4


def write(size: int, unit: str = ADDRESSES) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def run(shell: Shell, text: str, options: str = "-o report") -> list[dict]:
    shell.names["say"] = lambda task: text
    assert shell.run(f"%%ensemble {options}\n- {{description: Say, handler: say, name: say}}").success
    return shell.seen()


def test_a_long_answer_is_folded_in_every_form_of_the_output_c30(shell: Shell) -> None:
    text = write(1_000_000)
    picture, answer = run(shell, text)
    assert answer["text/plain"] == f"{ADDRESSES * COUNT}".rstrip() + f"\n\n[{REST} report.raw]"
    assert answer["text/html"].endswith(f"<hr><p><strong>{REST}</strong> <code>report&#46;raw</code></p></div>")
    assert Page(answer["text/html"]).text.startswith(
        "report · say wrote:see https://example.org/a?b=c and mail bob@example.org\n"
    )
    assert "[998,000 more characters are left out here. All of it: report[&#x27;say&#x27;].raw]" in picture["text/html"]
    assert sum(len(form) for bundle in (picture, answer) for form in bundle.values() if isinstance(form, str)) < 120_000
    assert shell.names["report"].raw == shell.names["report"]["say"].raw == text


def test_a_short_answer_is_whole_c30(shell: Shell) -> None:
    text = write(LONGEST_ANSWER, "word ")
    _, answer = run(shell, text)
    assert (answer["text/plain"], Page(answer["text/html"]).text) == (text, f"report · say wrote:{text.rstrip()}")


def test_a_run_that_its_budget_has_ended_shows_what_it_has_and_whose_it_is_c30(shell: Shell, tmp_path: Path) -> None:
    shell.names["sea"] = ScriptedChatModel(default="It lies by the sea.")
    tasks = "tasks:\n  write: Write\n  improve: Improve it"
    assert shell.run(f"%%ensemble -o report\nllm: sea\nbudget: {{max_llm_calls: 1}}\n{tasks}").success
    output = shell.names["report"]
    assert (output.status, output.raw) == ("budget_exceeded", "It lies by the sea.")
    answer = shell.seen()[-1]
    assert answer["text/plain"] == "It lies by the sea."
    said = "write, until the budget was used up, wrote:It lies by the sea."
    assert Page(answer["text/html"]).text == f"report · {said}"
    page = output.export(tmp_path / "report.html").read_text(encoding="utf-8")
    assert said in Page(page).text


@pytest.mark.parametrize("options, expression", [("", "_ensemble.raw"), ("-b -o night", "night.result().raw")])
def test_the_expression_is_what_gives_all_of_it_c30(shell: Shell, options: str, expression: str) -> None:
    text = write(30_000)
    shell.names["say"] = lambda task: text
    shell.run(f"%%ensemble {options}\n- {{description: Say, handler: say}}")
    assert shell.ip.ev(expression) == text
    if "-b" in options:
        shell.ip.ev("night").result()
        deadline = time.monotonic() + 60
        while not any(expression in str(each) for each in shell.seen()) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert shell.seen()[-1]["text/plain"].endswith(f"All of it: {expression}]")


def test_a_terminal_folds_it_too_c30(shell: Shell) -> None:
    shell.ip.run_line_magic("config", "EnsembleMagics.display = 'text'")
    answer = run(shell, write(1_000_000))[-1]["text/plain"]
    assert answer.endswith(f"[{REST} report.raw]")
    assert len(answer) < LONGEST_ANSWER + 100


def test_what_is_said_below_is_no_part_of_a_code_block_that_was_cut_c30() -> None:
    shown = Answer("~~~python\n" + "x = 1\n" * 10_000, "report.raw").html
    assert "</code></pre><hr><p><strong>40,015 more characters" in shown


@pytest.mark.parametrize("place", range(LONGEST_ANSWER - 40, LONGEST_ANSWER + 1, 4))
def test_no_part_of_a_key_is_left_where_the_text_is_cut_c30(place: int) -> None:
    text = f"{'.' * place}{KEY} {write(50_000)}"
    assert "sk-" not in Answer(text, "report.raw").plain
    assert "sk-a" not in Answer(text[: place + len(KEY)], "report.raw").plain


def test_many_keys_leave_none_at_the_cut_c30() -> None:
    text = f"{KEY} " * 3_000
    assert "sk-" not in Answer(text, "report.raw").plain


def test_twenty_megabytes_of_addresses_cost_an_answer_no_time_c30() -> None:
    text = write(20_000_000)
    started = time.process_time()
    answer = Answer(text, "report.raw")
    assert len(answer.plain) + len(answer.html) < 100_000
    assert time.process_time() - started < 0.5
