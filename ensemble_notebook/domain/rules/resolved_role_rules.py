"""The rules of roles and goals, for the texts that agents have in one run (E6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.hierarchy import MANAGER_ROLE, normalize_role
from ensemble_notebook.domain.definitions.templates import find_variables, render
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.errors import Problem


def find_resolved_role_problems(agents: Sequence[Agent], graph: Graph, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what is wrong with agents once their variables are filled in, and was not as they were declared.

    Args:
        agents: all that take part, as they were declared.
        graph: of a valid ensemble, as it was declared.
        inputs: of the run; agents with variables that have no value are left out.
    """
    known = [each for each in agents if all(name in inputs for name in find_variables(f"{each.role}{each.goal}"))]
    for agent in known:
        for field in ("role", "goal"):
            if not render(getattr(agent, field), inputs).strip():
                message = f"The {field} of agent {agent.role!r} is blank in this run: {getattr(agent, field)!r}."
                yield Problem(message, agent, field)
    if graph.managed:
        yield from _find_unfit_workers([each.agent for each in graph.team if each.agent in known], inputs)


def find_resolved_role_warnings(graph: Graph) -> Iterator[str]:
    """Find peers that can't be told from each other in this run, and could be as they were declared.

    Args:
        graph: with the agents of the run.
    """
    declared = Counter(normalize_role(each.declared_role) for each in graph.team)
    resolved = Counter(normalize_role(each.agent.role) for each in graph.team)
    if not graph.managed and declared.keys() != resolved.keys():
        for role in (role for role, count in resolved.items() if count > 1):
            yield f"Several agents are called {role!r} in this run; by delegation, only the first can be asked."


def _find_unfit_workers(workers: list[Agent], inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """As it is checked for declared roles: each worker can be told from the others, and from the manager."""
    seen: dict[str, Agent] = {}
    for agent in workers:
        role = render(agent.role, inputs)
        word = normalize_role(role)
        if word == normalize_role(MANAGER_ROLE):
            message = f"Agent {agent.role!r} is called {role!r} in this run, and that is the role of the manager."
            yield Problem(f"{message} Choose another value, or another role.", agent, "role")
        elif word in seen:
            message = (
                f"Agents {seen[word].role!r} and {agent.role!r} are both called {role!r} in this run (ignoring case)"
            )
            yield Problem(f"{message}. A manager can't tell them apart.", agent, "role")
        seen.setdefault(word, agent)
