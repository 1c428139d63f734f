"""A coder and a tester take turns until the tests pass, and the kernel's person sees each round (E81).

The function and the cell have 14 lines. With pydantic-ai 2.68 the same three requests take 21, with a loop of
one's own, which can't be resumed.
"""

from __future__ import annotations

from tests.stories.conftest import Asked, Notebook

TOOL = """
def run_tests(task):
    names = {}
    exec(task.context[0].raw, names)
    wrong = [year for year in (1900, 2000, 2023, 2024) if names["is_leap"](year) != (year in (2000, 2024))]
    return {"ok": not wrong, "report": f"wrong for {wrong}" if wrong else "all tests pass"}
"""
CELL = """
%%ensemble -o code
llm: openai:test-model
phases:
  build:
    tasks:
      code: Write is_leap(year) in Python, and nothing else
      tests: {description: Run the tests, handler: run_tests, context: code, output_type: {ok: bool, report: str}}
    until: {tests: {field: ok, equals: true}}
    max_rounds: 5
"""
BY_FOUR = "def is_leap(year):\n    return year % 4 == 0"
CENTURIES = f"{BY_FOUR} and year % 100 != 0"
RIGHT = f"{BY_FOUR} and (year % 100 != 0 or year % 400 == 0)"


def answer(asked: Asked) -> str:
    """The model mends what the report of the last round says."""
    if "wrong for [1900]" in asked.last and asked.last.index("### Previous Output") < asked.last.index(BY_FOUR):
        return CENTURIES
    return RIGHT if "wrong for [2000]" in asked.last else BY_FOUR


def test_the_coder_mends_what_the_tests_of_the_last_round_found(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(TOOL, CELL)
    assert notebook.value("code['code'].raw") == RIGHT
    assert notebook.value("code['tests'].parsed_output['report']") == "all tests pass"
    assert notebook.value("code.frames.phases.attempt.tolist()") == [1, 2, 3]
    assert len(notebook.server.requests) == 3


def test_a_round_that_was_done_is_not_paid_for_again(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(TOOL, CELL, CELL.replace("-o code", "-o again --reuse"))
    assert notebook.value("again['code'].raw") == RIGHT
    assert len(notebook.server.requests) == 3
