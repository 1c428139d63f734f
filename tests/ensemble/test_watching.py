"""Runs of other frameworks, by the spans that they make: `watch` (T103 to T105)."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from ensemble_notebook import (
    Ensemble,
    RunStatus,
    ScriptedChatModel,
    Task,
    ValidationError,
    load_traces,
    watch,
)
from ensemble_notebook.domain.genai_spans import SCOPE
from ensemble_notebook.ensemble import watching
from ensemble_notebook.importers.foreign_run import LOST_AFTER_NS
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store.run_store import RunStore
from tests.support.store import wait_for_store

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"}
TOKENS = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 3}


@pytest.fixture
def provider():
    made = TracerProvider(shutdown_on_exit=False)
    yield made
    made.shutdown()


@pytest.fixture
def watched(provider):
    with watch(provider) as watched:
        yield watched


def run_agent(provider, name="Desk", *, scope="of a framework"):
    tracer = provider.get_tracer(scope)
    with tracer.start_as_current_span(f"invoke_agent {name}", attributes={**AGENT, "gen_ai.agent.name": name}):
        call = tracer.start_span("chat gpt-4o-mini", attributes=CHAT)
        call.set_attributes(TOKENS)
        call.end()


def test_t103_each_root_of_a_framework_becomes_an_output(provider, watched):
    run_agent(provider)
    run_agent(provider, "Lab")
    with provider.get_tracer("of a server").start_as_current_span("GET /"):
        pass
    first, second = watched.runs
    assert (first.name, second.name) == ("Desk", "Lab")
    assert first.status is RunStatus.COMPLETED
    assert first.metrics.input_tokens == 10
    assert first.metrics.output_tokens == 3
    assert list(first.frames.spans.kind) == ["run", "task", "turn", "llm", "attempt"]
    assert repr(watched) == "<Watch: 2 runs>"


def test_t103_a_watched_run_is_in_the_store_and_can_be_scored(store_path, provider, watched):
    run_agent(provider)
    (output,) = watched.runs
    wait_for_store()
    assert output.annotate(0.5, "quality").score_records[0].name == "quality"
    assert load_traces().load_output(output.run_id).metrics.input_tokens == 10


def test_t103_a_run_that_goes_on_is_lost_at_the_end_of_watching(provider, watched):
    span = provider.get_tracer("x").start_span("invoke_agent Desk", attributes=AGENT)
    assert watched.runs == ()
    assert repr(watched) == "<Watch: 0 runs, 1 going on>"
    watched.stop()
    span.end()
    (output,) = watched.runs
    assert output.status is not RunStatus.COMPLETED
    assert "stopped" in repr(watched)


def test_t103_what_is_watched_has_one_handle_and_can_be_watched_again(provider, watched, capsys):
    assert watch(provider) is watched
    watched.stop()
    run_agent(provider)
    with watch(provider) as again:
        assert again is not watched
        run_agent(provider, "Lab")
        assert [each.name for each in again.runs] == ["Lab"]
    assert watched.runs == ()
    assert capsys.readouterr().out.splitlines()[-1].startswith("Watching the spans of this process: those of")


def test_t103_runs_of_ours_are_not_watched(provider, watched):
    run_agent(provider, scope=SCOPE)
    assert watched.runs == ()


def test_t103_a_provider_without_processors_is_refused():
    with pytest.raises(ValidationError, match="no add_span_processor"):
        watch(SimpleNamespace())


def test_t103_runs_of_several_threads_are_kept_apart(provider, watched):
    threads = [threading.Thread(target=run_agent, args=(provider, f"Desk {number}")) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.name for each in watched.runs) == [f"Desk {number}" for number in range(8)]
    assert {each.metrics.input_tokens for each in watched.runs} == {10}


LONG = """
from opentelemetry.trace import get_tracer_provider
from ensemble_notebook import watch
with watch():
    span = get_tracer_provider().get_tracer("of a framework").start_span("chat")
    span.set_attributes({f"llm.input_messages.{number}.message.content": "x" for number in range(200)})
    print(len(span.attributes))
