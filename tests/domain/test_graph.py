"""Definitions resolved into numbered nodes."""

from __future__ import annotations

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.graph import Graph, build_graph

WRITER = Agent(role="Senior Tech Writer", goal="Write")


def graph_of(*tasks: Task, workflow: Workflow = Workflow.SEQUENTIAL, llm: str | None = None) -> Graph:
    return build_graph(EnsembleDefinition(tasks=tasks, workflow=workflow, llm=llm))


def names(graph: Graph) -> list[str]:
    return [node.name for node in graph.tasks]


# --- names (E2) ---


def test_an_unnamed_task_is_named_by_role_and_position_e2() -> None:
    tasks = [Task.of("Research it"), Task.of("Write it", agent=WRITER), Task.of("Hm"), Task.of("Count", handler=len)]
    assert names(graph_of(*tasks)) == ["researcher_1", "senior_tech_writer_2", "agent_3", "handler_4"]


def test_names_are_stable() -> None:
    tasks = [Task.of("Research it"), Task.of("Write it", name="write"), Task.of("Research more")]
    assert names(graph_of(*tasks)) == names(graph_of(*tasks)) == ["researcher_1", "write", "researcher_3"]


def test_a_made_up_name_gives_way_to_a_given_one() -> None:
    tasks = [Task.of("Write it"), Task.of("Read", name="writer_1"), Task.of("Read", name="writer_1_2")]
    assert names(graph_of(*tasks)) == ["writer_1_3", "writer_1", "writer_1_2"]


def test_a_role_without_ascii_letters_still_makes_a_name() -> None:
    assert names(graph_of(Task.of("Write", agent=Agent(role="作家", goal="写")))) == ["task_1"]


def test_positions_go_on_over_phases() -> None:
    graph = build_graph(EnsembleDefinition(phases=[Phase.of("a", Task.of("Hm")), Phase.of("b", Task.of("Hm"))]))
    assert names(graph) == ["agent_1", "agent_2"]


# --- workers (E5) ---


@pytest.mark.parametrize(
    "task_llm, agent_llm, ensemble_llm, used",
    [
        ("task", "agent", "ensemble", "task"),
        (None, "agent", "ensemble", "agent"),
        (None, None, "ensemble", "ensemble"),
        (None, None, None, "local"),
        ("task", None, None, "task"),
    ],
)
def test_the_nearest_model_is_used_and_local_is_the_default_e5(
    task_llm: str | None, agent_llm: str | None, ensemble_llm: str | None, used: str
) -> None:
    agent = (
        Agent(role="Writer", goal="Write") if agent_llm is None else Agent(role="Writer", goal="Write", llm=agent_llm)
    )
    (node,) = graph_of(Task.of("Write", agent=agent, llm=task_llm), llm=ensemble_llm).tasks
    assert node.llm == used
    assert node.agent is agent


def test_a_task_without_agent_gets_one_and_a_handler_none_e2() -> None:
    written, counted = graph_of(Task.of("Write it"), Task.of("Count", handler=len)).tasks
    assert (written.role, written.llm) == ("Writer", "local")
    assert (counted.role, counted.agent, counted.llm) == ("Handler", None, None)


# --- references ---


def test_context_is_followed_by_identity_and_by_name_in_order_without_repetitions() -> None:
    one, two = Task.of("Hm", name="one"), Task.of("Hm", name="two")
    graph = graph_of(one, two, Task.of("Hm", context=["two", one, two]))
    assert graph.tasks[2].context == (1, 0)
    assert graph.get_context_names(graph.tasks[2]) == ("two", "one")


def test_a_made_up_name_can_be_referred_to() -> None:
    assert graph_of(Task.of("Write it"), Task.of("Hm", context=["writer_1"])).tasks[1].context == (0,)


def test_an_equal_task_is_another_task_e2() -> None:
    graph = graph_of(Task.of("Hm", name="one"), Task.of("Hm", context=[Task.of("Hm", name="one")]))
    (problem,) = graph.problems
    assert problem.message == (
        "Task 'agent_2' reads Task(one: 'Hm'), which is not in the list of tasks of this ensemble. 'one' in it looks "
        "the same and is another object, as a copy is: refer to that one, or by name."
    )
    assert (problem.subject, problem.field, problem.item) == (graph.tasks[1].task, "context", 0)


def test_unknown_names_are_problems_with_the_nearest_one_named() -> None:
    task = Task.of("Hm", context=["research", "reserch"])
    graph = graph_of(Task.of("Hm", name="research"), task)
    (problem,) = graph.problems
    assert (
        problem.message == "Task 'agent_2': context names task 'reserch', which is not there. Did you mean 'research'?"
    )
    assert (problem.subject, problem.item) == (task, 1)
    assert graph.tasks[1].context == (0,)


def test_phases_are_followed_forward_and_unknown_ones_are_problems_e3() -> None:
    one, two = Phase.of("one", Task.of("Hm"), after=["two"]), Phase.of("two", Task.of("Hm"), after=["tree"])
    graph = build_graph(EnsembleDefinition(phases=[one, two, Phase.of("three", Task.of("Hm"), after=[two])]))
    assert [phase.after for phase in graph.phases] == [(1,), (), (1,)]
    (problem,) = graph.problems
    assert problem.message == "Phase 'two': after names phase 'tree', which is not there. Did you mean 'three'?"
    assert (problem.subject, problem.field, problem.item) == (two, "after", 0)


