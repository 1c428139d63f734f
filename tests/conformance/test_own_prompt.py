"""E77: prompts of one's own, as the model gets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    ErrorStrategy,
    Phase,
    PromptTemplateError,
    PromptTexts,
    ReviewDecision,
    ScriptedChatModel,
    Task,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.conformance.scene import scripted
from tests.support.openai_server import Answer, OpenAIServer

BARE = Agent(role="Clerk", goal="Sort letters", system_prompt="")
SCHEMA_HEAD = "## Output Format\nReply with one JSON value that fits this schema"


def sent(server: OpenAIServer, number: int = -1) -> list[tuple[str, str]]:
    """The messages of one request."""
    return [(each["role"], each["content"]) for each in server.requests[number].body["messages"]]


def told(model: ScriptedChatModel) -> list[str]:
    """The last message of each request to a script."""
    return [str(call.messages[-1].content) for call in model.calls]


def say(text: str, name: str, **fields: Any) -> Task:
    """A task that puts out a text."""
    return Task.of(f"Say {name}", name=name, handler=lambda _: text, **fields)


def mistakes(ensemble: Ensemble) -> str:
    with pytest.raises(ValidationError) as refused:
        ensemble.validate()
    return str(refused.value)


# --- what is sent ---


def test_e77_an_untyped_task_sends_exactly_its_prompt_and_an_empty_system_prompt_none(
    server: OpenAIServer, llm: str
) -> None:
    task = Task(prompt='Sort {letter} {{letter}} {"a": 1}\n', agent=BARE)
    Ensemble(tasks=[task], llm=llm).run(letter="{context} {letter}")
    assert sent(server) == [("user", 'Sort {context} {letter} {letter} {"a": 1}\n')]


def test_e77_a_system_prompt_may_have_the_texts_of_its_agent(server: OpenAIServer, llm: str) -> None:
    agent = Agent(
        role="{style} clerk",
        goal="Sort",
        background="You are old",
        system_prompt="A {role}. {goal}! {background}. {style} {{role}}",
    )
    Ensemble(tasks=[Task.of("Sort it", agent=agent)], llm=llm).run(style="curt")
    assert sent(server)[0] == ("system", "A curt clerk. Sort! You are old. curt {role}")
    assert sent(server)[1][1].startswith("## Task\nSort it")


def test_e77_context_is_one_text_or_several_by_name_or_that_of_one_task() -> None:
    model = scripted("A", "B", "C")
    a, b = say("first", "a"), say("second {context}", "b")
    Ensemble(
        llm=model,
        tasks=[
            *(a, b),
            Task(prompt="One: {context}.", context=a),
            Task(prompt="All:\n{context}", context=[a, b]),
            Task(prompt="{context.b} before {context.a}", context=[a, b]),
        ],
    ).run()
    assert told(model) == [
        "One: first.",
        "All:\n### a\n\nfirst\n\n### b\n\nsecond {context}",
        "second {context} before first",
    ]


def test_e77_an_output_that_is_not_there_is_told_in_its_place() -> None:
    def fail(_: Any) -> str:
        raise OSError("no disk")

    model = scripted("Done.")
    broken = Task.of("Look", name="look", handler=fail)
    task = Task(prompt="Have {context.a}; and {context.look}", context=["a", "look"])
    Ensemble(tasks=[say("x", "a"), broken, task], llm=model, error_strategy=ErrorStrategy.PARTIAL).run()
    (text,) = told(model)
    assert text.startswith("Have x; and Not available: ")
    assert "no disk" in text


def test_e77_items_fill_a_prompt_one_by_one() -> None:
    model = scripted("A", "B")
    rows = [{"name": "{context}"}, {"name": "Oslo"}]
    task = Task(prompt="{item.name}: {context}", context="a", for_each=rows)
    plan = Ensemble(tasks=[say("x", "a"), task], llm=model).plan()
    Ensemble(tasks=[say("x", "a"), task], llm=model, max_concurrency=1).run()
    assert told(model) == ["{context}: x", "Oslo: x"]
    assert plan.tasks[1].prompt == "{item.name}: {context}"


def test_e77_memory_stands_in_its_place_or_at_the_end() -> None:
    ask = "How high are spring tides?"
    model = scripted("Very.", "A", "B")
    tasks = [
        Task(prompt=ask, memory="tides", name="first"),
        Task(prompt=f"{{memory}}\n{ask}", memory="tides", context="first", name="placed"),
        Task(prompt=f"{ask} {{context}}", memory="tides", context="placed", name="at_end"),
    ]
    tasks[1] = replace(tasks[1], prompt=tasks[1].prompt + " {context}")
    Ensemble(tasks=tasks, llm=model, memory=True).run()
    first, placed, at_end = told(model)
    assert first == ask
    assert placed.startswith("## Memory: tides\n- Asked: ")
    assert placed.endswith(f"\n{ask} Very.")
    assert at_end.startswith(f"{ask} A\n\n## Memory: tides\n- Asked: ")


def test_e77_a_schema_is_added_for_a_model_that_must_be_told_and_left_out_for_one_that_is_held_to_it(
    server: OpenAIServer, llm: str
) -> None:
    server.default = Answer('{"title": "x"}')
    typed = {"agent": BARE, "output_type": {"title": "str"}}
    prompts = ["Give it.", "Give it as {output_format}!"]
    for mode in ("prompt", "native"):
        model = {"model": "test-model", "base_url": server.url, "schema_mode": mode}
        for prompt in prompts:
            Ensemble(tasks=[Task(prompt=prompt, **typed)], llm=model).run()
    texts = [sent(server, number)[0][1] for number in range(4)]
    assert texts[0].startswith(f"Give it.\n\n{SCHEMA_HEAD}")
    assert texts[1].startswith("Give it as Reply with one JSON value")
    assert texts[1].endswith("```!")
    assert texts[2:] == ["Give it.", "Give it as !"]


def send_back_once() -> Any:
    answers = iter([ReviewDecision.retry("Shorter."), ReviewDecision.approve()])
    return lambda _: next(answers)


@pytest.mark.parametrize(
    "prompt, first, second",
    [
        (
            "Write.",
            "Write.",
            "Write.\n\n## Revision Instructions (Attempt 2)\nShorter.\n\n### Previous Output\nLong.",
        ),
        (
            "{revision}Write.",
            "Write.",
            "## Revision Instructions (Attempt 2)\nShorter.\n\n### Previous Output\nLong.Write.",
        ),
        (
            "Write. Last: {previous}",
            "Write. Last: ",
            "Write. Last: Long.\n\n## Revision Instructions (Attempt 2)\nShorter.",
        ),
    ],
)
def test_e77_a_revision_stands_in_its_place_or_at_the_end(prompt: str, first: str, second: str) -> None:
    model = scripted("Long.", "Short.")
    Ensemble(tasks=[Task(prompt=prompt, review="after")], llm=model, review_handler=send_back_once()).run()
    assert told(model) == [first, second]


def test_e77_texts_of_the_ensemble_stand_in_place_of_ours() -> None:
    texts = {
        "correction": "{tone}: {error}",
        "revision": "{attempt}! {feedback} {previous} {{feedback}}",
        "guardrail": "No: {feedback}",
    }

    def object_to_long(output: Any) -> str | None:
        return "too long" if len(output.raw) > 8 else None

    model = scripted("none", '{"a": 1}')
    Ensemble(tasks=[Task.of("Give", output_type={"a": "int"})], llm=model, texts=texts, inputs={"tone": "Curt"}).run()
    assert told(model)[-1] == "Curt: it holds no complete JSON value"
    model = scripted("Long {x}.", "Short.")
    guarded = Task(prompt="Write.", output_guardrails=object_to_long, max_guardrail_retries=1)
    Ensemble(tasks=[guarded], llm=model, texts=PromptTexts(**texts), inputs={"tone": "-"}).run()
    assert told(model)[-1] == "Write.\n\nNo: too long"
    model = scripted("Long {x}.", "Short.")
    reviewed = Task(prompt="Write.", review="after")
    ensemble = Ensemble(tasks=[reviewed], llm=model, texts=texts, inputs={"tone": "-"}, review_handler=send_back_once())
    ensemble.run()
    assert told(model)[-1] == "Write.\n\n2! Shorter. Long {x}. {feedback}"
    assert "Curt" in Ensemble(tasks=[reviewed], texts=texts, inputs={"tone": "Curt"}).to_yaml()


def test_e77_a_review_before_a_task_shows_its_prompt_and_may_change_it() -> None:
    shown = []

    def edit(request: Any) -> ReviewDecision:
        shown.append(request.text)
        return ReviewDecision.edit("Now: {context} {{x}} {y}")

    model = scripted("A")
    task = Task(prompt="Read {context} on {topic}", context="a", review="before")
    Ensemble(tasks=[say("x", "a"), task], llm=model, review_handler=edit, inputs={"topic": "{context}"}).run()
    assert shown == ["Read {context} on {{context}}"]
    assert told(model) == ["Now: x {x} {y}"]


def test_e77_a_reviewer_with_a_prompt_is_told_how_to_answer() -> None:
    model = scripted("APPROVE")
    by = Task(prompt="Look at this: {context}")
    Ensemble(phases=[Phase(name="one", tasks=[say("x", "a")], review=by)], llm=model).run()
    (text,) = told(model)
    assert text.startswith("Look at this: <output>x</output>\n\n")
    assert "RETRY" in text


# --- what is refused ---


def test_e77_what_is_read_has_a_place_and_each_place_something_for_it() -> None:
    a = say("x", "facts")
    assert "no place for what the task reads, 'facts': write {context} or {context.facts}" in mistakes(
        Ensemble(tasks=[a, Task(prompt="Write.", context=a, name="b")])
    )
    assert "reads 'facts'" in (text := mistakes(Ensemble(tasks=[a, Task(prompt="{context.fact}", context=a)])))
    assert "Did you mean 'facts'?" in text
    text = mistakes(Ensemble(tasks=[Task(prompt="{context} {memory} {output_format}", name="b")]))
    assert "reads nothing" in text
    assert "Name its scopes in memory" in text
    assert "no output_type" in text
    with pytest.raises(PromptTemplateError, match=r"Did you mean \{context\} by \{contxt\}\?"):
        Ensemble(tasks=[Task(prompt="{contxt}")]).run()


@pytest.mark.parametrize("name", ["context", "memory", "revision", "previous", "output_format", "role", "goal"])
def test_e77_an_input_that_is_called_like_a_place_is_refused(name: str) -> None:
    agent = Agent(role="Clerk", goal="Sort", system_prompt="{role} {goal} {background}")
    task = Task(
        prompt="{context} {memory} {revision} {previous} {output_format}",
        context="a",
        memory="x",
        output_type={"a": "int"},
        agent=agent,
    )
    ensemble = Ensemble(tasks=[say("x", "a"), task], llm="scripted")
    with pytest.raises(ValidationError, match=f"called '{name}'"):
        ensemble.run({name: "x"})
    with pytest.raises(ValidationError, match=f"called '{name}'"):
        ensemble.map([{name: "x"}])


def test_e77_a_name_that_no_prompt_uses_is_a_variable_as_ever() -> None:
    model = scripted("A")
    Ensemble(tasks=[Task(prompt="{topic}", name="a")], llm=model, inputs={"memory": 1}).run(topic="x")
    assert told(model) == ["x"]


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"handler": str}, "a handler or prompt, not both"),
        ({"ensemble": Ensemble(tasks=[Task.of("x")])}, "an ensemble or prompt, not both"),
        ({"prompt": " "}, "must not be blank"),
    ],
)
def test_e77_a_prompt_is_refused_where_no_model_gets_it(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Task(**{"prompt": "x", **fields})


def test_e77_more_that_is_refused() -> None:
    with pytest.raises(ValidationError, match="system_prompt or a response_format"):
        Agent(role="x", goal="y", system_prompt="", response_format="z")
    with pytest.raises(ValidationError, match="no place for what is wrong"):
        Ensemble(tasks=[Task.of("x")], texts={"correction": "Again."})
    with pytest.raises(ValidationError, match="Did you mean 'revision'"):
        Ensemble(tasks=[Task.of("x")], texts={"revison": "{feedback}"})
    assert "told of its tasks by their descriptions" in mistakes(
        Ensemble(tasks=[Task(prompt="x")], workflow="hierarchical")
    )
    with pytest.raises(ValidationError, match="needs a description"):
        Task()


# --- who knows it ---


def test_e77_a_copy_with_another_prompt_has_its_description() -> None:
    ensemble = Ensemble(tasks=[Task(prompt="Sort {letter}", name="sort")], llm="scripted", inputs={"letter": "a"})
    result = ensemble.variants({"long": {}, "short": {"task.sort.prompt": "Say {letter}"}}).run()
    assert [row.output["sort"].task_description for row in result] == ["Sort a", "Say a"]
    assert "Sort" in str(result.diff("long", "short").prompts)


@pytest.mark.usefixtures("store_path")
def test_e77_plan_trace_comparison_and_reuse_have_it() -> None:
    model = scripted("A", "B", "C")

    def make(prompt: str, system_prompt: str) -> Ensemble:
        agent = Agent(role="Clerk", goal="Sort", system_prompt=system_prompt)
        return Ensemble(tasks=[Task(prompt=prompt, name="sort", agent=agent, memory="x")], llm=model, name="desk")

    plan = make("Sort {x}", "Hi").plan(x="a")
    assert plan.to_dict()["tasks"][0]["prompt"] == "Sort a"
    assert plan.tasks[0].settings["own_prompt"] == "memory and a revision at its end"
    assert make("{memory}{revision}{x}", "").plan(x="a").tasks[0].settings["own_prompt"] == "has a place for all"
    first, same = make("Sort it", "Hi").run(), make("Sort it", "Hi").run(reuse=True)
    assert same["sort"].reused
    other, last = make("Sort all", "Hi").run(reuse=True), make("Sort all", "Ho").run(reuse=True)
    assert not other["sort"].reused
    assert not last["sort"].reused
    assert "prompt" in other.frames.tasks.reuse_reason.iloc[0]
    assert "system prompt" in last.frames.tasks.reuse_reason.iloc[0]
    change = str(first.diff(other).definition)
    assert "[-it-]{+all+}" in change
    assert "prompt: Sort" in change
    assert "[-Hi-]{+Ho+}" in str(other.diff(last).definition)
    versions = [each.events[0].prompts_version for each in (first, same, other)]
    assert versions[0] == versions[1] != versions[2]


def test_e77_without_texts_no_prompt_is_kept() -> None:
    task = Task(prompt="A secret matter", agent=Agent(role="Clerk", goal="Sort", system_prompt="Hush hush"), name="a")
    output = Ensemble(tasks=[task], llm=scripted("x"), capture_mode="metadata").run()
    kept = (
        repr(output.trace.to_dict())
        if hasattr(output.trace, "to_dict")
        else repr([each.to_dict() for each in output.events])
    )
    assert "secret matter" not in kept
    assert "Hush" not in kept


# --- in a cell ---


def test_c36_a_cell_has_places_that_are_no_variables() -> None:
    model = scripted("Ten words.", "an order")
    text = """\
