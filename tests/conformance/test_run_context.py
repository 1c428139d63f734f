"""E79: what a run knows, for tools, handlers, guardrails, conditions; C37: the deps of a cell."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Condition,
    Ensemble,
    EnsembleError,
    ProgressReported,
    PromptTemplateError,
    Reply,
    RunContext,
    StoreError,
    Task,
    TaskInput,
    TaskOutput,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.conformance.scene import of, scripted
from tests.support.openai_server import Answer, OpenAIServer

assert StoreError  # named in a test below


@dataclass
class Bank:
    """What a run is given."""

    rate: float

    def find(self, account: str) -> str:
        return f"{account}: {self.rate}"


class Connection:
    """A live object: no two are alike, and none can be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def balance(account: str, run: RunContext[Bank]) -> str:
    """Ask the bank.

    Args:
        account: its number.
    """
    return f"{run.deps.find(account)} for {run.task}, {run.agent}, {run.inputs['who']}"


async def later(run: RunContext, account: str) -> str:
    """Ask it later."""
    return f"later {run.deps.find(account)}"


def make_asker(*tools: Any, **fields: Any) -> Agent:
    return Agent(role="Clerk", goal="Ask", tools=tools, **fields)


# --- who is given it ---


def test_e79_a_tool_is_given_it_and_the_model_is_not_told(server: OpenAIServer, llm: str) -> None:
    server.script(
        Answer(None, calls=[("1", "balance", {"account": "12"}), ("2", "later", {"account": "13"})]),
    )
    task = Task.of("Ask for {who}", name="ask", agent=make_asker(balance, later))
    output = Ensemble(tasks=[task], llm=llm).run(who="Ana", deps=Bank(2.5))
    told = {each["function"]["name"]: each["function"]["parameters"] for each in server.requests[0].body["tools"]}
    assert list(told["balance"]["properties"]) == list(told["later"]["properties"]) == ["account"]
    assert told["balance"]["properties"]["account"]["description"] == "its number."
    assert list(output.frames.tool_calls.result) == ["12: 2.5 for ask, Clerk, Ana", "later 13: 2.5"]


def test_e79_tools_of_every_form_are_given_it() -> None:
    from langchain_core.tools import tool

    @tool
    def decorated(account: str, run: RunContext[Bank]) -> str:
        """Ask by LangChain's decorator."""
        return f"decorated {run.deps.find(account)}"

    class Plain:
        name = "plain"
        description = "Ask by execute."

        def execute(self, text: str, run: RunContext[Bank]) -> str:
            return f"plain {run.deps.find(text)}"

    class Desk:
        @tool
        def method(self, account: str, run: RunContext[Bank]) -> str:
            """Ask by a method."""
            return f"method {run.deps.find(account)}"

    calls = [
        ToolUse("decorated", {"account": "1"}),
        ToolUse("plain", {"input": "2"}),
        ToolUse("method", {"account": "3"}),
    ]
    model = scripted(Reply(calls=calls), "done")
    output = Ensemble(tasks=[Task.of("Ask", agent=make_asker(decorated, Plain(), Desk()))], llm=model).run(deps=Bank(1))
    assert list(output.frames.tool_calls.result) == ["decorated 1: 1", "plain 2: 1", "method 3: 1"]


def test_e79_handlers_guardrails_and_predicates_are_given_it() -> None:
    seen: list[Any] = []

    def handle(task: TaskInput, run: RunContext) -> str:
        seen.append(("handler", run.task, run.agent, run.deps.rate))
        return "yes"

    def check(run: RunContext, task: TaskInput) -> None:
        seen.append(("input", run.task, task.name))

    async def look(output: TaskOutput, run: RunContext) -> None:
        seen.append(("output", run.task, output.raw))

    def holds(output: TaskOutput, run: RunContext) -> bool:
        seen.append(("predicate", run.task, run.deps.rate))
        return True

    first = Task.of("Do", name="first", handler=handle, input_guardrails=check, output_guardrails=look)
    second = Task.of("Go", name="second", handler=lambda _: "x", when=Condition("first", predicate=holds))
    Ensemble(tasks=[first, second], deps=Bank(1)).run(deps=Bank(3))
    assert seen == [
        ("input", "first", "first"),
        ("handler", "first", None, 3),
        ("output", "first", "yes"),
        ("predicate", "first", 3),
    ]


def test_e79_a_worker_is_told_as_itself() -> None:
    def who(run: RunContext) -> str:
        """Say who asks."""
        return f"{run.agent} in {run.task}"

    lead = Agent(role="Lead", goal="Lead", allow_delegation=True)
    worker = make_asker(who)
    ask = ToolUse("delegate", {"agent_role": "Clerk", "task_description": "Say who"})
    model = scripted(ask, ToolUse("who", {}), "told", "done")
    output = Ensemble(tasks=[Task.of("Ask", name="ask", agent=lead)], agents=[lead, worker], llm=model).run()
    assert "Clerk in" in output.frames.tool_calls.result.iloc[-1]


