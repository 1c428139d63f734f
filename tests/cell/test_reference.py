"""What names inside a cell refer to: agents, tasks, phases (C5), and the rules between them (E5)."""

import pytest

from tests.support.cell import assert_mistakes, links, mistakes_of, read

KITCHEN = """
phases:
  steak: {prep: Season, cook: {description: Grill, context: [steak.prep]}}
  salmon: {prep: Cure, sauce: Whisk}
  serve:
    after: [steak, salmon]
    tasks:
      plate: {description: Plate, context: [cook, salmon.prep, sauce]}
"""


def test_context_names_tasks_across_phases():
    assert links(read(KITCHEN))["plate"] == ("cook", "salmon.prep", "sauce")


def test_task_names_that_two_phases_share_are_told_apart_by_phase():
    assert list(links(read(KITCHEN))) == ["steak.prep", "cook", "salmon.prep", "sauce", "plate"]


def test_phases_come_after_each_other_in_any_order_of_writing():
    cell = read("phases:\n  b: {tasks: [y], after: [a]}\n  a: [x]\n")
    assert cell.plan.phases == {"b": ("a",), "a": ()}


def test_ambiguous_task_lists_the_candidates():
    assert_mistakes(KITCHEN.replace("salmon.prep,", "«prep»,"), "2 tasks called 'prep': 'steak.prep', 'salmon.prep'")


def test_unknown_task_names_the_nearest_one():
    assert_mistakes("tasks:\n  gather: x\n  brief: {description: y, context: [«gathr»]}", r"Did you mean 'gather'\?")


def test_unknown_tasks_are_all_shown():
    assert_mistakes("tasks: {a: {description: x, context: [«p», «q»]}}", "no task 'p'", "no task 'q'")


def test_unknown_phase_names_the_nearest_one():
    assert_mistakes("phases:\n  prep: [x]\n  serve: {tasks: [y], after: [«prp»]}", r"Did you mean 'prep'\?")


def test_unknown_agent_names_the_nearest_one():
    text = "agents: {Writer: {goal: g}}\ntasks: [{description: x, agent: «writer»}]"
    assert_mistakes(text, r"there is no agent 'writer' in this cell. Did you mean 'Writer'\?")


def test_agent_is_found_by_its_role_where_no_key_fits():
    cell = read("agents: {ann: {role: Researcher, goal: g}}\ntasks: [{description: x, agent: Researcher}]")
    assert cell.graph.tasks[0].agent is cell.definition.agents[0]


def test_role_of_two_agents_is_ambiguous():
    text = "agents:\n  a: {role: R, goal: g}\n  b: {role: R, goal: g}\ntasks: [{description: x, agent: «R»}]"
    assert_mistakes(text, "2 agents 'R', in lines 2, 3")


def test_cycle_is_shown_at_a_link_of_it():
    text = "tasks:\n  a: {description: x, context: «[b]»}\n  b: {description: y, context: [a]}"
    assert_mistakes(text, "Circular context dependency: a -> b -> a")


def test_cycle_of_phases_is_shown_at_a_link_of_it():
    text = "phases:\n  a: {tasks: [x], after: «[b]»}\n  b: {tasks: [y], after: [a]}"
    assert_mistakes(text, "Circular phase dependency: a -> b -> a")


def test_task_that_reads_itself_is_shown_in_place():
    assert_mistakes("tasks: {a: {description: x, context: [«a»]}}", "can't read its own output")


def test_chain_that_reads_a_later_task_is_shown_in_place():
    text = "- {name: a, description: x, context: [«b»]}\n- {name: b, description: y, context: []}"
    assert_mistakes(text, "appears later in the list")


def test_context_into_a_phase_that_does_not_come_before_is_shown_in_place():
    text = "phases:\n  a: {t: x, u: x}\n  b: {v: {description: y, context: [«u»]}}"
    assert_mistakes(text, "does not come before it. Add 'a' to the 'after'")


def test_task_names_of_a_list_must_differ():
    text = "- {name: a, description: x}\n- {name: «a», description: y}"
    assert_mistakes(text, "'a' stands twice; the first one is in line 1")


def test_key_and_name_of_a_task_must_agree():
    assert_mistakes("tasks: {a: {name: «b», description: x}}", "named by its key already")


def test_mistakes_of_definitions_and_of_their_links_show_together():
    text = """
agents:
  A: {goal: g, max_iterations: 0}
tasks:
  a: {description: x, context: [b], agent: B}
  b: {description: y, context: [a]}
"""
    messages = [each.message for each in mistakes_of(text)]
    assert [each.partition(" ")[0] for each in messages] == ["Agent", "Circular", "there"]


def test_a_single_name_stands_for_a_list_of_one():
    cell = read(
        "phases:\n  dig: {first: a}\n"
        "  write: {after: dig, tasks: {one: {description: b, context: first, memory: tides}}}"
    )
    assert cell.definition.phases[1].after == ("dig",)
    assert cell.definition.phases[1].tasks[0].context == ("first",)


@pytest.mark.parametrize(
    "key, told",
    [
        ("context: «frist»", "there is no task 'frist' in this cell"),
        ('context: «"first, second"»', "takes a name, or a list of names, and this is the text 'first, second'"),
        ("context: «null»", "takes a name, or a list of names, and this is null"),
        ("tools: «true»", "takes the name of a tool, .* and this is the value true"),
    ],
)
def test_a_single_name_that_is_none_is_a_mistake(key, told):
    assert_mistakes(f"tasks: {{first: a, second: b, third: {{description: c, {key}}}}}", told)
