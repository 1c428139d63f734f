"""What may stand among tools: retrievers, objects with methods under @tool, lists of tools in cells (E1, C6a)."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool

from ensemble_notebook import Agent, Ensemble, EnsembleOutput, Task, ToolCallCompleted, ToolUse, ValidationError
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import of, scripted


class Almanac(BaseRetriever):
    """Finds one document, or none."""

    is_empty: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        about = {"source": "almanac.md", "page": 7, "ensemble_scope": "x"}
        return [] if self.is_empty else [Document(page_content=f"All about {query}.", metadata=about)]


class Scales:
    """An object whose methods are tools."""

    @tool
    def weigh(self, item: str) -> str:
        """Weigh an item."""
        return f"{item}: 2 kg"


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def count(text: str) -> int:
    """Count."""
    return len(text)


def offered(llm: Any) -> list[str]:
    """The names of the tools that a model was offered."""
    return list(llm.calls[0].tools)


def answers(output: EnsembleOutput) -> list[str]:
    return [each.result for each in of(output, ToolCallCompleted)]


def run_cell(tools: str, llm: Any, **names: Any) -> EnsembleOutput:
    """A run of an agent that a cell gives these tools."""
    text = f"llm: model\nagents: {{A: {{goal: g, tools: {tools}}}}}\ntasks: [{{description: x, agent: A}}]"
    return read_cell(text, {"model": llm, **names}).build().run()


def test_e1_a_retriever_is_a_tool_that_is_called_as_its_variable() -> None:
    old_tides, llm = Almanac(), scripted(ToolUse("old_tides", {"query": "ebb"}), "Done.")
    output = Ensemble(tasks=[Task.of("Look", agent=Agent(role="A", goal="g", llm=llm, tools=[old_tides]))]).run()
    assert answers(output) == ["[source: almanac.md, page: 7]\nAll about ebb."]
    assert offered(llm) == ["old_tides"]


def test_e1_a_retriever_of_a_task_in_no_variable_goes_by_its_class_and_may_find_nothing() -> None:
    llm = scripted(ToolUse("almanac", {"query": "ebb"}), "Done.")
    output = Ensemble(tasks=[Task.of("Look", llm=llm, tools=[Almanac(is_empty=True)])]).run()
    assert answers(output) == ["No documents found."]


def test_e1_a_cell_names_a_retriever_by_its_variable() -> None:
    llm = scripted(ToolUse("tides", {"query": "ebb"}), "Done.")
    assert answers(run_cell("tides", llm, tides=Almanac())) == ["[source: almanac.md, page: 7]\nAll about ebb."]


def test_e1_methods_under_tool_are_tools_in_a_cell() -> None:
    llm = scripted(ToolUse("weigh", {"item": "flour"}), "Done.")
    assert answers(run_cell("[scales]", llm, scales=Scales())) == ["flour: 2 kg"]


@pytest.mark.parametrize("tools", ["kit", "[kit]"])
def test_e1_a_cell_takes_a_variable_that_holds_a_list_of_tools(tools: str) -> None:
    llm = scripted(ToolUse("count", {"text": "four"}), "Done.")
    output = run_cell(tools, llm, kit=[search, count, Almanac(), Scales()])
    assert offered(llm) == ["search", "count", "kit_3", "weigh"]
    assert answers(output) == ["4"]


@pytest.mark.parametrize(
    "tools, names, told",
    [
        ("kit", {"kit": [search, 7]}, "item 2 of the list 'kit' is no tool, but of type int"),
        ("[kit, search]", {"kit": [search], "search": search}, "Tool name 'search' stands twice"),
        ("kitt", {"kit": [search]}, "there is no 'kitt' in this notebook. Did you mean 'kit'?"),
        ("tides.", {"tides": Almanac()}, "can't be the name of a tool"),
    ],
)
def test_e1_what_is_no_tool_is_said_where_it_stands(tools: str, names: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        run_cell(tools, scripted(), **names)
    assert told in str(caught.value)


def test_e1_an_empty_list_of_tools_is_a_notice() -> None:
    cell = read_cell("agents: {A: {goal: g, tools: kit}}\ntasks: [{description: x, agent: A}]", {"kit": []})
    assert [each.message for each in cell.notices] == ["the list 'kit' holds no tools."]


def test_e1_a_retriever_is_no_model() -> None:
    with pytest.raises(ValidationError, match="holds no chat model"):
        read_cell("llm: tides\ntasks: [x]", {"tides": Almanac()})
