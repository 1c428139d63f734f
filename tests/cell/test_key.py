"""The keys of the language and familiar spellings of them (C2, C3)."""

import re

import pytest

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.enums import CaptureMode, ErrorStrategy, Workflow
from tests.support.cell import assert_mistakes, links, mistakes_of, read


def test_every_field_of_every_definition_has_words():
    unnamed = [
        f"{schema.definition.__name__}.{name}"
        for schema in vocabulary.SCHEMAS
        if schema.definition is not None
        for name in get_field_names(schema.definition)
        if name not in schema.keys
    ]
    assert unnamed == ["Condition.source"]  # the key of the mapping is the source


def test_every_key_says_what_it_takes_and_means():
    assert all(key.meaning and key.kind.value for schema in vocabulary.SCHEMAS for key in schema.keys.values())


def test_defaults_come_from_the_definitions():
    assert vocabulary.AGENT.keys["max_iterations"].default == 25
    assert vocabulary.AGENT.keys["llm_timeout"].default == 60.0
    assert vocabulary.CELL.keys["error_strategy"].default is ErrorStrategy.FAIL_FAST
    assert vocabulary.AGENT.keys["goal"].is_required
    assert not vocabulary.AGENT.keys["role"].is_required


def test_every_top_level_key_reaches_the_ensemble():
    def hear(event):
        return None

    cell = read(
        """
name: Tides
llm: scripted
verbose: true
workflow: sequential
error_strategy: continue_on_error
max_concurrency: 3
listeners: [hear]
cost: {input_rate: 0.0000001, output_rate: 2e-7, currency: EUR}
inputs: {topic: tides}
tasks: [a]
""",
        {"hear": hear},
    )
    found = cell.definition
    assert (found.name, found.llm, found.verbose, found.max_concurrency) == ("Tides", "scripted", True, 3)
    assert (found.workflow, found.error_strategy) == (Workflow.SEQUENTIAL, ErrorStrategy.CONTINUE_ON_ERROR)
    assert found.listeners == (hear,)
    assert dict(found.inputs) == {"topic": "tides"}
    assert found.cost is not None
    assert (str(found.cost.input_rate), str(found.cost.output_rate), found.cost.currency) == ("1E-7", "2E-7", "EUR")


def test_every_key_of_an_agent_and_a_task_reaches_its_definition():
    def search(text):
        return text

    cell = read(
        """
agents:
  Ann:
    role: Researcher
    goal: Find facts
    llm: scripted
    background: Ten years at sea
    tools: [search]
    verbose: true
    max_iterations: 3
    response_format: JSON
    max_retries: 0
    llm_timeout: null
tasks:
  gather:
    description: Gather facts
    expected_output: A list
    agent: Ann
    llm: local
    timeout: 2.5
""",
        {"search": search},
    )
    (agent,), (task,) = cell.definition.agents, cell.definition.tasks
    assert (agent.role, agent.goal, agent.llm, agent.background) == (
        "Researcher",
        "Find facts",
        "scripted",
        "Ten years at sea",
    )
    assert (agent.tools, agent.verbose, agent.max_iterations) == ((search,), True, 3)
    assert (agent.response_format, agent.max_retries, agent.llm_timeout) == ("JSON", 0, None)
    assert (task.name, task.expected_output, task.agent, task.llm, task.timeout) == (
        "gather",
        "A list",
        agent,
        "local",
        2.5,
    )


def test_agents_may_be_a_list_with_roles():
    cell = read("agents:\n- {role: Ann, goal: g}\ntasks: [{description: x, agent: Ann}]")
    assert cell.graph.tasks[0].role == "Ann"


def test_unknown_key_names_the_nearest_one():
    assert_mistakes(
        "agents:\n  Ann:\n    «gaol»: x\ntasks: [a]", r"unknown key 'gaol' in agent 'Ann'. Did you mean 'goal'\?"
    )
    assert_mistakes("tasks: [a]\n«agnts»: {}", r"unknown key 'agnts' in the cell. Did you mean 'agents'\?")
    assert_mistakes("phases: {p: {tasks: [a], «aftr»: []}}", r"in phase 'p'. Did you mean 'after'\?")
    assert_mistakes("tasks: [{description: a, «Agent»: X}]", r"unknown key 'Agent' in task 1. Did you mean 'agent'\?")


def test_unknown_key_that_is_near_nothing_lists_the_keys():
    (mistake,) = mistakes_of("tasks: [{description: a, zzz: 1}]")
    assert "A task has: description, expected_output, prompt" in mistake.hint


