"""Tool calls that came cut or dirty, from a real server: what runs, and what the model is told (E13)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.tools import tool

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    Event,
    Review,
    ReviewDecision,
    Task,
    ToolCallCompleted,
    ToolOutcome,
)
from tests.support.openai_server import Answer, OpenAIServer

CUT = '{"query": "delete from orders where id = 1'
MENDABLE = '{"query": "select 1",}'
WHOLE = '{"query": "select 1"}'
Doors = Callable[[Ensemble], EnsembleOutput]


class Database:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute(self, query: str) -> str:
        """Run a query."""
        self.asked.append(query)
        return "done"


@pytest.fixture
def database() -> Database:
    """Remembers what it is asked."""
    return Database()


def team(llm: str, database: Database, **fields: Any) -> Ensemble:
    worker = Agent(role="Clerk", goal="Keep orders", tools=[database.execute])
    return Ensemble(tasks=[Task.of("Tidy up {what}", name="tidy", agent=worker, **fields)], llm=llm)


def run_whole(ensemble: Ensemble) -> EnsembleOutput:
    return ensemble.run({"what": "orders"})


class Watcher:
    """Has replies streamed."""

    wants_tokens = True

    def on_event(self, event: Event) -> None:
        """Look at it."""


def run_streamed(ensemble: Ensemble) -> EnsembleOutput:
    return ensemble.replace(listeners=[Watcher()]).run({"what": "orders"})


def run_mapped(ensemble: Ensemble) -> EnsembleOutput:
    output = ensemble.map([{"what": "orders"}])[0].output
    assert output is not None
    return output


def run_nested(ensemble: Ensemble) -> EnsembleOutput:
    return Ensemble(tasks=[Task.of("All", name="all", ensemble=ensemble, inputs={"what": "orders"})]).run()


def told(server: OpenAIServer) -> list[str]:
    return [each["content"] for each in server.requests[-1].messages if each["role"] == "tool"]


DOORS = pytest.mark.parametrize("door", [run_whole, run_streamed, run_mapped, run_nested])


@DOORS
@pytest.mark.parametrize("arguments", [CUT, '{"query": "select 1"}</tool_call>', WHOLE + WHOLE])
def test_arguments_that_are_no_json_run_nothing(
    server: OpenAIServer, llm: str, database: Database, door: Doors, arguments: str
) -> None:
    server.script(Answer(calls=[("execute", arguments)]), "Sorry.")
    output = door(team(llm, database))
    assert database.asked == []
    (text,) = told(server)
    assert text.startswith("Error: the arguments of tool 'execute' don't fit: expected an object with 'query', got ")
    (call,) = [each for each in output.events if isinstance(each, ToolCallCompleted)]
    assert call.outcome is ToolOutcome.FAILURE


@DOORS
@pytest.mark.parametrize("arguments", [MENDABLE, f"```json\n{WHOLE}\n```", "{'query': 'select 1'}"])
def test_arguments_that_can_mean_but_one_thing_are_mended(
    server: OpenAIServer, llm: str, database: Database, door: Doors, arguments: str
) -> None:
    server.script(Answer(calls=[("execute", arguments)]), "Done.")
    door(team(llm, database))
    assert (database.asked, told(server)) == (["select 1"], ["done"])


@DOORS
@pytest.mark.parametrize("reason", ["length", "max_tokens", "content_filter"])
def test_no_call_of_a_reply_that_was_cut_is_run(
    server: OpenAIServer, llm: str, database: Database, caplog: pytest.LogCaptureFixture, door: Doors, reason: str
) -> None:
    calls = [("execute", WHOLE), ("execute", WHOLE), ("execute", CUT)]
    server.script(Answer(calls=calls, finish_reason=reason), Answer(calls=[("execute", WHOLE)]), "Done.")
    door(team(llm, database))
    assert database.asked == ["select 1"]
    assert [text[:61] for text in told(server)] == [
        *["Error: this call was not made: the reply that asks for it was"] * 3,
        "done",
    ]
    assert "A reply of agent 'Clerk' for task 'tidy' was cut off" in caplog.text


@pytest.mark.parametrize("fields", [{"reuse": "never"}, {"review": Review("during")}, {"review": Review("after")}])
def test_what_has_side_effects_or_a_person_is_never_called_with_a_mended_argument(
    server: OpenAIServer, llm: str, database: Database, fields: dict[str, Any]
) -> None:
    server.script(Answer(calls=[("execute", MENDABLE)]), Answer(calls=[("execute", WHOLE)]), "Done.")
    team(llm, database, **fields).replace(review_handler=lambda _: ReviewDecision.approve()).run({"what": "x"})
    assert database.asked == ["select 1"]
    assert [text[:24] for text in told(server)] == ["Error: the arguments of ", "done"]


def test_nor_by_whoever_does_a_part_of_such_a_task(server: OpenAIServer, llm: str, database: Database) -> None:
    work = {"agent_role": "Clerk", "task_description": "Tidy up"}
    server.script(
        Answer(calls=[("delegate_task", work)]), Answer(calls=[("execute", MENDABLE)]), "I could not.", "Nothing done."
    )
    clerk = Agent(role="Clerk", goal="Keep orders", tools=[database.execute])
    chief = Agent(role="Chief", goal="See to it", allow_delegation=True)
    tasks = [Task.of("See to orders", agent=chief, reuse="never"), Task.of("Rest", name="rest", agent=clerk)]
    Ensemble(tasks=tasks, llm=llm).run()
    assert database.asked == []


def by_task(inner: Ensemble, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("All", name="all", ensemble=inner, inputs={"what": "orders"}, **fields)])


def by_handler(inner: Ensemble, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("All", name="all", handler=lambda _: inner.run({"what": "x"}).raw, **fields)])


def by_nested_task(inner: Ensemble, **fields: Any) -> Ensemble:
    return Ensemble(tasks=[Task.of("Whole", name="whole", ensemble=by_handler(inner), **fields)])


@pytest.mark.parametrize("around", [by_task, by_handler, by_nested_task])
@pytest.mark.parametrize("fields", [{"reuse": "never"}, {"review": Review("after")}, {}])
def test_nor_by_a_run_inside_of_such_a_task(
    server: OpenAIServer, llm: str, database: Database, around: Any, fields: dict[str, Any]
) -> None:
    server.script(Answer(calls=[("execute", MENDABLE)]), "Done.", Answer(calls=[("execute", MENDABLE)]), "Done.")
    ensemble = around(team(llm, database), **fields)
    beside = Task.of("Beside", name="beside", ensemble=team(llm, database), inputs={"what": "rest"}, context=["all"])
    name = ensemble.tasks[0].name
    tasks = [*ensemble.tasks, beside.replace(context=[name])]
    ensemble.replace(tasks=tasks, review_handler=lambda _: ReviewDecision.approve()).run()
    assert database.asked == ["select 1"] * (1 if fields else 2)


@DOORS
@pytest.mark.parametrize("amount", ["0.12345678901234567891", "12345678901234567890.12", "-1.5", "3"])
def test_a_decimal_has_every_digit(server: OpenAIServer, llm: str, door: Doors, amount: str) -> None:
    def pay(amount: Decimal, share: float = 1.0) -> str:
        """Pay."""
        return f"{amount} {share:g}"

    arguments = f'{{"amount": {amount}, "share": 0.12345678901234567891}}'
    server.script(Answer(calls=[("pay", arguments), ("pay", '{"amount": 2}')]), "Done.")
    clerk = Agent(role="Clerk", goal="Pay", tools=[pay])
    door(Ensemble(tasks=[Task.of("Pay for {what}", name="pay", agent=clerk)], llm=llm))
    assert told(server) == [f"{amount} 0.123457", "2 1"]
    sent = [each["function"]["arguments"] for each in server.requests[-1].messages[-3]["tool_calls"]]
    assert sent == [arguments, '{"amount": 2}']


def test_a_text_that_a_task_said_is_a_value_for_a_tool_that_handles_one(database: Database) -> None:
    tasks = [
        Task.of("Write", name="write", handler=lambda _: CUT),
        Task.of("Keep", name="keep", handler=tool("execute")(database.execute), context=["write"]),
    ]
    Ensemble(tasks=tasks).run()
    assert database.asked == [CUT]


@DOORS
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "execute", "arguments": {}}\n</tool_call>',
        "<function=execute>{}</function>",
        '<|python_tag|>{"name": "execute"}',
        '[TOOL_CALLS][{"name": "execute"}]',
        "<\uff5ctool\u2581calls\u2581begin\uff5c>execute",
        '{"name": "execute", "parameters": {"query": "select 1"}}',
        '```json\n[{"name": "execute", "arguments": {"query": "select 1"}}]\n```',
        'functools[{"name": "execute", "arguments": {"query": "select 1"}}]',
        "[execute(query='select 1')]",
        '<|channel|>commentary to=functions.execute <|constrain|>json<|message|>{"query": "select 1"}',
        '<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name="execute">',
    ],
)
def test_a_call_that_is_written_as_text_is_a_warning(
    server: OpenAIServer, llm: str, database: Database, caplog: pytest.LogCaptureFixture, door: Doors, text: str
) -> None:
    server.default = Answer(text)
    assert door(team(llm, database)).raw == text
    assert "wrote a call of a tool as text" in caplog.text
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "text", ['{"name": "Ada", "parameters": {"age": 36}}', "[sin(x=1)]", "[execute] was not needed"]
)
def test_an_answer_with_such_keys_about_something_else_is_one(
    server: OpenAIServer, llm: str, database: Database, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    server.default = Answer(text)
    run_whole(team(llm, database))
    assert "as text" not in caplog.text


def test_without_tools_it_is_a_text(server: OpenAIServer, llm: str, caplog: pytest.LogCaptureFixture) -> None:
    server.default = Answer("<tool_call>")
    Ensemble(tasks=[Task.of("Explain")], llm=llm).run()
    assert "as text" not in caplog.text
