"""The parts of a key that come from agents: their texts, limits, models and tools, and whom they may ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.tool import list_tool_names
from ensemble_notebook.domain.fingerprints.model_parts import add_model
from ensemble_notebook.domain.fingerprints.parts import Parts
from ensemble_notebook.domain.planning.graph import TeamMember

_TEXTS: Final = ("role", "goal", "background", "response_format")


def add_agent(parts: Parts, agent: Agent, llm: Any, openai_url: str | None, tools: Sequence[object] = ()) -> None:
    """Add the parts of an agent."""
    for name in _TEXTS:
        if text := getattr(agent, name):
            parts.add_value(f"agent {name.replace('_', ' ')}", text)
    parts.add_value("agent max_iterations", agent.max_iterations)
    parts.add_value("agent allow_delegation", agent.allow_delegation)
    add_model(parts, llm, openai_url)
    for tool in (*agent.tools, *tools):
        names = ", ".join(list_tool_names(tool) or ())
        parts.add_value(f"tool {names}", tool, f"the tool {names}", also=names)


def add_team(parts: Parts, team: Iterable[TeamMember], openai_url: str | None) -> None:
    """Add everybody who can be asked to work, one part each."""
    for member in team:
        worker = Parts(parts.graph)
        add_agent(worker, member.agent, member.llm, openai_url)
        parts.add_group(f"worker {member.agent.role}", worker)
