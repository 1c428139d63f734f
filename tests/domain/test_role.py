"""Agents derived from descriptions (E2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.agent import INHERIT
from ensemble_notebook.domain.planning.graph import derive_agent, derive_role


@pytest.mark.parametrize(
    "description, role",
    [
        ("Research the tides", "Researcher"),
        ("WRITE a haiku", "Writer"),
        ("Please analyse the data", "Analyst"),
        ("Carefully, and slowly, translate this", "Translator"),
        ("Think about everything, then write it down", "Agent"),
        ("Rewritten texts", "Agent"),
        ("42", "Agent"),
        ("思考", "Agent"),
    ],
)
def test_the_first_known_verb_among_the_first_words_makes_the_role_e2(description: str, role: str) -> None:
    assert derive_role(description) == role


@given(st.text(min_size=1).filter(str.strip))
def test_every_description_has_an_agent_with_a_short_goal_e2(description: str) -> None:
    agent = derive_agent(description)
    assert agent.role == derive_role(description)
    assert agent.goal.endswith(".")
    assert len(agent.goal) < 80
    assert agent.llm is INHERIT
