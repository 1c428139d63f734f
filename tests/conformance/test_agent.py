"""An agent at work: prompts, tools, faults, typed replies, streams, guardrails (E10 to E18)."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    AgentExecutionError,
    Ensemble,
    EnsembleOutput,
    Event,
    Fail,
    GuardrailViolationError,
    LlmToken,
    MaxIterationsExceededError,
    OutputParsingError,
    Reply,
    Task,
    TaskExecutionError,
    ToolCallCompleted,
    ToolOutcome,
    ToolResult,
    ToolUse,
    TurnStarted,
)
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import agent, done, of, prompts, run, scripted
from tests.support.openai_server import Answer, OpenAIServer


def use(name: str, /, **arguments: Any) -> ToolUse:
    return ToolUse(name, arguments)


def turn(*uses: ToolUse) -> Reply:
    return Reply(calls=uses)


def echo(text: str) -> str:
    """Say it again."""
    return text


def with_tool(tool: Any, *replies: Any, **fields: Any) -> EnsembleOutput:
    return run(Task.of("Cook", name="cook", agent=agent(*replies, tools=[tool], **fields)))


def results(output: EnsembleOutput) -> list[tuple[str, ToolOutcome | None]]:
    return [(each.result, each.outcome) for each in of(output, ToolCallCompleted)]


# --- prompts and E10, E11 ---


def test_e10_the_prompts_have_their_sections_in_order() -> None:
    cook = agent("Soup.", background="Trained in Lyon.", response_format="One line")
    output = run(done("shop"), Task(description="Cook", expected_output="Food", agent=cook, context=["shop"]))
    system, user = prompts(output)[1]
    head, goal, *conduct, form = system.split("\n\n")[0], system.split("\n\n")[1], *system.split("\n\n")[2].split("\n")
    assert head == "You are Cook.\nTrained in Lyon."
    assert goal == "Your personal goal is: Feed people"
    assert len(conduct) == 2
    assert form == "Output format instructions: One line"
    assert user == (
        "## Context from Previous Tasks\n---\n### Handler: Do shop\nshop\n---\n\n"
        "## Task\nCook\n\n## Expected Output\nFood"
    )


def test_e10_an_agent_without_tools_is_one_call() -> None:
    llm = scripted("Soup.", "never")
    assert run(Task.of("Cook", llm=llm)).raw == "Soup."
    assert len(llm.calls) == 1


def test_e10_tools_are_called_and_fed_back_until_a_text_comes() -> None:
    output = with_tool(echo, turn(use("echo", text="a")), turn(use("echo", text="b")), "Done.")
    assert output.raw == "Done."
    assert [each.iteration for each in of(output, TurnStarted)] == [1, 2, 3]
    assert [result for result, _ in results(output)] == ["a", "b"]


def test_e10_a_long_context_is_a_warning_and_never_cut() -> None:
    output = run(done("long", handler=lambda task: "x" * 10_001), Task.of("Read", context=["long"], llm=scripted("ok")))
    assert "10,001 characters" in output.warnings[0]
    assert "x" * 10_001 in prompts(output)[1][1]


def test_e11_requests_of_one_turn_run_side_by_side_and_are_answered_in_order() -> None:
    both = threading.Barrier(2, timeout=20)

    def meet(name: str) -> str:
        """Wait for the other one."""
        both.wait()
        time.sleep(0.05 if name == "first" else 0)
        return name

    llm = scripted(turn(use("meet", name="first"), use("meet", name="second")), "Done.")
    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[meet])
    run(Task.of("Cook", agent=cook))
    answers = [message for message in llm.calls[1].messages if message.type == "tool"]
    assert [each.content for each in answers] == ["first", "second"]
    assert [each.name for each in answers] == ["meet", "meet"]


# --- E12, E13, E14, E15 ---


def test_e12_the_first_two_requests_over_the_budget_are_told_to_stop_and_the_third_ends_it() -> None:
    spree = [turn(*[use("echo", text="x")] * 2), turn(use("echo", text="x")), turn(use("echo", text="x"))]
    with pytest.raises(TaskExecutionError) as caught:
        with_tool(echo, *spree, turn(use("echo", text="x")), max_iterations=1)
    cause = caught.value.__cause__
    assert isinstance(cause, MaxIterationsExceededError)
    assert (cause.agent_role, cause.max_iterations, cause.tool_calls_made) == ("Cook", 1, 1)
    outcomes = results(caught.value.output)
    assert [outcome for _, outcome in outcomes] == [ToolOutcome.SUCCESS, *[ToolOutcome.SKIPPED_MAX_ITERATIONS] * 3]
    assert all(text.startswith("STOP") and "1" in text for text, _ in outcomes[1:])


def test_e12_a_text_ends_the_loop_after_a_warning() -> None:
    output = with_tool(echo, turn(*[use("echo", text="x")] * 3), "Enough.", max_iterations=1)
    assert output.raw == "Enough."
    assert output["cook"].tool_call_count == 1


def test_e13_faults_of_tools_are_told_to_the_model() -> None:
    def moody(mood: str) -> Any:
        """Depends."""
        if mood == "bad":
            raise ValueError("go away")
        return {"sad": ToolResult.failure("no salt"), "mute": None}.get(mood, "fine")

    moods = [turn(use("moody", mood=mood)) for mood in ("bad", "sad", "mute", "good")]
    output = with_tool(moody, *moods, turn(use("mody", mood="good")), turn(use("moody", tone="good")), "Done.")
    texts = [text for text, _ in results(output)]
    assert texts[:4] == ["Tool error: ValueError: go away", "Error: no salt", "", "fine"]
    assert "no tool named 'mody'. Did you mean 'moody'?" in texts[4]
    assert "missing 'mood'" in texts[5]
    assert "'tone'" in texts[5]
    assert output["cook"].tool_call_count == 6


@pytest.mark.parametrize("arguments", ['{"text": "hi"}', {"input": {"text": "hi"}}, {"text": "hi"}, "hi"])
def test_e13_arguments_are_coerced_where_that_is_unambiguous(arguments: Any) -> None:
    assert results(with_tool(echo, turn(ToolUse("echo", arguments)), "Done."))[0] == ("hi", ToolOutcome.SUCCESS)


def test_e14_a_model_failure_is_an_agent_error_with_its_cause() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook", agent=agent(Fail(401))))
    cause = caught.value.__cause__
    assert isinstance(cause, AgentExecutionError)
    assert (cause.agent_role, cause.task_description) == ("Cook", "Cook")
    assert "401" in str(cause.__cause__)


def test_e14_an_empty_reply_is_a_warning_and_an_empty_text() -> None:
    output = run(Task.of("Cook", name="cook", agent=agent("  ")))
    assert output["cook"].raw == ""
    assert "empty reply" in output.warnings[0]


USER = contextvars.ContextVar("USER", default="nobody")


def test_e15_a_sync_tool_runs_on_a_thread_with_the_caller_s_context() -> None:
    seen = []

    def who(text: str) -> str:
        """Say who."""
        seen.append((USER.get(), threading.current_thread() is threading.main_thread()))
        return text

    USER.set("Ana")
    with_tool(who, turn(use("who", text="x")), "Done.")
    assert seen == [("Ana", False)]


# --- E16 ---


class Dish(BaseModel):
    name: str
    minutes: int


def test_e16_the_schema_is_in_the_prompt_where_the_model_is_not_held_to_it() -> None:
    output = run(Task.of("Cook", name="cook", agent=agent('{"name": "soup", "minutes": 20}'), output_type=Dish))
    assert output["cook"].get_parsed_output(Dish) == Dish(name="soup", minutes=20)
    assert '"minutes"' in prompts(output)[0][1].split("## Output Format\n")[1]


def test_e16_corrections_show_the_error_the_reply_and_the_schema_and_count() -> None:
    llm = scripted("Soup!", '{"name": "soup", "minutes": 20}')
    output = run(Task.of("Cook", name="cook", llm=llm, output_type=Dish))
    correction = llm.calls[1]
    assert correction.messages[0].content == llm.calls[0].messages[0].content
    assert [each.content for each in correction.messages[:3]] == [
        *(each.content for each in llm.calls[0].messages),
        "Soup!",
    ]
    for part in ("no complete JSON value", '"minutes"'):
        assert part in correction.prompt
    assert output["cook"].raw == '{"name": "soup", "minutes": 20}'
    assert output.metrics.llm_call_count == 2
    assert output.metrics.input_tokens == sum(output.frames.llm_calls["input_tokens"])


def test_e16_exhausted_corrections_raise_with_every_error() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook", agent=agent("a", "b"), output_type=Dish, max_output_retries=1))
    cause = caught.value.__cause__
    assert isinstance(cause, OutputParsingError)
    assert (cause.raw_output, cause.output_type, cause.attempt_count) == ("b", Dish, 2)
    assert cause.parse_errors == ("it holds no complete JSON value",) * 2
    assert " The last one says: 'b'. Raise max_output_retries" in str(cause)


def test_e16_the_error_shows_the_beginning_of_what_the_model_said_and_no_key() -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz123456"
    for reply, told in (
        ("I can't\n  do that.", '" It says: "I can\'t do that." Raise'),
        (f"{'x' * 190} {key}", f" It says: '{'x' * 190} ***'. Raise"),
        (f"{'x ' * 300}{key}", f" It begins: '{('x ' * 300)[:200]} ...' Raise"),
        (" ", " It is empty. Raise"),
    ):
        with pytest.raises(TaskExecutionError) as caught:
            run(Task.of("Cook", agent=agent(reply), output_type=Dish, max_output_retries=0))
        assert told.lstrip('"') in str(caught.value), str(caught.value)
        assert key[:12] not in str(caught.value)


NATIVE_CELL = """
llm: {model: m, base_url: %r, schema_mode: native}
agents:
  Cook: {goal: Feed people, tools: [look_up]}
