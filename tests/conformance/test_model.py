"""Models: local, scripted, recorded; and silence (E40 to E43)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    DelegationCompleted,
    Ensemble,
    EnsembleOutput,
    Fail,
    LlmCallCompleted,
    LlmCallStarted,
    LlmToken,
    Phase,
    PhaseReview,
    ReplayError,
    Reply,
    Review,
    ReviewAnswered,
    ReviewDecision,
    ReviewRequest,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    TaskInput,
    ToolCallCompleted,
    ToolOutcome,
    ToolUse,
    ValidationError,
    human_input,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.options import parse_options
from tests.conformance.scene import done, of, run, scripted
from tests.support.openai_server import Answer, OpenAIServer


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


# --- E40, E41 ---


@pytest.mark.weights
def test_e40_the_local_model_answers_with_real_tokens_for_nothing() -> None:
    output = run(Task.of("Say hello", name="hello", agent=Agent(role="Host", goal="Be brief", llm="local")))
    assert output["hello"].raw.strip()
    (call,) = of(output, LlmCallStarted)
    assert (call.provider, call.is_scripted) == ("local", False)
    assert output.metrics.output_tokens > 0
    assert (output.metrics.cost, output.metrics.cost_complete) == (0, True)


@pytest.mark.weights
def test_e40_the_local_model_keeps_to_a_schema() -> None:
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    output = run(Task.of("Name a city", name="city", llm="local", output_type=schema, max_output_retries=0))
    assert isinstance(output["city"].parsed_output["city"], str)


def test_e41_a_script_answers_by_order_or_by_prompt_and_is_labelled() -> None:
    rules: dict[Any, Any] = {"soup": "Soup.", "steak": [Reply(calls=[ToolUse("add", {"left": 1, "right": 2})]), "3."]}
    llm = ScriptedChatModel.match(rules, default="Nothing.")
    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[add])
    output = run(*[Task.of(f"Make {each}", name=each, agent=cook) for each in ("steak", "soup", "tea")])
    assert [output[each].raw for each in ("steak", "soup", "tea")] == ["3.", "Soup.", "Nothing."]
    assert all(call.is_scripted for call in of(output, LlmCallStarted))


def test_e41_counts_are_deterministic_and_it_streams() -> None:
    class Watcher:
        wants_tokens = True

        def __init__(self) -> None:
            self.text = ""

        def on_event(self, event: object) -> None:
            self.text += event.text if isinstance(event, LlmToken) else ""

    watcher = Watcher()
    first = Ensemble(tasks=[Task.of("Cook")], llm=scripted("Soup of the day"), listeners=[watcher]).run()
    second = run(Task.of("Cook"), llm=scripted("Soup of the day"))
    assert watcher.text == "Soup of the day"
    assert first.metrics.total_tokens == second.metrics.total_tokens > 0


def test_e41_a_field_that_a_script_has_not_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ValidationError, match=r"ScriptedChatModel has no field 'responses'.*'replies'"):
        ScriptedChatModel(responses=["Soup."])
    with pytest.raises(ValidationError, match="Did you mean 'replies'"):
        ScriptedChatModel(reply=["Soup."])


# --- E42 ---


def team(llm: Any) -> Ensemble:
    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[add])
    return Ensemble(tasks=[Task.of("Add up {what}", name="sum", agent=cook), Task.of("Tell it", name="tell", llm=llm)])


def test_e42_a_recorded_run_is_replayed_without_the_server(
    server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-recorded-secret-1234567890")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    file = tmp_path / "lesson.jsonl"
    server.script(
        Answer(calls=[("add", {"left": 1, "right": 2})]), Answer.status(500), Answer("3."), Answer("It is 3.")
    )
    llm = f"openai:test-model@{server.url}"
    recorded = team(llm).run({"what": "1 and 2"}, record=file)
    asked = len(server.requests)
    monkeypatch.delenv("OPENAI_API_KEY")
    replayed = team(llm).run({"what": "1 and 2"}, replay=file)
    assert len(server.requests) == asked == 4
    assert (
        [each.raw for each in replayed.task_outputs]
        == [each.raw for each in recorded.task_outputs]
        == ["3.", "It is 3."]
    )
    assert replayed.metrics.total_tokens == recorded.metrics.total_tokens
    assert "sk-recorded" not in file.read_text(encoding="utf-8")


def test_e42_a_prompt_that_differs_is_refused_with_the_difference(tmp_path: Path) -> None:
    file = tmp_path / "lesson.jsonl"
    run(Task.of("Cook a soup"), llm=scripted("Soup."), inputs={})
    Ensemble(tasks=[Task.of("Cook a soup")], llm=scripted("Soup.")).run(record=file)
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[Task.of("Cook a soap")], llm=scripted("never")).run(replay=file)
    link: BaseException | None = caught.value
    while link is not None and not isinstance(link, ReplayError):
        link = link.__cause__
    assert "soap" in str(link)
    assert "soup" in str(link)


def test_e42_a_run_that_asks_nobody_has_an_empty_recording_which_replays(tmp_path: Path) -> None:
    file = tmp_path / "handlers.yaml"
    ensemble = Ensemble(tasks=[Task.of("Say it", handler=lambda task: "Said.")])
    assert ensemble.run(record=file).warnings == ()
    assert file.read_text().startswith("ensemble-notebook recording: ")
    again = ensemble.run(replay=file)
    assert again.raw == "Said."
    with pytest.raises(TaskExecutionError, match=r"handlers\.yaml"):
        Ensemble(tasks=[Task.of("Say it")], llm=ScriptedChatModel(replies=["No."])).run(replay=file)


def test_e42_a_run_that_fails_before_it_asks_leaves_an_older_recording_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "older.yaml"
    Ensemble(tasks=[Task.of("Say it")], llm=ScriptedChatModel(replies=["Said."])).run(record=file)
    kept = file.read_text()

    def break_off(task: TaskInput) -> str:
        raise OSError("the disk is full")

    with pytest.raises(TaskExecutionError):
        Ensemble(tasks=[Task.of("Fail", handler=break_off)]).run(record=file)
    assert file.read_text() == kept


def test_e42_faults_are_recorded_too(tmp_path: Path) -> None:
    file = tmp_path / "faults.jsonl"
    with pytest.raises(TaskExecutionError, match="401"):
        Ensemble(tasks=[Task.of("Cook")], llm=scripted(Fail(401))).run(record=file)
    with pytest.raises(TaskExecutionError, match="401"):
        Ensemble(tasks=[Task.of("Cook")], llm=scripted("never")).run(replay=file)
    with pytest.raises(ValidationError, match="not both"):
        Ensemble(tasks=[done("x")]).run(record=file, replay=file)


class Counter:
    """A tool that counts, and can fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def look_up(self, what: str) -> str:
        """Look something up."""
        self.calls.append(what)
        if what == "nothing":
            raise KeyError("nothing")
        return f"{what} is number {self.calls.count(what)}"  # the calls are side by side


