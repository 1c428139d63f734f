"""``when:`` on tasks and phases (C6)."""

import pytest

from tests.support.cell import assert_mistakes, read


def check(output):
    return True


def conditions(when, namespace=None):
    cell = read(f"tasks: {{triage: x, answer: {{description: y, when: {when}}}}}", namespace)
    return [(each.source, each.test) for each in cell.definition.tasks[1].when]


@pytest.mark.parametrize(
    "when, tests",
    [
        ("{triage: {contains: urgent}}", ["contains 'urgent'"]),
        ("{triage: {matches: '^no$'}}", ["matches '^no$'"]),
        ("{triage: {equals: yes}}", ["equals 'yes'"]),
        ("{triage: {predicate: check}}", ["predicate check"]),
        ("{triage: {default: true}}", ["default"]),
        ("{triage: default}", ["default"]),
        ('{triage: "default"}', ["equals 'default'"]),
        ("{triage: urgent}", ["equals 'urgent'"]),
        ("{triage: [urgent, {contains: now}]}", ["equals 'urgent'", "contains 'now'"]),
        ("[{triage: urgent}, {triage: default}]", ["equals 'urgent'", "default"]),
    ],
)
def test_condition_has_a_long_and_short_forms(when, tests):
    assert conditions(when, {"check": check}) == [("triage", test) for test in tests]


def test_condition_may_be_on_a_task_of_another_phase():
    cell = read(
        "phases:\n  a: {tasks: {t: x}}\n  b: {tasks: {t: y}}\n"
        "  c: {tasks: [z], after: [a, b], when: [{a.t: x}, {b.t: {contains: y}}]}"
    )
    assert [each.source for each in cell.definition.phases[2].when] == ["a.t", "b.t"]


def test_condition_of_a_phase_is_read_where_only_it_tells_a_phase():
    cell = read("phases: {a: [x], b: {tasks: [y], when: {agent_1: no}}}".replace("[x]", "{agent_1: x}"))
    assert [each.test for each in cell.definition.phases[1].when] == ["equals 'no'"]


TASKS = "tasks: {triage: x, answer: {description: y, when: %s}}"


@pytest.mark.parametrize(
    "when, told",
    [
        ("{«triag»: default}", r"there is no task 'triag' in this cell. Did you mean 'triage'\?"),
        ("{triage: {«contans»: x}}", r"unknown key 'contans' in the condition on 'triage'. Did you mean 'contains'\?"),
        ("{triage: «defualt»}", r"'defualt' is no test. Did you mean 'default'\?"),
        ("{triage: {contains: a, «equals»: b}}", "has 2 tests: contains, equals"),
        ("{«triage»: {}}", "has no test"),
        ("{triage: «[]»}", "has no test"),
        ("{«triage»: {default: false}}", "has no test"),
        ('{triage: {matches: «"("»}}', "must be a regular expression, and '[(]' is none"),
        ("«{triage: a, answer: b}»", "a condition is about one task, and this one about 2"),
        ("{triage: «3»}", "takes a text, and this is the number 3"),
        ("«urgent»", "takes a mapping, and this is the text 'urgent'"),
        ("[«urgent»]", "takes a mapping, and this is the text 'urgent'"),
        ("{«triage»: }", "has no value"),
        ("{triage: {predicate: «chek»}}", r"no 'chek' in this notebook. Did you mean 'check'\?"),
    ],
)
def test_mistake_in_a_condition_is_shown_in_its_place(when, told):
    assert_mistakes(TASKS % when, told, namespace={"check": check})


def test_mistakes_of_all_conditions_show_at_once():
    when = "[{«a»: x}, {triage: {«b»: x}}, «{triage: x, answer: y}», «x», {«c»: x}]"
    assert_mistakes(TASKS % when, "no task 'a'", "unknown key 'b'", "about 2", "takes a mapping", "no task 'c'")
