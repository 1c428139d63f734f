"""A run of thirty calls to a calculator over MCP starts one process, which ends with the run (E83).

The lines of the notebook are 9. With the Agents SDK 0.24 there are 13, with the same forty requests; its model is told
``[{'type': 'text', 'text': '2.0'}]`` where ours is told ``2.0``.
"""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.stories.conftest import Asked, Notebook
from tests.support.openai_server import Answer

SERVER = Path(__file__).parents[1] / "support" / "mcp_servers" / "calculator.py"
TOOLS = f"""
from ensemble_notebook import mcp_tools
calculator = mcp_tools(["python", {str(SERVER)!r}])
numbers = list(range(10))
"""
CELL = """
%%ensemble -o totals
llm: openai:test-model
agents:
  Clerk: {goal: Count without a mistake, tools: calculator}
tasks:
  double: {for_each: numbers, description: "Double {item}, and say which process does it", agent: Clerk}
"""


def answer(asked: Asked) -> Answer | str:
    """The model calls three tools, then says what they gave."""
    results = [line for line in asked.said.splitlines() if line.startswith("process ") or line.endswith(".0")]
    number = int(asked.task.split(",")[0].split()[-1])
    calls = (("mul", {"a": 2, "b": number}), ("add", {"a": 2 * number, "b": 0}), ("who_am_i", {}))
    if len(results) < len(calls):
        return Answer(None, calls=[calls[len(results)]])
    return f"{results[1]} by {results[2]}"


def test_thirty_calls_over_mcp_are_one_process(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(TOOLS, CELL)
    assert notebook.value("totals.frames.tool_calls.outcome.value_counts().to_dict()") == {"success": 30}
    lines = notebook.value("[each.raw for each in totals['double'].item_outputs]")
    assert [line.split()[0] for line in lines] == [f"{2.0 * number}" for number in range(10)]
    (process,) = {line.split(" by ")[1] for line in lines}
    assert not psutil.pid_exists(int(process.split()[1]))
    waits = notebook.value("totals.frames.spans.query(\"wait_kind == 'startup'\").name.tolist()")
    assert [name for name in waits if "MCP" in name] == [f"Starting the MCP server 'python {SERVER}'"]


def test_a_misspelt_toolbox_is_answered_with_the_right_one(notebook: Notebook) -> None:
    notebook.run(TOOLS)
    result = notebook.shell.run(CELL.replace("tools: calculator", "tools: calculatr").strip())
    assert "Did you mean 'calculator'?" in str(result.error_in_exec)
    assert notebook.server.requests == []
