"""The execution plan (docs/contract/engine.md#plan)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.execution_plan import (
    build_gated_edges,
    describe_llm,
    find_cycle,
    find_final_tasks,
    make_plan,
    sort_topologically,
)
from ensemble_notebook.domain.planning.graph import Graph, build_graph

PARALLEL, SEQUENTIAL = Workflow.PARALLEL, Workflow.SEQUENTIAL


def task(name: str, *context: str) -> Task:
    return Task.of(name, name=name, context=context, handler=len)


def graph_of(*tasks: Task, workflow: Workflow = PARALLEL) -> Graph:
    return build_graph(EnsembleDefinition(tasks=tasks, workflow=workflow))


def kitchen() -> Graph:
    """Two dishes side by side, then serving."""
    steak = Phase.of("steak", task("sear"), task("rest"))
    pasta = Phase.of("pasta", task("boil"), task("sauce"), workflow=PARALLEL)
    return build_graph(
        EnsembleDefinition(phases=[Phase.of("serve", task("plate"), after=[steak, pasta]), steak, pasta])
    )


def test_a_diamond_has_three_levels() -> None:
    plan = make_plan(graph_of(task("d", "b", "c"), task("b", "a"), task("c", "a"), task("a")))
    assert plan.groups == (("a",), ("b", "c"), ("d",))
    assert (plan.total_tasks, plan.max_parallelism, plan.estimated_rounds) == (4, 2, 3)
    assert plan.critical_path in (("a", "b", "d"), ("a", "c", "d"))


def test_a_sequence_is_one_task_after_the_other_e20() -> None:
    plan = make_plan(graph_of(task("a"), task("b"), task("c"), workflow=SEQUENTIAL))
    assert plan.groups == (("a",), ("b",), ("c",))
    assert plan.critical_path == ("a", "b", "c")
    assert [each.depends_on for each in plan.tasks] == [(), ("a",), ("b",)]
    assert [each.context for each in plan.tasks] == [(), (), ()]


def test_a_phase_waits_for_all_tasks_of_its_predecessors_e26() -> None:
    plan = make_plan(kitchen())
    assert plan.groups == (("sear", "boil", "sauce"), ("rest",), ("plate",))
    assert plan.critical_path == ("sear", "rest", "plate")
    assert plan.max_parallelism == 3
    assert plan.phases == {"serve": ("steak", "pasta"), "steak": (), "pasta": ()}
    assert [each.phase for each in plan.tasks] == ["serve", "steak", "steak", "pasta", "pasta"]


def test_the_gates_of_phases_cost_no_level() -> None:
    phases = [Phase.of("a", task("a1")), Phase.of("b", task("b1"), after=["a"]), Phase.of("c", task("c1"), after=["b"])]
    plan = make_plan(build_graph(EnsembleDefinition(phases=phases)))
    assert plan.groups == (("a1",), ("b1",), ("c1",))


def test_rows_show_what_a_view_needs_with_variables_filled_in() -> None:
    agent = Agent(role="Poet", goal="Write", llm="openai:m")
    (row,) = make_plan(graph_of(Task.of("Write about {topic}, {tone}", agent=agent)), {"topic": "tides"}).tasks
    assert (row.name, row.agent, row.llm) == ("poet_1", "Poet", "openai:m")
    assert row.description == "Write about tides, {tone}"


def test_a_plan_is_json() -> None:
    plan = make_plan(kitchen())
    again = json.loads(json.dumps(plan.to_dict()))
    assert again["groups"][0] == {"group": 0, "tasks": ["sear", "boil", "sauce"]}
    assert again["phases"][0] == {"name": "serve", "after": ["steak", "pasta"], "settings": {}}
    assert again["tasks"][2]["depends_on"] == ["sear"]
    assert again["critical_path"] == ["sear", "rest", "plate"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 12))
    tasks = [
        task(f"t{i}", *(f"t{j}" for j in draw(st.sets(st.integers(0, i - 1), max_size=4)))) if i else task("t0")
        for i in range(size)
    ]
    return graph_of(*draw(st.permutations(tasks)))


@given(graphs())
def test_each_task_stands_one_level_below_its_last_dependency(graph: Graph) -> None:
    plan = make_plan(graph)
    level = {name: number for number, group in enumerate(plan.groups) for name in group}
    assert sorted(level) == sorted(node.name for node in graph.tasks)
    for row in plan.tasks:
        assert level[row.name] == max((level[each] + 1 for each in row.depends_on), default=0)


@given(graphs())
def test_the_critical_path_is_a_chain_through_all_levels(graph: Graph) -> None:
    plan = make_plan(graph)
    rows = {row.name: row for row in plan.tasks}
    assert len(plan.critical_path) == plan.estimated_rounds
    for before, after in zip(plan.critical_path, plan.critical_path[1:], strict=False):
        assert before in rows[after].depends_on


@pytest.mark.parametrize("shape", ["chain", "star", "mesh of phases"])
def test_ten_thousand_tasks_plan_without_recursion_and_in_linear_space(shape: str) -> None:
    if shape == "chain":
        graph = graph_of(*(task(f"t{i}") for i in range(10_000)), workflow=SEQUENTIAL)
        rounds = 10_000
    elif shape == "star":
        graph = graph_of(task("hub"), *(task(f"t{i}", "hub") for i in range(9_999)))
        rounds = 2
    else:
        phases = [
            Phase.of(
                f"p{p}", *(task(f"p{p}t{i}") for i in range(1000)), after=[f"p{p - 1}"] if p else [], workflow=PARALLEL
            )
            for p in range(10)
        ]
        graph = build_graph(EnsembleDefinition(phases=phases))
        rounds = 10
    assert sum(map(len, build_gated_edges(graph))) < 3 * len(graph.tasks)
    plan = make_plan(graph)
    assert (plan.total_tasks, plan.estimated_rounds) == (10_000, rounds)


EDGES = st.integers(1, 10).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), unique=True), min_size=size, max_size=size)
)


@given(EDGES)
def test_an_order_holds_every_node_once_after_its_predecessors_or_there_is_a_cycle(edges: list[list[int]]) -> None:
    order = sort_topologically(edges)
    for position, node in enumerate(order):
        assert set(edges[node]) <= set(order[:position])
    assert (find_cycle(edges) is None) == (len(order) == len(edges))


@given(EDGES)
def test_a_cycle_is_closed_and_passes_no_node_twice(edges: list[list[int]]) -> None:
    cycle = find_cycle(edges)
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        for node, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert following in edges[node]


class NamedModel:
    model_name = "gpt-4o"


class TitledModel:
    model = "claude"


class PlainModel:
    model = 3


@pytest.mark.parametrize(
    "llm, label",
    [
        ("openai:gpt-4o", "openai:gpt-4o"),
        ({"model": "qwen", "base_url": "http://localhost"}, "qwen"),
        (NamedModel(), "gpt-4o (NamedModel)"),
        (TitledModel(), "claude (TitledModel)"),
        (PlainModel(), "PlainModel"),
    ],
    ids=["text", "mapping", "model_name", "model", "neither"],
)
def test_a_model_has_a_short_name_for_people(llm: object, label: str) -> None:
    assert describe_llm(llm) == label


# --- conditions (E33) ---


def test_a_condition_is_a_dependency_and_stands_in_the_plan_in_words_e33() -> None:
    branch = Task.of("b", name="b", handler=len, when=[Condition("a", equals="x"), Condition("a", default=True)])
    plan = make_plan(graph_of(task("c", "b"), branch, task("a")))
    assert plan.groups == (("a",), ("b",), ("c",))
    row = plan.tasks[1]
    assert (row.context, row.depends_on, row.when) == ((), ("a",), ("a equals 'x'", "a default"))
    assert plan.to_dict()["tasks"][1]["when"] == ["a equals 'x'", "a default"]


def test_a_phase_comes_after_the_phase_that_its_condition_looks_at_e33() -> None:
    phases = [Phase.of("b", task("b1"), when=Condition("a1", equals="x")), Phase.of("a", task("a1"), task("a2"))]
    plan = make_plan(build_graph(EnsembleDefinition(phases=phases)))
    assert plan.groups == (("a1",), ("a2",), ("b1",))
    assert plan.phases == {"b": ("a",), "a": ()}


def test_sinks_are_what_nothing_waits_for() -> None:
    def last(graph: Graph) -> list[str]:
        return [graph.tasks[index].name for index in find_final_tasks(graph)]

    assert last(graph_of(task("a"), task("b", "a"), task("c", "a"))) == ["b", "c"]
    assert last(graph_of(task("a"), task("b", "a"), task("c"), workflow=SEQUENTIAL)) == ["c"]
    assert last(graph_of(task("a"), Task.of("b", name="b", handler=len, when=Condition("a", equals="x")))) == ["b"]
    assert last(kitchen()) == ["plate"]
