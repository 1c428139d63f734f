"""A manager has a coder write a function, whose code is really run, and a reviewer look at it afterwards."""

from __future__ import annotations

from tests.stories.conftest import Asked, Notebook
from tests.support.openai_server import Answer

TOOL = '''
def check(code: str) -> str:
    """Run the code, and say what its tests say."""
    names = {}
    exec(code, names)
    assert names["is_leap"](2000) and not names["is_leap"](1900), "1900 was no leap year"
    return "all tests pass"
'''
CELL = """
%%ensemble -o code
llm: openai:test-model
workflow: hierarchical
agents:
  Coder: {goal: Write code that passes its tests, tools: check}
  Reviewer: {goal: Find what is wrong}
constraints: {required_stages: [[Coder], [Reviewer]]}
tasks:
  - Write is_leap(year)
"""
WRONG = "def is_leap(year):\n    return year % 4 == 0"
RIGHT = f"{WRONG} and (year % 100 != 0 or year % 400 == 0)"


def delegate(role: str, task: str) -> Answer:
    """The manager hands a task on."""
    return Answer(None, calls=[("delegate_task", {"agent_role": role, "task_description": task})])


def answer(asked: Asked) -> Answer | str:
    """The model: as a manager it asks the reviewer too early, as a coder it forgets the centuries at first."""
    if asked.role == "Coder":
        if asked.last == "all tests pass":
            return RIGHT
        return Answer(None, calls=[("check", {"code": RIGHT if "1900 was no leap year" in asked.last else WRONG})])
    if asked.role == "Reviewer":
        return f"I approve of {asked.task}"
    if "I approve of" in asked.last:
        return RIGHT
    if asked.last == RIGHT:
        return delegate("Reviewer", "the code")
    if "stage 1 is not yet complete" in asked.last:
        return delegate("Coder", "Write is_leap(year)")
    return delegate("Reviewer", "nothing yet")


def test_coder_mends_what_the_check_finds_and_the_reviewer_comes_after(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(TOOL, CELL)
    assert notebook.value("code.raw") == RIGHT
    assert notebook.value("code.frames.delegations[['delegate_to', 'response']].values.tolist()") == [
        ["Reviewer", "failure"],
        ["Coder", "success"],
        ["Reviewer", "success"],
    ]
    assert "stage 1 is not yet complete" in notebook.value("code.frames.delegations.reason.iloc[0]")
    checks = notebook.value("code.frames.tool_calls.query('tool == \"check\"').result.tolist()")
    assert checks == ["Tool error: AssertionError: 1900 was no leap year", "all tests pass"]
    asked = notebook.value("code.frames.agents.llm_count.to_dict()")
    assert asked == {"Manager": 4, "Coder": 3, "Reviewer": 1}
    assert len(notebook.server.requests) == 8
