"""What Python takes for a field is what a cell takes (E74), and unknown attributes have an answer (E75)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    AgentExecutionError,
    Budget,
    Condition,
    Ensemble,
    HierarchicalConstraints,
    JsonTraceExporter,
    Phase,
    RateLimit,
    Review,
    ReviewDecision,
    ReviewRequest,
    RunStatus,
    SqliteMemory,
    Task,
    TaskExecutionError,
    TaskInput,
    TaskOutput,
    ValidationError,
)
from tests.conformance.scene import scripted


def search(query: str) -> str:
    """Search."""
    return query


def fetch(url: str) -> str:
    """Fetch."""
    return url


def is_polite(output: TaskOutput) -> bool:
    return bool(output.raw)


def hear(event: object) -> None: ...


def decide(request: ReviewRequest) -> ReviewDecision:
    return ReviewDecision.approve()


NAMES = {each.__name__: each for each in (search, fetch, is_polite, hear, decide)} | {"kit": [search, fetch]}


def refusal(make: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make()
    return str(caught.value)


def plain(value: Any) -> Any:
    """What a definition holds, with tasks and agents by what they say."""
    if hasattr(type(value), "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in type(value).__dataclass_fields__}
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value


# --- E74: the same of a cell and of Python ---

TASK_FORMS = [
    ("{rate_limit: 60/min}", {"rate_limit": "60/min"}),
    ("{rate_limit: {requests: 3, period: 2}}", {"rate_limit": {"requests": 3, "period": 2}}),
    ("{review: during}", {"review": "during"}),
    ("{review: true}", {"review": True}),
    ("{review: {timing: after, timeout: null}}", {"review": {"timing": "after", "timeout": None}}),
    ("{review: [before, {timing: after, on_timeout: fail}]}", {"review": ["before", {"on_timeout": "fail"}]}),
    ("{output_type: {a: str, b: 'int?', c: [float], d: {e: bool}}}", None),
    ("{output_type: {kind: billing | other, size: 1 | 2, any: any, mix: int | str}}", None),
    ("{tools: search}", {"tools": search}),
    ("{tools: kit}", {"tools": [[search, fetch]]}),
    ("{memory: notes}", {"memory": "notes"}),
    ("{output_guardrails: is_polite}", {"output_guardrails": is_polite}),
    ("{fallback: {role: Editor, goal: Check}}", {"fallback": {"role": "Editor", "goal": "Check"}}),
]
TYPED = {
    6: {"output_type": {"a": str, "b": "int?", "c": ["float"], "d": {"e": bool}}},
    7: {"output_type": {"kind": "billing | other", "size": "1 | 2", "any": "any", "mix": "int | str"}},
}


@pytest.mark.parametrize("number", range(len(TASK_FORMS)))
def test_e74_a_task_takes_what_a_cell_takes(number: int) -> None:
    cell, fields = TASK_FORMS[number]
    keys = cell.removeprefix("{").removesuffix("}")
    read = Ensemble.from_yaml(f"tasks: {{it: {{description: Do it, {keys}}}}}", NAMES).tasks[0]
    made = Task(description="Do it", name="it", **(fields if fields is not None else TYPED[number]))
    assert plain(made) == plain(read)


ENSEMBLE_FORMS = [
    ("budget: $0.50, 20k tokens and 9 calls", {"budget": "$0.50, 20k tokens and 9 calls"}),
    ("budget: {max_tokens: 100, warn_at: 0.5}", {"budget": {"max_tokens": 100, "warn_at": 0.5}}),
    (
        "budget: €2\ncost: {input_rate: 0.1, output_rate: 0.2, currency: EUR}",
        {"budget": "€2", "cost": {"input_rate": "0.1", "output_rate": "0.2", "currency": "EUR"}},
    ),
    ("rate_limit: 2 per second", {"rate_limit": "2 per second"}),
    ("listeners: hear", {"listeners": hear}),
    ("policies: hear", {"delegation_policies": hear}),
]


@pytest.mark.parametrize("cell, fields", ENSEMBLE_FORMS, ids=[cell for cell, _ in ENSEMBLE_FORMS])
def test_e74_an_ensemble_takes_what_a_cell_takes(cell: str, fields: dict[str, Any]) -> None:
    read = Ensemble.from_yaml(f"{cell}\ntasks: {{it: Do it}}", NAMES)
    made = Ensemble(tasks=[Task(description="Do it", name="it")], workflow="parallel", **fields)
    assert plain(made) == plain(read)


@pytest.mark.parametrize(
    "cell, when",
    [
        ("{triage: {contains: urgent}}", {"triage": {"contains": "urgent"}}),
        ("{triage: urgent}", {"triage": "urgent"}),
        ("{triage: default}", {"triage": "default"}),
        ("{triage: [a, {matches: b+}]}", {"triage": ["a", {"matches": "b+"}]}),
        (
            "[{triage: {field: kind, equals: 3}}, {triage: b}]",
            [{"triage": {"field": "kind", "equals": 3}}, {"triage": "b"}],
        ),
    ],
)
def test_e74_conditions_are_mappings_as_in_a_cell(cell: str, when: Any) -> None:
    kind = "{kind: int}"
    text = f"tasks: {{triage: {{description: x, output_type: {kind}}}, go: {{description: y, when: {cell}}}}}"
    assert plain(Task(description="y", when=when).when) == plain(Ensemble.from_yaml(text).tasks[1].when)


def test_e74_a_condition_may_name_the_task_itself() -> None:
    triage = Task(description="Sort it")
    conditions = Task(description="Act", when=[{triage: "urgent"}, Condition(triage, contains="now")]).when
    assert [each.source for each in conditions] == [triage, triage]


def test_e74_a_phase_takes_what_a_cell_takes() -> None:
    look = {"by": "Is this fit to print?", "max_retries": 1, "on_exhausted": "keep"}
    review = "{by: Is this fit to print?, max_retries: 1, on_exhausted: keep}"
    text = f"phases: {{a: [x], b: {{after: a, tasks: {{it: y}}, review: {review}}}}}"
    read = Ensemble.from_yaml(text).phases[1]
    made = Phase(name="b", tasks=[Task(description="y", name="it")], after="a", workflow="parallel", review=look)
    assert plain(made) == plain(read)
    short = Phase.of("b", [Task(description="x"), Task(description="y")], review={"description": "Is it fit?"}).review
    assert short is not None
    assert isinstance(short.by, Task)
    assert short.by.description == "Is it fit?"


def test_e74_a_single_role_may_stand_for_a_list() -> None:
    made = HierarchicalConstraints(required_workers="Writer", required_stages=["Reader", ["Writer"]])
    assert (made.required_workers, made.required_stages) == (("Writer",), (("Reader",), ("Writer",)))
    given = {"required_workers": "Writer", "required_stages": ["Reader", ["Writer"]]}
    assert plain(Ensemble(hierarchical_constraints=given).hierarchical_constraints) == plain(made)


def test_e74_memory_and_exporter_may_be_paths(tmp_path: Any) -> None:
    made = Ensemble(memory=tmp_path / "notes.db", trace_exporter=str(tmp_path / "traces"))
    assert isinstance(made.memory, SqliteMemory)
    assert isinstance(made.trace_exporter, JsonTraceExporter)
    kept = Ensemble(memory=True)
    assert kept.memory is not None
    assert kept.replace(name="again").memory is kept.memory
    assert Ensemble(memory=False).memory is None


def test_e74_each_attribute_has_one_type_and_short_forms_run() -> None:
    first = Task(description="Sort it", name="triage", output_type={"kind": "urgent | other"}, rate_limit="90/s")
    then = Task(
        description="Act", context=first, when={"triage": {"field": "kind", "equals": "urgent"}}, review="after"
    )
    assert (first.rate_limit.__class__, then.context, then.review[0].__class__) == (RateLimit, (first,), Review)
    made = Ensemble(tasks=[first, then], llm=scripted('{"kind": "urgent"}', "Done."), budget="9 calls")
    assert isinstance(made.budget, Budget)
    output = made.replace(review_handler=decide).run()
    assert output["triage"].parsed_output == {"kind": "urgent"}
    assert output.raw == "Done."


@pytest.mark.parametrize(
    "make, told",
    [
        (
            lambda: Agent(role="A", goal="b", rate_limit="60 per mint"),
            "Agent rate_limit: 'mint' is no unit of time. Did you",
        ),
        (
            lambda: Agent(role="A", goal="b", rate_limit={"reqests": 1, "period": 1}),
            "Agent rate_limit: RateLimit has no field 'reqests'. D",
        ),
        (
            lambda: Agent(role="A", goal="b", tools="search"),
            "Agent tools takes a tool or a list of tools, got the text 'se",
        ),
        (
            lambda: Task(description="x", review="aftr"),
            "Task review: Review timing can't be 'aftr'. Did you mean 'after'?",
        ),
        (
            lambda: Task(description="x", review=False),
            "Task review can't be False: without it there is none. Leave it out.",
        ),
        (
            lambda: Task(description="x", review=3),
            "Task review must be a Review, before, during, after, or a mapping such",
        ),
        (
            lambda: Task(description="x", when={"a": "b", "c": "d"}),
            "Task when: a condition is about one task, and this one",
        ),
        (
            lambda: Task(description="x", when={"a": "defalt"}),
            "Task when: 'defalt' is no test. Did you mean 'default'? For",
        ),
        (
            lambda: Task(description="x", when={"a": {"contans": "b"}}),
            "Task when: Condition has no field 'contans'. Did you",
        ),
        (lambda: Task(description="x", when={"a": []}), "Task when: the condition on 'a' has no test."),
        (lambda: Task(description="x", when={"a": 3}), "Task when must be tests such as Condition('triage', contains="),
        (
            lambda: Task(description="x", output_type={"a": "strng"}),
            "Task output_type: the field 'a' takes a type, and 'st",
        ),
        (
            lambda: Task(description="x", output_type={"a": 3}),
            "Task output_type: the field 'a' takes a type, and '3' is n",
        ),
        (
            lambda: Task(description="x", output_type={3: "str"}),
            "Task output_type: output_type has a field '3', and names",
        ),
        (
            lambda: Task(description="x", output_type={"a": "x | y | x"}),
            "Task output_type: the field 'a' has 'x' twice.",
        ),
        (
            lambda: Task(description="x", output_type={}),
            "Task output_type: output_type has no fields. Write {title: str",
        ),
        (lambda: Task(description="x", fallback={"role": "A"}), "Task fallback: Agent needs a goal."),
        (lambda: Ensemble(budget="1 dollar"), "Ensemble budget: 'dollar' can't be limited. Known: 'token'"),
        (
            lambda: Ensemble(budget="€1"),
            "Ensemble budget: this budget is in 'EUR', and the prices are in 'USD'. Write the ",
        ),
        (
            lambda: Ensemble(budget={"maxcost": 1}),
            "Ensemble budget: Budget has no field 'maxcost'. Did you mean 'max_cost'?",
        ),
        (lambda: Ensemble(cost={"input_rate": 1}), "Ensemble cost: CostConfiguration needs an output_rate."),
        (
            lambda: Ensemble(memory="notes"),
            "Ensemble memory must be an object with store and retrieve, True, or the path ",
        ),
        (
            lambda: Ensemble(tasks=["Do it"]),
            "Ensemble tasks[0] must be a Task, got str. Write Task(description='Do it').",
        ),
        (
            lambda: Phase.of("p", Task(description="x"), review="decide"),
            "Phase review: PhaseReview by takes a function or",
        ),
    ],
)
def test_e74_a_mistake_names_field_value_and_what_is_right(make: Any, told: str) -> None:
    assert refusal(make).startswith(told)


def test_e74_all_wrong_fields_of_a_type_are_told_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        Task(description="x", output_type={"a": "strng", "b": {"c": "intt"}})
    assert [(each.field, each.item) for each in caught.value.problems] == [("output_type", "a"), ("output_type", "b")]


# --- E2, E4, E7 ---


def test_e2_a_task_needs_no_expected_output() -> None:
    assert Task(description="Do it").expected_output == Task.of("Do it").expected_output


def test_e7_the_value_of_the_final_task_stands_beside_its_text() -> None:
    typed = Task(description="Count", output_type={"n": "int"})
    output = Ensemble(tasks=[Task(description="Think"), typed], llm=scripted("Hm.", '{"n": 3}')).run()
    assert (output.raw, output.parsed_output) == ('{"n": 3}', {"n": 3})
    assert pickle.loads(pickle.dumps(output)).parsed_output == {"n": 3}
    plain_text = Ensemble(tasks=[typed, Task(description="Say it", context=typed)], llm=scripted('{"n": 3}', "Three."))
    assert plain_text.run().parsed_output is None


def test_e7_a_failed_run_has_no_value_from_the_middle() -> None:
    typed = Task(description="Count", output_type={"n": "int"})
    last = Task(description="Fail", context=typed, handler=break_off)
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[typed, last], llm=scripted('{"n": 3}')).run()
    assert caught.value.output.status is RunStatus.FAILED
    assert (caught.value.output.raw, caught.value.output.parsed_output) == ("", None)


def break_off(task: TaskInput) -> str:
    raise OSError("the disk is full")


def test_e4_a_copy_has_other_values_of_some_fields() -> None:
    ensemble = Ensemble(tasks=[Task(description="Do it")], llm=scripted("one"), name="first")
    copied = ensemble.replace(llm=scripted("two"), budget="9 calls")
    assert (ensemble.run().raw, copied.run().raw) == ("one", "two")
    assert (copied.name, ensemble.budget) == ("first", None)
    assert refusal(lambda: ensemble.replace(bugdet="$1")).startswith(
        "Ensemble has no field 'bugdet'. Did you mean 'budget'?"
    )


def test_e1_definitions_have_copies_with_other_values_of_some_fields() -> None:
    agent = Agent(role="Cook", goal="Cook", max_iterations=3)
    task = Task.of("Do it", name="do", agent=agent, timeout=5)
    phase = Phase.of("one", task)
    other = agent.replace(goal="Feed")
    assert (other.goal, other.max_iterations, agent.goal) == ("Feed", 3, "Cook")
    assert (task.replace(timeout=None).timeout, task.replace(name="it").timeout, task.timeout) == (None, 5, 5)
    assert phase.replace(workflow="parallel").tasks == (task,)
    assert refusal(lambda: task.replace(timout=3)) == "Task has no field 'timout'. Did you mean 'timeout'?"
    assert ">= 1, got 0" in refusal(lambda: agent.replace(max_iterations=0))


def test_e4_a_field_given_to_a_run_is_answered_with_how_to_do_it() -> None:
    ensemble = Ensemble(tasks=[Task(description="Do it")], llm=scripted("one"))
    told = refusal(lambda: ensemble.run(llm=scripted("two")))
    assert told == (
        "A run takes no llm, which is a field of the ensemble, and no text uses {llm}. For a run of a changed copy, "
        "write ensemble.replace(llm=...).run(...). To compare several, write "
        "ensemble.variants({'NAME': {'llm': ...}, ...}).run(...)."
    )
    assert "variants" not in refusal(lambda: ensemble.start(budget="$1"))
    by_hand = Ensemble(tasks=[Task(description="Do it", handler=lambda task: task.inputs["llm"])])
    assert by_hand.run(llm="any text").raw == "any text"
    assert refusal(lambda: by_hand.run(llm=scripted("two"))) == told
    assert Ensemble(tasks=[Task(description="Praise {llm}")], llm=scripted("Great!")).run(llm="mine").raw == "Great!"


def test_e72_a_map_goes_on_with_another_budget() -> None:
    rows = [{"topic": each} for each in ("tides", "moons", "stars")]
    ensemble = Ensemble(tasks=[Task(description="Say {topic}")], llm=scripted(*["Said."] * 3), budget="1 call")
    first = ensemble.map(rows, budget="2 calls", concurrency=1)
    assert [each.is_done for each in first] == [True, True, False]
    second = ensemble.map(rows, resume=first, budget="9 calls")
    assert [each.is_done for each in second] == [True, True, True]
    assert second.metrics.llm_call_count == 1


# --- E75 ---


def test_e75_the_nearest_name_is_told() -> None:
    task = Task(description="Do it", handler=lambda given: "Done.", name="it")
    ensemble = Ensemble(tasks=[task])
    output = ensemble.run()
    handle = ensemble.start()
    result = ensemble.map([{}])
    for owner, name, meant in (
        (task, "descripton", "description"),
        (ensemble, "rum", "run"),
        (Budget(max_tokens=3), "max_token", "max_tokens"),
        (output, "parsed", "parsed_output"),
        (output["it"], "raww", "raw"),
        (output.frames, "taks", "tasks"),
        (output.trace, "span", "spans"),
        (output.trace.spans[0], "parnt", "parent"),
        (output.metrics, "cots", "cost"),
        (output.plan, "task", "tasks"),
        (output.plot, "token", "tokens"),
        (output.events[0], "tme", "time"),
        (handle, "reslt", "result"),
        (result, "fram", "frame"),
        (AgentExecutionError("x", agent_role="A", task_description="b"), "agent_rol", "agent_role"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert str(caught.value).startswith(f"{type(owner).__name__} has no attribute {name!r}. Did you mean '")
        assert str(caught.value).endswith(f"Did you mean {meant!r}?"), str(caught.value)
        assert caught.value.name == name
    handle.result()


def test_e75_what_programs_ask_for_is_answered_briefly() -> None:
    output = Ensemble(tasks=[Task(description="Do it", handler=lambda given: "Done.")]).run()
    assert not hasattr(output, "ipython_display")
    with pytest.raises(AttributeError, match=r"^EnsembleOutput has no attribute '_repr_latex_'\.$"):
        output._repr_latex_  # noqa: B018 - as IPython asks
    assert copy.copy(output).raw == pickle.loads(pickle.dumps(output)).raw == "Done."


class Broken(Ensemble):
    """An ensemble with a property that fails inside."""

    __slots__ = ()

    @property
    def size(self) -> int:
        return self.tasks[0].timeout.real  # type: ignore[union-attr]


def test_e75_an_error_inside_a_property_stays_what_it_is() -> None:
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'real'"):
        Broken(tasks=[Task(description="Do it")]).size  # noqa: B018
