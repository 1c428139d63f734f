"""The JSON form of a trace: what others read in it, and what comes back (T11, T12)."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from ensemble_notebook import load_traces
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.value_text import format_instant, parse_instant, write_duration
from ensemble_notebook.errors import TraceFormatError, ValidationError
from ensemble_notebook.testing.trace_invariants import find_violations
from ensemble_notebook.trace.codec.records import read_value
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams
from tests.trace.test_frames import research
from tests.trace.test_operation_fold import managed, phase_done_twice

KEY = "sk-" + "a1B2" * 8
FRAMES = (
    *("runs", "spans", "phases", "tasks", "agents", "llm_calls", "attempts", "tool_calls", "delegations", "reviews"),
    *("links", "critical_path", "events", "messages", "errors"),
)


def trace_of(events, **facts):
    return ExecutionTrace.from_events(events, **facts)


def again(trace, folder):
    return ExecutionTrace.load(trace.save(folder / "run.trace.json"))


@settings(max_examples=25)  # each makes thirty frames
@given(streams())
def test_writing_and_reading_changes_nothing(tmp_path_factory, events):
    folder = tmp_path_factory.mktemp("traces")
    trace = trace_of(events)
    loaded = again(trace, folder)
    assert loaded.to_dict() == trace.to_dict()
    for name in FRAMES:
        assert_frame_equal(getattr(loaded.frames, name), getattr(trace.frames, name))
    assert_frame_equal(loaded.frames.timeseries(), trace.frames.timeseries())
    assert loaded.metrics == trace.metrics
    assert [span.depends_on for span in loaded.spans] == [span.depends_on for span in trace.spans]
    first = (folder / "run.trace.json").read_bytes()
    assert loaded.save(folder / "again.trace.json").read_bytes() == first


@given(streams(), st.data())
def test_a_run_that_goes_on_can_be_written_and_read(tmp_path_factory, events, data):
    part = events[: data.draw(st.integers(1, len(events)))]
    trace = trace_of(part)
    loaded = again(trace, tmp_path_factory.mktemp("traces"))
    assert loaded.to_dict() == trace.to_dict()
    assert loaded.status is trace.status


@given(streams())
def test_every_document_has_what_other_readers_need(events):
    document = json.loads(json.dumps(trace_of(events).to_dict(), allow_nan=False))
    assert document["schemaVersion"] == "1.1"
    assert document.keys() >= {"agents", "taskTraces", "metrics", "captureMode", "ensembleId", "errors", "inputs"}
    for task in document["taskTraces"]:
        assert task.keys() >= {"taskDescription", "agentRole", "llmInteractions", "metrics", "delegations"}
        assert task["metrics"]["inputTokens"] >= -1
        for interaction in task["llmInteractions"]:
            answered = interaction["status"] == "OK"
            assert interaction["responseType"] in (("TOOL_CALLS", "FINAL_ANSWER") if answered else (None,))
            assert isinstance(interaction["toolCalls"], list)
            assert all(isinstance(message["toolCalls"], list) for message in interaction["messages"])


def test_a_document_reads_as_the_run_went():
    document = trace_of(managed()).to_dict()
    (task,) = document["taskTraces"]
    first, second = task["llmInteractions"]
    assert (document["workflow"], document["captureMode"], document["totalDuration"]) == ("PARALLEL", "OFF", "PT5S")
    assert document["startedAt"] == "2026-01-01T12:00:00Z"
    assert (task["agentRole"], task["finalOutput"], task["duration"]) == ("Manager", "All done.", "PT5S")
    assert (first["responseType"], second["responseType"]) == ("TOOL_CALLS", "FINAL_ANSWER")
    assert [call["toolName"] for call in first["toolCalls"]] == ["delegate_task", "delegate_task"]
    done, refused = task["delegations"]
    assert (done["succeeded"], done["depth"], done["workerTrace"]["agentRole"]) == (True, 1, "Researcher")
    assert done["workerTrace"]["metrics"]["inputTokens"] == 300
    assert (refused["succeeded"], refused["workerTrace"], refused["result"]) == (
        False,
        None,
        "Delegation limit reached.",
    )
    assert (document["metrics"]["totalInputTokens"], document["metrics"]["totalDelegations"]) == (330, 2)
    assert document["totalCostEstimate"] == {
        "inputCost": "0",
        "outputCost": "0",
        "totalCost": "0",
        "currency": "USD",
    }


def test_unknown_tokens_are_minus_one_for_other_readers_and_absent_for_ours():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=None, output_tokens=None)
    document = trace_of(build.finish()).to_dict()
    assert document["taskTraces"][0]["llmInteractions"][0]["inputTokens"] == -1
    assert document["metrics"]["totalInputTokens"] == -1
    assert document["totalCostEstimate"] is None
    assert all("inputTokens" not in span for span in document["spans"])


def test_phases_are_told_with_their_tasks():
    phase = trace_of(phase_done_twice()).to_dict()["phases"][0]
    assert (phase["name"], phase["status"], phase["tasks"], phase["attempt"]) == ("p", "COMPLETED", ["a", "b"], 2)
    assert phase["taskTraces"] == trace_of(phase_done_twice()).to_dict()["taskTraces"]


def test_memory_is_counted_by_kind_for_other_readers_t11():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        for kind, often in (("short_term", 1), ("long_term", 2), ("entity", 3)):
            for _ in range(often):
                build.memory("retrieve", "notes", store_kind=kind)
                build.memory("store", "notes", store_kind=kind)
    document = trace_of(build.finish()).to_dict()
    counts = {"stmWrites": 1, "ltmStores": 5, "ltmRetrievals": 3, "entityLookups": 3}
    assert document["metrics"]["memoryOperations"] == counts
    assert document["taskTraces"][0]["metrics"]["memoryOperations"] == counts


def test_prices_stay_as_they_were_when_the_trace_was_written(tmp_path):
    build = EventBuilder({"a": ()}, provider="openai", model="gpt-4o-mini")
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=1000, output_tokens=100)
    own = CostConfiguration(input_rate="0.001", output_rate="0.002", currency="EUR")
    trace = trace_of(build.finish(), cost=own)
    loaded = again(trace, tmp_path)
    assert (loaded.metrics.cost, loaded.metrics.currency) == (trace.metrics.cost, "EUR")
    text = (tmp_path / "run.trace.json").read_text().replace('"costInput": "1.000"', '"costInput": "7"')
    (tmp_path / "run.trace.json").write_text(text)
    assert ExecutionTrace.load(tmp_path / "run.trace.json").metrics.cost == 7 + trace.metrics.cost - 1


def test_no_key_is_ever_written(tmp_path):
    build = EventBuilder({"a": ()}, inputs={"key": KEY})
    with build.task("a", output=f"Out {KEY}", prompt=f"Use {KEY}"), build.turn():
        build.llm(stream=[KEY[:9], KEY[9:20], KEY[20:]], asks=["search"], retries=[(KEY, 1.0)])
        build.tool("search", {"key": KEY}, result=KEY, error=OSError(KEY))
        build.warn(f"There is {KEY}")
    path = trace_of(build.finish()).save(tmp_path / "run.trace.json")
    text = path.read_text()
    assert KEY not in text
    assert KEY[9:20] not in text
    assert "***" in text


def test_a_name_may_tell_that_a_value_is_a_secret(tmp_path):
    secret = "abcdefghijklmnopqrstuvwxyz"
    build = EventBuilder({"a": ()}, inputs={"api_key": secret})
    with build.task("a"), build.turn():
        build.llm(asks=["search"])
        build.tool("search", {"api_key": secret})
    events = list(build.finish())
    reply = next(event for event in events if type(event).__name__ == "LlmCallCompleted")
    object.__setattr__(reply.tool_calls[0], "arguments", {"api_key": secret, "depth": {"apiKey": secret}})
    trace = trace_of(events)
    assert trace.inputs == {"api_key": "***"}
    assert secret not in trace.save(tmp_path / "run.trace.json").read_text()
    assert again(trace, tmp_path).frames.messages.tool_calls.equals(trace.frames.messages.tool_calls)


@dataclass
class Verdict:
    score: float
    tags: set


def test_values_behind_outputs_are_written_as_plain_ones(tmp_path):
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a", output="x"):
        pass
    events = list(build.finish())
    done = next(event for event in events if type(event).__name__ == "TaskCompleted")
    value = {"verdict": Verdict(float("nan"), {1}), 3: datetime(2026, 1, 1, tzinfo=UTC), "x": object}
    object.__setattr__(done.output, "parsed_output", value)
    trace = trace_of(events)
    plain = trace.to_dict()["taskTraces"][0]["parsedOutput"]
    assert plain["verdict"] == {"score": "nan", "tags": [1]}
    assert plain["3"] == "2026-01-01T00:00:00Z"
    assert again(trace, tmp_path).to_dict() == trace.to_dict()


def test_errors_come_back_with_the_names_of_their_classes(tmp_path):
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(error=ConnectionError("gone"))
    loaded = again(trace_of(build.finish()), tmp_path)
    assert loaded.frames.errors.error_type.unique().tolist() == ["ConnectionError"]
    assert (type(loaded.events[-1].error).__name__, str(loaded.events[-1].error)) == ("ConnectionError", "gone")


# --- Files of others, and broken ones ---------------------------------------------------------------------------------


def foreign():
    """As AgentEnsemble 1.1 writes it: no names, no plan, Java's instants, unknown tokens as -1."""
    worker = {
        "agentRole": "Researcher",
        "taskDescription": "Find out",
        "expectedOutput": "Facts",
        "startedAt": "2026-03-01T10:00:02.123456789Z",
        "completedAt": "2026-03-01T10:00:03Z",
        "duration": "PT0.876543211S",
        "prompts": {"systemPrompt": "You are Researcher.", "userPrompt": "Find out"},
        "llmInteractions": [
            {
                "iterationIndex": 0,
                "startedAt": "2026-03-01T10:00:02.2Z",
                "completedAt": "2026-03-01T10:00:03Z",
                "latency": "PT0.8S",
                "inputTokens": 50,
                "outputTokens": 5,
                "responseType": "FINAL_ANSWER",
                "responseText": "Found",
                "toolCalls": [],
                "messages": [],
            }
        ],
        "delegations": [],
        "finalOutput": "Found",
        "parsedOutput": None,
        "metrics": {"inputTokens": 50, "outputTokens": 5, "toolCallCount": 0},
        "metadata": {},
    }
    task = {
        **worker,
        "agentRole": "Senior Writer",
        "taskDescription": "Write",
        "startedAt": "2026-03-01T10:00:00Z",
        "completedAt": "2026-03-01T11:00:05Z",
        "llmInteractions": [
            {
                "iterationIndex": 0,
                "startedAt": "2026-03-01T10:00:00Z",
                "completedAt": "2026-03-01T10:00:01Z",
                "inputTokens": -1,
                "outputTokens": -1,
                "responseType": "TOOL_CALLS",
                "responseText": None,
                "toolCalls": [
                    {
                        "toolName": "delegate",
                        "arguments": '{"agentRole": "Researcher"}',
                        "result": "Found",
                        "startedAt": "2026-03-01T10:00:02Z",
                        "completedAt": "2026-03-01T10:00:03Z",
                        "duration": "PT1S",
                        "outcome": "SUCCESS",
                        "parsedInput": None,
                    }
                ],
                "messages": [],
            }
        ],
        "delegations": [
            {
                "delegatorRole": "Senior Writer",
                "workerRole": "Researcher",
                "taskDescription": "Find out",
                "startedAt": "2026-03-01T10:00:02Z",
                "completedAt": "2026-03-01T10:00:03Z",
                "depth": 1,
                "result": "Found",
                "succeeded": True,
                "workerTrace": worker,
            }
        ],
        "finalOutput": "Written",
        "metrics": {"toolCallCount": 1},
    }
    return {
        "schemaVersion": "1.1",
        "captureMode": "STANDARD",
        "ensembleId": "7a0c",
        "workflow": "SEQUENTIAL",
        "startedAt": "2026-03-01T10:00:00Z",
        "completedAt": "2026-03-01T11:00:05Z",
        "totalDuration": "PT1H5S",
        "inputs": {"topic": "tides"},
        "agents": [{"role": "Senior Writer", "goal": "Write", "background": None, "toolNames": ["delegate"]}],
        "taskTraces": [task],
        "metrics": {},
        "errors": [],
        "metadata": {},
    }


