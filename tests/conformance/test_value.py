"""Values in prompts, variables in agents, and what tools give beside their text (E6, E7, E13, E16, E47)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
import typing_extensions
from pydantic import BaseModel

from ensemble_notebook import (
    Agent,
    DelegationPolicyResult,
    DelegationStarted,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    HierarchicalConstraints,
    LlmCallCompleted,
    PromptTemplateError,
    Review,
    ReviewDecision,
    Task,
    TaskExecutionError,
    ToolCallCompleted,
    ToolResult,
    ToolUse,
    ValidationError,
    config,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.conformance.scene import agent, done, lost, of, prompts, run, scripted

SALES = pandas.DataFrame({"city": ["Brest", 'Port "A"', None] * 100, "sold": range(300)})


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


class Place(BaseModel):
    name: str
    at: Point


class Figure:
    """As matplotlib has it."""

    def savefig(self, path: str) -> None: ...


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """The limit of tables, as it was."""
    before = config.max_table_chars
    yield
    config.max_table_chars = before


def told(output: EnsembleOutput, task: int = -1) -> str:
    """The user prompt of a task."""
    return prompts(output)[task][1]


# --- E47 ---


def test_e47_a_table_is_csv_an_object_is_json_and_all_else_is_its_text() -> None:
    point = Point(1, ["é"])
    task = Task.of("{table}|{series}|{point}|{place}|{data}|{date}", llm=scripted("ok"))
    values = {
        "table": SALES.head(2),
        "series": pandas.Series([1.5, 2], index=["a", "b"], name="rate"),
        "point": point,
        "place": Place(name="Brest", at=point),
        "data": {"points": [point], "n": SALES["sold"].sum(), "when": pandas.Timestamp("2026-01-02")},
        "date": pandas.Timestamp("2026-01-02"),
    }
    table, series, *objects, data, date = (
        told(Ensemble(tasks=[task]).run(values)).removeprefix("## Task\n").split("\n\n## Exp")[0].split("|")
    )
    assert table == 'city,sold\nBrest,0\n"Port ""A""",1'
    assert series == ",rate\na,1.5\nb,2.0"
    assert objects == ['{"x": 1, "tags": ["é"]}', '{"name": "Brest", "at": {"x": 1, "tags": ["é"]}}']
    assert json.loads(data) == {"points": [{"x": 1, "tags": ["é"]}], "n": 44850, "when": "2026-01-02T00:00:00"}
    assert date == "2026-01-02 00:00:00"


@pytest.mark.parametrize("source", ["input", "context", "tool", "cell"])
def test_e47_a_table_is_limited_at_whole_rows_and_says_so(source: str) -> None:
    config.max_table_chars = 500
    if source == "input":
        output = Ensemble(tasks=[Task.of("Sum {sales}", llm=scripted("ok"))]).run(sales=SALES)
        text = told(output)
    elif source == "context":
        sum_up = Task.of("Sum", llm=scripted("ok"), context=["load"])
        output = run(done("load", handler=lambda task: SALES), sum_up)
        text = told(output)
        assert output["load"].raw.count("\n") == 300
        assert output["load"].parsed_output is SALES
    elif source == "tool":

        def load() -> pandas.DataFrame:
            """Load sales."""
            return SALES

        output = run(Task.of("Sum", name="sum", agent=agent(ToolUse("load", {}), "ok", tools=[load])))
        text = of(output, ToolCallCompleted)[0].result
    else:
        cell = "llm: model\ntasks: ['Sum {sales}']"
        output = read_cell(cell, {"model": scripted("ok"), "sales": SALES}).build().run()
        text = told(output)
    table = text[text.index("city,sold\n") : text.index("\n(")]
    assert len(table) <= 500
    assert SALES.to_csv(index=False).startswith(f"{table}\n")
    rows = table.count("\n")
    assert 30 < rows < 60
    assert f"({rows} of 300 rows; the others are left out)" in text
    assert [f"with {rows} of 300 rows: config.max_table_chars is 500." in each for each in output.warnings] == [True]


