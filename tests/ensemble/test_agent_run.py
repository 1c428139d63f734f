"""Agents on a real OpenAI-protocol server, through langchain-openai: loop, tools, retries, deadlines, faults."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    AgentExecutionError,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    Event,
    ExitReason,
    LlmAttemptEnded,
    LlmCallRetried,
    LlmCallStarted,
    LlmToken,
    MaxIterationsExceededError,
    RunEnded,
    RunInterrupted,
    RunStatus,
    ScriptedChatModel,
    SpanStatus,
    Task,
    TaskExecutionError,
    ToolCallCompleted,
    ToolOutcome,
    ValidationError,
)
from tests.support.limits import meet_limit
from tests.support.openai_server import Answer, OpenAIServer


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def explode(text: str) -> str:
    """Fail."""
    raise ValueError(f"no {text} today")


def one_task(llm: Any, *tools: Any, **agent: Any) -> Ensemble:
    worker = Agent(role="Cook", goal="Feed people", tools=tools, **agent)
    return Ensemble(tasks=[Task.of("Make dinner", name="dinner", agent=worker)], llm=llm)


def of_kind(output: EnsembleOutput, kind: type[Event]) -> list[Any]:
    return [event for event in output.events if isinstance(event, kind)]


def test_a_task_without_tools_is_one_request_with_both_prompts(server: OpenAIServer, llm: str) -> None:
    server.script("Soup.")
    output = one_task(llm).run()
    assert output.raw == "Soup."
    (request,) = server.requests
    system, user = request.messages
    assert system["content"].startswith("You are Cook.\n\nYour personal goal is: Feed people\n\n")
    assert user["content"].startswith("## Task\nMake dinner\n\n## Expected Output\n")
    assert "tools" not in request.body
    assert (output.metrics.input_tokens, output.metrics.output_tokens) == server.used_tokens


class Toolless(ScriptedChatModel):
    """A model that refuses tools when they are bound, as some of LangChain's do."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        raise NotImplementedError("no tools here")


def test_a_model_that_does_not_take_the_tools_is_a_fault_of_the_agent_e14() -> None:
    with pytest.raises(TaskExecutionError, match=r"'Cook' can't begin to talk to .*: no tools here") as caught:
        one_task(Toolless(replies=["Soup."]), add).run()
    cause = caught.value.__cause__
    assert isinstance(cause, AgentExecutionError)
    assert isinstance(cause.__cause__, NotImplementedError)


def test_context_outputs_stand_before_the_task_in_order(server: OpenAIServer, llm: str) -> None:
    server.choose = lambda request: Answer(request.prompt.split("\n")[1])
    tasks = [Task.of("First", name="a"), Task.of("Second", name="b"), Task.of("Third", name="c", context=["b", "a"])]
    Ensemble(tasks=tasks, llm=llm).run()
    assert server.requests[-1].prompt.startswith(
        "## Context from Previous Tasks\n"
        "---\n### Agent: Second\nSecond\n---\n"
        "---\n### Agent: First\nFirst\n---\n\n"
        "## Task\nThird"
    )


def test_tool_calls_of_one_turn_are_answered_in_the_order_of_the_requests(server: OpenAIServer, llm: str) -> None:
    async def slow(a: int) -> str:
        """Take long."""
        await asyncio.sleep(0.05)
        return f"slow {a}"

    server.script(Answer(None, calls=[("x", "slow", {"a": 1}), ("y", "add", {"a": 2, "b": 3})]), "Done.")
    output = one_task(llm, slow, add).run()
    answers = [message for message in server.requests[1].messages if message["role"] == "tool"]
    assert [(each["tool_call_id"], each["content"]) for each in answers] == [("x", "slow 1"), ("y", "5")]
    assert output["dinner"].tool_call_count == 2
    assert list(output.frames.tool_calls["tool"]) == ["slow", "add"]