def test_e79_the_deadline_is_that_of_the_run_or_the_earlier_one_of_the_task() -> None:
    found: list[datetime | None] = []

    def handle(_: TaskInput, run: RunContext) -> str:
        found.append(run.deadline)
        return "x"

    before = datetime.now(UTC)
    for run_s, task_s in ((None, None), (100, None), (100, 20), (10, 20)):
        Ensemble(tasks=[Task.of("x", handler=handle, timeout=task_s)]).run(timeout=run_s)
    assert found[0] is None
    for deadline, most in zip(found[1:], (100, 20, 10), strict=True):
        assert deadline is not None
        assert timedelta(seconds=most - 1) < deadline - before < timedelta(seconds=most + 20)


def test_e79_a_function_that_nobody_runs_is_given_one_by_whoever_calls_it() -> None:
    assert balance("1", RunContext(deps=Bank(2), inputs={"who": "me"})) == "1: 2 for None, None, me"
    from ensemble_notebook.domain.definitions.run_context import give_context

    with pytest.raises(EnsembleError, match="balance takes a RunContext as 'run'"):
        give_context(balance)("1")  # type: ignore[call-arg]


def test_e79_a_scorer_is_given_it() -> None:
    def score(run: RunContext[Bank], output: TaskOutput) -> float:
        return run.deps.rate * run.inputs["n"] if output.raw == "x" and run.run_id else 0

    ensemble = Ensemble(tasks=[Task.of("Say {n}", handler=lambda _: "x")], deps=Bank(0.25))
    result = ensemble.map([{"n": 2}, {"n": 4}], score=score)
    assert list(result.frame.score) == [0.5, 1.0]


# --- deps ---


def test_e79_deps_are_those_of_the_run_else_of_the_ensemble_and_a_nested_run_has_its_own() -> None:
    def show(_: TaskInput, run: RunContext) -> str:
        return str(run.deps)

    inner = Ensemble(tasks=[Task.of("x", handler=show)], deps="inner")
    outer = Ensemble(tasks=[Task.of("x", name="own", handler=show), Task(ensemble=inner, name="nested")], deps="outer")
    output = outer.run()
    assert (output["own"].raw, output["nested"].raw) == ("outer", "inner")
    assert outer.run(deps="run")["own"].raw == "run"
    assert Ensemble(tasks=[Task.of("x", name="own", handler=show)]).run()["own"].raw == "None"


def test_e79_live_objects_are_never_stored(store_path: Any) -> None:
    def show(_: TaskInput, run: RunContext) -> str:
        return type(run.deps).__name__

    ensemble = Ensemble(tasks=[Task.of("x", name="a", handler=show)], deps=Connection())
    output = ensemble.run()
    again = pickle.loads(pickle.dumps(output))
    assert "Connection" in repr(again.ensemble)
    plain = Ensemble(tasks=ensemble.tasks)
    plain.run(deps=Connection())
    with pytest.raises(ValidationError, match="had deps, a Connection, and live objects are not kept: give them again"):
        plain.run(resume="-1")
    assert plain.run(resume="-1", deps=Connection())["a"].raw == "Connection"