LOOKING = Reply(calls=[ToolUse("look_up", {"what": each}) for each in ("tea", "nothing")])
COUNTING_CELL = (
    "agents:\n  Cook: {goal: Cook, llm: model, tools: look_up}\ntasks: {count: {description: Count, agent: Cook}}"
)


def count_up(way: str, **settings: Any) -> tuple[EnsembleOutput, Counter]:
    """Run an agent with a tool, from Python or from a cell."""
    counter = Counter()
    llm = scripted(LOOKING, "Done.") if "record" in settings else scripted()
    if way == "cell":
        names = {"model": llm, "look_up": counter.look_up}
        return read_cell(COUNTING_CELL, names).build(names).run(**settings), counter
    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[counter.look_up])
    return Ensemble(tasks=[Task.of("Count", name="count", agent=cook)]).run(**settings), counter


def list_tool_calls(output: EnsembleOutput) -> list[tuple[Any, ...]]:
    """What tools were asked and answered."""
    return [(each.tool, each.outcome, each.result, type(each.error).__name__) for each in of(output, ToolCallCompleted)]


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e42_a_replay_gives_what_tools_answered_and_calls_none(tmp_path: Path, way: str) -> None:
    file = tmp_path / "lesson.yaml"
    recorded, counter = count_up(way, record=file)
    replayed, untouched = count_up(way, replay=file)
    assert (sorted(counter.calls), untouched.calls) == (["nothing", "tea"], [])
    assert list_tool_calls(replayed) == list_tool_calls(recorded)
    assert [each[1:] for each in list_tool_calls(replayed)] == [
        (ToolOutcome.SUCCESS, "tea is number 1", "NoneType"),
        (ToolOutcome.FAILURE, "Tool error: KeyError: 'nothing'", "KeyError"),
    ]
    assert replayed["count"].raw == "Done."
    assert file.read_text(encoding="utf-8").count("tea is number 1") == 1


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e42_a_replay_calls_tools_where_it_is_told_to(tmp_path: Path, way: str) -> None:
    file = tmp_path / "lesson.yaml"
    count_up(way, record=file)
    assert sorted(count_up(way, replay=file, replay_tools="live")[1].calls) == ["nothing", "tea"]