def saved(document, folder):
    path = folder / "foreign.trace.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_a_trace_of_agentensemble_is_read(tmp_path):
    trace = ExecutionTrace.load(saved(foreign(), tmp_path))
    assert find_violations(trace) == []
    assert (trace.run_id, trace.status, trace.capture_mode) == ("7a0c", RunStatus.COMPLETED, CaptureMode.STANDARD)
    assert (trace.inputs, trace.workflow, trace.plan) == ({"topic": "tides"}, "sequential", None)
    task = trace.task("senior_writer_1")
    assert (task.output, task.duration, task.turns[0].input_tokens) == ("Written", timedelta(seconds=3605), None)
    assert task.delegations[0].worker_trace.output == "Found"
    assert (trace.metrics.input_tokens, trace.metrics.tokens_complete) == (50, False)
    assert trace.frames.tasks.task.tolist() == ["senior_writer_1"]
    assert trace.to_dict()["totalDuration"] == "PT1H5S"
    assert again(trace, tmp_path).to_dict() == trace.to_dict()


def test_a_failed_trace_of_agentensemble_is_failed(tmp_path):
    error = {"agentRole": "W", "errorType": "AgentExecutionException", "message": "gone", "occurredAt": None}
    document = {**foreign(), "completedAt": None, "errors": [error]}
    trace = ExecutionTrace.load(saved(document, tmp_path))
    assert trace.status is RunStatus.FAILED
    assert trace._fold.error[:2] == ("AgentExecutionException", "gone")
    assert trace.duration == timedelta(seconds=3605)


