"""Spans of runs in a real tracer provider."""

import json
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ensemble_notebook import (
    Agent,
    Ensemble,
    MissingPackageError,
    OtelExporter,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolUse,
    ValidationError,
)
from ensemble_notebook.cell.completion import propose
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.domain.genai_spans import SCHEMA_URL
from tests.support.store import wait_for_store

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture
def kept() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(kept: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(kept))
    return made


def count(word: str) -> int:
    """How long a word is."""
    return len(word)


def make_team(exporter: object) -> Ensemble:
    says = ScriptedChatModel(replies=[ToolUse("count", {"word": "tides"}), "five tides"])
    agent = Agent(role="Counter", goal="Count", tools=[count])
    return Ensemble(name="team", tasks=[Task.of("Count it", agent=agent)], llm=says, trace_exporter=exporter)


def by_name(kept: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in kept.get_finished_spans()}


def test_spans_go_below_the_current_span_and_lie_in_one_another_t117(kept, provider):
    with provider.get_tracer("web").start_as_current_span("GET /advice") as request:
        make_team(OtelExporter(provider)).run()
    spans = by_name(kept)
    root, agent = spans["invoke_workflow team"], spans["invoke_agent Counter"]
    assert root.parent.span_id == request.get_span_context().span_id
    assert agent.parent.span_id == root.context.span_id
    assert spans["execute_tool count"].parent.span_id == agent.context.span_id
    chats = [span for span in kept.get_finished_spans() if span.name.startswith("chat ")]
    assert [span.parent.span_id for span in chats] == [agent.context.span_id] * 2
    assert root.instrumentation_scope.schema_url == SCHEMA_URL