"""


@pytest.mark.parametrize("limit, kept", [({}, 200), ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "20"}, 20)])
def test_t104_a_long_conversation_is_whole_unless_the_environment_limits_it(limit, kept):
    environment = os.environ | {"ENSEMBLE_NOTEBOOK_STORE": "off"} | limit
    said = subprocess.run([sys.executable, "-c", LONG], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == str(kept)


def test_t104_an_output_is_made_when_it_is_asked_for(provider, watched):
    run_agent(provider)
    assert repr(watched) == "<Watch: 1 run>"
    (run,) = watched._runs.values()
    assert "output" not in vars(run)
    (output,) = watched.runs
    assert watched.runs[0] is output


def test_t104_spans_are_gathered_until_somebody_wants_them(provider, watched, monkeypatch):
    monkeypatch.setattr(watching, "GATHER_S", 3600.0)
    for number in range(20):
        run_agent(provider, f"Desk {number}")
    assert len(watched.runs) == 20
    span = provider.get_tracer("x").start_span("invoke_agent Lab", attributes=AGENT)
    watched.stop()
    span.end()
    assert len(watched.runs) == 21


def test_t105_a_watched_run_says_what_told_of_it_in_the_list_of_runs(store_path, provider, watched):
    run_agent(provider)
    (output,) = watched.runs
    wait_for_store()
    assert make_run_table(RunStore.open()).loc[output.run_id, "framework"] == "of a framework"
    assert load_traces().runs.workflow.to_list() == ["of a framework"]


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("act", ["fork", "rerun", "resume", "fork by another", "plan"])
def test_t105_what_another_framework_ran_can_not_be_gone_on_with_and_says_why(
    store_path, provider, watched, act, is_stored
):
    run_agent(provider)
    (output,) = watched.runs
    wait_for_store()
    run = load_traces().load_output(output.run_id) if is_stored else output
    task, call = (output.frames.spans.query(f"kind == '{kind}'").index[0] for kind in ("task", "llm"))
    ours = Ensemble(tasks=[Task.of("Tell it", name="Desk")], llm=ScriptedChatModel(replies=["It is warm."]))
    acts = {
        "fork": lambda: run.fork(task, output="x"),
        "plan": lambda: run.fork(task, output="x", plan=True),
        "rerun": lambda: run.rerun(call),
        "resume": lambda: ours.run(resume=run.run_id if is_stored else run),
        "fork by another": lambda: ours.fork(run.run_id if is_stored else run, task, output="x"),
    }
    with pytest.raises(ValidationError, match="read from what of a framework told, which does not have what ran"):
        acts[act]()


def test_t105_a_call_of_another_framework_is_made_again_by_a_model_that_is_named(store_path, provider, watched):
    tracer = provider.get_tracer("x")
    with tracer.start_as_current_span("invoke_agent Desk", attributes=AGENT):
        told = {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "How warm?"}]}]'}
        tracer.start_span("chat", attributes=CHAT | told).end()
    (output,) = watched.runs
    call = output.frames.spans.query("kind == 'llm'").index[0]
    assert output.rerun(call, llm=ScriptedChatModel(replies=["Cold."])).replies[0].text == "Cold."


def test_t103_a_root_that_is_open_for_an_hour_is_lost_and_one_warning_counts_what_ends_later(provider, monkeypatch):
    monkeypatch.setattr(watching, "SETTLE_S", 0.01)
    tracer, began_ns = provider.get_tracer("x"), time.time_ns() - LOST_AFTER_NS
    watched = watch(provider)
    root = tracer.start_span("invoke_agent Desk", attributes=AGENT, start_time=began_ns)
    call = tracer.start_span("chat", set_span_in_context(root), attributes=CHAT, start_time=began_ns)
    end_s = time.monotonic() + 30
    while not watched.runs:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    (output,) = watched.runs
    assert output.status is RunStatus.INTERRUPTED
    call.end()
    root.end()
    assert repr(watched) == "<Watch: 1 run, 2 late spans>"
    with pytest.warns(UserWarning, match="^2 spans ended after the run was closed, and so in no run.$"):
        watched.stop()


def test_t103_two_roots_of_a_trace_at_once_are_two_runs(provider, watched):
    tracer = provider.get_tracer("of a server")
    with tracer.start_as_current_span("GET /"):
        roots = [tracer.start_span(f"invoke_agent {each}", attributes=AGENT) for each in ("Desk", "Lab")]
        for each in roots:
            tracer.start_span("chat", set_span_in_context(each), attributes=CHAT | TOKENS).end()
        assert watched.runs == ()
        for each in roots:
            each.end()
    assert [each.metrics.input_tokens for each in watched.runs] == [10, 10]
    assert len({each.run_id for each in watched.runs}) == 2


KNOWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ensemble_notebook import watch

exporter, own = InMemorySpanExporter(), TracerProvider()
own.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(own)
with watch() as watched:
    told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"}
    trace.get_tracer("of a framework").start_span("invoke_agent Desk", attributes=told).end()
    print(trace.get_tracer_provider() is own, [each.name for each in watched.runs], len(exporter.get_finished_spans()))
"""


def test_t103_a_provider_that_is_there_already_stays_and_is_heard():
    environment = os.environ | {"ENSEMBLE_NOTEBOOK_STORE": "off"}
    said = subprocess.run([sys.executable, "-c", KNOWN], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        "Watching the spans of this process: those of the tracer provider that is set up.",
        "True ['Desk'] 1",
    ]


def test_t103_twenty_thousand_live_spans_are_one_run(provider, watched):
    tracer = provider.get_tracer("x")
    with tracer.start_as_current_span("invoke_agent Desk", attributes=AGENT):
        for _ in range(20_000):
            tracer.start_span("chat", attributes=CHAT | TOKENS).end()
    end_s = time.monotonic() + 300
    while not watched.runs:
        assert time.monotonic() < end_s
    (output,) = watched.runs
    assert (output.status, output.metrics.input_tokens) == (RunStatus.COMPLETED, 200_000)


def test_t103_what_fails_in_us_fails_nobody_else(provider, watched, monkeypatch, caplog):
    monkeypatch.setattr(watched._adapter, "end", lambda _: 1 / 0)
    run_agent(provider)
    assert watched.runs == ()
    assert "watching goes on" in caplog.text