def test_e42_a_tool_call_that_differs_is_refused_with_the_difference(tmp_path: Path) -> None:
    file = tmp_path / "lesson.yaml"
    count_up("python", record=file)
    text = file.read_text(encoding="utf-8")
    asked, made = (text.index('{"what": "tea"}'), text.rindex('{"what": "tea"}'))
    assert asked < made
    file.write_text(f"{text[:made]}{text[made:].replace('tea', 'sea', 1)}", encoding="utf-8")
    with pytest.raises(TaskExecutionError) as caught:
        count_up("python", replay=file)
    link: BaseException | None = caught.value
    while link is not None and not isinstance(link, ReplayError):
        link = link.__cause__
    assert "has another call of a tool after exchange 1; the call of the tool look_up differs" in str(link)
    assert '{"what": "sea"}' in str(link)
    assert '{"what": "tea"}' in str(link)


def test_e42_a_replay_takes_its_recorded_time_where_it_is_told_to(tmp_path: Path) -> None:
    file = tmp_path / "lesson.yaml"

    async def rest() -> str:
        """Rest a while."""
        await asyncio.sleep(0.3)
        return "rested"

    def ask(**settings: Any) -> float:
        llm = scripted(Reply(calls=[ToolUse("rest", {})]), Reply("Done.", delay=0.3))
        cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[rest])
        return Ensemble(tasks=[Task.of("Rest", agent=cook)]).run(**settings).total_duration.total_seconds()

    took = ask(record=file)
    assert took >= 0.6
    # Any one run may be held up by the machine.
    assert any(ask(replay=file) < 0.3 for _ in range(10))
    assert any(0.55 < ask(replay=file, pace="recorded") < took + 1 for _ in range(10))


@pytest.mark.parametrize("name, choice", [("replay_tools", "live"), ("pace", "recorded")])
def test_e42_settings_of_a_replay_are_checked_and_no_names_of_variables(name: str, choice: str) -> None:
    made = Ensemble(tasks=[done("x")])
    with pytest.raises(ValidationError, match="name a recording with replay=FILE, too"):
        made.run(**{name: choice})
    with pytest.raises(ValidationError, match=rf"goes through inputs: run\(\{{'{name}'"):
        made.run(**{name: "fast"})
    filled = Ensemble(tasks=[Task.of(f"Cook {{{name}}}", name="x", llm=scripted("Soup."))]).run({name: "fast"})
    assert filled["x"].raw == "Soup."
    option = f"--{name.replace('_', '-')}"
    with pytest.raises(ValidationError, match=f"{option} is about a replay"):
        parse_options(f"{option} {choice}")
    assert getattr(parse_options(f"--replay x.yaml {option} {choice}"), name) == choice


# --- E43 ---