@pytest.mark.parametrize(
    "use",
    [lambda deps: deps.find("1"), lambda deps: deps["rate"], lambda deps: deps * 2],
    ids=["attribute", "item", "operator"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_e79_a_function_that_uses_deps_in_a_run_without_any_says_where_they_come_from(use: Any, is_async: bool) -> None:
    def plain(account: str, run: RunContext[Any]) -> str:
        """Look at an account."""
        return str(use(run.deps))

    async def later(account: str, run: RunContext[Any]) -> str:
        """Look at an account."""
        return str(use(run.deps))

    tool = later if is_async else plain
    asks = ToolUse(tool.__name__, {"account": "1"})
    ensemble = Ensemble(tasks=[Task.of("Ask", tools=[tool])], llm=scripted(asks, "Done.", asks, "Done."))
    told = r"Tool error: (Attribute|Type)Error: .*NoneType.*This run has no deps: give them by run\(deps=\.\.\.\)"
    assert re.match(told, ensemble.run().frames.tool_calls.result.item())
    fault = ensemble.run(deps=object()).frames.tool_calls.result.item()  # of another fault, nothing is said of deps
    assert "run(deps=...)" not in fault


def test_e79_without_deps_a_function_may_know_all_else_and_look_whether_there_are_any() -> None:
    def show(task: TaskInput, run: RunContext[Any]) -> str:
        return f"{run.task} {run.inputs['n']} {run.deps}"

    assert Ensemble(tasks=[Task.of("Say {n}", name="a", handler=show)]).run(n=1).raw == "a 1 None"


def test_e79_deps_beside_a_variable_of_that_name() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {deps}", name="a")], llm=scripted("x", "y"))
    with pytest.raises(PromptTemplateError, match=r"pass the values as inputs: run\(\{'deps': ...\}\)"):
        ensemble.run(deps=Bank(1))
    assert ensemble.run({"deps": "hello"}, deps=Bank(1))["a"].task_description == "Say hello"


@pytest.mark.usefixtures("store_path")
def test_e79_deps_and_inputs_that_are_read_count_for_reuse() -> None:
    def show(_: TaskInput, run: RunContext) -> str:
        return f"{run.deps.rate} {run.inputs['a']}"

    def peek(run: RunContext) -> str:
        """Look."""
        return str(run.inputs["a"])

    for make in (
        lambda: Ensemble(tasks=[Task.of("x", name="t", handler=show)]),
        lambda: Ensemble(
            tasks=[Task.of("x", name="t", agent=make_asker(peek), llm=scripted(ToolUse("peek", {}), "x"))],
        ),
    ):
        assert not make().run({"a": 1, "b": 1}, deps=Bank(1), reuse=True)["t"].reused
        assert make().run({"a": 1, "b": 2}, deps=Bank(1), reuse=True)["t"].reused
        assert not make().run({"a": 2, "b": 2}, deps=Bank(1), reuse=True)["t"].reused
        assert not make().run({"a": 1, "b": 2}, deps=Bank(2), reuse=True)["t"].reused


# --- progress ---


def test_e79_progress_is_an_event_and_shows_in_the_bar() -> None:
    def work(what: str, run: RunContext) -> str:
        """Work."""
        run.progress("begun", 0.25)
        run.progress("too soon", 0.3)
        run.progress("done", 1)
        return what

    async def later_work(run: RunContext) -> str:
        """Work later."""
        run.progress("on its way")
        return "x"

    def handle(_: TaskInput, run: RunContext) -> str:
        run.progress("handling", 0.5)
        return "x"

    model = scripted(Reply(calls=[ToolUse("work", {"what": "x"}), ToolUse("later_work", {})]), "done")
    tasks = [Task.of("Work", name="a", agent=make_asker(work, later_work)), Task.of("x", name="b", handler=handle)]
    output = Ensemble(tasks=tasks, llm=model).run()
    told = {(each.text, each.fraction) for each in of(output, ProgressReported)}
    assert told == {("begun", 0.25), ("done", 1.0), ("on its way", None), ("handling", 0.5)}
    spans = {span.name: span for span in output.trace.spans}
    assert spans["work"].attributes["progress"] == "done · 100%"
    assert spans["later_work"].attributes["progress"] == "on its way"
    assert spans["b"].attributes["progress"] == "handling · 50%"


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_e79_a_fraction_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="a fraction from 0 to 1"):
        RunContext(deps=None).progress("x", fraction)


# --- the other one of that name ---


def make_foreign() -> Callable[..., Any]:
    """A function as pydantic-ai's users write them; their class has this name and this module."""
    foreign = type("RunContext", (), {"__module__": "pydantic_ai.tools"})

    def roll(ctx: Any, sides: int) -> str:
        """Roll a die."""
        return str(sides)

    roll.__annotations__["ctx"] = foreign
    return roll


def test_e79_pydantic_ais_class_of_the_same_name_is_named() -> None:
    roll = make_foreign()
    for declare in (
        lambda: make_asker(roll),
        lambda: Task.of("x", tools=roll),
        lambda: Task.of("x", handler=roll),
        lambda: Task.of("x", output_guardrails=roll),
        lambda: Condition("a", predicate=roll),
    ):
        with pytest.raises(ValidationError) as caught:
            declare()
        text = str(caught.value)
        assert "takes the RunContext of pydantic-ai" in text
        assert "from ensemble_notebook import RunContext" in text
        assert "run(deps=...)" in text


# --- C37 ---


def test_c37_a_cell_names_its_deps() -> None:
    text = "deps: bank\ninputs: {who: Ana}\ntasks:\n  a: {description: Ask, handler: show}\n"

    def show(_: TaskInput, run: RunContext) -> str:
        return str(run.deps.find("1"))

    names = {"bank": Bank(4), "show": show}
    ensemble = read_cell(text, names).build(names)
    assert ensemble.run().raw == "1: 4"
    assert "deps: bank" in ensemble.to_yaml(names)
    with pytest.raises(CellError) as caught:
        read_cell(text.replace("deps: bank", "deps: bnak"), names)
    assert "Did you mean 'bank'?" in str(caught.value)
