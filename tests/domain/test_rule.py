"""The rules between the objects of an ensemble (E5, E26)."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.errors import CircularDependencyError, ValidationError

WRITER, EDITOR = Agent(role="Writer", goal="Write"), Agent(role="Editor", goal="Edit")


def task(name: str, *context: Task | str, **fields: Any) -> Task:
    return Task.of(name, name=name, context=context, **fields)


def phase(name: str, *after: Phase | str, tasks: tuple[Task, ...] = ()) -> Phase:
    return Phase.of(name, *(tasks or [task(f"{name}_task")]), after=after)


def ensemble(*tasks: Task, workflow: Workflow = Workflow.SEQUENTIAL, **fields: Any) -> EnsembleDefinition:
    return EnsembleDefinition(tasks=tasks, workflow=workflow, **fields)


def refusal(made: EnsembleDefinition) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        check_ensemble(made)
    return caught.value


def test_a_sound_ensemble_gives_its_graph_and_no_warnings() -> None:
    one = task("one", agent=WRITER)
    graph, warnings = check_ensemble(ensemble(one, task("two", one), agents=[WRITER]))
    assert [node.name for node in graph.tasks] == ["one", "two"]
    assert warnings == ()


def test_there_is_at_least_one_task_or_phase_e5() -> None:
    assert str(refusal(ensemble())) == "An ensemble needs at least one task or phase."


def test_tasks_and_phases_do_not_mix_e4() -> None:
    made = EnsembleDefinition(tasks=[task("one")], phases=[phase("p")])
    assert str(refusal(made)) == "An ensemble has tasks or phases, not both. Put the tasks into a phase."


def test_all_problems_are_found_at_once_each_with_its_place() -> None:
    late = task("late")
    reader = task("reader", "nobody", late)
    twin = task("late")
    error = refusal(ensemble(reader, late, twin, task("stranger", agent=WRITER), agents=[EDITOR]))
    places = [(problem.subject, problem.field, problem.item) for problem in error.problems]
    stranger = next(problem.subject for problem in error.problems if problem.field == "agent")
    assert places == [
        (twin, "name", None),
        (reader, "context", 0),
        (stranger, "agent", None),
        (reader, "context", 1),
    ]


# --- names and members ---


def test_a_task_name_stands_once_e2() -> None:
    assert str(refusal(ensemble(task("one"), task("one")))) == ("Task name 'one' stands twice. Give each task its own.")


def test_a_task_stands_once() -> None:
    one = task("one")
    assert str(refusal(ensemble(one, one))) == (
        "Task(one: 'one') stands twice in the ensemble. Make a second task for it."
    )


def test_a_phase_name_stands_once_e3() -> None:
    made = EnsembleDefinition(phases=[phase("p", tasks=(task("a"),)), phase("p", tasks=(task("b"),))])
    assert str(refusal(made)) == "Phase name 'p' stands twice. Give each phase its own."


def test_the_agents_of_tasks_are_among_the_agents_by_identity_e4() -> None:
    stranger = Agent(role="Poet", goal="Write")
    assert str(refusal(ensemble(task("one", agent=stranger), agents=[WRITER, EDITOR]))) == (
        "Task 'one' is done by 'Poet', who is not in the ensemble's agents ('Writer', 'Editor')."
    )


def test_a_changed_copy_of_an_agent_is_told_from_the_one_that_is_listed_e4() -> None:
    changed = refusal(ensemble(task("one", agent=replace(WRITER, goal="Rhyme", verbose=True)), agents=[WRITER]))
    assert str(changed) == (
        "Task 'one' is done by 'Writer', who is not in the ensemble's agents ('Writer'). The 'Writer' there has "
        "another goal, verbose: replace() makes a new agent. Put the new one into agents in place of the old one, or "
        "give the task the one that is there."
    )
    equal = refusal(ensemble(task("one", agent=replace(WRITER)), agents=[WRITER]))
    assert "has the same fields, and is another object" in str(equal)


def test_an_empty_list_of_agents_is_refused_beside_tasks_with_agents_and_an_empty_tuple_is_unset_e4() -> None:
    with pytest.raises(ValidationError, match="agents is an empty list, and a task is done by 'Writer'"):
        ensemble(task("one", agent=WRITER), agents=[])
    with pytest.raises(ValidationError, match="agents is an empty list"):
        EnsembleDefinition(phases=[phase("p", tasks=(task("a", agent=WRITER),))], agents=[])
    check_ensemble(ensemble(task("one", agent=WRITER), agents=()))
    check_ensemble(ensemble(task("one"), agents=[]))


def test_a_rate_limit_where_no_task_asks_a_model_is_refused_e5() -> None:
    limit = RateLimit(requests=1, period=1)
    error = refusal(ensemble(task("one", handler=str), rate_limit=limit))
    assert "has a rate_limit, and no task that asks a model" in str(error)
    assert error.problems[0].field == "rate_limit"
    check_ensemble(ensemble(task("one", handler=str), task("two"), rate_limit=limit))


def test_without_a_list_of_agents_every_agent_may_work() -> None:
    assert check_ensemble(ensemble(task("one", agent=WRITER)))[1] == ()


def test_an_agent_without_a_task_is_a_warning_e4() -> None:
    _, warnings = check_ensemble(ensemble(task("one", agent=WRITER), agents=[WRITER, EDITOR]))
    assert warnings == ("Agent 'Editor' has no task.",)


def test_tools_of_task_and_agent_have_different_names() -> None:
    def search(query: str) -> str:
        return query

    holder = Agent(role="Searcher", goal="Find", tools=[search])
    error = refusal(ensemble(task("one", agent=holder, tools=[search])))
    assert str(error).startswith("Task 'one' with agent 'Searcher': Tool name 'search' stands twice")
    assert error.problems[0].field == "tools"


# --- cycles (E5) ---


def test_a_cycle_of_tasks_is_named_exactly_and_in_order_e5() -> None:
    tasks = [task("before"), task("a", "b", "before"), task("b", "c"), task("c", "a"), task("behind", "a")]
    error = refusal(ensemble(*tasks, workflow=Workflow.PARALLEL))
    assert isinstance(error, CircularDependencyError)
    assert error.nodes == ("a", "b", "c")
    assert str(error) == "Circular context dependency: a -> b -> c -> a. Remove one of these links."
    assert (error.problems[0].subject, error.problems[0].field) == (tasks[1], "context")


def test_a_cycle_of_phases_is_named_exactly_e5() -> None:
    error = refusal(EnsembleDefinition(phases=[phase("serve", "fish"), phase("fish", "serve"), phase("bill", "serve")]))
    assert isinstance(error, CircularDependencyError)
    assert error.nodes == ("serve", "fish")
    assert "Circular phase dependency: serve -> fish -> serve." in str(error)


def test_a_task_that_reads_itself_by_its_made_up_name_is_a_cycle_of_one() -> None:
    error = refusal(ensemble(Task.of("Write it", context=["writer_1"])))
    assert isinstance(error, CircularDependencyError)
    assert error.nodes == ("writer_1",)


def test_a_cycle_keeps_the_other_problems_beside_it() -> None:
    error = refusal(ensemble(task("a", "b", "nobody"), task("b", "a"), workflow=Workflow.PARALLEL))
    assert isinstance(error, CircularDependencyError)
    assert [problem.item for problem in error.problems] == [None, 1]
    assert str(error).startswith("2 problems:\n- Circular context dependency: a -> b -> a.")


# --- order (E5, E26) ---


def test_a_sequence_reads_only_what_came_before_e5() -> None:
    late = task("late")
    error = refusal(ensemble(task("one"), task("two", "one", late), late))
    assert str(error) == (
        "Task 'two' reads 'late', which appears later in the list. Move 'late' up, "
        "or use workflow 'parallel', where the order of the list does not matter."
    )
    assert error.problems[0].item == 1


def test_a_sequence_reads_only_what_is_in_the_list_e5() -> None:
    assert "is not in the list of tasks" in str(refusal(ensemble(task("one", task("absent")))))


def test_parallel_tasks_may_stand_in_any_order_e5() -> None:
    late = task("late")
    graph, _ = check_ensemble(ensemble(task("one", late), late, workflow=Workflow.PARALLEL))
    assert graph.tasks[0].context == (1,)


def test_a_phase_reads_any_phase_that_comes_before_it_however_far_e26() -> None:
    first = task("first")
    phases = [
        phase("c", "b", tasks=(task("reader", first),)),
        phase("b", "a"),
        phase("a", tasks=(first,)),
    ]
    graph, _ = check_ensemble(EnsembleDefinition(phases=phases))
    assert graph.get_context_names(graph.tasks[0]) == ("first",)


@pytest.mark.parametrize("after", [(), ("beside",)])
def test_a_phase_reads_no_other_phase_e26(after: tuple[str, ...]) -> None:
    first = task("first")
    phases = [phase("beside"), phase("a", tasks=(first,)), phase("b", *after, tasks=(task("reader", first),))]
    assert str(refusal(EnsembleDefinition(phases=phases))) == (
        "Task 'reader' in phase 'b' reads 'first' of phase 'a', which does not come before it. "
        "Add 'a' to the 'after' of phase 'b'."
    )


def test_a_phase_reads_no_later_phase_e26() -> None:
    last = task("last")
    phases = [phase("a", tasks=(task("reader", last),)), phase("b", "a", tasks=(last,))]
    assert "which does not come before it" in str(refusal(EnsembleDefinition(phases=phases)))


def test_inside_a_phase_its_own_workflow_decides_about_order_e26() -> None:
    late = task("late")
    tasks = (task("one", late), late)
    made = EnsembleDefinition(phases=[Phase.of("p", *tasks)], workflow=Workflow.SEQUENTIAL)
    assert "appears later in the list" in str(refusal(made))
    check_ensemble(EnsembleDefinition(phases=[Phase.of("p", *tasks, workflow=Workflow.PARALLEL)]))


def test_a_ladder_of_a_thousand_phases_is_checked_without_recursion() -> None:
    first = task("first")
    phases = [phase("p0", tasks=(first,))]
    phases += [phase(f"p{i}", f"p{i - 1}") for i in range(1, 1000)]
    phases.append(phase("last", "p999", tasks=(task("reader", first),)))
    graph, _ = check_ensemble(EnsembleDefinition(phases=phases[::-1]))
    assert graph.tasks[0].context == (1000,)


# --- conditions (E33) ---


def on(source: Task | str) -> Condition:
    return Condition(source, equals="yes")


def test_a_condition_in_a_list_looks_at_an_earlier_task_e33() -> None:
    late = task("late")
    error = refusal(ensemble(task("early", when=on(late)), late))
    assert str(error) == (
        "Task 'early' has a condition on 'late', which appears later in the list. Move 'late' up, or use workflow "
        "'parallel', where the order of the list does not matter."
    )
    assert (error.problems[0].field, error.problems[0].item) == ("when", 0)
    check_ensemble(ensemble(task("early", when=on(late)), late, workflow=Workflow.PARALLEL))


def test_a_condition_across_phases_looks_at_a_phase_before_e26_e33() -> None:
    phases = [phase("one", tasks=(task("a"),)), phase("two", tasks=(task("b", when=on("a")),))]
    assert str(refusal(EnsembleDefinition(phases=phases))) == (
        "Task 'b' in phase 'two' has a condition on 'a' of phase 'one', which does not come before it. "
        "Add 'one' to the 'after' of phase 'two'."
    )


def test_what_a_condition_of_a_phase_looks_at_comes_before_all_its_tasks_e33() -> None:
    two = Phase.of("two", task("b", "a"), task("c", when=on("a")), when=on("a"))
    check_ensemble(EnsembleDefinition(phases=[two, phase("one", tasks=(task("a"),))]))


def test_a_phase_has_no_condition_on_its_own_task_e33() -> None:
    one = Phase.of("one", task("a"), when=on("a"))
    error = refusal(EnsembleDefinition(phases=[one]))
    assert str(error) == ("Phase 'one' has a condition on 'a', one of its own tasks. Put 'a' into a phase before it.")
    assert (error.problems[0].subject, error.problems[0].field) == (one, "when")


def test_a_cycle_through_a_condition_is_named_e5_e33() -> None:
    tasks = [task("a", "c"), task("b", when=on("a")), task("c", "b"), task("d")]
    with pytest.raises(CircularDependencyError) as caught:
        check_ensemble(ensemble(*tasks, workflow=Workflow.PARALLEL))
    assert str(caught.value) == "Circular condition dependency: a -> c -> b -> a. Remove one of these links."
    assert caught.value.nodes == ("a", "c", "b")


def test_a_task_without_a_way_out_of_its_own_condition_is_a_cycle_e33() -> None:
    with pytest.raises(CircularDependencyError) as caught:
        check_ensemble(ensemble(task("a", when=on("a")), workflow=Workflow.PARALLEL))
    assert caught.value.nodes == ("a",)


def test_a_condition_on_a_phase_that_comes_later_is_a_cycle_e5_e33() -> None:
    phases = [Phase.of("one", task("a"), when=on("b")), phase("two", "one", tasks=(task("b"),))]
    with pytest.raises(CircularDependencyError) as caught:
        check_ensemble(EnsembleDefinition(phases=phases))
    assert str(caught.value) == "Circular condition dependency: one -> two -> one. Remove one of these links."


# --- reviewers of phases (E28) ---


def test_a_reviewer_is_no_task_of_the_ensemble_e28() -> None:
    judge = task("judge")
    one = Phase.of("one", judge, review=judge)
    assert str(refusal(EnsembleDefinition(phases=[one]))) == (
        "'judge' reviews phase 'one' and is a task of the ensemble, too. Make a second task for it."
    )


def test_a_reviewer_has_no_condition_e28() -> None:
    one = Phase.of("one", task("a"), review=Task.of("Judge", when=Condition("a", equals="x")))
    assert str(refusal(EnsembleDefinition(phases=[one]))) == (
        "The reviewer of phase 'one' has a when; a phase is reviewed whenever it is done."
    )


def test_a_reviewer_reads_tasks_of_its_phase_or_of_one_before_it_e28() -> None:
    def phases(reads: str) -> EnsembleDefinition:
        judge = Task.of("Judge", context=[reads])
        one, two = Phase.of("one", task("a")), Phase.of("two", task("b"), after=["one"], review=judge)
        return EnsembleDefinition(phases=[one, two, Phase.of("three", task("c"))])

    for reads in ("a", "b"):
        assert check_ensemble(phases(reads))[1] == ()
    assert str(refusal(phases("c"))) == (
        "Task 'two.review' in phase 'two' reads 'c' of phase 'three', which does not come before it. "
        "Add 'three' to the 'after' of phase 'two'."
    )


def test_the_agent_of_a_reviewer_is_one_of_the_agents_e5_e28() -> None:
    one = Phase.of("one", task("a", agent=WRITER), review=Task.of("Judge", agent=EDITOR))
    assert "'one.review' is done by 'Editor', who is not in the ensemble's agents" in str(
        refusal(EnsembleDefinition(phases=[one], agents=[WRITER]))
    )
    assert check_ensemble(EnsembleDefinition(phases=[one], agents=[WRITER, EDITOR]))[1] == ()


def test_an_ensemble_is_checked_once_and_is_not_kept_alive_by_it():
    made = ensemble(task("one", agent=WRITER), agents=[WRITER, EDITOR])
    assert check_ensemble(made) is check_ensemble(made)
    seen = weakref.ref(made)
    del made
    gc.collect()
    assert seen() is None


def test_an_ensemble_with_a_mistake_is_refused_each_time():
    made = ensemble()
    for _ in range(2):
        with pytest.raises(ValidationError):
            check_ensemble(made)
