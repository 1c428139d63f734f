"""What models are told, whole: from Python and from cells (E2, E10)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import EnsembleOutput, Task, ToolUse
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import agent, done, prompts, run, scripted

LONG = "Write a poem about tides, " + "and about the moon, " * 40


def run_cell(text: str, **names: Any) -> EnsembleOutput:
    """What `%%ensemble` runs for this text, in a notebook with these variables."""
    return read_cell(text, names).build().run()


# --- E2 and the headings ---


def test_e2_a_derived_agent_has_the_goal_of_its_role_so_that_a_text_is_sent_once() -> None:
    output = run(Task.of(LONG), Task.of("Write an ode"), llm=scripted("A", "B"))
    (first, user), (second, _) = prompts(output)
    assert first == second
    assert (first + user).count(LONG) == 1


def test_e2_a_manager_is_told_the_text_of_a_task_once() -> None:
    ask = ToolUse("delegate_task", {"agent_role": "Writer", "task_description": "Begin."})
    llm = scripted(ask, "Tides.", "Done.")
    run(Task.of(LONG), Task.of("Write an ode"), llm=llm, workflow="hierarchical")
    assert sum(str(each.content).count(LONG) for each in llm.calls[0].messages) == 1


def test_e2_a_task_of_a_cell_is_sent_once() -> None:
    output = run_cell(f"llm: model\ntasks: ['{LONG}']", model=scripted("A"))
    assert "".join(prompts(output)[0]).count(LONG) == 1


def test_e10_a_heading_says_at_most_200_characters_of_what_a_task_was_given() -> None:
    lines = "First line,\nsecond line: " + "x" * 300
    output = run(
        done("short"),
        Task(description=lines, expected_output="A text", name="long", agent=agent("Long.")),
        Task.of("Sum up", agent=agent("Sum."), context=["short", "long"]),
    )
    heading = ("First line, second line: " + "x" * 300)[:200] + "…"
    assert "### Handler: Do short\nshort\n---\n" in prompts(output)[-1][1]
    assert f"### Cook: {heading}\nLong.\n---\n" in prompts(output)[-1][1]
    assert output["long"].task_description == lines


@pytest.mark.parametrize("count", [3, 30])
def test_e10_contexts_grow_by_what_tasks_say_and_not_by_what_they_were_given(count: int) -> None:
    texts = [f"Summarize this: {number} {'word ' * 250}" for number in range(count)]
    tasks = "".join(f"  s{number}: '{text}'\n" for number, text in enumerate(texts))
    names = ", ".join(f"s{number}" for number in range(count))
    cell = f"llm: model\ntasks:\n{tasks}  all: {{description: Put it together, context: [{names}]}}\n"
    output = run_cell(cell, model=scripted(*["A short summary."] * count, "All."))
    assert len(prompts(output)[-1][1]) < count * 300 + 500
