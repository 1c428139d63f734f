"""The manager, its constraints and policies, and who takes over (C2)."""

import pytest

from ensemble_notebook.domain.definitions.enums import Workflow
from tests.support.cell import Echo, assert_mistakes, read


def allow(request, context):
    return None


class Strategy:
    def system(self, workers):
        return ""

    def user(self, tasks):
        return ""


TEAM = """
llm: openai:gpt-4o
agents:
  ann: {role: "{kind} Researcher", goal: g}
  Writer: {goal: g}
tasks: [Gather, Write]
"""


def test_manager_is_a_model_or_a_mapping():
    model = Echo()
    short = read("manager: mine\nworkflow: hierarchical\ntasks: [a]", {"mine": model}).definition
    assert (short.manager_llm, short.workflow) == (model, Workflow.HIERARCHICAL)
    strategy = Strategy()
    text = "workflow: hierarchical\nmanager: {llm: openai:x, max_iterations: 3, prompt: strategy}\ntasks: [a]"
    found = read(text, {"strategy": strategy}).definition
    assert (found.manager_llm, found.manager_max_iterations, found.manager_prompt) == ("openai:x", 3, strategy)


def test_long_words_of_the_manager_are_read_too():
    found = read("manager_llm: {model: m, base_url: 'http://h/v1'}\nmanagerMaxIterations: 3\ntasks: [a]").definition
    assert (found.manager_llm["model"], found.manager_max_iterations) == ("m", 3)


@pytest.mark.parametrize(
    "text, told",
    [
        ("manager: «nope»", "there is no model 'nope'"),
        ("manager: {«lm»: local}", r"unknown key 'lm' in 'manager' of the cell. Did you mean 'llm'\?"),
        ("manager: {prompt: «strat»}", r"no 'strat' in this notebook. Did you mean 'strategy'\?"),
        ("manager: {prompt: «number»}", "Ensemble manager_prompt must be an object with system"),
        ("manager: {llm: «»}", "has no value"),
        ("«manager_agent»: boss", "no counterpart here"),
        ("policies: [«alow»]", r"Did you mean 'allow'\?"),
        ("policies: [«number»]", "Policy at index 0 .int. is neither callable"),
    ],
)
def test_mistake_about_the_manager_is_shown_in_its_place(text, told):
    if "«»" in text:
        text = text.replace("llm: «»", "«llm»: ")
    assert_mistakes(f"{text}\ntasks: [a]", told, namespace={"strategy": Strategy(), "number": 3, "allow": allow})


def test_hierarchical_list_is_no_chain():
    cell = read("workflow: hierarchical\n" + TEAM, {"kind": "Sea"})
    assert [task.context for task in cell.definition.tasks] == [(), ()]


def test_constraints_name_agents_by_their_keys_or_roles():
    text = """
constraints:
  required_workers: [ann]
  allowed_workers: ["{kind} Researcher", Writer]
  max_calls_per_worker: {ann: 2, Writer: 1}
  global_max_delegations: 5
  required_stages: [ann, [Writer]]
"""
    found = read(f"workflow: hierarchical{text}{TEAM}", {"kind": "Sea"}).definition.hierarchical_constraints
    assert found is not None
    assert found.required_workers == ("{kind} Researcher",)
    assert found.allowed_workers == ("{kind} Researcher", "Writer")
    assert dict(found.max_calls_per_worker) == {"{kind} Researcher": 2, "Writer": 1}
    assert found.global_max_delegations == 5
    assert found.required_stages == (("{kind} Researcher",), ("Writer",))