@pytest.mark.parametrize(
    "document, words",
    [
        ("", "no whole JSON document: Expecting value at line 1, column 1"),
        ('{"taskTraces": [', "no whole JSON document"),
        ("[1, 2]", "it has no 'taskTraces'"),
        ({"spans": []}, "it has no 'taskTraces'"),
        ({"schemaVersion": "2.0", "taskTraces": []}, "schemaVersion '2.0'; versions 1.x can be read"),
        ({**foreign(), "startedAt": "yesterday"}, "taskTraces is damaged"),
        ({**foreign(), "taskTraces": [{}]}, "taskTraces is damaged (KeyError: 'agentRole')"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_place(document, words, tmp_path):
    path = saved(document, tmp_path)
    with pytest.raises(TraceFormatError) as refused:
        ExecutionTrace.load(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_damaged_event_is_named(tmp_path):
    path = trace_of(managed()).save(tmp_path / "run.trace.json")
    document = json.loads(path.read_text())
    del document["events"][3]["offsetS"]
    document["events"][3]["time"] = "soon"
    path.write_text(json.dumps(document))
    with pytest.raises(TraceFormatError, match=r"events\[3\] is damaged"):
        ExecutionTrace.load(path)


VALUES = st.sampled_from([None, True, -1, 0, 2, "?", [], {}, [None]])


@given(document=st.sampled_from([trace_of(managed()).to_dict(), foreign()]), data=st.data())
def test_whatever_is_wrong_in_a_file_it_is_read_or_refused(document, data, tmp_path_factory):
    document = around = json.loads(json.dumps(document))
    while True:
        keys = list(around) if isinstance(around, dict) else list(range(len(around)))
        key = data.draw(st.sampled_from(keys))
        inside = around[key]
        if not (isinstance(inside, dict | list) and inside) or data.draw(st.booleans()):
            break
        around = inside
    around[key] = data.draw(VALUES)
    path = saved(document, tmp_path_factory.mktemp("damaged"))
    with suppress(TraceFormatError):
        ExecutionTrace.load(path)


@given(cut=st.floats(0, 0.999))
def test_a_file_that_was_cut_off_is_refused(cut, tmp_path_factory):
    path = trace_of(managed()).save(tmp_path_factory.mktemp("cut") / "run.trace.json")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole.rstrip()) * cut)])
    with pytest.raises(TraceFormatError):
        ExecutionTrace.load(path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "run.trace.json"
    path.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(TraceFormatError, match=r"no text in UTF-8|no whole JSON"):
        ExecutionTrace.load(path)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        ExecutionTrace.load(tmp_path / "none.trace.json")


def test_a_file_is_replaced_once_the_new_one_is_whole(tmp_path, monkeypatch):
    trace = trace_of(managed())
    path = trace.save(tmp_path / "deep" / "run.trace.json")
    before = path.read_bytes()
    monkeypatch.setattr(ExecutionTrace, "to_dict", lambda self: {"broken": object()})
    with pytest.raises(TypeError):
        trace.save(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["run.trace.json"]


def test_types_of_events_that_a_later_version_adds_are_passed_over(tmp_path):
    path = trace_of(managed()).save(tmp_path / "run.trace.json")
    document = json.loads(path.read_text())
    document["events"].insert(5, {"type": "TaskDreamt", "seq": 99})
    path.write_text(json.dumps(document))
    assert ExecutionTrace.load(path).metrics.input_tokens == 330


# --- Instants and durations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duration, text",
    [
        (timedelta(), "PT0S"),
        (timedelta(hours=1, minutes=2, seconds=3, milliseconds=400), "PT1H2M3.4S"),
        (timedelta(days=2), "PT48H"),
        (timedelta(microseconds=1), "PT0.000001S"),
        (timedelta(minutes=5), "PT5M"),
        (timedelta(seconds=-1), "-PT1S"),
    ],
)
def test_durations_have_hours_and_never_days(duration, text):
    assert write_duration(duration) == text
    assert read_value(text, timedelta) == duration


# What reads them ends at 136 years, no run of which was ever seen.
@given(st.timedeltas(-timedelta(days=49_000), timedelta(days=49_000)))
def test_durations_come_back(duration):
    assert read_value(write_duration(duration), timedelta) == duration


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_come_back(moment):
    assert parse_instant(format_instant(moment)) == moment
    assert format_instant(moment).endswith("Z")


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "PT5", "1H"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="valid timedelta"):
        read_value(text, timedelta)


