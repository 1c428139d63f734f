"""Failure and recovery: retry, fallback, strategies, statuses, interrupt, timeouts, logs (E30 to E35, E38, E39)."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    AgentExecutionError,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    Fail,
    LlmAttemptStarted,
    LlmCallRetried,
    ParallelExecutionError,
    Phase,
    PhaseExecutionError,
    RunInterrupted,
    RunStatus,
    SpanStatus,
    Task,
    TaskExecutionError,
    TaskFailed,
    TaskFellBack,
    TaskInput,
    TaskInputPrepared,
)
from tests.conformance.scene import agent, done, lost, of, run, run_cell, scripted
from tests.support.limits import meet_limit
from tests.support.openai_server import Answer, OpenAIServer


def skips(output: EnsembleOutput) -> dict[str, str]:
    return {each.name: each.reason for each in output.skipped}


# --- E30, E31 ---


@pytest.mark.parametrize(
    "fault",
    [
        Answer.status(429, retry_after=0),
        Answer.status(500),
        Answer.status(503),
        Answer.status(408),
        Answer(cut="before"),
    ],
)
def test_e30_a_transient_fault_is_tried_again_visibly(server: OpenAIServer, llm: str, fault: Answer) -> None:
    server.script(fault, Answer("Soup."))
    output = run(Task.of("Cook"), llm=llm)
    assert output.raw == "Soup."
    (retried,) = of(output, LlmCallRetried)
    assert retried.attempt == 1
    assert 1.0 <= retried.delay_s <= 1.25
    assert len(of(output, LlmAttemptStarted)) == len(server.requests) == 2


def test_e30_a_longer_wait_that_the_server_asks_for_is_kept(server: OpenAIServer, llm: str) -> None:
    server.script(Answer.status(429, retry_after=1.5), Answer("Soup."))
    (retried,) = of(run(Task.of("Cook"), llm=llm), LlmCallRetried)
    assert retried.reason == "429"
    assert 1.5 <= retried.delay_s <= 1.875


DAY = Fail(429, retry_after=86_400)


def test_e30_a_wait_that_is_too_long_is_not_begun_and_the_fallback_takes_over() -> None:
    llm = scripted(DAY, "Too late.")
    task = Task.of("Cook", agent=Agent(role="Cook", goal="Cook", llm=llm), fallback=agent("Soup.", role="Sous-chef"))
    output = run(task)
    assert (output.raw, len(llm.calls)) == ("Soup.", 1)
    assert of(output, LlmCallRetried) == []


def test_e30_without_a_fallback_the_task_fails_and_says_when_the_server_will_serve_again() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook"), llm=scripted(DAY, "Too late."))
    assert re.search(r"The server will serve again at 20\d\d-\d\d-\d\d \d\d:\d\d UTC\.", str(caught.value))
    assert "It asks to wait for 86,400.0 s, longer than max_retry_wait, which is 60.0 s." in str(caught.value)


@pytest.mark.parametrize(
    "task_wait, agent_wait, spec, is_begun",
    [
        (None, None, "", True),
        (None, None, ", max_retry_wait: 1", False),
        (None, 1, "", False),
        (None, 3, ", max_retry_wait: 1", True),
        (1, None, "", False),
        (3, 1, ", max_retry_wait: 1", True),
        (1, 3, ", max_retry_wait: 3", False),
    ],
)
def test_e30_the_nearest_word_on_the_longest_wait_counts(
    server: OpenAIServer, task_wait: float | None, agent_wait: float | None, spec: str, is_begun: bool
) -> None:
    server.script(Answer.status(429, retry_after=1.2), "Soup.")
    cell = (
        f"agents: {{Cook: {{goal: Cook, llm: {{model: m, base_url: '{server.url}'{spec}}}"
        + ("" if agent_wait is None else f", max_retry_wait: {agent_wait}")
        + "}}\ntasks: [{name: cook, description: Cook, agent: Cook"
        + ("" if task_wait is None else f", max_retry_wait: {task_wait}")
        + "}]"
    )
    if is_begun:
        assert run_cell(cell).raw == "Soup."
    else:
        with pytest.raises(TaskExecutionError, match=r"asks to wait for 1\.2 s, longer than max_retry_wait.*1\.0 s"):
            run_cell(cell)
    assert len(server.requests) == 1 + is_begun


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_e30_other_refusals_are_final_and_hidden_retries_are_off(server: OpenAIServer, llm: str, status: int) -> None:
    server.script(Answer.status(status))
    with pytest.raises(TaskExecutionError):
        run(Task.of("Cook"), llm=llm)
    assert len(server.requests) == 1


def test_e30_max_retries_bounds_the_attempts() -> None:
    llm = scripted(*[Fail(500, retry_after=0)] * 3)
    with pytest.raises(TaskExecutionError, match="after 2 attempts"):
        run(Task.of("Cook", agent=Agent(role="Cook", goal="Cook", llm=llm, max_retries=1)))
    assert len(llm.calls) == 2


def test_e31_a_fallback_runs_once_with_the_same_input_and_is_marked() -> None:
    task = Task.of("Cook", name="cook", agent=agent(Fail(401)), fallback=agent("Soup.", role="Sous-chef"))
    output = run(task)
    assert (output["cook"].raw, output["cook"].agent_role, output["cook"].from_fallback) == ("Soup.", "Sous-chef", True)
    first, second = of(output, TaskInputPrepared)
    assert first.user_prompt == second.user_prompt
    (fell,) = of(output, TaskFellBack)
    assert fell.agent == "Sous-chef"
    assert "401" in str(fell.error)
    assert list(output.frames.spans.query("kind == 'llm'")["is_fallback"]) == [False, True]
    assert output.status is RunStatus.COMPLETED_WITH_WARNINGS


def test_e31_a_fallback_that_fails_is_final() -> None:
    task = Task.of("Cook", agent=agent(Fail(401)), fallback=agent(Fail(403), role="Sous-chef"))
    with pytest.raises(TaskExecutionError, match="403"):
        run(task)


# --- E32, E34 ---


def test_e32_fail_fast_starts_nothing_new_and_lets_running_tasks_finish() -> None:
    failed = threading.Event()

    def burn(task: TaskInput) -> str:
        raise ValueError("burnt")

    def finish(task: TaskInput) -> str:
        assert failed.wait(20)
        return "done"

    def hear(event: Any) -> None:
        if isinstance(event, TaskFailed):
            failed.set()

    tasks = [done("burn", handler=burn), done("finish", handler=finish), done("later", context=["finish"])]
    with pytest.raises(TaskExecutionError) as caught:
        run(*tasks, workflow="parallel", listeners=[hear])
    assert [each.name for each in caught.value.completed_task_outputs] == ["finish"]
    assert set(skips(caught.value.output)) == {"later"}


@pytest.mark.parametrize("workflow", ["parallel", "sequential"])
def test_e32_continue_on_error_skips_dependents_and_runs_the_rest(workflow: str) -> None:
    tasks = [lost("a"), done("b", context=["a"]), done("c", context=["b"]), done("d"), lost("e")]
    with pytest.raises(ParallelExecutionError) as caught:
        run(*tasks, workflow=workflow, error_strategy="continue_on_error")
    assert sorted(caught.value.failed_task_causes) == ["a", "e"]
    assert [each.name for each in caught.value.completed_task_outputs] == ["d"]
    assert set(skips(caught.value.output)) == {"b", "c"}


def test_e32_partial_runs_what_has_at_least_one_input_and_names_the_missing_one() -> None:
    llm = scripted("I do what I can.")
    tasks = [
        lost("a"),
        done("b"),
        done("only_a", context=["a"]),
        done("behind", context=["only_a"]),
        Task.of("Join", name="join", context=["a", "b"], llm=llm),
    ]
    output = run(*tasks, workflow="parallel", error_strategy="partial")
    assert sorted(each.name for each in output.task_outputs) == ["b", "join"]
    assert set(skips(output)) == {"only_a", "behind"}
    prompt = of(output, TaskInputPrepared)[-1].user_prompt
    assert "### Handler: Do a\nNot available: " in prompt
    assert "a failed" in prompt


def test_e32_partial_in_phases_replaces_only_the_raise() -> None:
    phases = [Phase.of("a", lost("x")), Phase.of("b", done("y"), after=["a"]), Phase.of("c", done("z"))]
    output = Ensemble(phases=phases, error_strategy="partial").run()
    assert [each.name for each in output.task_outputs] == ["z"]
    assert {"b", "y"} <= set(skips(output))
    with pytest.raises(PhaseExecutionError):
        Ensemble(phases=phases).run()


@pytest.mark.parametrize(
    "tasks, status",
    [
        ([done("a"), done("b")], RunStatus.COMPLETED),
        ([lost("a"), done("b")], RunStatus.COMPLETED_WITH_WARNINGS),
        ([lost("a"), lost("b")], RunStatus.FAILED),
    ],
)
def test_e34_the_status_says_how_much_of_it_worked(tasks: list[Task], status: RunStatus) -> None:
    assert run(*tasks, workflow="parallel", error_strategy="partial").status is status


@pytest.mark.parametrize("is_warning", [True, False])
def test_e34_a_run_that_fallbacks_saved_has_the_status_that_its_setting_says(is_warning: bool) -> None:
    task = Task.of("Cook", name="cook", agent=agent(Fail(401)), fallback=agent("Soup.", role="Sous-chef"))
    output = run(task, done("plate"), fallback_is_warning=is_warning)
    if is_warning:
        assert (output.status, output.warnings) == (RunStatus.COMPLETED_WITH_WARNINGS, ())
    else:
        warning = "Task 'cook' was done by its fallback 'Sous-chef'."
        assert (output.status, output.warnings) == (RunStatus.COMPLETED, (warning,))


def test_e34_a_bearable_failure_is_a_warning_whatever_is_said_of_fallbacks() -> None:
    tasks = [lost("a"), done("b")]
    output = run(*tasks, workflow="parallel", error_strategy="partial", fallback_is_warning=False)
    assert (output.status, output.warnings) == (RunStatus.COMPLETED_WITH_WARNINGS, ())


def test_e34_the_setting_stands_in_a_cell() -> None:
    output = run_cell("fallback_is_warning: false\nllm: scripted\ntasks: [Say hello]")
    assert (output.ensemble.fallback_is_warning, output.status) == (False, RunStatus.COMPLETED)


# --- E35, E38, E39 ---


def test_e35_a_stop_closes_requests_at_once_and_keeps_what_is_done(server: OpenAIServer, llm: str) -> None:
    server.script(Answer("Soup."), Answer("never", delay=300))
    handle = Ensemble(tasks=[Task.of("Cook", name="cook"), Task.of("Serve"), Task.of("Wash")], llm=llm).start()
    asyncio.run(server.opened(2))
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result(timeout=30)
    asyncio.run(asyncio.wait_for(server.closed(1), 20))
    output = caught.value.output
    assert (output.status, output["cook"].raw, len(server.requests)) == (RunStatus.INTERRUPTED, "Soup.", 2)
    assert [each.status for each in of(output, TaskFailed)] == [SpanStatus.CANCELLED]
    assert Ensemble(tasks=[done("next")]).run().raw == "next"


def test_e35_a_blocking_tool_is_left_to_itself_and_named() -> None:
    started, over = threading.Event(), threading.Event()

    def hang(task: TaskInput) -> str:
        started.set()
        over.wait(300)
        return "never"

    handle = Ensemble(tasks=[done("hang", handler=hang)]).start()
    assert started.wait(20)
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result(timeout=60)
    over.set()
    assert "Still running and left to itself: handler of hang." in caught.value.output.warnings


def test_e35_a_cancelled_arun_leaves_its_output_on_the_error() -> None:
    async def main() -> Any:
        began = asyncio.Event()

        async def sleep(task: TaskInput) -> str:
            began.set()
            await asyncio.sleep(60)
            return "never"

        running = asyncio.ensure_future(Ensemble(tasks=[done("a"), done("b", handler=sleep)]).arun())
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await running
        return caught.value

    assert [each.name for each in asyncio.run(main()).output.task_outputs] == ["a"]


def test_e38_deadlines_say_what_was_running(server: OpenAIServer, llm: str) -> None:
    server.default = Answer(delay=60)

    def cook(limit_s: float) -> TaskExecutionError:
        with pytest.raises(TaskExecutionError) as caught:
            run(Task.of("Cook", agent=Agent(role="Cook", goal="Cook", llm=llm, llm_timeout=limit_s)))
        return caught.value

    error = meet_limit(cook, lambda _: server.requests, 0.1)
    assert isinstance(error.__cause__, AgentExecutionError)
    deadline = error.__cause__.__cause__
    assert isinstance(deadline, DeadlineExceededError)
    assert (deadline.scope, deadline.running) == ("model request", "a request to test-model by 'Cook'")
    assert len(of(error.output, LlmAttemptStarted)) == 1

    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook", llm=llm, timeout=0.3))
    assert isinstance(caught.value.__cause__, DeadlineExceededError)
    assert caught.value.__cause__.scope == "task"


def test_e39_logs_are_silent_by_default_and_carry_the_run(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(logging.getLogger("ensemble_notebook").handlers[0], logging.NullHandler)
    with caplog.at_level(logging.INFO, "ensemble_notebook"):
        output = run(Task.of("Cook", name="cook", agent=agent("Soup.")))
    facts: list[Any] = [record for record in caplog.records if getattr(record, "task", None) == "cook"]
    assert {(each.run_id, each.agent_role) for each in facts} == {(output.run_id, "Cook")}
    assert "Soup." not in caplog.text


def test_e39_verbose_shows_prompts_and_replies_at_info(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ensemble_notebook"):
        run(Task.of("Cook", agent=agent("Soup.", verbose=True)))
    assert "You are Cook." in caplog.text
    assert "Soup." in caplog.text
