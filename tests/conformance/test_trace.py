"""What a run leaves behind (T1 to T12)."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import pytest

from ensemble_notebook import (
    Agent,
    Budget,
    CaptureMode,
    Condition,
    CostConfiguration,
    Ensemble,
    EnsembleOutput,
    EntityMemory,
    ExecutionTrace,
    Fail,
    InMemoryStore,
    JsonTraceExporter,
    Phase,
    PhaseStatus,
    RateLimit,
    Reply,
    Review,
    ReviewDecision,
    Task,
    TaskCompleted,
    TaskExecutionError,
    ToolOutcome,
    ToolUse,
    TraceFormatError,
    ValidationError,
)
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.conformance.scene import agent, done, lost, run, scripted
from tests.support.openai_server import Answer, OpenAIServer

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"]}


def echo(text: str) -> str:
    """Say it again."""
    return text


def eventful() -> EnsembleOutput:
    """A run in which nearly everything happens."""
    mate = Agent(role="Mate", goal="Help", llm=scripted("Helped."))
    delegation = Reply(calls=[ToolUse("delegate", {"agent_role": "Mate", "task_description": "Peel"})])
    over = Reply(calls=[ToolUse("echo", {"text": "a"}), ToolUse("echo", {"text": "b"})])
    llm = scripted(Fail(429, retry_after=0), delegation, over, "no city", '{"city": "Brest"}')
    boss = Agent(role="Boss", goal="Lead", llm=llm, allow_delegation=True, tools=[echo], max_iterations=2)
    tasks = [
        Task.of("Lead", name="lead", agent=boss, output_type=SCHEMA, memory="notes", review=Review()),
        Task.of("Fall", name="fall", agent=agent(Fail(401)), fallback=agent("Caught.", role="Net")),
        lost("lost"),
        done("skipped", context=["lost"]),
        done("unmet", when=Condition("lead", equals="never")),
    ]
    return Ensemble(
        tasks=tasks,
        agents=[boss, mate, tasks[1].agent],  # type: ignore[list-item]
        workflow="parallel",
        error_strategy="partial",
        review_handler=lambda request: ReviewDecision.approve(),
        rate_limit=RateLimit(20, 1),
        budget=Budget(max_llm_calls=50),
    ).run()


@pytest.fixture(scope="module")
def output() -> EnsembleOutput:
    return eventful()


def test_t1_everything_is_a_span(output: EnsembleOutput) -> None:
    spans = output.frames.spans
    assert set(spans["kind"]) == {
        *("run", "task", "turn", "llm", "attempt", "tool", "delegation", "memory", "review", "wait"),
    }
    assert set(spans.query("kind == 'task'")["status"]) == {"ok", "error", "skipped"}
    assert list(output.frames.spans.query("task == 'fall' and kind == 'llm'")["is_fallback"]) == [False, True]


def test_t1_failed_and_skipped_phases_are_in_the_typed_trace() -> None:
    from ensemble_notebook import Phase

    phases = [Phase.of("a", lost("x")), Phase.of("b", done("y"), after=["a"]), Phase.of("c", done("z"))]
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(phases=phases).run()
    trace = caught.value.output.trace
    assert [(each.name, each.status) for each in trace.phases] == [
        ("a", PhaseStatus.FAILED),
        ("b", PhaseStatus.SKIPPED),
        ("c", PhaseStatus.COMPLETED),
    ]


def test_t1_delegations_carry_the_worker_s_trace_and_refused_calls_their_outcome(output: EnsembleOutput) -> None:
    task = output["lead"].trace
    (delegation,) = task.delegations
    assert delegation.worker_trace.metrics.llm_call_count == 1
    outcomes = [call.outcome for each in task.turns for call in each.tool_calls]
    assert outcomes == [ToolOutcome.SUCCESS, ToolOutcome.SUCCESS, ToolOutcome.SKIPPED_MAX_ITERATIONS]


def test_t2_totals_sum_leaves_only(output: EnsembleOutput) -> None:
    spans = output.frames.spans
    leaves = spans[spans["usage_leaf"]]
    assert set(leaves["kind"]) == {"attempt"}
    assert output.metrics.input_tokens == leaves["input_tokens"].sum()
    assert output.metrics.output_tokens == leaves["output_tokens"].sum()
    assert output.metrics.llm_attempt_count == len(leaves) > output.metrics.llm_call_count


def test_t3_unknown_is_not_zero(server: OpenAIServer, llm: str) -> None:
    server.script(Answer("Soup.", usage=None))
    output = run(Task.of("Cook"), llm=llm)
    assert output.frames.llm_calls["input_tokens"].isna().all()
    assert (output.metrics.tokens_complete, output.metrics.cost, output.metrics.cost_complete) == (False, None, False)
    handled = run(done("a")).metrics
    assert (handled.total_tokens, handled.tokens_complete) == (0, True)


# --- T6 ---


def tooled(**fields: Any) -> EnsembleOutput:
    llm = scripted(Reply(calls=[ToolUse("echo", {"text": "hi"})]), "Done.")
    return run(Task.of("Cook", name="cook", agent=Agent(role="Cook", goal="Cook", llm=llm, tools=[echo])), **fields)


def test_t6_each_mode_adds_to_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    off, standard, full = (tooled(capture_mode=mode) for mode in ("off", "Standard", "FULL"))
    assert [each.trace.capture_mode for each in (off, standard, full)] == [*CaptureMode][1:]
    turns = [each["cook"].trace.turns for each in (off, standard, full)]
    assert [len(each[1].messages) for each in turns] == [1, 5, 5]
    assert [each[0].tool_calls[0].parsed_input for each in turns] == [None, None, {"text": "hi"}]
    assert [each.name for each in tmp_path.glob("traces/*")] == [f"{full.run_id}.trace.json"]


def test_t6_the_argument_wins_over_the_configuration_and_that_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ensemble_notebook import config

    monkeypatch.setenv("AGENTENSEMBLE_CAPTURE_MODE", "Standard")
    assert tooled().trace.capture_mode is CaptureMode.STANDARD
    monkeypatch.setattr(config, "capture_mode", "off")
    assert tooled().trace.capture_mode is CaptureMode.OFF
    assert tooled(capture_mode="standard").trace.capture_mode is CaptureMode.STANDARD
    monkeypatch.setattr(config, "capture_mode", None)
    assert tooled(capture_mode="off").trace.capture_mode is CaptureMode.OFF
    monkeypatch.setenv("AGENTENSEMBLE_CAPTURE_MODE", "everything")
    with pytest.warns(UserWarning, match="everything"):
        assert tooled().trace.capture_mode is CaptureMode.OFF


def test_t6_exporters_get_failed_runs_too_and_break_none(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    seen: list[ExecutionTrace] = []
    with pytest.raises(TaskExecutionError):
        run(lost("a"), trace_exporter=seen.append)
    assert [each.status.value for each in seen] == ["failed"]

    def broken(trace: ExecutionTrace) -> None:
        raise OSError("disk full")

    with caplog.at_level(logging.WARNING, "ensemble_notebook"):
        assert run(done("a"), trace_exporter=broken).raw == "a"
    assert "disk full" in caplog.text
    run(done("a"), trace_exporter=JsonTraceExporter(tmp_path / "one.json"))
    assert ExecutionTrace.load(tmp_path / "one.json").status.value == "completed"


# --- T7, T10, T11, T12 ---


def test_t7_keys_are_masked_wherever_a_run_is_shown_or_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def leak(text: str) -> str:
        """Give a key away."""
        return f"the key is {KEY}"

    llm = scripted(Reply(calls=[ToolUse("leak", {"text": KEY})]), f"It is {KEY}.")
    cook = Agent(role="Cook", goal="Cook", llm=llm, tools=[leak], verbose=True)
    with caplog.at_level(logging.DEBUG, "ensemble_notebook"):
        output = run(
            Task.of(f"Use {KEY}", agent=cook), capture_mode="standard", trace_exporter=JsonTraceExporter(tmp_path)
        )
    (file,) = tmp_path.iterdir()
    shown = [file.read_text(), caplog.text, repr(output), json.dumps(output._repr_mimebundle_(), default=str)]
    shown += [output.frames.messages.to_csv(), output.frames.tool_calls.to_csv(), output.frames.spans.to_csv()]
    assert [KEY in each for each in shown] == [False] * len(shown)


def test_t10_cost_is_exact_by_own_rates_or_the_price_list() -> None:
    rates = CostConfiguration(input_rate="0.000003", output_rate="0.000015", currency="EUR")
    output = run(*[Task.of(f"Cook {n}", agent=agent("Soup.")) for n in range(7)], cost=rates)
    metrics = output.metrics
    expected = metrics.input_tokens * Decimal("0.000003") + metrics.output_tokens * Decimal("0.000015")
    assert (metrics.cost, metrics.currency) == (expected, "EUR")
    with pytest.raises(ValidationError, match="price per token >= 0"):
        CostConfiguration(input_rate=-1, output_rate=0)


INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
DURATION = re.compile(r"PT(\d+H)?(\d+M)?(\d+(\.\d+)?S)?")


def test_t11_the_json_is_agent_ensemble_s_with_more_in_it(output: EnsembleOutput) -> None:
    written = json.loads(json.dumps(output.trace.to_dict()))
    assert written["schemaVersion"] == "1.1"
    assert {"agents", "taskTraces", "metrics", "phases", "spans"} <= set(written)
    assert INSTANT.fullmatch(written["startedAt"])
    assert DURATION.fullmatch(written["totalDuration"])
    assert written["taskTraces"][0]["expectedOutput"] == "A clear, complete answer to the task."
    for task in written["taskTraces"]:
        assert {"taskDescription", "agentRole", "llmInteractions", "metrics"} <= set(task)
        for turn in task["llmInteractions"]:
            assert {"toolCalls", "responseType", "messages"} <= set(turn)


def test_t11_unknown_tokens_are_minus_one_there_only(server: OpenAIServer, llm: str) -> None:
    server.script(Answer("Soup.", usage=None))
    trace = run(Task.of("Cook"), llm=llm).trace
    (turn,) = json.loads(json.dumps(trace.to_dict()))["taskTraces"][0]["llmInteractions"]
    assert (turn["inputTokens"], turn["outputTokens"]) == (-1, -1)
    assert trace.tasks[0].turns[0].input_tokens is None


@dataclass
class Meal:
    """A value of a user, with fields that records of ours have, too."""

    main_part: str
    messages: tuple[str, ...] = ("hot",)
    is_hot: bool = True


def test_t11_values_of_users_keep_their_names_and_all_fields(tmp_path: Path) -> None:
    output = run(done("cook", handler=lambda task: Meal("soup")))
    written = {"main_part": "soup", "messages": ["hot"], "is_hot": True}
    path = output.trace.save(tmp_path / "run.trace.json")
    assert json.loads(path.read_text())["taskTraces"][0]["parsedOutput"] == written
    (completed,) = [each for each in output.events if isinstance(each, TaskCompleted)]
    assert completed.to_dict()["output"]["parsed_output"] == written
    assert ExecutionTrace.load(path).to_dict() == output.trace.to_dict()


def test_t12_write_load_write_is_the_identity_and_frames_are_the_same(output: EnsembleOutput, tmp_path: Path) -> None:
    file = output.trace.save(tmp_path / "run.trace.json")
    loaded = ExecutionTrace.load(file)
    assert loaded.to_dict() == output.trace.to_dict()
    assert loaded.metrics == output.metrics
    for name in ("spans", "tasks", "llm_calls", "attempts", "tool_calls", "delegations", "reviews", "errors"):
        first, second = getattr(output.frames, name), getattr(loaded.frames, name)
        assert first.equals(second), name


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": []}', '{"schemaVersion": "1.1"}', '{"schemaVersion": "9"}'])
def test_t12_a_foreign_or_torn_file_gets_a_clear_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.trace.json"
    file.write_text(text)
    with pytest.raises(TraceFormatError, match=r"odd\.trace\.json"):
        ExecutionTrace.load(file)


@pytest.mark.parametrize("ending", [".trace.json", ".html", ".svg", ".parquet"])
def test_t13_a_run_is_exported_whole_and_without_the_texts_that_are_not_kept(ending: str, tmp_path: Path) -> None:
    says = Task.of("Say XYZZY", name="say", handler=lambda task: "PLUGH")
    for mode, is_told in (("off", True), ("metadata", False)):
        file = Ensemble(tasks=[says], capture_mode=mode).run().export(tmp_path / f"{mode}{ending}")
        content = file.read_bytes()
        if ending == ".parquet":
            assert pandas.read_parquet(file).name.tolist() == ["run", "say"]
        elif ending != ".svg":
            assert (b"XYZZY" in content) == (b"PLUGH" in content) == is_told
        assert b"say" in content


def test_t13_another_ending_is_refused_with_the_list(output: EnsembleOutput, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"\.json.*\.html.*\.svg.*\.parquet"):
        output.export(tmp_path / "run.pdf")


SPAN_COLUMNS = {
    "category": "run_id kind name phase task agent wait_kind status error_type retry_reason provider model_requested "
    "model finish_reason tokens_source currency tool delegate_to review_decision",
    "string": "parent_id task_id error_message tool_call_id delegation_id",
    "Int64": "seq depth attempt max_attempts input_tokens cache_read_tokens cache_write_tokens output_tokens "
    "reasoning_tokens",
    "Float64": "duration_ms self_ms queue_ms backoff_ms human_wait_ms time_to_first_token_ms cost_input cost_output "
    "cost slack_ms",
    "boolean": "is_fallback usage_leaf critical",
    "datetime64[ns, UTC]": "start_time end_time",
    "object": "attributes",
}


def test_t20_the_span_table_has_its_columns_with_their_dtypes_sorted_by_start(output: EnsembleOutput) -> None:
    spans = output.frames.spans
    dtypes = {name: str(dtype) for name, dtype in spans.dtypes.items()}
    for dtype, names in SPAN_COLUMNS.items():
        assert {name: dtypes.get(name) for name in names.split()} == dict.fromkeys(names.split(), dtype)
    assert spans.index.name == "span_id"
    assert spans.index.is_unique
    assert spans.start_ms.dropna().is_monotonic_increasing
    assert spans[spans.usage_leaf].kind.unique().tolist() == ["attempt"]


def test_t21_runs_and_outputs_carry_their_inputs_with_secrets_masked() -> None:
    task = Task.of("Cook {dish} with {api_key}", name="cook", handler=lambda task: "done")
    output = Ensemble(tasks=[task], inputs={"dish": "sole"}).run(api_key=KEY)
    assert output.inputs == output.frames.runs.inputs.iloc[0] == {"dish": "sole", "api_key": "***"}


def test_t22_two_runs_are_compared_by_names_and_never_by_time() -> None:
    first, second = (
        Ensemble(
            tasks=[
                Task.of("Find {topic}", name="find", agent=agent("Sole.", role="Cook")),
                Task.of(f"Cook it {how}", name="cook", context=["find"], agent=agent(how, role="Cook")),
            ]
        ).run(topic="fish")
        for how in ("slowly", "at once")
    )
    diff = first.diff(second)
    frame = diff.frame.set_index("path")
    assert [*diff.frame.columns] == [
        *("path", "kind", "task", "status", "output_changed"),
        *("delta_ms", "delta_input_tokens", "delta_output_tokens", "delta_cost"),
    ]
    assert frame.status[["find", "cook", "cook/turn/llm"]].tolist() == ["same", "changed", "changed"]
    assert frame.output_changed[["find", "cook"]].tolist() == [False, True]
    assert frame.delta_output_tokens["/"] == 1
    assert "description: Cook it [-slowly-]{+at once+}" in diff.definition
    assert "Cook it [-slowly-]{+at once+}" in diff.prompts
    assert set(first.diff(first.trace).frame.status) == {"same"}


def test_t22_what_a_run_without_texts_did_not_keep_is_said() -> None:
    kept, textless = (
        Ensemble(tasks=[done("cook")], capture_mode=mode).run() for mode in (CaptureMode.OFF, CaptureMode.METADATA)
    )
    diff = kept.diff(textless)
    assert diff.frame.output_changed.isna().all()
    assert "can't be compared" in diff.notes[0]


def test_t23_a_run_is_predicted_as_it_was_and_no_speed_up_makes_it_longer(output: EnsembleOutput) -> None:
    wall_ms = output.total_duration.total_seconds() * 1000
    assert output.what_if().wall_ms == pytest.approx(wall_ms, abs=0.01)
    for change in ({"speedup": {"llm": 2}}, {"speedup": {"lead": 3}}, {"drop_waits": True}, {"max_concurrency": 9}):
        prediction = output.what_if(**change)  # type: ignore[arg-type]
        assert prediction.wall_ms <= wall_ms + 0.01
        assert set(prediction.critical_path) <= set(prediction.frame.task)
    with pytest.raises(ValidationError, match="Did you mean 'lead'"):
        output.what_if(speedup={"laed": 2})


def test_t25_a_run_holds_the_invariants_live_failed_and_loaded(output: EnsembleOutput, tmp_path: Path) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[lost("lost"), done("never", context=["lost"])]).run()
    assert caught.value.output is not None
    for trace in (output.trace, caught.value.output.trace):
        loaded = ExecutionTrace.load(trace.save(tmp_path / "a.trace.json"))
        assert find_violations(trace) == find_violations(loaded, is_loaded=True) == []
        for frames in (trace.frames, loaded.frames):
            assert (
                frames.spans.input_tokens.sum() == frames.runs.input_tokens.sum() == (trace.metrics.input_tokens or 0)
            )
            assert frames.critical_path.share.sum() == pytest.approx(1)
            assert frames.critical_path.duration_ms.sum() <= frames.runs.wall_ms.sum()
            assert frames.links.src.isin(frames.spans.index).all()
            assert frames.links.dst.isin(frames.spans.index).all()


@pytest.mark.parametrize("name", ["tokens", "cost", "waterfall", "concurrency"])
def test_t26_a_figure_is_an_altair_chart_that_a_page_draws_without_a_network(name: str, output: EnsembleOutput) -> None:
    chart = getattr(output.plot, name)()
    bundle, _ = chart._repr_mimebundle_()
    assert "text/html" not in bundle
    assert "http" not in json.dumps({**bundle["application/vnd.vegalite.v5+json"], "$schema": ""})
    assert "<script" not in bundle["image/svg+xml"]
    assert (chart.properties(title="mine") | chart).to_dict()["hconcat"][0]["title"] == "mine"


def test_t11_phases_hold_their_task_traces_and_memory_is_counted_by_its_kind() -> None:
    memory = EntityMemory(InMemoryStore())
    memory.put("Ada", "wrote the first program")
    ada = Task.of("Write about Ada", name="ada", agent=agent("A program."), memory=("entities", "drafts"))
    output = Ensemble(phases=[Phase.of("draft", ada)], memory=memory).run()
    document = output.trace.to_dict()
    (phase,) = document["phases"]
    assert [each["name"] for each in phase["taskTraces"]] == ["ada"]
    assert phase["taskTraces"] == document["taskTraces"]
    counts = {"stmWrites": 1, "ltmStores": 1, "ltmRetrievals": 1, "entityLookups": 1}
    assert document["metrics"]["memoryOperations"] == counts


def test_t11_a_call_that_failed_has_no_final_answer() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        run(Task.of("Cook", agent=agent(Fail(401))))
    (task,) = caught.value.output.trace.to_dict()["taskTraces"]
    (call,) = task["llmInteractions"]
    assert (call["status"], call["responseType"], call["responseText"]) == ("ERROR", None, None)


def test_t11_events_are_plain_on_request_with_secrets_masked() -> None:
    output = run(Task.of(f"Say {KEY}", name="say", agent=agent("Well.")), lost("lost"), error_strategy="partial")
    plain = [json.loads(json.dumps(each.to_dict())) for each in output.events]
    assert [each["type"] for each in plain] == [type(each).__name__ for each in output.events]
    assert [each["seq"] for each in plain] == list(range(len(plain)))
    assert {each["run_id"] for each in plain} == {output.run_id}
    assert KEY not in json.dumps(plain)
    (failed,) = (each for each in plain if each["type"] == "TaskFailed")
    assert (failed["task"], failed["error"]["type"], failed["status"]) == ("lost", "ValueError", "error")
    (completed,) = (each for each in plain if each["type"] == "TaskCompleted")
    assert completed["duration"].startswith("PT")
    assert completed["output"]["agent_role"] == "Cook"
