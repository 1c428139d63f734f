"""A reviewed tool in a cell (C106)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import Ensemble, Tool, ValidationError
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.writing.python_writer import write_python

CELL = "agents:\n  Clerk: {goal: Settle, tools: %s}\ntasks:\n  settle: {description: Settle it, agent: Clerk}\n"


def refund(order: str, amount: float) -> str:
    """Give the money of an order back."""
    return f"{order}: {amount}"


def order_status(order: str) -> str:
    """Look an order up."""
    return order


NAMES: dict[str, Any] = {"refund": refund, "order_status": order_status}


def read(tools: str, **names: Any) -> Ensemble:
    return Ensemble.from_yaml(CELL % tools, {**NAMES, **names})


@pytest.mark.parametrize(
    "tools", ["[order_status, {tool: refund, review: before}]", "{tool: refund, review: before, reuse: true}"]
)
def test_c106_it_is_read_and_written_back_as_it_stands(tools: str) -> None:
    ensemble = read(tools)
    reviewed = ensemble.agents[0].tools[-1]
    assert isinstance(reviewed, Tool)
    assert (reviewed.tool, reviewed.review, reviewed.reuse) == (refund, "before", "reuse" in tools)
    again = Ensemble.from_yaml(ensemble.to_yaml(NAMES), NAMES)
    assert isinstance(again.agents[0].tools[-1], Tool)
    assert "Tool(refund, review=" in write_python(ensemble, NAMES, "team")


def test_c106_one_with_a_rule_is_bound_to_a_name() -> None:
    careful = Tool(refund, review=lambda call: call.arguments["amount"] > 100)
    ensemble = read("[careful, order_status]", careful=careful)
    assert ensemble.agents[0].tools == (careful, order_status)
    assert "tools: [careful, order_status]" in ensemble.to_yaml({**NAMES, "careful": careful})
    with pytest.raises(ValidationError):
        ensemble.to_yaml(NAMES)


@pytest.mark.parametrize(
    "tools, message, word",
    [
        ("[{tool: refund, review: after}]", "must be 'before'", "after"),
        ("[{tool: refund, review: true}]", "review", "true"),
        ("[{tool: refnd, review: before}]", "Did you mean 'refund'?", "refnd"),
        ("[{tool: refund, reviw: before}]", "Did you mean 'review'?", "reviw"),
        ("[{tool: refund}]", "needs the key 'review'", "{tool: refund}"),
        ("[{review: before}]", "needs the key 'tool'", "{review: before}"),
        ("[{tool: [refund], review: before}]", "and this is a list", "[refund]"),
        ("[refund, {tool: refund, review: before}]", "stands twice", "{tool"),
    ],
)
def test_c106_what_is_wrong_is_told_once_at_its_character(tools: str, message: str, word: str) -> None:
    text = CELL % tools
    with pytest.raises(CellError) as caught:
        read_cell(text, NAMES).build(NAMES)
    (mistake,) = caught.value.mistakes
    assert message in str(mistake)
    assert text.splitlines()[mistake.line - 1][mistake.column - 1 :].startswith(word)
