"""The texts that a model gets (ENGINE section 2). The headings are the interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ensemble_notebook.domain.agent import Agent
from ensemble_notebook.domain.output import TaskOutput

LONG_CONTEXT: Final = 10_000

_CONDUCT: Final = (
    "Satisfy the expected output of your task completely.\n"
    "Put quality first: be accurate and to the point, without filler or padding."
)


def system_prompt(agent: Agent, goal: str) -> str:
    """Who the agent is. `goal` is the agent's own, or the resolved description that a derived agent works for (E2)."""
    head = f"You are {agent.role.strip()}."
    if agent.background and agent.background.strip():
        head += f"\n{agent.background.strip()}"
    text = f"{head}\n\nYour personal goal is: {goal.strip()}\n\n{_CONDUCT}"
    if agent.response_format.strip():
        text += f"\nOutput format instructions: {agent.response_format.strip()}"
    return text


def user_prompt(description: str, expected_output: str, context: Sequence[TaskOutput]) -> str:
    """What is to be done, after the outputs that it builds on; each section only when it has content."""
    sections = []
    if context:
        blocks = [f"---\n### {each.agent_role}: {each.task_description}\n{each.raw}\n---" for each in context]
        sections.append("\n".join(["## Context from Previous Tasks", *blocks]))
    sections.append(f"## Task\n{description}")
    sections.append(f"## Expected Output\n{expected_output}")
    return "\n\n".join(sections)


def long_context_warnings(context: Sequence[TaskOutput]) -> list[str]:
    """One sentence for each context output that is unusually long; it is never cut."""
    return [
        f"The output of {each.name!r} is {len(each.raw):,} characters long and goes into a prompt as a whole."
        for each in context
        if len(each.raw) > LONG_CONTEXT
    ]