# --- order (E20, E21, E26) ---


def test_a_sequence_is_a_chain_and_a_parallel_list_is_none_e20_e21() -> None:
    tasks = [Task.of("Hm") for _ in range(3)]
    assert [node.after for node in graph_of(*tasks).tasks] == [None, 0, 1]
    assert [node.after for node in graph_of(*tasks, workflow=Workflow.PARALLEL).tasks] == [None, None, None]


def test_each_phase_has_its_own_chain_or_none_e26() -> None:
    phases = [
        Phase.of("a", Task.of("Hm"), Task.of("Hm")),
        Phase.of("b", Task.of("Hm"), Task.of("Hm"), workflow=Workflow.PARALLEL),
        Phase.of("c", Task.of("Hm"), Task.of("Hm")),
    ]
    graph = build_graph(EnsembleDefinition(phases=phases))
    assert [node.after for node in graph.tasks] == [None, 0, None, None, None, 4]
    assert [phase.tasks for phase in graph.phases] == [(0, 1), (2, 3), (4, 5)]
    assert [phase.workflow for phase in graph.phases] == ["sequential", "parallel", "sequential"]
    assert [graph.get_phase_name(node) for node in graph.tasks] == ["a", "a", "b", "b", "c", "c"]


# --- conditions (E33) and reviewers (E28) ---


def test_conditions_are_numbered_and_know_their_sources_e33() -> None:
    one = Task.of("Hm", name="one")
    two = Task.of("Hm", name="two", when=Condition(one, equals="yes"))
    three = Task.of("Hm", name="three", when=[Condition("one", default=True), Condition(two, contains="x")])
    graph = graph_of(one, two, three)
    assert [(each.index, each.source) for each in graph.conditions] == [(0, 0), (1, 0), (2, 1)]
    assert [each.condition for each in graph.conditions] == [*two.when, *three.when]
    assert [(node.when, node.sources) for node in graph.tasks] == [((), ()), ((0,), (0,)), ((1, 2), (0, 1))]


def test_a_phase_waits_for_the_phases_of_its_sources_and_not_for_itself_e33() -> None:
    phases = [
        Phase.of("late", Task.of("Hm"), when=[Condition("a", equals="x"), Condition("b", default=True)]),
        Phase.of("early", Task.of("Hm", name="a"), Task.of("Hm", name="b")),
        Phase.of("own", Task.of("Hm", name="c"), when=Condition("c", equals="x")),
    ]
    graph = build_graph(EnsembleDefinition(phases=phases))
    assert [(phase.when, phase.sources) for phase in graph.phases] == [((0, 1), (1,)), ((), ()), ((2,), ())]


def test_an_unknown_source_is_a_problem_in_its_place_e33() -> None:
    task = Task.of("Hm", when=[Condition("triage", equals="x"), Condition("tirage", equals="x")])
    graph = graph_of(Task.of("Hm", name="triage"), task)
    (problem,) = graph.problems
    assert problem.message == "Task 'agent_2': when names task 'tirage', which is not there. Did you mean 'triage'?"
    assert (problem.subject, problem.field, problem.item) == (task, "when", 1)


def test_a_reviewer_has_a_name_and_a_model_and_no_place_in_the_list_e28() -> None:
    judge = Task.of("Judge", name="judge", agent=WRITER)
    phases = [Phase.of("a", Task.of("Hm"), review=judge), Phase.of("b", Task.of("Hm"), review=judge)]
    graph = build_graph(EnsembleDefinition(phases=phases, llm="openai:m"))
    reviewers = [phase.reviewer for phase in graph.phases if phase.reviewer is not None]
    assert [(node.name, node.role, node.llm, node.phase) for node in reviewers] == [
        ("a.judge", "Senior Tech Writer", "openai:m", 0),
        ("b.judge", "Senior Tech Writer", "openai:m", 1),
    ]
    assert names(graph) == ["agent_1", "agent_2"]
    assert graph.all_tasks == (*graph.tasks, *reviewers)
    assert len({node.index for node in graph.all_tasks}) == 4


def test_a_reviewer_is_told_how_to_answer_unless_its_text_says_so_e28() -> None:
    def expected(judge: Task) -> str:
        graph = build_graph(EnsembleDefinition(phases=[Phase.of("a", Task.of("Hm"), review=judge)]))
        assert graph.phases[0].reviewer is not None
        return graph.phases[0].reviewer.task.expected_output

    told = expected(Task.of("Judge", "A verdict."))
    assert told.startswith("A verdict.\n\nBegin your answer with one of these three words: `APPROVE`")
    assert expected(Task.of("Say APPROVE or REJECT: why", "A verdict.")) == "A verdict."


def test_a_function_that_reviews_is_no_worker_e28() -> None:
    graph = build_graph(EnsembleDefinition(phases=[Phase.of("a", Task.of("Hm"), review=len)]))
    assert graph.phases[0].reviewer is None
    assert graph.all_tasks == graph.tasks
