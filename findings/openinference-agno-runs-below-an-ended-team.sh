#!/usr/bin/env bash
# openinference-instrumentation-agno 1.0.15, agno 3.1.10 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: after `team.run()` has returned, the next run of an agent of its own is a trace of its own, as after `agent.run()`.
# Seen: every later run of that thread has the team's trace, and the team's `run` span, which has ended, as its parent: a
# notebook's whole afternoon is one trace. (The team's context is detached after that of its span, which comes back so.)
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet openinference-instrumentation-agno==1.0.15 agno==3.1.10 \
    openai==3.57.0 sqlalchemy==2.1.9 opentelemetry-sdk==1.45.2
"$folder/env/bin/python" - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.team import Team
from openinference.instrumentation.agno import AgnoInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Model(BaseHTTPRequestHandler):
    """Says the same to everybody."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"index": 0, "message": {"role": "assistant", "content": "18 degrees"}, "finish_reason": "stop"}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
AgnoInstrumentor().instrument(tracer_provider=provider)


def make_agent():
    url = f"http://127.0.0.1:{server.server_port}/v1"
    return Agent(name="Forecaster", model=OpenAIChat(id="m", base_url=url, api_key="k"), telemetry=False)


def run(agent):
    exporter.clear()
    assert agent.run("How warm is it?").content == "18 degrees"
    return next(each for each in exporter.get_finished_spans() if each.name in ("Forecaster.run", "Desk.run"))


alone = [run(make_agent()) for _ in range(2)]
print("agents one after another: parents", [each.parent for each in alone])
assert [each.parent for each in alone] == [None, None]

one = make_agent()
team = run(Team(name="Desk", members=[one], model=one.model, telemetry=False))
assert team.parent is None
for _ in range(2):
    later = run(make_agent())
    is_below = later.parent is not None and later.parent.span_id == team.context.span_id
    print("an agent after a team: below it", is_below, "- begun after its end", later.start_time > team.end_time)
    assert is_below and later.start_time > team.end_time
server.shutdown()
PY