def test_e47_json_and_text_are_never_cut() -> None:
    config.max_table_chars = 10
    long, data = "x" * 10_001, {"list": list(range(3000))}
    task = Task.of("Read {data}", llm=scripted("ok"), context=["load"])
    output = Ensemble(tasks=[done("load", handler=lambda task: long), task], inputs={"data": data}).run()
    assert json.dumps(data) in told(output)
    assert long in told(output)
    assert ["10,001 characters" in each for each in output.warnings] == [True]


def test_e47_a_text_that_comes_with_a_table_is_what_tasks_read() -> None:
    config.max_table_chars = 100
    handler = lambda task: ToolResult.ok("Brest leads. " * 20, SALES)  # noqa: E731
    output = run(done("load", handler=handler), Task.of("Sum", llm=scripted("ok"), context=["load"]))
    assert "Brest leads. " * 20 in told(output)
    assert "of 300 rows" not in told(output)


def test_e47_what_a_person_wrote_in_place_of_a_table_is_what_tasks_read() -> None:
    load = done("load", handler=lambda task: SALES, review=Review())
    sum_up = Task.of("Sum", llm=scripted("ok"), context=["load"])
    output = run(load, sum_up, review_handler=lambda request: ReviewDecision.edit("Brest only."))
    assert "\nBrest only.\n---" in told(output)
    assert output["load"].parsed_output is None


@pytest.mark.parametrize(
    "value, what", [(b"\x89PNG", "bytes (4 bytes)"), ([{"raw": b"ab"}], "bytes (2 bytes)"), (Figure(), "image")]
)
def test_e47_bytes_and_images_are_refused_with_the_reason_before_anything_runs(value: Any, what: str) -> None:
    llm = scripted("never")
    with pytest.raises(ValidationError) as caught:
        run(Task.of("Look at {photo} and {other}", llm=llm), inputs={"photo": value, "other": "x"})
    assert "'photo'" in str(caught.value)
    assert what in str(caught.value)
    with pytest.raises(CellError) as mistaken:
        read_cell("llm: model\ntasks: ['Look at {photo}']", {"model": llm, "photo": value})
    (mistake,) = mistaken.value.mistakes
    assert (mistake.line, mistake.column) == (2, 18)
    assert what in mistake.message
    assert not llm.calls


PICTURE = f"data:image/png;base64,{'iVBORw0K' * 40}"


@pytest.mark.parametrize(
    "value, told",
    [
        (f"Look: {PICTURE}", r"holds a data URL \(image/png, 342 characters\), which a model reads as letters"),
        ({"page": [PICTURE]}, r"it holds a data URL \(image/png, 342 characters\)"),
        (
            {"type": "image_url", "image_url": {"url": "http://a/b.png"}},
            r"it is a message part with an image \(image_url\)",
        ),
        (
            [{"type": "text"}, {"image_url": {"url": "http://a/b.png"}}],
            r"it is a message part with an image \(image_url\)",
        ),
    ],
    ids=["text", "data", "part", "parts"],
)
def test_e47_a_picture_in_letters_is_refused_before_anything_runs(value: Any, told: str) -> None:
    llm = scripted("Soup.")
    with pytest.raises(ValidationError, match=f"The input 'pot' .*{told}"):
        Ensemble(tasks=[Task.of("Look at {pot}")], llm=llm).run(pot=value)
    with pytest.raises(CellError, match=told):
        read_cell("tasks: ['Look at {pot}']", {"pot": value})
    assert llm.calls == ()


def test_e47_a_picture_in_letters_is_no_description() -> None:
    with pytest.raises(ValidationError, match=r"^Task description holds a data URL \(image/png, 342 characters\)"):
        Task.of(f"Look at {PICTURE}")
    with pytest.raises(CellError, match="line 1: Task description holds a data URL"):
        read_cell(f"tasks: ['Look at {PICTURE}']")


