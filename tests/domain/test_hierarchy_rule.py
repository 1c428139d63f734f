"""The rules of the hierarchical workflow and of delegation (E5, E23, E25), and the team that comes of them."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.execution_plan import make_plan
from ensemble_notebook.domain.planning.graph import Graph, derive_agent
from ensemble_notebook.errors import CircularDependencyError, ValidationError

WRITER, EDITOR = Agent(role="Writer", goal="Write"), Agent(role="Editor", goal="Edit")


def hierarchical(*tasks: Task, **fields: Any) -> EnsembleDefinition:
    fields.setdefault("agents", [WRITER, EDITOR])
    return EnsembleDefinition(tasks=tasks or [Task.of("Write", name="one")], workflow=Workflow.HIERARCHICAL, **fields)


def constrained(**constraints: Any) -> EnsembleDefinition:
    return hierarchical(hierarchical_constraints=HierarchicalConstraints(**constraints))


def places(made: EnsembleDefinition) -> list[tuple[str, Any, str | None, int | str | None]]:
    with pytest.raises(ValidationError) as caught:
        check_ensemble(made)
    return [(each.message, each.subject, each.field, each.item) for each in caught.value.problems]


def delegate(text: str) -> str:
    """A tool that has the name of ours."""
    return text


# --- what is left of the graph ---


def test_a_hierarchical_ensemble_becomes_one_node_e22() -> None:
    made = hierarchical(Task.of("Find {what}", name="find"), Task.of("Write", name="write", context=["find"]))
    graph, warnings = check_ensemble(made)
    plan = make_plan(graph, {"what": "tides"})
    assert warnings == ()
    assert [(task.name, task.agent, task.description) for task in plan.tasks] == [
        ("manager", "Manager", "Find tides\nWrite")
    ]
    assert (plan.total_tasks, plan.groups) == (1, (("manager",),))
    assert [node.name for node in graph.managed] == ["find", "write"]
    assert [member.agent for member in graph.team] == [WRITER, EDITOR]


@pytest.mark.parametrize(
    "manager, ensemble, first, llm",
    [("m", "e", "f", "m"), (None, "e", "f", "e"), (None, None, "f", "f"), (None, None, None, "local")],
)
def test_the_manager_s_model_is_its_own_the_ensemble_s_or_the_first_agent_s_e22(
    manager: str | None, ensemble: str | None, first: str | None, llm: str
) -> None:
    own = {} if first is None else {"llm": first}
    agents = [Agent(role="One", goal="g", **own), Agent(role="Two", goal="g", llm="other")]
    graph, _ = check_ensemble(hierarchical(agents=agents, manager_llm=manager, llm=ensemble))
    assert graph.tasks[0].llm == llm


def test_the_manager_has_the_limit_of_the_ensemble_e22() -> None:
    graph, _ = check_ensemble(hierarchical(manager_max_iterations=7))
    assert graph.tasks[0].agent is not None
    assert graph.tasks[0].agent.max_iterations == 7


def test_workers_are_the_agents_of_the_tasks_where_no_list_is_given_e22() -> None:
    tasks = [
        Task.of("Write this", agent=WRITER),
        Task.of("Write that"),
        Task.of("Research this"),
        Task.of("Research that"),
        Task.of("Edit", agent=EDITOR),
    ]
    graph, _ = check_ensemble(hierarchical(*tasks, agents=()))
    assert [(member.agent.role, member.agent.goal) for member in graph.team] == [
        ("Writer", "Write"),
        ("Editor", "Edit"),
        ("Researcher", derive_agent("Research").goal),
    ]


def test_the_only_task_lends_the_manager_what_it_has_and_several_their_memory() -> None:
    schema = {"type": "object", "properties": {}}
    one = Task.of("Write", name="one", output_type=schema, timeout=3, memory=["notes"])
    graph, warnings = check_ensemble(hierarchical(one))
    task = graph.tasks[0].task
    assert (task.output_type, task.timeout, task.memory, task.description) == (schema, 3, ("notes",), "Write")
    assert warnings == ()
    two = Task.of("Edit", name="two", memory=["notes", "drafts"])
    graph, warnings = check_ensemble(hierarchical(one, two))
    task = graph.tasks[0].task
    assert (task.output_type, task.timeout, task.memory) == (None, None, ("notes", "drafts"))
    assert warnings == ("Task 'one': output_type, timeout without effect, since a manager has it done.",)


def test_what_a_manager_does_not_heed_is_a_warning() -> None:
    tasks = [
        Task.of("Write", name="one", llm="local", tools=[delegate]),
        Task.of("Edit", name="two", when=Condition("one", contains="x"), fallback=EDITOR),
    ]
    assert check_ensemble(hierarchical(*tasks))[1] == (
        "Task 'one': llm, tools without effect, since a manager has it done.",
        "Task 'two': when, fallback without effect, since a manager has it done.",
    )


def test_the_tasks_may_stand_in_any_order_and_in_no_circle() -> None:
    check_ensemble(hierarchical(Task.of("a", name="a", context=["b"]), Task.of("b", name="b")))
    with pytest.raises(CircularDependencyError):
        check_ensemble(hierarchical(Task.of("a", name="a", context=["b"]), Task.of("b", name="b", context=["a"])))


def test_without_delegation_there_is_no_team() -> None:
    graph: Graph = check_ensemble(EnsembleDefinition(tasks=[Task.of("Write", agent=WRITER)]))[0]
    assert (graph.team, graph.managed) == ((), ())


# --- E5 ---


@pytest.mark.parametrize("role", ["Manager", "MANAGER", " manager "])
def test_no_worker_is_called_manager_e5(role: str) -> None:
    boss = Agent(role=role, goal="Lead")
    message = f"No worker may be called {role!r}: that is the role of the manager. Rename it."
    assert places(hierarchical(agents=[WRITER, boss])) == [(message, boss, "role", None)]


def test_no_two_workers_have_one_role_e5() -> None:
    twin = Agent(role="writer ", goal="Write, too")
    message = "Two workers are called 'writer ' (ignoring case). A manager can't tell them apart."
    assert places(hierarchical(agents=[WRITER, twin])) == [(message, twin, "role", None)]


def test_a_manager_has_no_handler_tasks_e5() -> None:
    task = Task.of("Count", name="count", handler=lambda _: "3")
    message = "Task 'count' has a handler; a manager has its tasks done by agents."
    assert places(hierarchical(task)) == [(message, task, "handler", None)]


@pytest.mark.parametrize("limit", [0, -1, True, "many", 2.5])
def test_the_manager_s_limit_is_a_number_above_zero_e5(limit: Any) -> None:
    made = hierarchical(manager_max_iterations=limit)
    message = f"Ensemble manager_max_iterations must be > 0, got: {limit!r}."
    assert places(made) == [(message, made, "manager_max_iterations", None)]


def test_phases_have_no_manager_e3() -> None:
    made = EnsembleDefinition(phases=[Phase.of("p", Task.of("Write"))], workflow=Workflow.HIERARCHICAL)
    message = "Workflow 'hierarchical' takes tasks, not phases: one manager sees to all of them."
    assert places(made) == [(message, made, "workflow", None)]


def test_the_name_of_our_tool_is_taken_e23() -> None:
    lead = Agent(role="Lead", goal="Lead", allow_delegation=True, tools=[delegate])
    message = "Agent 'Lead' may delegate, by a tool named 'delegate'; rename its other one."
    for made in (
        EnsembleDefinition(tasks=[Task.of("Write", agent=lead)]),
        hierarchical(agents=[lead, WRITER]),
    ):
        assert places(made) == [(message, lead, "tools", 0)]


def test_who_delegates_to_nobody_is_warned_about() -> None:
    lead = Agent(role="Lead", goal="Lead", allow_delegation=True)
    alone = EnsembleDefinition(tasks=[Task.of("Write", agent=lead)])
    assert check_ensemble(alone)[1] == ("Agent 'Lead' may delegate, but there is nobody else to ask.",)


def test_peers_of_one_role_are_warned_about_for_only_the_first_can_be_asked() -> None:
    lead = Agent(role="Lead", goal="Lead", allow_delegation=True)
    twin = Agent(role="writer", goal="Write, too")
    made = EnsembleDefinition(tasks=[Task.of("Write", agent=lead)], agents=[lead, WRITER, twin])
    assert check_ensemble(made)[1] == (
        "Several agents are called 'writer' (ignoring case); by delegation, only the first can be asked.",
    )


def test_who_can_be_asked_needs_no_task_of_its_own() -> None:
    lead = Agent(role="Lead", goal="Lead", allow_delegation=True)
    made = EnsembleDefinition(tasks=[Task.of("Write", agent=lead)], agents=[lead, WRITER])
    assert check_ensemble(made)[1] == ()


# --- E25 ---


def test_every_problem_of_constraints_is_found_at_once_with_its_place_e25() -> None:
    constraints = HierarchicalConstraints(
        allowed_workers=["writer", "Wrter"],
        required_workers=["Editor", "Nobody"],
        max_calls_per_worker={"Riter": 1, "EDITOR": 0, "editor": 2},
        global_max_delegations=-1,
        required_stages=[["Writer", "Edtor"], ["writer"]],
    )
    prefix = "HierarchicalConstraints."
    assert places(hierarchical(hierarchical_constraints=constraints)) == [
        (f"{prefix}{message}", constraints, field, item)
        for message, field, item in [
            ("allowed_workers references unknown agent: 'Wrter'. Did you mean 'Writer'?", "allowed_workers", 1),
            ("required_workers contains 'Editor', which is not in allowed_workers.", "required_workers", 0),
            (
                "required_workers references unknown agent: 'Nobody'. Known: 'Writer', 'Editor'.",
                "required_workers",
                1,
            ),
            ("required_workers contains 'Nobody', which is not in allowed_workers.", "required_workers", 1),
            (
                "max_calls_per_worker references unknown agent: 'Riter'. Did you mean 'Writer'?",
                "max_calls_per_worker",
                "Riter",
            ),
            ("max_calls_per_worker value for 'EDITOR' must be > 0, got: 0.", "max_calls_per_worker", "EDITOR"),
            (
                "max_calls_per_worker has two values for one agent: 'EDITOR', 'editor'.",
                "max_calls_per_worker",
                "editor",
            ),
            ("global_max_delegations must be >= 0, got: -1.", "global_max_delegations", None),
            ("required_stages references unknown agent: 'Edtor'. Did you mean 'Editor'?", "required_stages", "Edtor"),
            (
                "required_stages contains duplicate agent role 'writer' in multiple stages: 1 and 2.",
                "required_stages",
                "writer",
            ),
        ]
    ]


@pytest.mark.parametrize("number", [True, 1.5, "2", None])
def test_caps_are_whole_numbers_e25(number: Any) -> None:
    fields = [field for _, _, field, _ in places(constrained(max_calls_per_worker={"Writer": number}))]
    assert fields == ["max_calls_per_worker"]
    assert [field for _, _, field, _ in places(constrained(global_max_delegations=number))] == [
        "global_max_delegations"
    ]


def test_sound_constraints_are_no_problem_e25() -> None:
    made = constrained(
        allowed_workers=[" writer", "EDITOR"],
        required_workers=["Editor"],
        max_calls_per_worker={"writer": 2},
        global_max_delegations=3,
        required_stages=[["Writer"], ["Editor"]],
    )
    assert check_ensemble(made)[1] == ()


def test_constraints_that_can_t_be_met_are_a_warning_e25() -> None:
    made = constrained(required_workers=["Writer", "Editor"], global_max_delegations=1)
    assert check_ensemble(made)[1] == (
        "The required workers can't all be asked: global_max_delegations is 1, and it takes 2.",
    )


def test_what_only_a_manager_heeds_is_a_warning_elsewhere_e25() -> None:
    constraints = HierarchicalConstraints(required_workers=["Nobody"])
    made = EnsembleDefinition(
        tasks=[Task.of("Write", agent=WRITER)], hierarchical_constraints=constraints, manager_llm="local"
    )
    assert check_ensemble(made)[1] == (
        "manager_llm has no effect: the workflow is 'sequential', not 'hierarchical'.",
        "hierarchical_constraints has no effect: the workflow is 'sequential', not 'hierarchical'.",
    )
