"""What models are told, whole: from Python and from cells (E2, E10, E16, E58, E67)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from ensemble_notebook import (
    Agent,
    DeadlineExceededError,
    Ensemble,
    EnsembleOutput,
    ErrorStrategy,
    OutputParsingError,
    Review,
    ReviewDecision,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolUse,
    TurnStarted,
)
from ensemble_notebook.cell.cell_reader import read_cell
from tests.conformance.scene import agent, done, of, prompts, run, scripted
from tests.support.limits import meet_limit
from tests.support.openai_server import Answer, OpenAIServer

LONG = "Write a poem about tides, " + "and about the moon, " * 40


def run_cell(text: str, **names: Any) -> EnsembleOutput:
    """What `%%ensemble` runs for this text, in a notebook with these variables."""
    return read_cell(text, names).build().run()


# --- E2 and the headings ---


def test_e2_a_derived_agent_has_the_goal_of_its_role_so_that_a_text_is_sent_once() -> None:
    output = run(Task.of(LONG), Task.of("Write an ode"), llm=scripted("A", "B"))
    (first, user), (second, _) = prompts(output)
    assert first == second
    assert (first + user).count(LONG) == 1


def test_e2_a_manager_is_told_the_text_of_a_task_once() -> None:
    ask = ToolUse("delegate_task", {"agent_role": "Writer", "task_description": "Begin."})
    llm = scripted(ask, "Tides.", "Done.")
    run(Task.of(LONG), Task.of("Write an ode"), llm=llm, workflow="hierarchical")
    assert sum(str(each.content).count(LONG) for each in llm.calls[0].messages) == 1


def test_e2_a_task_of_a_cell_is_sent_once() -> None:
    output = run_cell(f"llm: model\ntasks: ['{LONG}']", model=scripted("A"))
    assert "".join(prompts(output)[0]).count(LONG) == 1


def test_e10_a_heading_says_at_most_200_characters_of_what_a_task_was_given() -> None:
    lines = "First line,\nsecond line: " + "x" * 300
    output = run(
        done("short"),
        Task(description=lines, expected_output="A text", name="long", agent=agent("Long.")),
        Task.of("Sum up", agent=agent("Sum."), context=["short", "long"]),
    )
    heading = ("First line, second line: " + "x" * 300)[:200] + "…"
    assert "### Handler: Do short\nshort\n---\n" in prompts(output)[-1][1]
    assert f"### Cook: {heading}\nLong.\n---\n" in prompts(output)[-1][1]
    assert output["long"].task_description == lines


@pytest.mark.parametrize("count", [3, 30])
def test_e10_contexts_grow_by_what_tasks_say_and_not_by_what_they_were_given(count: int) -> None:
    texts = [f"Summarize this: {number} {'word ' * 250}" for number in range(count)]
    tasks = "".join(f"  s{number}: '{text}'\n" for number, text in enumerate(texts))
    names = ", ".join(f"s{number}" for number in range(count))
    cell = f"llm: model\ntasks:\n{tasks}  all: {{description: Put it together, context: [{names}]}}\n"
    output = run_cell(cell, model=scripted(*["A short summary."] * count, "All."))
    assert len(prompts(output)[-1][1]) < count * 300 + 500


# --- E16, corrections ---


class Dish(BaseModel):
    name: str
    minutes: int


SOUP = '{"name": "soup", "minutes": 20}'


def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what}: 2 kg"


def correction_run(llm: ScriptedChatModel, **settings: Any) -> EnsembleOutput:
    """A typed task that reads another one and uses a tool; its first reply is of no use."""
    cook = Agent(role="Cook", goal="Feed people", llm=llm, tools=[weigh])
    dish = Task.of("Cook with it", name="dish", agent=cook, context=["shop"], output_type=Dish)
    return Ensemble(tasks=[done("shop", handler=lambda task: "two leeks"), dish]).run(**settings)


def test_e16_a_correction_goes_on_with_the_conversation() -> None:
    llm = scripted(ToolUse("weigh", {"what": "leeks"}), "Soup!", SOUP)
    output = correction_run(llm)
    *before, failed, correction = llm.calls[2].messages
    assert [each.type for each in before] == ["system", "human", "ai", "tool"]
    assert [each.content for each in before] == [each.content for each in llm.calls[1].messages]
    assert "two leeks" in str(before[1].content)
    assert before[3].content == "leeks: 2 kg"
    assert (failed.type, failed.content) == ("ai", "Soup!")
    assert correction.type == "human"
    assert "it holds no complete JSON value" in str(correction.content)
    assert '"minutes"' in str(correction.content)
    assert "Soup!" not in str(correction.content)
    assert output["dish"].raw == SOUP
    assert output["dish"].parsed_output == Dish(name="soup", minutes=20)


def test_e16_a_correction_may_use_tools_and_is_in_trace_tokens_and_cost() -> None:
    llm = scripted("Soup!", ToolUse("weigh", {"what": "leeks"}), SOUP)
    output = correction_run(llm)
    assert output["dish"].tool_call_count == 1
    assert llm.calls[1].tools == ("weigh",)
    assert [each.is_correction for each in of(output, TurnStarted)] == [False, True, False]
    calls = output.frames.llm_calls
    assert len(calls) == 3
    assert output.metrics.input_tokens == sum(calls["input_tokens"])
    assert list(calls["input_tokens"]) == sorted(calls["input_tokens"])
    said = [(each.role, each.text) for each in output["dish"].trace.messages]
    assert [role for role, _ in said].count("user") == 2
    assert ("tool", "leeks: 2 kg") in said


def test_e16_corrections_are_recorded_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "dish.recording"
    first = correction_run(scripted(ToolUse("weigh", {"what": "leeks"}), "Soup!", "Still soup!", SOUP), record=path)
    again = correction_run(scripted(), replay=path)
    assert again["dish"].raw == first["dish"].raw == SOUP
    assert again.metrics.llm_call_count == 4
    assert again.metrics.input_tokens == first.metrics.input_tokens
    assert path.read_text().count("could not be read") == 2


def test_e16_a_script_answers_corrections_by_rules_and_by_lists() -> None:
    rules = {"could not be read": SOUP, "Cook with it": "Soup!"}
    assert correction_run(ScriptedChatModel.match(rules))["dish"].raw == SOUP
    listed = {"Cook with it": ["Soup!", "Still soup!", SOUP]}
    assert correction_run(ScriptedChatModel.match(listed))["dish"].raw == SOUP


def test_e16_a_correction_in_a_cell_keeps_what_the_task_read() -> None:
    llm = scripted("two leeks", "Soup!", SOUP)
    cell = "llm: model\ntasks:\n- Shop\n- {description: Cook, name: dish, output_type: {name: str, minutes: int}}\n"
    output = run_cell(cell, model=llm)
    assert output["dish"].raw == SOUP
    assert "two leeks" in str(llm.calls[2].messages[1].content)


# --- E58 ---

CUT = ScriptedChatModel(replies=["High water is at four, and low water at ten."], max_tokens=5, model_name="brief")


def test_e58_a_text_that_is_cut_off_stays_with_a_warning_that_names_task_and_remedy() -> None:
    output = run(Task.of("Tell of tides", name="tides", llm=CUT.model_copy()))
    assert output.raw == "High water is at four"
    (warning,) = output.warnings
    assert warning == (
        "A reply of agent 'Writer' for task 'tides' was cut off: the max_tokens of brief is 5 (length). "
        "Give the model a higher max_tokens, or ask for a shorter answer."
    )
    assert output.status is RunStatus.COMPLETED


def test_e58_in_a_cell_too_where_a_budget_cuts() -> None:
    llm = scripted("word " * 3000)
    cell = "llm: model\nbudget: {max_tokens: 2000}\ntasks:\n  tides: Tell of tides\n"
    (warning,) = [each for each in run_cell(cell, model=llm).warnings if "cut off" in each]
    assert "task 'tides'" in warning
    assert "Raise the budget" in warning


@pytest.mark.parametrize("reason, remedy", [("content_filter", "another model"), ("length", "a shorter answer")])
def test_e58_a_provider_says_why_it_ended(server: OpenAIServer, llm: str, reason: str, remedy: str) -> None:
    server.script(Answer("Half of", finish_reason=reason))
    output = run(Task.of("Tell of tides", name="tides", llm=llm))
    assert output.raw == "Half of"
    (warning,) = output.warnings
    assert "'tides'" in warning
    assert remedy in warning


PARTS = '{"title": "Menu", "first": {"name": "soup", "minutes": 20}, "second": {"name": "pie", "minutes": 50}}'


@pytest.mark.parametrize("reply", [PARTS[:-9], f"Here you are: {SOUP} and more to", f"```json\n{SOUP}\n```\nThen"])
def test_e58_of_a_typed_reply_that_is_cut_off_no_part_is_the_answer(server: OpenAIServer, llm: str, reply: str) -> None:
    server.script(Answer(reply, finish_reason="length"))
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook", name="dish", llm=llm, output_type=Dish))
    cause = caught.value.__cause__
    assert isinstance(cause, OutputParsingError)
    assert "it was cut off: it reached the longest reply that test-model gives" in str(cause)
    assert "max_output_retries" not in str(cause)
    assert len(server.requests) == 1
    assert "task 'dish'" in caught.value.output.warnings[0]


@pytest.mark.parametrize("reply", [SOUP, f"```json\n{SOUP}\n```"])
def test_e58_a_typed_reply_that_is_cut_off_counts_where_it_is_one_whole_value(
    server: OpenAIServer, llm: str, reply: str
) -> None:
    server.script(Answer(reply, finish_reason="length"))
    output = run(Task.of("Cook", name="dish", llm=llm, output_type=Dish))
    assert output["dish"].parsed_output == Dish(name="soup", minutes=20)
    assert "'dish'" in output.warnings[0]


def test_e58_a_fallback_takes_over_from_a_reply_that_was_cut_off() -> None:
    brief = scripted(PARTS)
    brief.max_tokens = 30
    agents = [Agent(role=role, goal="Cook", llm=llm) for role, llm in (("Brief", brief), ("Long", scripted(SOUP)))]
    output = run(Task.of("Cook", name="dish", agent=agents[0], fallback=agents[1], output_type=Dish))
    assert output["dish"].parsed_output == Dish(name="soup", minutes=20)


# --- E67, structured output ---


@pytest.mark.parametrize("shape", ["{ ", "[[", '{"a":[', '["a["', '{"a":"', "[1,", '["', "```\n{", '{"a":{"b":1}, '])
def test_e67_reading_a_reply_takes_time_in_proportion_to_its_length(shape: str) -> None:
    hostile = (shape * 200_000)[:400_000]
    started = time.process_time()
    output = run(Task.of("Cook", name="dish", llm=scripted(hostile, SOUP), output_type=Dish))
    assert output["dish"].raw == SOUP
    assert time.process_time() - started < 10


def test_e67_a_run_is_stopped_while_it_reads_a_long_reply() -> None:
    is_over = threading.Event()

    class Slow(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def look(cls, text: str) -> str:
            is_over.wait(60)
            return text

    def warn(limit_s: float) -> str:
        task = Task.of("Cook", name="dish", llm=scripted(f'{{"text": "{"x" * 200_000}"}}'), output_type=Slow)
        with pytest.raises(DeadlineExceededError) as caught:
            Ensemble(tasks=[task]).run(timeout=limit_s)
        return "\n".join(caught.value.output.warnings[-1:])

    try:
        assert meet_limit(warn, lambda warning: "reading a reply of 200,012 characters" in warning, 1)
    finally:
        is_over.set()


CITIES = [{"city": "Paris"}, {"city": "Rome"}, {"town": "Bath"}]


def read_items(description: str, items: Any = CITIES, **fields: Any) -> str:
    """The context of a task that reads another one, which runs for each city."""
    first = Task.of(description, name="each", for_each=items, handler=lambda given: given.item["city"], **fields)
    llm = scripted("Joined.")
    last = Task.of("Join", name="join", context=["each"], agent=Agent(role="Cook", goal="Feed", llm=llm))
    decision = ReviewDecision.edit("Both are nice.")
    output = run(first, last, error_strategy=ErrorStrategy.PARTIAL, review_handler=lambda _: decision)
    return prompts(output)[-1][1].partition("## Task")[0]


def test_e53_each_item_is_read_under_what_it_was_asked() -> None:
    context = read_items("About {item.city}", CITIES[:2])
    assert "---\n### Handler: About Paris\nParis\n---\n---\n### Handler: About Rome\nRome\n---\n" in context
    assert "{item" not in context
    assert "each[0]" not in context


def test_e53_items_that_were_all_asked_the_same_are_read_as_one() -> None:
    assert "### Handler: Say it\n### each[0]\n\nParis\n\n### each[1]\n\nRome\n---\n" in read_items("Say it", CITIES[:2])
    long = "Say " + "very " * 60
    assert f"### Handler: {long[:200]}…\n### each[0]\n\nParis\n" in read_items(long + "{item.city}", CITIES[:2])


def test_e53_what_a_person_wrote_is_read_under_what_all_items_were_asked() -> None:
    context = read_items("About {item.city}", CITIES[:2], review=Review(timing="after"))
    assert "---\n### Handler: About Paris; About Rome\nBoth are nice.\n---\n" in context


def test_e53_an_item_that_failed_is_named_by_what_it_was_asked_where_that_is_known() -> None:
    context = read_items("About {item.city}", output_guardrails=lambda given: "no" if given.raw == "Rome" else None)
    assert "### Handler: About Paris\nParis\n---" in context
    assert "### Handler: About Rome\nNot available" in context
    assert "### Handler: each[2]\nNot available" in context