def test_e47_addresses_of_pictures_and_small_icons_are_texts_like_any_other() -> None:
    row, icon = {"name": "Soup", "image_url": "http://a/b.png"}, "data:image/png;base64,iVBORw0KGgo="
    output = Ensemble(tasks=[Task.of("Look at {row} and {icon}")], llm=scripted("Seen.")).run(row=row, icon=icon)
    assert output.raw == "Seen."


def test_e47_handlers_get_values_as_they_are() -> None:
    output = run(done("size", handler=lambda task: len(task.inputs["photo"])), inputs={"photo": b"\x89PNG"})
    assert output.raw == "4"


def test_e47_the_output_of_a_task_that_no_prompt_can_hold_fails_the_task_that_reads_it() -> None:
    llm = scripted("never")
    photo = done("photo", handler=lambda task: Figure())
    with pytest.raises(TaskExecutionError) as caught:
        run(photo, Task.of("Describe it", name="text", llm=llm, context=["photo"]))
    assert "The output of task 'photo' is an image" in str(caught.value)
    assert "ToolResult.ok(text, value)" in str(caught.value)
    assert isinstance(caught.value.output["photo"].parsed_output, Figure)
    assert not llm.calls


def test_e47_a_tool_that_returns_bytes_is_told_to_the_model_as_an_error() -> None:
    def fetch() -> bytes:
        """Fetch it."""
        return b"abc"

    output = run(Task.of("Look", name="look", agent=agent(ToolUse("fetch", {}), "ok", tools=[fetch])))
    (call,) = of(output, ToolCallCompleted)
    assert call.result.startswith("Error: the result of tool 'fetch' can't be shown: it is bytes (3 bytes)")


@pytest.mark.parametrize("value", [-1, 1.5, "8000", None, True])
def test_e47_a_limit_that_is_none_is_refused_where_it_is_set(value: Any) -> None:
    with pytest.raises(ValueError, match="max_table_chars must be a whole number"):
        config.max_table_chars = value


# --- E6, agents ---

STYLED = Agent(role="{style} writer", goal="Write for {reader}", background="From {town}.", response_format="{form}")
STYLES = {"style": "terse", "reader": "sailors", "town": "Brest", "form": "One line"}
SYSTEM = "You are {style} writer.\nFrom Brest.\n\nYour personal goal is: Write for sailors\n"


def test_e6_the_texts_of_agents_are_filled_at_each_run() -> None:
    desk = Ensemble(agents=[STYLED], tasks=[Task.of("Write", agent=STYLED)], llm=scripted("A", "B"), inputs=STYLES)
    for style in ("terse", "florid"):
        output = desk.run(style=style)
        system, _ = prompts(output)[0]
        assert system.startswith(SYSTEM.replace("{style}", style))
        assert system.endswith("Output format instructions: One line")
        assert output.task_outputs[0].agent_role == f"{style} writer"
        assert output.task_outputs[0].name == "style_writer_1"
        assert output.plan.tasks[0].agent == f"{style} writer"
        assert list(output.frames.tasks["agent"]) == [f"{style} writer"]
        assert [each.role for each in output.trace.agents] == [f"{style} writer"]
    assert STYLED.role == "{style} writer"
    assert desk.plan(style="x").tasks[0].agent == "x writer"


def test_e6_in_a_cell_too_never_when_it_is_read() -> None:
    cell = (
        "llm: model\ninputs: {style: terse}\nagents:\n  Desk: {role: '{style} writer', goal: 'Be {style}'}\n"
        "tasks:\n- {description: Write, agent: Desk}\n"
    )
    desk = read_cell(cell, {"model": scripted("A", "B")}).build()
    assert desk.agents[0].role == "{style} writer"
    assert desk.run().task_outputs[0].agent_role == "terse writer"
    assert "Your personal goal is: Be florid\n" in prompts(desk.run(style="florid"))[0][0]


def test_e6_missing_names_of_tasks_and_agents_are_reported_together() -> None:
    tasks = [Task(description="{a}", expected_output="{b}", agent=STYLED), Task.of("{a} {c}", fallback=agent())]
    with pytest.raises(PromptTemplateError) as caught:
        run(*tasks, llm=scripted("never"), inputs={"town": "Brest"})
    assert caught.value.missing_variables == ("a", "b", "c", "style", "reader", "form")