def test_a_live_exporter_sends_no_text_unless_it_is_told_to_t118(kept, provider, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    for value in ("", "false", "NO_CONTENT"):
        monkeypatch.setenv(VARIABLE, value)
        make_team(OtelExporter(provider)).run()
    assert "tides" not in "".join(span.to_json() for span in kept.get_finished_spans())
    kept.clear()
    make_team(OtelExporter(provider, content=True)).run()
    assert json.loads(by_name(kept)["execute_tool count"].attributes["gen_ai.tool.call.arguments"]) == {"word": "tides"}
    kept.clear()
    monkeypatch.setenv(VARIABLE, "SPAN_ONLY")
    make_team(OtelExporter(provider)).run()
    assert "five tides" in "".join(span.to_json() for span in kept.get_finished_spans())


def test_both_doors_give_the_same_spans_t117(kept, provider, tmp_path):
    output = make_team(OtelExporter(provider, content=True)).run()
    (live,) = encode_spans(kept.get_finished_spans()).resource_spans[0].scope_spans
    content = json.loads(output.export(tmp_path / "run.otlp.json").read_text())
    (written,) = content["resourceSpans"][0]["scopeSpans"]
    told = [(each.name, each.kind, each.start_time_unix_nano, each.end_time_unix_nano) for each in live.spans]
    assert told == [
        (each["name"], each["kind"], int(each["startTimeUnixNano"]), int(each["endTimeUnixNano"]))
        for each in written["spans"]
    ]
    keys = [{each.key for each in span.attributes} for span in live.spans]
    assert keys == [{each["key"] for each in span["attributes"]} for span in written["spans"]]


def test_the_runs_of_a_map_lie_inside_its_own_span_t117(kept, provider):
    agent = Agent(role="Speaker", goal="Speak")
    says = ScriptedChatModel(default="yes")
    exporter = OtelExporter(provider)
    Ensemble(tasks=[Task.of("Say {word}", agent=agent)], llm=says, trace_exporter=exporter).map(
        [{"word": "a"}, {"word": "b"}]
    )
    spans = kept.get_finished_spans()
    (root,) = [span for span in spans if span.parent is None]
    rows = [span for span in spans if span.parent is not None and span.parent.span_id == root.context.span_id]
    assert [span.name.split()[0] for span in rows] == ["invoke_workflow"] * 2
    assert len({span.context.trace_id for span in spans}) == 1
    assert sum(span.name.startswith("chat ") for span in spans) == 2


def name_parents(spans: Sequence[ReadableSpan]) -> list[tuple[str, str | None]]:
    """Each span's name, with that of the one around it."""
    names = {span.context.span_id: span.name for span in spans}
    return sorted((span.name, None if span.parent is None else names[span.parent.span_id]) for span in spans)


class Caller:
    """An outer ensemble whose agent calls a tool, in which the inner one of `make_team` is run."""

    def __init__(self, inner: object, **fields: object) -> None:
        def ask_team(question: str) -> str:
            """Ask the team."""
            return make_team(inner).run().raw

        says = ScriptedChatModel(replies=[ToolUse("ask_team", {"question": "How many?"}), "done"])
        agent = Agent(role="Chief", goal="Ask", tools=[ask_team])
        self.ensemble = Ensemble(name="outer", tasks=[Task.of("Ask", agent=agent)], llm=says, **fields)


NESTED = [
    ("chat scripted", "invoke_agent Chief"),
    ("chat scripted", "invoke_agent Chief"),
    ("chat scripted", "invoke_agent Counter"),
    ("chat scripted", "invoke_agent Counter"),
    ("execute_tool ask_team", "invoke_agent Chief"),
    ("execute_tool count", "invoke_agent Counter"),
    ("invoke_agent Chief", "invoke_workflow outer"),
    ("invoke_agent Counter", "invoke_workflow team"),
    ("invoke_workflow outer", None),
    ("invoke_workflow team", "execute_tool ask_team"),
]


def test_a_run_inside_another_is_sent_once_where_both_have_an_exporter_t117(kept, provider):
    Caller(OtelExporter(provider), trace_exporter=OtelExporter(provider)).ensemble.run()
    assert name_parents(kept.get_finished_spans()) == NESTED
    kept.clear()
    shared = OtelExporter(provider)
    Caller(shared, trace_exporter=shared).ensemble.run()
    assert name_parents(kept.get_finished_spans()) == NESTED
    kept.clear()
    Caller(shared, trace_exporter=shared).ensemble.map([{}])  # a row hears nothing itself; the map does
    assert sum(span.name == "invoke_workflow team" for span in kept.get_finished_spans()) == 1
    kept.clear()
    Caller(shared).ensemble.run()
    assert ("invoke_workflow team", None) in name_parents(kept.get_finished_spans())


def test_an_exporter_to_another_provider_inside_a_run_is_told_t117(kept, provider):
    other, elsewhere = TracerProvider(), InMemorySpanExporter()
    other.add_span_processor(SimpleSpanProcessor(elsewhere))
    Caller(OtelExporter(other), trace_exporter=OtelExporter(provider)).ensemble.run()
    assert name_parents(kept.get_finished_spans()) == NESTED
    assert {span.name for span in elsewhere.get_finished_spans()} == {
        *("invoke_workflow team", "invoke_agent Counter", "execute_tool count", "chat scripted")
    }


def test_a_run_with_two_exporters_to_one_provider_is_sent_once_t117(kept, provider):
    exporter = OtelExporter(provider)
    make_team(exporter).replace(listeners=[exporter, OtelExporter(provider)]).run()
    assert len(kept.get_finished_spans()) == 5


def make_pair(exporter: object) -> Ensemble:
    """An agent with a tool, and one that reads what it says."""
    says = ScriptedChatModel(replies=[ToolUse("count", {"word": "tides"}), "five", "written"], default="anew")
    counting = Task.of("Count it", name="count", agent=Agent(role="Counter", goal="Count", tools=[count]))
    writing = Task.of("Write it", name="write", agent=Agent(role="Writer", goal="Write"), context=counting)
    return Ensemble(name="team", tasks=[counting, writing], llm=says, trace_exporter=exporter)


AGENTS = [("invoke_agent Counter", "invoke_workflow team"), ("invoke_agent Writer", "invoke_workflow team")]
TOOL = ("execute_tool count", "invoke_agent Counter")
COUNTING, WRITING = ("chat scripted", "invoke_agent Counter"), ("chat scripted", "invoke_agent Writer")
ROOT = ("invoke_workflow team", None)


def test_a_fork_is_a_tree_with_the_requests_that_it_makes_itself_t117(kept, provider):
    output = make_pair(OtelExporter(provider, content=True)).run()
    kept.clear()
    second = output.frames.spans.query("kind == 'llm' and agent == 'Counter'").index[1]
    assert output.fork(second).raw == "anew"
    spans = kept.get_finished_spans()
    assert name_parents(spans) == sorted([COUNTING, WRITING, TOOL, *AGENTS, ROOT])
    (asked,) = [span for span in spans if span.name == "chat scripted" and "tides" in span.to_json()]
    told = json.loads(asked.attributes["gen_ai.input.messages"])
    assert [each["role"] for each in told] == ["user", "assistant", "tool"]  # the turn that was kept is told, too


def test_a_replay_is_the_tree_of_what_was_recorded_t117(kept, provider, tmp_path):
    make_pair(OtelExporter(provider)).run(record=tmp_path / "run.yaml")
    recorded = name_parents(kept.get_finished_spans())
    assert recorded == sorted([COUNTING, COUNTING, WRITING, TOOL, *AGENTS, ROOT])
    kept.clear()
    make_pair(OtelExporter(provider)).run(replay=tmp_path / "run.yaml")
    assert name_parents(kept.get_finished_spans()) == recorded


def test_tasks_that_are_reused_are_agents_without_requests_t117(kept, provider, store):
    make_pair(OtelExporter(provider)).run()
    wait_for_store()
    kept.clear()
    assert make_pair(OtelExporter(provider)).run(reuse=True)["count"].reused
    assert name_parents(kept.get_finished_spans()) == sorted([*AGENTS, ROOT])


def test_no_door_gives_a_key_away_wherever_it_stands_t118(kept, provider, tmp_path):
    key = "sk-" + "canary0" * 6

    def look_up(word: str, others: list[str]) -> str:
        """Look a word up."""
        return f"found {key} for {word}"

    def lose(word: str, password: str) -> str:
        """Lose a word."""
        raise RuntimeError(f"lost {key}")

    says = ScriptedChatModel(
        replies=[
            ToolUse("look_up", {"word": key, "others": [key]}),
            ToolUse("lose", {"word": "x", "password": "hunter2-hunter2"}),
            f"It is {key}.",
            RuntimeError(f"refused {key}"),
        ]
    )
    agent = Agent(role=f"Spy {key}", goal=f"Use {key}", tools=[look_up, lose])
    tasks = [Task.of(f"Say {key} {{word}}", agent=agent), Task.of("Again", agent=agent)]
    team = Ensemble(name=f"team {key}", tasks=tasks, llm=says, trace_exporter=OtelExporter(provider, content=True))
    with pytest.raises(TaskExecutionError) as caught:
        team.run(word=f"Bearer {key}")
    live = "".join(span.to_json() for span in kept.get_finished_spans())
    written = caught.value.output.export(tmp_path / "run.otlp.json").read_text()
    for door in (live, written):
        assert "found ***" in door
        assert "refused ***" in door
        assert "canary0" not in door
        assert "hunter2" not in door


def test_texts_that_no_encoding_has_reach_both_doors_t117(kept, provider, tmp_path):
    hostile = ["half \ud800 of one", "\0 and \x1b[31m", "</script>\"\\'", "\u202e\u2028\U0001f600", "long " * 50_000]
    told = "".join(hostile)

    def count(word: str) -> str:
        """Count a word."""
        return told

    says = ScriptedChatModel(replies=[*(ToolUse("count", {"word": each}) for each in hostile), told])
    agent = Agent(role="Cou\nnter", goal=told, tools=[count])
    team = Ensemble(name="te\nam", tasks=[Task.of(told, agent=agent)], llm=says)
    output = team.replace(trace_exporter=OtelExporter(provider, content=True)).run()
    assert output.warnings == ()
    (live,) = encode_spans(kept.get_finished_spans()).resource_spans[0].scope_spans
    content = output.export(tmp_path / "run.otlp.json").read_text()
    (written,) = Parse(content, ExportTraceServiceRequest()).resource_spans[0].scope_spans
    assert [span.name for span in live.spans] == [span.name for span in written.spans]
    for span in (*live.spans, *written.spans):
        texts = {each.key: each.value.string_value for each in span.attributes}
        for key in texts.keys() & {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments"}:
            json.loads(texts[key])
    assert "half \ufffd of one" in content


def test_what_fails_says_with_which_error_t117(kept, provider):
    agent = Agent(role="Speaker", goal="Speak")
    says = ScriptedChatModel(replies=[RuntimeError("boom")])
    with pytest.raises(TaskExecutionError):
        Ensemble(tasks=[Task.of("Say it", agent=agent)], llm=says, trace_exporter=OtelExporter(provider)).run()
    errors = {span.name.split()[0]: span.attributes["error.type"] for span in kept.get_finished_spans()}
    assert errors == {
        "chat": "RuntimeError",
        "invoke_agent": "AgentExecutionError",
        "invoke_workflow": "AgentExecutionError",
    }
    assert not any(span.status.is_ok for span in kept.get_finished_spans())


def test_a_provider_that_raises_does_not_disturb_the_run_t119(caplog):
    class Broken(TracerProvider):
        def get_tracer(self, *_: object, **__: object) -> object:
            raise RuntimeError("no tracer")

    output = make_team(OtelExporter(Broken())).run()
    assert output.raw == "five tides"
    assert "OtelExporter failed" in caplog.text
    (warning,) = output.warnings
    assert warning.startswith("Listener OtelExporter failed on RunStarted: RuntimeError: no tracer (at ")


def test_a_processor_that_raises_once_costs_one_span_and_one_warning_t119(kept, provider):
    class Picky(SpanProcessor):
        def on_start(self, span: Span, parent_context: Context | None = None) -> None:
            if span.name == "execute_tool count":
                raise RuntimeError("no tools")

    provider.add_span_processor(Picky())
    (warning,) = make_team(OtelExporter(provider)).run().warnings
    assert warning.startswith("Listener OtelExporter failed on ToolCallStarted: RuntimeError: no tools (at ")
    assert len(kept.get_finished_spans()) == 4


def test_a_cell_sends_its_spans_to_the_provider_of_the_process_c112():
    team = Ensemble.from_yaml("trace_exporter: otel\ntasks: [Say hello]\n")
    assert isinstance(team.trace_exporter, OtelExporter)


@pytest.mark.parametrize("word", ["otell", "oter", "OTEL"])
def test_a_misspelt_word_for_the_exporter_is_answered_at_its_place_c113(word):
    with pytest.raises(CellError) as caught:
        Ensemble.from_yaml(f"tasks: [Say hello]\ntrace_exporter: {word}\n")
    (mistake,) = caught.value.mistakes
    assert mistake.message == f"there is no '{word}' in this notebook. Did you mean 'otel'?"
    assert (mistake.line, mistake.column, mistake.end_column) == (2, 17, 17 + len(word))
    assert "`otel` sends spans to OpenTelemetry" in mistake.hint
    begun = "tasks: [Say hello]\ntrace_exporter: o"
    assert [each.text for each in propose(begun, len(begun), {}).found] == ["otel"]


def test_without_the_sdk_a_cell_says_at_the_word_which_line_installs_it_c113(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(MissingPackageError, match=r"OpenTelemetry's SDK, which is not installed here: pip install"):
        OtelExporter()
    with pytest.raises(CellError, match=r"line 2: .* SDK, which is not installed here: pip install") as caught:
        Ensemble.from_yaml("tasks: [Say hello]\ntrace_exporter: otel\n")
    assert caught.value.mistakes[0].column == 17


# --- Rows elsewhere (T125) --------------------------------------------------------------------------------------------


def make_mapped(exporter: object, inner_exporter: object = None) -> Ensemble:
    """An ensemble whose task another one does."""
    agent = Agent(role="Speaker", goal="Speak")
    inner = Ensemble(
        name="inner", tasks=[Task.of("Say it", agent=agent)], llm="scripted", trace_exporter=inner_exporter
    )
    task = Task.of("Say {word}", name="say", ensemble=inner)
    return Ensemble(name="mapped", tasks=[task], trace_exporter=exporter)


ROWS = [{"word": "a"}, {"word": "b"}]


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_rows_elsewhere_have_the_spans_of_rows_here_t125(kept, provider, kind):
    with provider.get_tracer("web").start_as_current_span("GET /advice"):
        make_mapped(OtelExporter(provider)).map(ROWS)
    here = name_parents(kept.get_finished_spans())
    kept.clear()
    with (
        kind(2, **({"mp_context": get_context("spawn")} if kind is ProcessPoolExecutor else {})) as executor,
        provider.get_tracer("web").start_as_current_span("GET /advice"),
    ):
        make_mapped(OtelExporter(provider), OtelExporter(provider)).map(ROWS, executor=executor)
    spans = kept.get_finished_spans()
    assert name_parents(spans) == here
    around = {span.context.span_id: span for span in spans}
    for span in spans:
        assert span.start_time <= span.end_time
        if span.parent is not None:
            outer = around[span.parent.span_id]
            assert outer.start_time <= span.start_time
            assert span.end_time <= outer.end_time


def test_an_exporter_inside_rows_elsewhere_asks_their_process_for_its_provider_t125(kept, provider, monkeypatch):
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    with ThreadPoolExecutor(2) as executor:
        make_mapped(None, OtelExporter()).map(ROWS, executor=executor)
        assert [name for name, around in name_parents(kept.get_finished_spans()) if around is None] == (
            ["invoke_workflow inner"] * 2
        )
        with pytest.raises(ValidationError, match="an OtelExporter with a tracer_provider sends from the process"):
            make_mapped(None, OtelExporter(provider)).map(ROWS, executor=executor)
    assert vars(pickle.loads(pickle.dumps(OtelExporter(content=True))))["content"] is True
