"""The texts that a model gets (docs/contract/engine.md#prompts)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.agent.prompts import (
    LONG_CONTEXT,
    warn_of_long_context,
    write_system_prompt,
    write_user_prompt,
)

WRITER = Agent(role="Writer", goal="Write well", llm="scripted")


def output(raw: str, role: str = "Researcher", description: str = "Find facts") -> TaskOutput:
    return TaskOutput(
        name="facts",
        raw=raw,
        task_description=description,
        agent_role=role,
        completed_at=datetime.now(UTC),
        duration=timedelta(),
    )


def test_a_plain_agent_is_introduced_by_role_and_goal() -> None:
    lines = write_system_prompt(WRITER).split("\n")
    assert lines[:4] == ["You are Writer.", "", "Your personal goal is: Write well", ""]
    assert len(lines) == 6
    assert "expected output" in lines[4]
    assert "padding" in lines[5]


def test_background_and_format_have_their_places() -> None:
    agent = Agent(role="Writer", goal="Write well", background="Ten years in print.", response_format="Markdown")
    lines = write_system_prompt(agent).split("\n")
    assert lines[:3] == ["You are Writer.", "Ten years in print.", ""]
    assert lines[-1] == "Output format instructions: Markdown"


@pytest.mark.parametrize("background", [None, "", "  \n"])
def test_a_blank_background_or_format_leaves_no_trace(background: str | None) -> None:
    agent = Agent(role="Writer", goal="Write well", background=background, response_format=" ")
    assert write_system_prompt(agent) == write_system_prompt(WRITER)


def test_no_line_ends_in_a_space() -> None:
    agent = Agent(role="Writer ", goal="Write well\n", background="Old. ", response_format="Markdown ")
    assert all(line == line.rstrip() for line in write_system_prompt(agent).split("\n"))


def test_a_task_without_context_has_two_sections() -> None:
    assert write_user_prompt("Write.", "A page.", ()) == "## Task\nWrite.\n\n## Expected Output\nA page."


def test_context_comes_first_in_its_order_each_under_its_heading() -> None:
    context = [output("Tides rise."), output("", role="Handler", description="Measure")]
    assert write_user_prompt("Write.", "A page.", context) == (
        "## Context from Previous Tasks\n"
        "---\n### Researcher: Find facts\nTides rise.\n---\n"
        "---\n### Handler: Measure\n\n---\n\n"
        "## Task\nWrite.\n\n"
        "## Expected Output\nA page."
    )


def test_a_long_context_is_warned_about_and_never_cut() -> None:
    fits, long = output("x" * LONG_CONTEXT), output("y" * (LONG_CONTEXT + 1))
    (warning,) = warn_of_long_context([fits, long])
    assert "'facts'" in warning
    assert "10,001" in warning
    assert long.raw in write_user_prompt("Write.", "A page.", [fits, long])