@pytest.mark.parametrize(
    "text",
    [
        "- «gather»: Find sources",
        "- «gather»:\n    description: Find sources\n    llm: local",
        "- «gather»: Find sources\n  expected_output: A list",
        "tasks:\n- Begin\n- «gather»: Find sources",
    ],
)
def test_a_task_of_a_list_that_is_named_like_one_of_a_mapping_is_told_how_to_name_it(text: str):
    assert_mistakes(text, "stands in a list, where 'gather' can't name it")
    assert "name: gather" in mistakes_of(text.replace("«", "").replace("»", ""))[0].hint


def test_what_is_wrong_in_a_task_that_is_named_like_that_is_told_as_well():
    assert_mistakes("- «gather»:\n    description: Find\n    «lmm»: local", "can't name it", "Did you mean 'llm'")


def test_key_of_another_place_is_told_where_it_belongs():
    assert_mistakes("«goal»: x\ntasks: [a]", "It is a key of an agent")


def test_missing_required_key_is_shown_at_its_owner():
    assert_mistakes("agents:\n  «Ann»:\n    background: x\ntasks: [a]", "agent 'Ann' needs the key 'goal'")
    assert_mistakes("tasks:\n  «a»: {agent: Ann}\nagents: {Ann: {goal: g}}", "task 'a' needs the key 'description'")
    assert_mistakes("phases:\n  «p»: {after: []}", "phase 'p' needs the key 'tasks'")


def test_short_words_stand_for_the_long_ones():
    def allow(request, context):
        return None

    text = (
        "llm: scripted\nworkflow: hierarchical\nconstraints: {global_max_delegations: 2}\npolicies: [allow]\ntasks: [a]"
    )
    cell = read(text, {"allow": allow})
    assert cell.definition.hierarchical_constraints is not None
    assert cell.definition.delegation_policies == (allow,)
    assert cell.notices == ()


def test_key_given_in_its_short_and_its_long_word_is_a_mistake():
    assert_mistakes("policies: []\n«delegation_policies»: []\ntasks: [a]", "given twice; the first one.* in line 1")
    assert_mistakes("manager: local\n«manager_llm»: local\ntasks: [a]", "'manager_llm' of the cell is given twice")
    assert_mistakes(
        "manager_llm: local\nmanager: {«llm»: local}\ntasks: [a]", "'llm' of 'manager' of the cell is given twice"
    )


def test_keys_of_a_cell_are_listed_as_they_are_called_and_the_short_words_behind_them():
    (mistake,) = mistakes_of("tasks: [a]\nzzz: 1")
    keys, shorter = mistake.hint.removeprefix("A cell has: ").split("; shorter: ")
    assert keys.split(", ") == list(vocabulary.CELL.keys)
    assert {"manager_llm", "hierarchical_constraints", "delegation_policies", "review_policy"} <= set(keys.split(", "))
    assert shorter == "constraints, policies, manager, review."


def test_switches_and_choices_reach_their_definitions():
    cell = read(
        "workflow: parallel\nerror_strategy: partial\ncapture_mode: off\nmax_delegation_depth: 2\n"
        "agents: {A: {goal: g, allow_delegation: true}}\n"
        "tasks: [{description: x, agent: A, output_type: {a: str}, max_output_retries: 0}]"
    )
    found = cell.definition
    assert (found.error_strategy, found.capture_mode) == (ErrorStrategy.PARTIAL, CaptureMode.OFF)
    assert (found.max_delegation_depth, found.agents[0].allow_delegation) == (2, True)
    assert found.tasks[0].max_output_retries == 0


@pytest.mark.parametrize(
    "text, told",
    [
        ("workflow: «hierarchicl»", "Did you mean 'hierarchical'"),
        ("error_strategy: «partal»", "Did you mean 'partial'"),
        ("capture_mode: «ful»", "Did you mean 'full'"),
        ("review_policy: «after_evry_task»", "Did you mean 'after_every_task'"),
        ("max_delegation_depth: «0»", "whole number >= 1"),
    ],
)
def test_wrong_word_names_the_nearest_one_in_its_place(text, told):
    assert_mistakes(f"{text}\ntasks: [a]", told)


def test_review_can_name_a_task_whose_description_is_a_sentence():
    assert list(links(read("tasks: {draft: Write it, review: Read it again}"))) == ["draft", "review"]
    assert list(links(read("phases: {p: {draft: Write it, review: Read it again}}"))) == ["draft", "review"]
    assert_mistakes("tasks: {draft: Write it, «review»: after}", "'review' is a word of the cell language")


def test_key_of_another_tool_without_counterpart_says_what_to_do():
    assert_mistakes("tasks: [{description: a, «output_file»: x.md}]", "no counterpart")


@pytest.mark.parametrize(
    "written, meant, value",
    [
        ("backstory", "background", "x"),
        ("max_iter", "max_iterations", 7),
        ("maxIterations", "max_iterations", 7),
        ("allowDelegation", "allow_delegation", "true"),
    ],
)
def test_familiar_key_of_an_agent_is_read_and_reported(written, meant, value):
    cell = read(f"agents:\n  A:\n    goal: g\n    {written}: {value}\ntasks: [a]")
    assert getattr(cell.definition.agents[0], meant) == (value == "true" or value)
    (notice,) = cell.notices
    assert (notice.line, notice.column, notice.where) == (4, 5, "line 4")
    assert notice.message == f"{written!r} of agent 'A' is read as {meant!r}."