@pytest.mark.parametrize(
    "call, said",
    [
        (("x", "explode", {"text": "soup"}), "Tool error: ValueError: no soup today"),
        (("x", "explod", {"text": "soup"}), "Error: there is no tool named 'explod'. Did you mean 'explode'?"),
        (("x", "add", {"a": 1, "c": 2}), "Error: the arguments of tool 'add' don't fit: missing 'b'; unexpected 'c'."),
        (("x", "add", '{"a": 1,'), "Error: the arguments of tool 'add' don't fit: expected an object with 'a', 'b'"),
    ],
)
def test_what_goes_wrong_in_a_tool_is_told_to_the_model(
    server: OpenAIServer, llm: str, call: tuple[Any, ...], said: str
) -> None:
    server.script(Answer(None, calls=[call]), "Never mind.")
    output = one_task(llm, explode, add).run()
    assert server.requests[1].messages[-1]["content"].startswith(said)
    assert output.raw == "Never mind."
    assert of_kind(output, ToolCallCompleted)[0].outcome is ToolOutcome.FAILURE


def test_two_refusals_over_the_budget_then_the_task_fails(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(None, calls=[(None, "add", {"a": 1, "b": 1})])
    with pytest.raises(TaskExecutionError) as caught:
        one_task(llm, add, max_iterations=2).run()
    cause = caught.value.__cause__
    assert isinstance(cause, MaxIterationsExceededError)
    assert (cause.max_iterations, cause.tool_calls_made) == (2, 2)
    outcomes = [event.outcome for event in of_kind(caught.value.output, ToolCallCompleted)]
    assert outcomes == [ToolOutcome.SUCCESS] * 2 + [ToolOutcome.SKIPPED_MAX_ITERATIONS] * 3
    assert server.requests[3].messages[-1]["content"].startswith("STOP")
    assert len(server.requests) == 5


def test_a_text_after_a_refusal_ends_the_loop(server: OpenAIServer, llm: str) -> None:
    call = Answer(None, calls=[(None, "add", {"a": 1, "b": 1})])
    server.script(call, call, "Two.")
    assert one_task(llm, add, max_iterations=1).run().raw == "Two."


def test_an_empty_reply_is_a_warning_and_an_empty_text(server: OpenAIServer, llm: str) -> None:
    server.script(Answer(None))
    output = one_task(llm).run()
    assert output.raw == ""
    assert "empty reply" in output.warnings[0]


def test_429_waits_as_long_as_the_server_asks_and_each_attempt_is_seen(server: OpenAIServer, llm: str) -> None:
    server.script(Answer.status(429, retry_after=1.2), "Soup.")
    output = one_task(llm).run()
    (retried,) = of_kind(output, LlmCallRetried)
    assert retried.reason == "429"
    assert 1.2 <= retried.delay_s <= 1.5
    assert [event.status for event in of_kind(output, LlmAttemptEnded)] == [SpanStatus.ERROR, SpanStatus.OK]
    assert server.requests[1].opened_at - server.requests[0].opened_at >= 1.2
    attempts = output.frames.attempts
    assert list(attempts["status"]) == ["error", "ok"]
    assert list(attempts["retry_reason"].astype("string").fillna("")) == ["429", ""]
    assert attempts["input_tokens"].sum() == server.used_tokens[0]


@pytest.mark.parametrize("fault", [Answer.status(401), Answer.status(403), Answer.status(400)])
def test_refusals_that_no_retry_can_mend_are_not_retried(server: OpenAIServer, llm: str, fault: Answer) -> None:
    server.script(fault)
    with pytest.raises(TaskExecutionError) as caught:
        one_task(llm).run()
    cause = caught.value.__cause__
    assert isinstance(cause, AgentExecutionError)
    assert str(fault.status_code) in str(cause)
    assert cause.__cause__ is not None
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [Answer.status(500), Answer(cut="before"), Answer(cut="middle")])
def test_server_faults_are_retried_and_the_origin_is_the_last_cause(
    server: OpenAIServer, llm: str, fault: Answer
) -> None:
    server.script(fault, fault)
    with pytest.raises(TaskExecutionError) as caught:
        one_task(llm, max_retries=1).run()
    assert "after 2 attempts" in str(caught.value)
    assert len(server.requests) == 2
    assert caught.value.output.frames.errors["error_type"].notna().all()