def test_e6_a_keyword_that_only_an_agent_uses_is_used() -> None:
    desk = Ensemble(tasks=[Task.of("Write", agent=Agent(role="Writer", goal="Be {style}"))], llm=scripted("A"))
    assert desk.run(style="terse").raw == "A"
    with pytest.raises(ValidationError, match="Did you mean 'style'"):
        desk.run(style="terse", stile="x")


def test_e6_a_fallback_is_filled_too() -> None:
    lost_one = Agent(role="Cook", goal="Cook", llm=scripted(ValueError("no")), max_retries=0)
    spare = Agent(role="{style} cook", goal="Cook", llm=scripted("Soup."))
    output = run(Task.of("Cook", name="dish", agent=lost_one, fallback=spare), inputs=STYLES)
    assert output["dish"].agent_role == "terse cook"


def managed(ask: str, *roles: str, **fields: Any) -> EnsembleOutput:
    """A manager that asks one worker."""
    llm = scripted(ToolUse("delegate_task", {"agent_role": ask, "task_description": "Write."}), "Done.")
    agents = [Agent(role=role, goal="Write", llm=scripted("Text.")) for role in roles]
    tasks = [Task.of("Write", agent=agents[0])]
    return Ensemble(agents=agents, tasks=tasks, workflow="hierarchical", manager_llm=llm, **fields).run(style="terse")


def test_e6_constraints_name_declared_roles_and_delegation_and_policies_resolved_ones() -> None:
    seen = []

    def note(request: Any, context: Any) -> DelegationPolicyResult:
        seen.append((request.agent_role, context.available_roles))
        return DelegationPolicyResult.allow()

    limits = HierarchicalConstraints(required_workers=["{style} writer"], max_calls_per_worker={"{style} writer": 1})
    output = managed("TERSE writer", "{style} writer", hierarchical_constraints=limits, delegation_policies=[note])
    assert seen == [("terse writer", ("terse writer",))]
    assert of(output, DelegationStarted)[0].request.agent_role == "terse writer"
    assert [each.agent_role for each in output.task_outputs] == ["terse writer", "Manager"]
    assert output.task_outputs[0].name == "style_writer_1"
    assert "'terse writer'" in prompts(output)[0][0]
    with pytest.raises(ValidationError, match="unknown agent: 'terse writer'"):
        managed(
            "x", "{style} writer", hierarchical_constraints=HierarchicalConstraints(allowed_workers=["terse writer"])
        )


@pytest.mark.parametrize("roles, fault", [(("{boss}",), "role of the manager"), (("{style}", "Terse"), "both called")])
def test_e6_role_rules_hold_for_resolved_roles_before_any_call(roles: tuple[str, ...], fault: str) -> None:
    llm = scripted("never")
    agents = [Agent(role=role, goal="Write") for role in roles]
    tasks = [Task.of("Write", agent=each) for each in agents]
    desk = Ensemble(tasks=tasks, workflow="hierarchical", llm=llm, inputs={"boss": "Manager", "style": "terse"})
    with pytest.raises(ValidationError, match=fault):
        desk.run()
    with pytest.raises(ValidationError, match="blank in this run"):
        desk.run({"boss": " ", "style": ""})
    assert not llm.calls
    names = ", ".join(f"A{place}: {{role: '{role}', goal: g}}" for place, role in enumerate(roles))
    work = "".join(f"- {{description: Write, agent: A{place}}}\n" for place in range(len(roles)))
    cell = f"llm: model\nworkflow: hierarchical\nagents: {{{names}}}\ntasks:\n{work}"
    with pytest.raises(CellError) as caught:
        read_cell(cell, {"model": llm, "boss": "Manager", "style": "terse"})
    (mistake,) = caught.value.mistakes
    assert mistake.line == 3
    assert fault in mistake.message