@pytest.mark.parametrize(
    "constraints, told",
    [
        ("{«requird_workers»: [ann]}", r"in 'constraints' of the cell. Did you mean 'required_workers'\?"),
        ("{required_workers: «true»}", "takes an agent, or a list of agents"),
        ("{required_workers: [ann, «ann»]}", "stands twice"),
        ("{required_workers: [ann, «'{kind} Researcher'»]}", "'{kind} Researcher' and 'ann' .* are the same agent"),
        ("{max_calls_per_worker: [«ann»]}".replace("[«ann»]", "«[ann]»"), "takes a mapping"),
        ("{max_calls_per_worker: {ann: «two»}}", "takes a whole number"),
        ("{required_stages: «ann»}", "takes a list of lists of agents"),
        ("{required_stages: [[ann, «ann»]]}", "stands twice"),
        ("{required_workers: [ann, «Writr»]}", r"unknown agent: 'Writr'. Did you mean 'Writer'\?"),
        (
            "{allowed_workers: [Writer], required_workers: [«ann»]}",
            "'{kind} Researcher', which is not in allowed_workers",
        ),
        ("{max_calls_per_worker: {«Bob»: 1}}", "unknown agent: 'Bob'"),
        ("{max_calls_per_worker: {«ann»: 0}}", "must be > 0, got: 0"),
        ("{required_stages: [[ann], [Writer, «Bob»]]}", "unknown agent: 'Bob'"),
        ("{required_stages: [[ann], [Writer, «ann»]]}", "in multiple stages: 1 and 2"),
        ("{global_max_delegations: «-1»}", "must be >= 0"),
        ("{global_max_delegations: «many»}", "takes a whole number"),
        ("«[ann]»", "takes a mapping"),
    ],
)
def test_mistake_in_constraints_is_shown_in_its_place(constraints, told):
    assert_mistakes(f"workflow: hierarchical\nconstraints: {constraints}{TEAM}", told, namespace={"kind": "Sea"})


def test_workflow_with_a_manager_takes_no_phases():
    assert_mistakes("workflow: «hierarchical»\nphases: {p: [a]}", "takes tasks, not phases")
    assert_mistakes("phases: {p: {tasks: [a], workflow: «hierarchical»}}", "Phase 'p' can't be hierarchical")


def test_constraints_without_a_manager_are_odd():
    cell = read("constraints: {global_max_delegations: 1}\ntasks: [a]")
    assert cell.warnings == (
        "hierarchical_constraints has no effect: the workflow is 'sequential', not 'hierarchical'.",
    )


def test_delegation_by_the_local_model_is_a_warning():
    cell = read("agents: {A: {goal: g, allow_delegation: true}, B: {goal: g}}\ntasks: [{description: x, agent: A}]")
    assert [(each.column, each.is_warning) for each in cell.notices] == [(23, True)]
    assert "may delegate, but its model 'local' does not call tools" in cell.notices[0].message
    cell = read("tasks: [a]\nworkflow: hierarchical")
    assert [(each.line, each.is_warning) for each in cell.notices] == [(2, True)]
    assert "the manager delegates by calling a tool" in cell.notices[0].message


# fallbacks


def test_fallback_is_an_agent_of_the_cell_or_one_of_its_own():
    tasks = "[{description: x, fallback: A}, {description: y, fallback: {role: B, goal: '{aim}'}}]"
    cell = read(f"agents: {{A: {{goal: g}}}}\ntasks: {tasks}", {"aim": "keep order"})
    first, second = (task.fallback for task in cell.definition.tasks)
    assert first is cell.definition.agents[0]
    assert second is not None
    assert (second.role, second.goal) == ("B", "{aim}")


def test_agent_that_only_takes_over_is_used():
    cell = read("agents: {A: {goal: g}, B: {goal: h}}\ntasks: [{description: x, agent: A, fallback: B}]")
    assert cell.warnings == ()


@pytest.mark.parametrize(
    "fallback, told",
    [
        ("«Writr»", r"there is no agent 'Writr' in this cell. Did you mean 'Writer'\?"),
        ("{«goal»: g}", "'fallback' of task 1 needs the key 'role'"),
        ("{role: B, goal: g, «gaol»: x}", r"in 'fallback' of task 1. Did you mean 'goal'\?"),
        ("{role: B, goal: g, max_iterations: «0»}", "Agent max_iterations must be a whole number >= 1"),
        ("«[Writer]»", "takes the name of an agent"),
    ],
)
def test_mistake_in_a_fallback_is_shown_in_its_place(fallback, told):
    assert_mistakes(f"agents: {{Writer: {{goal: g}}}}\ntasks: [{{description: x, fallback: {fallback}}}]", told)