def test_camel_case_is_read_everywhere():
    cell = read("maxConcurrency: 2\ntasks: [{description: a, expectedOutput: b}]")
    assert (cell.definition.max_concurrency, cell.definition.tasks[0].expected_output) == (2, "b")
    assert [notice.message for notice in cell.notices] == [
        "'maxConcurrency' of the cell is read as 'max_concurrency'.",
        "'expectedOutput' of task 1 is read as 'expected_output'.",
    ]


def test_two_spellings_of_one_key_are_a_mistake():
    assert_mistakes("agents:\n  A: {goal: g, background: x, «backstory»: y}\ntasks: [a]", "given twice")


CREW = """
agents:
  researcher:
    role: >
      {topic} Senior Data Researcher
    goal: >
      Uncover cutting-edge developments in {topic}
    backstory: >
      You're a seasoned researcher with a knack for uncovering the latest
      developments in {topic}.
    llm: openai/gpt-4o
    verbose: true
  reporting_analyst:
    role: >
      {topic} Reporting Analyst
    goal: >
      Create detailed reports
    backstory: >
      You're a meticulous analyst
tasks:
  research_task:
    description: >
      Conduct a thorough research about {topic}
    expected_output: >
      A list with 10 bullet points
    agent: researcher
  reporting_task:
    description: >
      Review the context
    expected_output: >
      A full report
    agent: reporting_analyst
"""


def test_pasted_agents_and_tasks_of_crewai_work():
    cell = read(CREW, {"topic": "Tides"})
    first, second = cell.graph.tasks
    assert (first.name, first.role, second.role) == (
        "research_task",
        "{topic} Senior Data Researcher",
        "{topic} Reporting Analyst",
    )
    assert first.agent is not None
    assert first.agent.goal == "Uncover cutting-edge developments in {topic}"
    assert first.agent.background == (
        "You're a seasoned researcher with a knack for uncovering the latest developments in {topic}."
    )
    assert first.llm == "openai:gpt-4o"
    assert first.task.description == "Conduct a thorough research about {topic}"


def test_pasted_crewai_mapping_is_warned_that_it_does_not_run_in_order():
    warnings = [notice for notice in read(CREW, {"topic": "Tides"}).notices if notice.is_warning]
    assert [(each.line, each.message[:32]) for each in warnings] == [(20, "in crewAI these tasks run one af")]


def test_async_tasks_of_a_list_run_beside_each_other():
    cell = read(
        """
- {name: a, description: x}
- {name: b, description: x, async_execution: true}
- {name: c, description: x, async_execution: true}
- {name: d, description: x}
- {name: e, description: x}
"""
    )
    assert cell.definition.workflow is Workflow.PARALLEL
    assert links(cell) == {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("d",)}
    assert [notice.line for notice in cell.notices] == [3, 4]


def test_async_in_a_graph_is_reported_as_needless():
    cell = read("tasks:\n  a: {description: x, async_execution: true}\n")
    assert "how every task of a graph runs" in cell.notices[0].message


def test_async_contradicts_a_written_sequence():
    assert_mistakes("workflow: sequential\ntasks: [{description: x, «async_execution»: true}]", "contradicts")


@pytest.mark.parametrize("word", ["guardrial", "guardrailz", "backstorry", "expected_outptu"])
def test_the_word_that_is_suggested_is_in_the_list_of_valid_ones_c10(word: str) -> None:
    section = (
        "agents: {Cook: {goal: Cook, %s: x}}\ntasks: [Cook]"
        if word == "backstorry"
        else "tasks: [{description: D, %s: x}]"
    )
    (mistake,) = mistakes_of(section % word)
    (meant,) = re.findall(r"Did you mean '(\w+)'\?", mistake.message)
    assert re.search(rf"\b{meant}\b", mistake.hint), (mistake.message, mistake.hint)


@pytest.mark.parametrize("text", ["agents: [{«name»: X, goal: y}]", "agents: {X: {«name»: Y, goal: y}}"])
def test_name_of_an_agent_is_answered_with_its_role_c3(text: str) -> None:
    assert_mistakes(f"{text}\ntasks: [x]", r"unknown key 'name' in agent .*\. Did you mean 'role'\?")


def test_async_execution_is_a_key_of_tasks_alone():
    assert_mistakes("agents: {A: {goal: x, «async_execution»: true}}\ntasks: [a]", "unknown key 'async_execution'")
    assert_mistakes("«async_execution»: true\ntasks: [a]", "It is a key of a task")