llm: model
agents:
  clerk: {goal: Sort letters, system_prompt: "You are a {role}. {goal}."}
tasks:
  short: {prompt: "Summarise: {letter}", agent: clerk}
  kind:
    prompt: "Letter: {context.short}\\nIs it a complaint?"
    agent: clerk
    context: [short]
"""
    cell = read_cell(text, {"model": model, "letter": "Dear {context}", "context": "no", "role": "no"})
    assert cell.variables == ("letter",)
    cell.build().run()
    assert told(model) == ["Summarise: Dear {context}", "Letter: Ten words.\nIs it a complaint?"]
    assert str(model.calls[0].messages[0].content) == "You are a clerk. Sort letters."


def test_c36_mistakes_of_a_cell_stand_in_their_places() -> None:
    text = """\
inputs: {context: x}
agents: {clerk: {goal: Sort}}
tasks:
  a: {prompt: "Say {letter}"}
  b: {prompt: "Read it", context: a}
  c: {prompt: "{context}", context: a}
  d: {prompt: "{contxt} {context}", context: a}
  e: {prompt: "", context: a}
"""
    with pytest.raises(CellError) as found:
        read_cell(text, {"letter": "x"})
    shown = {each.line: each.message for each in found.value.mistakes}
    assert "no place for what the task reads, 'a'" in shown[5]
    assert "Did you mean 'context'?" in shown[7]
    assert 8 in shown
    with pytest.raises(CellError, match="called 'context'"):
        read_cell(text.replace('  b: {prompt: "Read it", context: a}\n', "").split("  d:")[0], {"letter": "x"})
