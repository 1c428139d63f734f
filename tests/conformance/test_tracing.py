"""Who hears of a run: its models, and who was meant to (E17, E68)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ensemble_notebook import Ensemble, Event, LlmToken, Task
from tests.conformance.scene import scripted
from tests.support.openai_server import Answer, OpenAIServer

RUN = """
import sys, time
import ensemble_notebook
from ensemble_notebook import Agent, Ensemble, Task
from langchain_core.tools import tool

@tool
def look_up(what: str) -> str:
    "Look it up."
    from langchain_core.runnables import RunnableLambda
    return RunnableLambda(str.upper).invoke(what)

def write(task):
    from langchain_core.runnables import RunnableLambda
    return RunnableLambda(str.upper).invoke("soup")

if "allowed" in sys.argv:
    ensemble_notebook.config.langsmith = True
if "cell" in sys.argv:
    from ensemble_notebook.cell.cell_reader import read_cell
    names = {"look_up": look_up, "write": write}
    cell = f'''
llm: {sys.argv[1]}
agents:
  Cook: {{goal: Cook, tools: look_up}}
tasks:
  soup: {{description: The secret soup, agent: Cook}}
  note: {{description: Note, handler: write}}
'''
    ensemble = read_cell(cell, names).build(names)
else:
    cook = Agent(role="Cook", goal="Cook", tools=[look_up])
    tasks = [Task.of("The secret soup", agent=cook), Task.of("Note", handler=write)]
    ensemble = Ensemble(tasks=tasks, llm=sys.argv[1])
output = ensemble.run()
print(list(output.warnings))
print(sorted(each.raw for each in output.task_outputs))
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
time.sleep(0.3)
"""


def run_traced(server: OpenAIServer, endpoint: OpenAIServer, variable: str, *words: str) -> str:
    """Run in a process in which a variable switches tracing on; give what it prints."""
    server.script(Answer(None, calls=[("look_up", {"what": "leek"})]), Answer("Soup."))
    root = endpoint.url.removesuffix("/v1")
    traced = {variable: "true", "LANGSMITH_ENDPOINT": root, "LANGCHAIN_ENDPOINT": root, "LANGSMITH_API_KEY": "ls-key"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, f"openai:test-model@{server.url}", *words],
        env={**os.environ, **traced},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 2
    return done.stdout


@pytest.mark.parametrize("way", ["python", "cell"])
@pytest.mark.parametrize("variable", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGCHAIN_TRACING"])
def test_e68_tracing_by_a_variable_contacts_nobody_and_is_told_of(
    server: OpenAIServer, variable: str, way: str
) -> None:
    with OpenAIServer() as endpoint:
        said = run_traced(server, endpoint, variable, way)
        assert endpoint.requests == []
    assert f"['{variable} is set, and has no effect here" in said.replace('"', "'")
    assert said.count("is set, and has no effect") == 1
    assert "['SOUP', 'Soup.']" in said


def test_e68_tracing_goes_on_where_the_configuration_says_so(server: OpenAIServer) -> None:
    with OpenAIServer() as endpoint:
        said = run_traced(server, endpoint, "LANGSMITH_TRACING", "allowed")
        told = b"".join(each.raw for each in endpoint.requests)
        assert all(b'"run_type":"%b"' % kind in told for kind in (b"llm", b"tool"))  # of the spec, and of its tool
    assert "is set" not in said


def test_e68_callbacks_of_a_model_object_are_called(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_openai import ChatOpenAI

    heard = []

    class Ear(BaseCallbackHandler):
        def on_chat_model_start(self, *args: object, **facts: object) -> None:
            heard.append("start")

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    model = ChatOpenAI(model="test-model", base_url=server.url, api_key="none", callbacks=[Ear()])
    Ensemble(tasks=[Task.of("Make soup")], llm=model).run()
    assert heard == ["start"]


# --- E17 ---


def test_e17_listeners_of_one_run_hear_tokens_as_a_stream_does() -> None:
    heard: list[Event] = []
    made = Ensemble(tasks=[Task.of("Make soup", llm=scripted("Soup of the day"))])
    made.start(listeners=[heard.append]).result()
    assert "".join(event.text for event in heard if isinstance(event, LlmToken)) == "Soup of the day"


def test_e17_nothing_is_streamed_for_listeners_that_don_t_want_it(server: OpenAIServer, llm: str) -> None:
    class Deaf:
        wants_tokens = False

        def on_event(self, event: object) -> None:
            """Hear it."""

    made = Ensemble(tasks=[Task.of("Make soup")], llm=llm, listeners=[print])
    made.start(listeners=[Deaf()]).result()
    made.start(listeners=[print]).result()
    assert [request.is_streamed for request in server.requests] == [False, True]
    assert server.requests[1].body["stream_options"] == {"include_usage": True}
