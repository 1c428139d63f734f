"""What may stand at the caret of a half-written cell (C20), and what a key means (C21). The caret is ``^``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import Ensemble, ScriptedChatModel, Task
from ensemble_notebook.cell.completion import explain, list_given, propose, propose_options
from ensemble_notebook.cell.outline import Outline
from ensemble_notebook.cell.vocabulary import SCHEMAS, TASK
from ensemble_notebook.models.model_kinds import list_examples


@dataclass
class Brief:
    """An output."""


def look(task: Any) -> str:
    """Look at it."""
    return str(task)


NAMES = {
    "look": look,
    "Brief": Brief,
    "df": pd.DataFrame({"town": ["Bath"]}),
    "topic": "tides",
    "team": Ensemble(tasks=[Task.of("Write", handler=look)]),
    "model": ScriptedChatModel(replies=["x"]),
    "pd": pd,
    "_hidden": look,
}
CELL = """
agents:
  Writer: {goal: Write}
  "Chief Editor":
    goal: Edit
tasks:
  facts: {description: 'List facts: {topic}', agent: Checker}
  draft: Write
  title:
    description: |
      Find a title
      # with a hash
"""


def found(marked: str, **options: Any) -> list[str]:
    caret = marked.index("^")
    return [each.text for each in propose(marked.replace("^", "", 1), caret, NAMES, **options).found]


@pytest.mark.parametrize(
    "marked, words",
    [
        ("w^", ["workflow"]),
        ("manag^", ["manager"]),
        ("workflow: ^", ["sequential", "parallel", "hierarchical"]),
        ("workflow: P^", ["parallel"]),
        ("tasks:\n- reu^", ["reuse"]),
        ("- {na^", ["name"]),
        ("- name: a\n  rev^", ["review"]),
        ("- name: a\n  review: ^", ["before", "during", "after"]),
        ("- name: a\n  review: {ti^", ["timing", "timeout"]),
        ("- name: a\n  llm: {^seed: 7, model: local}", ["model", "base_url"]),
        ("- a\n- {review: [{on_timeout: c^", ["continue"]),
        ("verbose: ^", ["true", "false"]),
        ("review: {policy: never, ^", ["handler"]),
        ("manager: {llm: lo^", ["local"]),
        ("phases:\n  one:\n    af^", ["after"]),
        ("phases:\n  one:\n  - expe^", ["expected_output"]),
        ("phases:\n  one: [a]\n  two:\n    after: ^", ["one"]),
        ("phases:\n  one:\n    tasks:\n      a: {tim^", ["timeout"]),
        ("agents:\n  Writer: {goal: x\n  Reader: {back^", ["background"]),
        ("tasks:\n\n  a:\n\n    description: x\n\n    tim^", ["timeout"]),
        ("cost:\n  ^\ntasks: [a]", ["input_rate", "output_rate", "cached_input_rate", "currency"]),
    ],
)
def test_keys_and_words_are_those_of_the_place(marked: str, words: list[str]) -> None:
    assert found(marked)[: len(words)] == words


@pytest.mark.parametrize(
    "marked, words",
    [
        ("    agent: ^", ["Writer", "Chief Editor", "Checker"]),
        ("    agent: ch^", ["Chief Editor", "Checker"]),
        ("    context: ^", ["facts", "draft"]),
        ("    context: [facts, ^]", ["draft"]),
        ("    context:\n    - d^", ["draft"]),
        ("    context:\n      - facts\n      - ^", ["draft"]),
        ("    when: {^", ["facts", "draft"]),
        ("    when: {facts: {equ^", ["equals"]),
        ("    for_each: ^", ["facts", "draft", "df"]),
        ("    handler: ^", ["look"]),
        ("    output_guardrails: [^", ["look"]),
        ("    output_type: ^", ["Brief"]),
        ("    ensemble: ^", ["team"]),
        ("    llm: m^", ["model"]),
        ("    agent: ^\n  last: {description: x, agent: Late}", ["Writer", "Chief Editor", "Checker", "Late"]),
    ],
)
def test_names_are_those_of_the_cell_and_of_the_notebook(marked: str, words: list[str]) -> None:
    assert found(CELL + marked) == words


def test_keys_that_are_there_are_not_proposed_again() -> None:
    below = found(CELL + "    ^\n    agent: Writer\n")
    assert below == [each for each in TASK.words if each not in ("description", "agent")]


@pytest.mark.parametrize("marked", ["    expected_output: All of {t^", "    expected_output: '{t^}'", "      of {t^"])
def test_variables_of_texts_are_inputs_and_what_the_notebook_has(marked: str) -> None:
    cell = "inputs: {tone: dry}" + (CELL.replace("      # with a hash\n", "") if marked[:6] == " " * 6 else CELL)
    assert found(cell + marked, inputs=["town"]) == ["town", "tone", "topic"]


@pytest.mark.parametrize(
    "marked",
    [
        "- description: 'agen^",
        "- description: |\n    agen^",
        "- Write about agen^",
        "- description: 'over two lines\n    agen^",
        "# agen^",
        "inputs: {^",
        "inputs:\n  agen^",
        "tasks:\n  ^",
        "tasks:\n  a: {unheard: ^",
        "}^",
        "- {output_type: {^",
    ],
)
def test_nothing_is_proposed_where_anything_may_stand(marked: str) -> None:
    assert found(marked) == []


@pytest.mark.parametrize("size", range(0, len(CELL), 7))
def test_no_beginning_of_a_cell_is_too_broken(size: int) -> None:
    for text in (CELL[:size], CELL[:size].replace("\n", " "), CELL[size:], CELL[:size] + "{[\"'"):
        propose(text, len(text) // 2, NAMES)
        propose(text, len(text), NAMES)
        explain(text, len(text) // 2)
        Outline(text.split("\n"))


@pytest.mark.parametrize(
    "line, words",
    [
        ("%%ensemble --dr", ["--dry-run"]),
        ("%%ensemble -o x --workflow ", ["sequential", "parallel", "hierarchical"]),
        ("%%ensemble --map ", ["df"]),
        ("%%ensemble --llm ", [*list_examples(), "model"]),
        ("%%ensemble --only f", ["facts"]),
        ("%%ensemble -i ", ["topic="]),
        ("%%ensemble -o ", []),
    ],
)
def test_the_first_line_takes_options_and_their_values(line: str, words: list[str]) -> None:
    assert [each.text for each in propose_options(line, CELL, NAMES).found] == words


def test_the_first_line_tells_what_inputs_there_are() -> None:
    assert list_given("%%ensemble --map df -i tone=dry --vary size=1 --vary size=2", NAMES) == ["tone", "size", "town"]


@pytest.mark.parametrize(
    "marked, words",
    [
        ("tasks:\n  a: {re^use: auto}", ["of a task", "auto, never", "Default: auto."]),
        ("workf^low: parallel", ["of a cell", "sequential, parallel, hierarchical"]),
        ("agents:\n  A:\n    max_iter^ations: 3", ["tool calls for one task", "a whole number", "Default: 25."]),
        ("^tasks: [a]", ["a list is a chain"]),
        ("- {desc^ription: x}", ["It can't be left out."]),
        ("manag^er: x", ["Takes llm, max_iterations, prompt."]),
    ],
)
def test_a_key_is_explained(marked: str, words: list[str]) -> None:
    caret = marked.index("^")
    text = explain(marked.replace("^", "", 1), caret) or ""
    assert [each for each in words if each not in text] == []


@pytest.mark.parametrize("marked", ["llm: work^flow", "- Do the tas^ks", "tasks:\n  agen^ts: x", "^", "unhe^ard: 3"])
def test_what_is_no_key_is_not_explained(marked: str) -> None:
    caret = marked.index("^")
    assert explain(marked.replace("^", "", 1), caret) is None


def test_every_key_can_be_explained() -> None:
    for section in SCHEMAS:
        assert all(each.meaning and each.kind.value for each in section.keys.values())


@pytest.mark.parametrize("part", ["- ", "{", "[", "a: ", " ", "'", '"', "a:", "x", "{a: [", "-", "|", "#"])
def test_length_of_a_line_does_no_harm(part: str) -> None:
    for text in (part * 20_000, "a" + part * 20_000 + "x", f"tasks:\n- {part * 20_000}\n  agent: "):
        propose(text, len(text), NAMES)
