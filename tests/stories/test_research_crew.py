"""A research crew: one finds out with three tools, one writes it up, and the table of tokens says who took what."""

from __future__ import annotations

from tests.stories.conftest import Asked, Notebook
from tests.support.openai_server import Answer

TOOLS = '''
def search(query: str) -> list[str]:
    """Titles of pages about a query."""
    return ["Tides", "Moons"]

def read(title: str) -> str:
    """The text of a page."""
    return f"{title}: the moon pulls the sea twice a day."

def convert(feet: float) -> float:
    """Feet as metres."""
    return round(feet * 0.3048, 2)
'''
CELL = """
%%ensemble -o report -i topic=tides
llm: openai:test-model
cost: {input_rate: 0.01, output_rate: 0.02}
agents:
  Researcher: {goal: Find facts that can be checked, tools: [search, read, convert]}
  Writer: {goal: Write so that sailors understand it}
tasks:
  - {description: "Find out about {topic}", agent: Researcher}
  - {description: Write a report from it, agent: Writer}
"""


def answer(asked: Asked) -> Answer | str:
    """The model: it searches, reads and converts at once, and tells; the writer has only what was told."""
    if asked.role == "Writer":
        return "REPORT: 3.05 m, twice a day." if "3.05 m" in asked.last else "Nothing is known."
    if asked.last == "3.05":
        return "The moon lifts the sea 3.05 m."
    if "Moons" in asked.last:
        return Answer(None, calls=[("read", {"title": "Tides"}), ("convert", {"feet": 10})])
    return Answer(None, calls=[("search", {"query": "tides"})])


def test_crew_finds_out_with_three_tools_and_writes_it_up(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(TOOLS, CELL)
    assert notebook.value("report.raw") == "REPORT: 3.05 m, twice a day."
    assert "Find out about tides" in notebook.server.requests[0].prompt
    calls = notebook.value("report.frames.tool_calls.set_index('tool').result.to_dict()")
    assert calls == {
        "search": '["Tides", "Moons"]',
        "read": "Tides: the moon pulls the sea twice a day.",
        "convert": "3.05",
    }
    assert notebook.value("report.frames.agents.cost.to_dict()") == {"Researcher": 0.75, "Writer": 0.25}
    used = notebook.value("report.metrics.input_tokens, report.metrics.output_tokens")
    assert used == notebook.server.used_tokens == (44, 28)
    assert "72 tokens in 4 model calls · $1.00 · 3 tool calls" in notebook.pictures()