def test_an_instant_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        parse_instant("2026-01-01T00:00:00")


def test_nanoseconds_are_cut():
    assert parse_instant("2026-01-01T00:00:00.123456789Z").microsecond == 123456


def test_a_compressed_file_is_the_same_trace_and_much_smaller_t95(tmp_path):
    trace = ExecutionTrace.from_events(research())
    plain, small = trace.export(tmp_path / "run.trace.json"), trace.export(tmp_path / "run.trace.json.gz")
    assert ExecutionTrace.load(small).to_dict() == ExecutionTrace.load(plain).to_dict()
    assert small.stat().st_size < plain.stat().st_size / 4
    assert load_traces(small).runs.index.tolist() == [trace.run_id]
    odd = tmp_path / "named otherwise"
    odd.write_bytes(small.read_bytes())
    assert ExecutionTrace.load(odd).run_id == trace.run_id


@pytest.mark.parametrize("cut", [2, 12, 200, -1])
def test_a_compressed_file_that_was_cut_off_is_refused_t95(cut, tmp_path):
    file = ExecutionTrace.from_events(research()).save(tmp_path / "run.trace.json.gz")
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(TraceFormatError, match=r"run\.trace\.json\.gz is no whole gzip file"):
        ExecutionTrace.load(file)


def test_a_compressed_file_of_another_program_is_refused_t95(tmp_path):
    with pytest.raises(ValidationError, match=r"\.json\.gz \(the same, compressed\)"):
        ExecutionTrace.from_events(research()).export(tmp_path / "run.otlp.json.gz")