CREWAI = """
llm: model
agents:
  researcher:
    role: >
      {topic} Senior Data Researcher
    goal: >
      Uncover cutting-edge developments in {topic}
    backstory: >
      You're a seasoned researcher with a knack for uncovering the latest developments in {topic}.
  reporting_analyst:
    role: >
      {topic} Reporting Analyst
    goal: >
      Create detailed reports based on {topic} data analysis and research findings
    backstory: >
      You're a meticulous analyst with a keen eye for detail.
tasks:
  research_task:
    description: >
      Conduct a thorough research about {topic}, given that the current year is {current_year}.
    expected_output: >
      A list with 10 bullet points of the most relevant information about {topic}
    agent: researcher
  reporting_task:
    description: >
      Review the context you got and expand each topic into a full section for a report.
    expected_output: >
      A fully fledged report with the main topics, each with a full section of information.
    agent: reporting_analyst
    context: [research_task]
"""


def test_e6_a_stock_crewai_template_works_and_compares() -> None:
    names = {"model": scripted(*["Facts.", "Report."] * 2), "topic": "AI LLMs", "current_year": 2026}
    crew = read_cell(CREWAI, names).build()
    first, second = crew.run(), crew.run(topic="Tides")
    assert first.raw == "Report."
    for output, topic in ((first, "AI LLMs"), (second, "Tides")):
        (system, user), (_, report) = prompts(output)
        assert system.startswith(f"You are {topic} Senior Data Researcher.\n")
        assert f"developments in {topic}\n" in system
        assert f"about {topic}, given that the current year is 2026." in user
        assert f"### {topic} Senior Data Researcher" in report
        assert "{" not in system + user + report


# --- what tools give, what is a type, what is an answer (E7, E13, E16) ---


def test_e13_the_structured_output_of_a_tool_is_in_trace_and_json(tmp_path: Path) -> None:
    def weigh() -> ToolResult:
        """Weigh it."""
        return ToolResult.ok("2 kg", {"kg": 2})

    output = run(Task.of("Weigh", name="w", agent=agent(ToolUse("weigh", {}), "ok", tools=[weigh])))
    (call,) = output["w"].trace.turns[0].tool_calls
    assert (call.result, call.structured_output) == ("2 kg", {"kg": 2})
    path = output.trace.save(tmp_path / "w.trace.json")
    plain = json.loads(Path(path or tmp_path / "w.trace.json").read_text())
    calls = [each for turn in plain["taskTraces"][0]["llmInteractions"] for each in turn["toolCalls"]]
    assert [each["structuredOutput"] for each in calls] == [{"kg": 2}]
    (again,) = ExecutionTrace.load(tmp_path / "w.trace.json").task("w").turns[0].tool_calls
    assert again.structured_output == {"kg": 2}


@pytest.mark.parametrize("message", [None, ""])
def test_e13_a_failure_without_a_message_says_that_the_tool_failed(message: str | None) -> None:
    def weigh() -> ToolResult:
        """Weigh it."""
        return ToolResult.failure(message)

    output = run(Task.of("Weigh", name="w", agent=agent(ToolUse("weigh", {}), "ok", tools=[weigh])))
    assert of(output, ToolCallCompleted)[0].result == "Error: the tool failed"


class Dish(typing_extensions.TypedDict):
    name: str


def test_e16_a_typed_dict_of_typing_extensions_is_a_typed_dict() -> None:
    output = run(Task.of("Cook", name="dish", llm=scripted('{"name": 5}', '{"name": "soup"}'), output_type=Dish))
    assert output["dish"].parsed_output == {"name": "soup"}
    assert len(of(output, LlmCallCompleted)) == 2


def test_e7_the_text_of_a_failed_run_is_never_an_intermediate_one() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(done("notes"), lost("report", context=["notes"]))
    assert caught.value.output.raw == ""
    with pytest.raises(TaskExecutionError) as caught:
        run(done("notes"), done("good", context=["notes"]), lost("bad"), workflow="parallel")
    assert caught.value.output.raw in ("", "good")