def test_a_reply_that_is_no_json_fails_the_task_clearly(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(raw=b'{"choices": [{"mess')
    with pytest.raises(TaskExecutionError, match="got no reply from test-model"):
        one_task(llm, max_retries=0).run()


def test_a_request_over_its_deadline_is_cancelled_and_not_retried(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(delay=60)

    def run(limit_s: float) -> EnsembleOutput:
        with pytest.raises(TaskExecutionError) as caught:
            one_task(llm, llm_timeout=limit_s).run()
        cause = caught.value.__cause__
        assert cause is not None
        assert isinstance(cause.__cause__, DeadlineExceededError)
        assert "a request to test-model by 'Cook'" in str(cause.__cause__)
        return caught.value.output

    output = meet_limit(run, lambda _: server.requests, 0.1)
    assert len(output.frames.attempts) == 1


def test_a_task_over_its_deadline_says_what_was_running(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(delay=60)

    def run(limit_s: float) -> str | None:
        with pytest.raises(TaskExecutionError) as caught:
            Ensemble(tasks=[Task.of("Make dinner", llm=llm, timeout=limit_s)]).run()
        cause = caught.value.__cause__
        assert isinstance(cause, DeadlineExceededError)
        assert (cause.scope, cause.timeout_s) == ("task", limit_s)
        return cause.running

    assert meet_limit(run, lambda _: server.requests, 0.2) == "a request to test-model"


def test_a_run_over_its_deadline_stops_and_keeps_what_was_done(server: OpenAIServer, llm: str) -> None:
    server.choose = lambda request: Answer("Soup.") if "Starter" in request.prompt.splitlines() else Answer(delay=300)

    def run(limit_s: float) -> DeadlineExceededError:
        with pytest.raises(DeadlineExceededError) as caught:
            Ensemble(tasks=[Task.of("Starter", name="a"), Task.of("Main", name="b")], llm=llm).run(timeout=limit_s)
        return caught.value

    error = meet_limit(run, lambda error: "'b'" in str(error), 1.5)
    output = error.output
    assert (output.status, output.exit_reason) == (RunStatus.FAILED, ExitReason.TIMEOUT)
    assert output["a"].raw == "Soup."


def test_replies_stream_only_when_somebody_asks_for_tokens(server: OpenAIServer, llm: str) -> None:
    class Watcher:
        wants_tokens = True

        def __init__(self) -> None:
            self.events: list[Event] = []

        def on_event(self, event: Event) -> None:
            self.events.append(event)

    server.default = Answer("one two three")
    one_task(llm).run()
    watcher = Watcher()
    ensemble = Ensemble(tasks=[Task.of("Make dinner")], llm=llm, listeners=[watcher])
    output = ensemble.run()
    assert [request.is_streamed for request in server.requests] == [False, True]
    pieces = [event for event in watcher.events if isinstance(event, LlmToken)]
    assert "".join(event.text for event in pieces) == output.raw == "one two three"
    (call,) = of_kind(output, LlmCallStarted)
    assert {event.span_id for event in pieces} == {call.span_id}
    assert output.metrics.output_tokens == 7
    assert isinstance(watcher.events[-1], RunEnded)


def test_independent_tasks_are_in_flight_together_within_the_limit(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(until=lambda: server.max_in_flight == 6)
    tasks = [Task.of(f"Dish {number}") for number in range(6)]
    Ensemble(tasks=tasks, llm=llm, workflow="parallel").run()
    assert server.max_in_flight == 6
    server.clear()
    server.default = Answer(until=lambda: server.max_in_flight == 2, delay=0.1)
    output = Ensemble(tasks=tasks, llm=llm, workflow="parallel", max_concurrency=2).run()
    assert server.max_in_flight == 2
    assert (output.frames.tasks["queue_ms"] > 50).sum() == 4


def test_stop_closes_the_connections_and_sends_nothing_more(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(delay=300)
    tasks = [Task.of(f"Dish {number}") for number in range(4)] + [Task.of("Serve", context=[])]
    handle = Ensemble(tasks=tasks, llm=llm, workflow="parallel", max_concurrency=4).start()
    _wait_until(lambda: len(server.requests) == 4)
    handle.cancel()
    with pytest.raises(RunInterrupted):
        handle.result()
    _wait_until(lambda: all(request.closed_at is not None for request in server.requests))
    assert all(request.is_disconnected for request in server.requests)
    assert len(server.requests) == 4
    assert handle.output is not None
    assert handle.output.status is RunStatus.INTERRUPTED
    assert [span.status for span in handle.output.trace.spans if span.kind == "attempt"] == ["cancelled"] * 4


def test_a_run_leaves_no_thread_behind(server: OpenAIServer, llm: str) -> None:
    one_task(llm, add).run()
    before = {thread.ident for thread in threading.enumerate()}
    server.script(Answer(None, calls=[("x", "add", {"a": 1, "b": 2})]), "Done.")
    one_task(llm, add).run()
    _wait_until(lambda: not [t for t in threading.enumerate() if t.ident not in before])


@pytest.mark.parametrize(
    "status, bad_key, no_key",
    [
        (
            401,
            "did not accept the key in OPENAI_API_KEY. Set a valid one.",
            "did not accept a request without a key. Put its key into a variable, and name that one",
        ),
        (
            403,
            "accepts the key in OPENAI_API_KEY, but not for this model.",
            "does not serve this model without a key. If it takes one, name its variable",
        ),
    ],
)
@pytest.mark.parametrize("variables", [[], ["OPENAI_API_KEY"], ["OPENAI_API_KEY", "OPENAI_BASE_URL"]])
def test_a_server_that_wants_a_key_is_told_with_what_to_write(
    server: OpenAIServer,
    llm: str,
    monkeypatch: pytest.MonkeyPatch,
    variables: list[str],
    status: int,
    bad_key: str,
    no_key: str,
) -> None:
    for name, value in {"OPENAI_API_KEY": "a-key-of-openai", "OPENAI_BASE_URL": server.url}.items():
        if name in variables:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name, raising=False)
    server.script(Answer(status_code=status))
    with pytest.raises(TaskExecutionError) as caught:
        one_task(llm).run()
    line = f"llm: {{model: {llm[7:].partition('@')[0]}, base_url: {server.url}, api_key_env: NAME_OF_ITS_KEY}}"
    wanted = bad_key if "OPENAI_BASE_URL" in variables else f"{no_key}: {line}."
    assert str(caught.value).endswith(wanted)
    assert "a-key-of-openai" not in str(server.requests[0].headers) or "OPENAI_BASE_URL" in variables


def test_an_address_without_a_path_is_told_what_most_servers_have(server: OpenAIServer) -> None:
    server.script(Answer(status_code=404))
    bare_url = server.url.removesuffix("/v1")
    with pytest.raises(TaskExecutionError) as caught:
        one_task(f"openai:m@{bare_url}").run()
    assert str(caught.value).endswith(
        f"404. The server says: 'scripted fault'. The server does not know this address, which has no path: most "
        f"servers are at {bare_url}/v1."
    )


def test_a_task_out_of_time_between_two_attempts_says_so_e38(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(status_code=429, retry_after=60)

    def run(limit_s: float) -> str:
        with pytest.raises(TaskExecutionError) as caught:
            Ensemble(tasks=[Task.of("Make dinner", timeout=limit_s)], llm=llm).run()
        return str(caught.value)

    waiting = re.compile(r"running was: a wait of [67][0-9.]+ s before a request to test-model")
    assert meet_limit(run, waiting.search, 0.3)


def test_a_missing_key_is_found_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(variable, raising=False)
    ran: list[str] = []
    tasks = [Task.of("Cook", handler=lambda _: ran.append("cooked")), Task.of("Serve", llm="openai:gpt-4o-mini")]
    with pytest.raises(ValidationError, match="OPENAI_API_KEY"):
        Ensemble(tasks=tasks).run()
    assert ran == []


def test_the_same_model_serves_two_loops_and_the_loop_thread_in_turn(server: OpenAIServer) -> None:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    model = ChatOpenAI(model="test-model", base_url=server.url, api_key=SecretStr("k"))
    ensemble = one_task(model)
    for _ in range(2):
        assert ensemble.run().raw == "ok"
        assert asyncio.run(ensemble.arun()).raw == "ok"
    assert len(server.requests) == 4


def test_two_runs_of_one_ensemble_side_by_side_do_not_mix(server: OpenAIServer, llm: str) -> None:
    server.choose = lambda request: Answer("soup" if "soup" in request.prompt else "salad", delay=0.05)
    ensemble = Ensemble(tasks=[Task.of("Make {dish}")], llm=llm)
    soup, salad = ensemble.start(dish="soup"), ensemble.start(dish="salad")
    assert (soup.result().raw, salad.result().raw) == ("soup", "salad")
    assert soup.run_id != salad.run_id


def test_astream_gives_every_event_in_order_and_streams(server: OpenAIServer, llm: str) -> None:
    server.default = Answer("one two")

    async def collect() -> list[Event]:
        return [event async for event in one_task(llm).astream()]

    events = asyncio.run(collect())
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], RunEnded)
    assert "".join(event.text for event in events if isinstance(event, LlmToken)) == "one two"


def _wait_until(holds: Any, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def test_a_keyword_that_no_text_uses_is_refused_with_the_right_word() -> None:
    ensemble = Ensemble(tasks=[Task.of("Cook {dish}")], llm="scripted")
    with pytest.raises(ValidationError, match=r"No text uses 'timout'\. Did you mean 'timeout'\?"):
        ensemble.run(dish="soup", timout=5)


def test_the_price_of_another_server_is_unknown_whatever_its_models_are_called(server: OpenAIServer) -> None:
    output = one_task(f"openai:gpt-4o-mini@{server.url}").run()
    assert output.metrics.cost is None
    assert not output.metrics.cost_complete
    assert list(output.frames.attempts["provider"]) == ["127.0.0.1"]


def test_a_cancelled_arun_carries_what_was_done(server: OpenAIServer, llm: str) -> None:
    server.script("Soup.")
    server.default = Answer(delay=30)
    ensemble = Ensemble(tasks=[Task.of("Starter", name="a"), Task.of("Main", name="b")], llm=llm)

    async def stopped() -> EnsembleOutput:
        run = asyncio.ensure_future(ensemble.arun())
        await server.opened(2)
        run.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await run
        output: EnsembleOutput = caught.value.output  # type: ignore[attr-defined]
        return output

    output = asyncio.run(stopped())
    assert output["a"].raw == "Soup."
    assert output.status is RunStatus.INTERRUPTED


def test_the_words_of_an_error_without_a_number_are_in_the_message() -> None:
    model = ScriptedChatModel(replies=[RuntimeError("kaboom")])
    with pytest.raises(TaskExecutionError, match="RuntimeError: kaboom"):
        one_task(model).run()


def test_a_task_output_prints_in_one_line(server: OpenAIServer, llm: str) -> None:
    server.script("Soup. " * 100)
    text = repr(one_task(llm).run()["dinner"])
    assert text.startswith("<TaskOutput dinner (Cook) in ")
    assert len(text) < 200


def test_a_handler_that_takes_no_argument_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValidationError, match="must take one argument, a TaskInput"):
        Task.of("Cook", handler=lambda: "soup")


def test_a_script_that_ends_during_a_run_stops_it_without_noise() -> None:
    script = (
        "import asyncio\n"
        "from ensemble_notebook import Ensemble, Task\n"
        "async def sleep(task): await asyncio.sleep(60)\n"
        "handle = Ensemble(tasks=[Task.of('Sleep', handler=sleep)]).start()\n"
        "while len(handle.events) < 3: pass\n"
    )
    done = subprocess.run([sys.executable, "-W", "default", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
