"""A list is a chain, a mapping is a graph (C1)."""

import pytest

from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT
from tests.support.cell import assert_mistakes, links, read


def test_smallest_cell_is_a_list_of_descriptions():
    cell = read("- Research {topic}\n- Write a haiku from it\n", {"topic": "tides"})
    assert [node.task.description for node in cell.graph.tasks] == ["Research {topic}", "Write a haiku from it"]
    assert cell.definition.workflow is Workflow.SEQUENTIAL
    assert links(cell) == {"researcher_1": (), "writer_2": ("researcher_1",)}


def test_expected_output_may_be_left_out():
    assert read("- a").graph.tasks[0].task.expected_output == STOCK_EXPECTED_OUTPUT


def test_list_under_tasks_chains_like_a_list_alone():
    assert links(read("tasks:\n- {name: a, description: x}\n- {name: b, description: y}\n")) == {"a": (), "b": ("a",)}


def test_empty_context_in_a_chain_reads_nothing():
    assert links(read("- {name: a, description: x}\n- {name: b, description: y, context: []}\n")) == {"a": (), "b": ()}


def test_context_in_a_chain_replaces_the_one_before():
    cell = read("- {name: a, description: x}\n- {name: b, description: y}\n- {name: c, description: z, context: [a]}\n")
    assert links(cell)["c"] == ("a",)


def test_mapping_is_a_graph():
    cell = read("tasks:\n  b: {description: y, context: [a]}\n  a: x\n")
    assert cell.definition.workflow is Workflow.PARALLEL
    assert links(cell) == {"b": ("a",), "a": ()}


def test_workflow_parallel_takes_a_list_out_of_its_chain():
    cell = read("workflow: parallel\ntasks: [a, b]\n")
    assert cell.definition.workflow is Workflow.PARALLEL
    assert set(links(cell).values()) == {()}


def test_workflow_sequential_orders_a_mapping_and_links_nothing():
    cell = read("workflow: SEQUENTIAL\ntasks: {a: x, b: y}\n")
    assert cell.definition.workflow is Workflow.SEQUENTIAL
    assert links(cell) == {"a": (), "b": ()}


def test_workflow_of_the_options_overrides_the_form():
    assert set(links(read("- a\n- b\n", overrides={"workflow": Workflow.PARALLEL})).values()) == {()}


def test_handlers_in_a_chain_read_the_task_before():
    cell = read("- {name: a, description: x}\n- {name: b, description: y, handler: f}\n", {"f": lambda given: "z"})
    assert links(cell)["b"] == ("a",)


@pytest.mark.parametrize(
    "tasks, workflow, expected",
    [
        ("[x, y]", Workflow.SEQUENTIAL, ((), ("agent_1",))),
        ("{a: x, b: y}", Workflow.PARALLEL, ((), ())),
        ("{tasks: [x, y]}", Workflow.SEQUENTIAL, ((), ("agent_1",))),
        ("{tasks: {a: x, b: y}}", Workflow.PARALLEL, ((), ())),
        ("{tasks: [x, y], workflow: parallel}", Workflow.PARALLEL, ((), ())),
        ("{tasks: {a: x, b: y}, workflow: sequential}", Workflow.SEQUENTIAL, ((), ())),
    ],
)
def test_tasks_of_a_phase_follow_the_same_rule(tasks, workflow, expected):
    cell = read(f"phases:\n  p: {tasks}\n")
    assert cell.graph.phases[0].workflow is workflow
    assert tuple(links(cell).values()) == expected


def test_workflow_of_the_cell_holds_for_phases_without_their_own():
    cell = read("workflow: parallel\nphases:\n  p: [x, y]\n  q: {tasks: [x, y], workflow: sequential}\n")
    assert [phase.workflow for phase in cell.graph.phases] == [Workflow.PARALLEL, Workflow.SEQUENTIAL]
    assert list(links(cell).values()) == [(), (), (), ("agent_3",)]


def test_chain_does_not_reach_across_phases():
    assert list(links(read("phases:\n  p: [x]\n  q: {tasks: [y], after: [p]}\n")).values()) == [(), ()]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "~", "\n  # x\n"])
def test_empty_cell_is_told_what_to_write(text):
    from ensemble_notebook.cell.cell_reader import read_cell
    from ensemble_notebook.cell.reading.mistakes import CellError

    with pytest.raises(CellError, match="this cell is") as caught:
        read_cell(text)
    assert "- Research {topic}" in caught.value.mistakes[0].hint


def test_cell_that_is_one_text_is_a_mistake():
    assert_mistakes("«Research the tides»", "one text")


def test_cell_without_tasks_is_a_mistake():
    assert_mistakes("«l»lm: local", "at least one task")
    assert_mistakes("tasks: «[]»", "at least one task")


def test_tasks_and_phases_exclude_each_other():
    assert_mistakes("tasks: «[a]»\nphases: {p: [b]}", "not both")


def test_cell_of_the_documentation_is_read():
    cell = read(
        """
llm: local                       # or openai:gpt-4o-mini, a variable holding a chat model, ...
agents:
  Researcher:                    # the key is the role unless `role:` says otherwise
    goal: Find facts that can be checked
    # tools: [search_notes]      # plain functions or LangChain tools of this notebook, for models that call tools
  Writer:
    goal: Turn facts into clear prose
tasks:
  gather: {description: "Gather the key facts about {topic}", agent: Researcher}
  risks:  {description: "List the main risks of {topic}", agent: Researcher}
  brief:
    description: Write a one-page brief
    expected_output: Markdown with three headings
    agent: Writer
    context: [gather, risks]
""",
        overrides={"inputs": {"topic": "tidal energy"}},
    )
    assert cell.plan.groups == (("gather", "risks"), ("brief",))
    assert [node.role for node in cell.graph.tasks] == ["Researcher", "Researcher", "Writer"]
    assert cell.notices == ()
