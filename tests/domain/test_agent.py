"""Agents (E1)."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool

from ensemble_notebook.domain.definitions.agent import INHERIT, Agent
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.errors import ValidationError


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Agent(**{"role": "Writer", "goal": "Write", **fields})
    return str(caught.value)


def test_an_agent_needs_a_role_and_a_goal() -> None:
    agent = Agent(role="Writer", goal="Write")
    assert agent.llm is INHERIT
    assert (agent.background, agent.tools, agent.verbose, agent.response_format) == (None, (), False, "")
    assert (agent.max_iterations, agent.max_retries, agent.llm_timeout) == (25, 2, 60.0)


@pytest.mark.parametrize("field", ["role", "goal"])
@pytest.mark.parametrize("value, wrong", [("", "must not be blank"), (" \n", "must not be blank"), (7, "must be text")])
def test_role_and_goal_are_texts_and_not_blank(field: str, value: Any, wrong: str) -> None:
    assert refusal(**{field: value}).startswith(f"Agent {field} {wrong}")


def test_fields_are_checked_in_a_fixed_order_e1() -> None:
    wrong: dict[str, Any] = {"role": "", "goal": "", "llm": None, "max_iterations": 0, "tools": [3], "background": 3}
    right: dict[str, Any] = {"role": "Writer", "goal": "Write", "llm": "local", "max_iterations": 1, "tools": []}
    order = []
    while wrong:
        with pytest.raises(ValidationError) as caught:
            Agent(**wrong)
        field = caught.value.problems[0].field
        assert field is not None
        order.append(field)
        if field not in right:
            break
        wrong[field] = right[field]
    assert order == ["role", "goal", "llm", "max_iterations", "tools", "background"]


# --- the model ---


@pytest.mark.parametrize(
    "llm",
    ["local", "openai:gpt-4o", {"model": "m", "base_url": "http://localhost"}, FakeListChatModel(responses=["x"])],
    ids=lambda llm: type(llm).__name__ if not isinstance(llm, str) else llm,
)
def test_a_model_is_a_spec_or_a_chat_model(llm: Any) -> None:
    assert Agent(role="Writer", goal="Write", llm=llm).llm is llm


def test_no_model_at_all_differs_from_a_model_left_out_e1() -> None:
    assert refusal(llm=None) == "Agent llm must not be None. Leave it out to use the ensemble's model."


@pytest.mark.parametrize("llm", [7, " ", {}, FakeListChatModel, object()], ids=lambda llm: repr(llm)[:20])
def test_anything_else_is_no_model(llm: Any) -> None:
    assert refusal(llm=llm).startswith("Agent llm must ")


# --- tools ---


def search(query: str) -> str:
    """Search."""
    return query


class Echo:
    name = "echo"
    description = "Says it again."

    def execute(self, text: str) -> str:
        return text


class Kit:
    @tool
    def hammer(self) -> str:
        """Hammer."""
        return ""

    @tool
    def saw(self) -> str:
        """Saw."""
        return ""


@tool
def look_up(query: str) -> str:
    """Look up."""
    return query


def test_tools_of_all_forms_stand_side_by_side_e1() -> None:
    entries = (search, Echo(), Kit(), look_up)
    assert Agent(role="Writer", goal="Write", tools=entries).tools == entries


@pytest.mark.parametrize("entry", [3, "search", None, Echo, object()], ids=lambda entry: repr(entry)[:20])
def test_a_bad_tool_is_named_by_index_and_type_e1(entry: Any) -> None:
    assert refusal(tools=[search, entry]).startswith(f"Tool at index 1 ({type(entry).__name__}) is no tool.")


def test_a_tool_name_is_letters_digits_and_underscores_e1() -> None:
    echo = Echo()
    echo.name = "echo-1"
    assert refusal(tools=[echo]) == (
        "Tool at index 0 (Echo) is named 'echo-1'; use letters, digits and underscores only."
    )
    assert refusal(tools=[lambda text: text]).startswith("Tool at index 0 (function) is named '<lambda>'")


def test_a_tool_name_stands_once_e1() -> None:
    hammer = Echo()
    hammer.name = "hammer"
    assert refusal(tools=[hammer, search, Kit()]) == (
        "Tool name 'hammer' stands twice: at index 0 and 2 (Kit). Rename one."
    )


def test_a_bad_tool_is_found_by_its_index() -> None:
    with pytest.raises(ValidationError) as caught:
        Agent(role="Writer", goal="Write", tools=[search, 3])
    (problem,) = caught.value.problems
    assert (problem.field, problem.item) == ("tools", 1)
    assert isinstance(problem.subject, Agent)


# --- delegation and limits ---


def test_an_agent_works_alone_and_without_a_rate_unless_it_says_otherwise() -> None:
    agent = Agent(role="Writer", goal="Write")
    assert (agent.allow_delegation, agent.rate_limit) == (False, None)
    limit = RateLimit(1, 1)
    assert Agent(role="Writer", goal="Write", allow_delegation=True, rate_limit=limit).rate_limit is limit


def test_delegation_is_a_switch_and_a_rate_is_a_rate_limit() -> None:
    assert refusal(allow_delegation="yes") == "Agent allow_delegation must be True or False, got 'yes'."
    assert refusal(rate_limit=60).startswith("Agent rate_limit must be a RateLimit, a text such as '60/min', or a")