SILENT = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError(f"a connection: {args}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from ensemble_notebook import Ensemble, ScriptedChatModel, Task, ValidationError
output = Ensemble(tasks=[Task.of("Cook")], llm=ScriptedChatModel(replies=["Soup."])).run()
output._repr_mimebundle_(), output.frames.spans, output.metrics.cost, repr(output)
try:
    Ensemble(tasks=[Task.of("Cook")], llm="openay:x").run()
except ValidationError as error:
    print(error)
"""


def test_e43_import_run_display_and_errors_open_no_connection() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", SILENT], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "openay" in done.stdout


def test_e43_only_the_configured_address_is_contacted(server: OpenAIServer) -> None:
    server.script(Answer("Soup."))
    output = run(Task.of("Cook"), llm=f"openai:test-model@{server.url}")
    assert (output.status, len(server.requests)) == (RunStatus.COMPLETED, 1)


# --- E57 ---

FRESH = """
import sys
from ensemble_notebook import Ensemble, Task
tasks = [Task.of(name, name=name, llm=sys.argv[1], timeout=30) for name in ("soup", "tea")]
output = Ensemble(tasks=tasks, workflow="parallel").run()
"""
FRESH_CELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.history_manager.enabled = False
shell.run_line_magic("load_ext", "ensemble_notebook")
shell.run_line_magic("config", "EnsembleMagics.display = 'static'")
cell = f"llm: {sys.argv[1]}\\nworkflow: parallel\\ntasks: [Make soup, Make tea]"
shell.run_cell_magic("ensemble", "-o output", cell)
output = shell.user_ns["output"]
"""
REPORT = """
spans = output.frames.spans
startup = spans[spans["wait_kind"] == "startup"]
calls = spans[spans["kind"] == "llm"]
parents = [spans.loc[each, "kind"] for each in startup["parent_id"]]
print([*zip(startup["kind"], startup["name"], startup["status"], parents)], file=sys.stderr)
print(startup["end_time"].iloc[0] <= calls["start_time"].min(), startup["task"].isna().all(), file=sys.stderr)
print("startup" in output._repr_mimebundle_()["text/plain"], file=sys.stderr)
again = output.ensemble.run()
print((again.frames.spans["wait_kind"] == "startup").sum(), file=sys.stderr)
"""


@pytest.mark.parametrize("script", [FRESH, FRESH_CELL], ids=["python", "cell"])
def test_e57_startup_is_a_span_of_the_run_until_the_model_is_ready(script: str, llm: str) -> None:
    done = subprocess.run([sys.executable, "-c", script + REPORT, llm], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    startup = ("wait", "Loading the client of test-model", "ok", "run")
    assert done.stderr.splitlines() == [str([startup]), "True True", "True", "0"]


def test_e57_startup_is_on_no_timeout_of_a_task() -> None:
    script = """
import asyncio, sys
from ensemble_notebook import Ensemble, Task
made = Ensemble(tasks=[Task.of("Soup", llm="local", timeout=0.001)])
try:
    made.run()
except Exception as error:
    output = error.output
waits = [each for each in output.events if getattr(each, "cause", "") == "startup"]
print([type(each).__name__ for each in waits], waits[-1].waited_s > 0.001)
print(output.failures[0].error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    waits, error = done.stdout.splitlines()
    assert waits == "['WaitStarted', 'WaitEnded'] True"
    assert "0.001 s" in error


GATED_CELL = """
llm: model
agents:
  Cook: {goal: Feed, tools: [human_input]}
tasks:
  menu: {description: Make a menu, agent: Cook, review: [before, after]}
  shop: {description: Go shopping, handler: go}
"""


class Person:
    """A person who edits, answers, sends back once, and approves; notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: ReviewRequest) -> ReviewDecision:
        self.asked.append(request.subject)
        match request.subject:
            case "task":
                return ReviewDecision.edit("Make a short menu")
            case "question":
                return ReviewDecision.edit("No nuts.")
        is_first = self.asked.count("output") == 1
        return ReviewDecision.retry("shorter") if is_first else ReviewDecision.edit("Soup, no nuts")


def ask_a_person(way: str, person: Any, **settings: Any) -> EnsembleOutput:
    """Run a task with gates and a question, from Python or from a cell."""
    question = Reply(calls=[ToolUse("human_input", {"question": "Any allergies?"})])
    llm = scripted(question, "Soup, fish, cake.", "Soup.") if "record" in settings else scripted()
    names = {"model": llm, "go": lambda given: "bought"}
    if way == "cell":
        return replace(read_cell(GATED_CELL, names).build(names), review_handler=person).run(**settings)
    cook = Agent(role="Cook", goal="Feed", llm=llm, tools=[human_input])
    menu = Task.of("Make a menu", name="menu", agent=cook, review=[Review("before"), Review()])
    return Ensemble(tasks=[menu, done("shop")], review_handler=person).run(**settings)


@pytest.mark.parametrize("way", ["python", "cell"])
@pytest.mark.parametrize("is_anybody_there", [True, False])
def test_e42_a_replay_gives_what_people_answered_and_asks_nobody(
    tmp_path: Path, way: str, is_anybody_there: bool
) -> None:
    file, person, other = tmp_path / "menu.yaml", Person(), Person()
    recorded = ask_a_person(way, person, record=file)
    assert person.asked == ["task", "question", "output", "output"]
    replayed = ask_a_person(way, other if is_anybody_there else None, replay=file)
    assert other.asked == []
    assert replayed["menu"].raw == recorded["menu"].raw == "Soup, no nuts"
    answers = [[each.decision for each in of(output, ReviewAnswered)] for output in (recorded, replayed)]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 4
    assert "No nuts." in file.read_text(encoding="utf-8")


def test_e42_people_are_asked_in_a_replay_where_it_is_told_to(tmp_path: Path) -> None:
    file, person = tmp_path / "menu.yaml", Person()
    ask_a_person("python", Person(), record=file)
    assert ask_a_person("python", person, replay=file, replay_tools="live")["menu"].raw == "Soup, no nuts"
    assert person.asked == ["task", "question", "output", "output"]


def test_e42_a_question_that_differs_is_refused_with_the_difference(tmp_path: Path) -> None:
    file = tmp_path / "menu.yaml"
    ask_a_person("python", Person(), record=file)
    text = file.read_text(encoding="utf-8")
    start = text.index("review of the output")
    file.write_text(text[:start] + text[start:].replace("Soup, fish", "Soup, dish", 1), encoding="utf-8")
    with pytest.raises(TaskExecutionError) as caught:
        ask_a_person("python", None, replay=file)
    assert "has another question; the review of the output (task menu) differs in line 1" in str(caught.value)
    assert "Record anew" in str(caught.value)


def test_e42_a_review_that_nobody_answered_or_that_broke_comes_again_alike(tmp_path: Path) -> None:
    async def sleep(request: ReviewRequest) -> ReviewDecision:
        await asyncio.sleep(10)
        return ReviewDecision.approve()

    def break_down(request: ReviewRequest) -> ReviewDecision:
        raise LookupError("no glasses")

    for handler, on_timeout, said in (
        (sleep, "fail", "Nobody answered"),
        (break_down, "fail", "no glasses"),
        (sleep, "continue", None),
    ):
        file, told = tmp_path / "review.yaml", []
        task = done("menu", review=Review(timeout=0.2, on_timeout=on_timeout))
        for settings, reviewer in (({"record": file}, handler), ({"replay": file}, None)):
            ensemble = Ensemble(tasks=[task], review_handler=reviewer)
            if said is None:
                output = ensemble.run(**settings)
                assert output.raw == "menu"
            else:
                with pytest.raises(TaskExecutionError, match=said) as caught:
                    ensemble.run(**settings)
                output = caught.value.output
            told += [(each.decision, each.is_timeout, type(each.error).__name__) for each in of(output, ReviewAnswered)]
        assert told[0] == told[1]
        assert len(told) == 2


def test_e42_the_answer_of_a_phases_reviewer_is_replayed_with_whom_it_addresses(tmp_path: Path) -> None:
    file, asked = tmp_path / "phase.yaml", []

    def look(request: ReviewRequest) -> ReviewDecision:
        asked.append(request.text)
        return ReviewDecision.retry({"title": "wittier"}) if len(asked) == 1 else ReviewDecision.approve()

    def write(**settings: Any) -> EnsembleOutput:
        llm = scripted("A text.", "A title.", "A wittier title.") if "record" in settings else scripted()
        tasks = [Task.of("Write", name="text", llm=llm), Task.of("Name it", name="title", llm=llm)]
        return Ensemble(phases=[Phase(name="make", tasks=tasks, review=PhaseReview(look))]).run(**settings)

    assert write(record=file)["title"].raw == write(replay=file)["title"].raw == "A wittier title."
    assert len(asked) == 2


def test_e42_delegated_work_and_a_manager_are_replayed_without_a_model(tmp_path: Path) -> None:
    def delegate(**settings: Any) -> EnsembleOutput:
        is_live = "record" in settings
        ask = ToolUse("delegate", {"agent_role": "Mate", "task_description": "Peel"})
        lead = Agent(
            role="Lead", goal="Lead", llm=scripted(*([ask, "Done."] * is_live)), allow_delegation=True, tools=[]
        )
        mate = Agent(role="Mate", goal="Help", llm=scripted(*(["Peeled."] * is_live)))
        return Ensemble(agents=[lead, mate], tasks=[Task.of("Cook", name="cook", agent=lead)]).run(**settings)

    def manage(**settings: Any) -> EnsembleOutput:
        is_live = "record" in settings
        ask = ToolUse("delegate_task", {"agent_role": "Mate", "task_description": "Peel"})
        mate = Agent(role="Mate", goal="Help", llm=scripted(*(["Peeled."] * is_live)))
        manager = scripted(*([ask, "All done."] * is_live))
        return Ensemble(
            tasks=[Task.of("Cook", name="cook", agent=mate)], workflow="hierarchical", manager_llm=manager
        ).run(**settings)

    for work in (delegate, manage):
        file = tmp_path / f"{work.__name__}.yaml"
        recorded, replayed = work(record=file), work(replay=file)
        assert replayed.raw == recorded.raw
        assert [each.response.raw_output for each in of(replayed, DelegationCompleted)] == ["Peeled."]
        assert [*map(type, replayed.events)].count(LlmCallCompleted) == [*map(type, recorded.events)].count(
            LlmCallCompleted
        )