tasks:
  cook: {description: Cook, agent: Cook, output_type: Dish}
"""


def look_up(what: str) -> str:
    """Look up how long something takes."""
    return f"{what} takes 20 minutes"


@pytest.mark.parametrize("way", ["spec", "cell", "object"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_e16_a_native_schema_is_in_every_request_and_a_correction_goes_on_with_the_conversation(
    server: OpenAIServer, way: str, is_streamed: bool
) -> None:
    good = '{"name": "soup", "minutes": 20}'
    looking = Answer(None, calls=[("look_up", {"what": "soup"})])
    server.script(looking, Answer('{"name": "soup", "minutes": "long"}'), Answer(good))
    names = {"Dish": Dish, "look_up": look_up}
    if way == "cell":
        ensemble = read_cell(NATIVE_CELL % server.url, names).build(names)
    else:
        spec = {"model": "m", "base_url": server.url, "schema_mode": "native"}
        # A model whose profile says that it takes a schema.
        model = ChatOpenAI(model="gpt-4o-mini", base_url=server.url, api_key="k", max_retries=0)
        cook = Agent(role="Cook", goal="Feed people", llm=spec if way == "spec" else model, tools=[look_up])
        ensemble = Ensemble(tasks=[Task.of("Cook", name="cook", agent=cook, output_type=Dish)])
    output = ensemble.start(listeners=[Watcher()] if is_streamed else []).result()
    assert (output["cook"].parsed_output, output["cook"].raw) == (Dish(name="soup", minutes=20), good)
    sent = [each.body for each in server.requests]
    assert [each.is_streamed for each in server.requests] == [is_streamed] * 3
    formats = [each["response_format"] for each in sent]
    assert formats[0] == formats[1] == formats[2]
    assert formats[0]["type"] == "json_schema"
    described = formats[0]["json_schema"]
    assert (described["name"], described["strict"]) == ("Dish", True)
    assert described["schema"]["properties"].keys() == {"name", "minutes"}
    assert all([tool["function"]["name"] for tool in each["tools"]] == ["look_up"] for each in sent)
    assert "## Output Format" not in sent[0]["messages"][1]["content"]
    roles = [each["role"] for each in sent[2]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert sent[2]["messages"][:4] == sent[1]["messages"]
    assert sent[2]["messages"][3]["content"] == "soup takes 20 minutes"
    assert sent[2]["messages"][4]["content"] == '{"name": "soup", "minutes": "long"}'
    correction = sent[2]["messages"][5]["content"]
    assert "minutes: Input should be a valid integer" in correction
    assert '"minutes"' in correction.split("## Output Format\n")[1]
    assert (output.metrics.llm_call_count, output.metrics.total_tokens) == (3, 3 * 18)
    assert len(of(output, TurnStarted)) == 3


# --- E17, E18 ---


class Watcher:
    """A listener that asks for streamed replies."""

    wants_tokens = True

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


def test_e17_replies_stream_only_where_somebody_watches_and_the_text_is_the_same(
    server: OpenAIServer, llm: str
) -> None:
    server.script(*[Answer("Soup of the day.")] * 2)
    task = Task.of("Cook", name="cook")
    watcher = Watcher()
    watched = Ensemble(tasks=[task], llm=llm, listeners=[watcher]).run()
    quiet = run(task, llm=llm)
    assert watched.raw == quiet.raw == "Soup of the day."
    assert [each.is_streamed for each in server.requests] == [True, False]
    tokens = [each for each in watcher.events if isinstance(each, LlmToken)]
    assert "".join(each.text for each in tokens) == "Soup of the day."
    assert {each.task for each in tokens} == {"cook"}
    assert watched.metrics.total_tokens == quiet.metrics.total_tokens == 18


def test_e18_an_input_guardrail_costs_no_model_call() -> None:
    llm = scripted("never")
    with pytest.raises(TaskExecutionError) as caught:
        run(
            Task.of(
                "Cook", llm=llm, input_guardrails=[lambda task: "not today" if "Cook" in task.description else None]
            )
        )
    assert isinstance(caught.value.__cause__, GuardrailViolationError)
    assert (caught.value.__cause__.kind, caught.value.__cause__.message) == ("input", "not today")
    assert not llm.calls


def test_e18_output_guardrails_get_the_output_and_the_first_failure_stops(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def long_enough(output: Any) -> bool:
        seen.append(output.raw)
        return len(output.raw) > 10

    with caplog.at_level(logging.DEBUG), pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook", agent=agent("Soup."), output_guardrails=[long_enough, lambda output: 1 / 0]))
    assert isinstance(caught.value.__cause__, GuardrailViolationError)
    assert caught.value.__cause__.kind == "output"
    assert seen == ["Soup."]
