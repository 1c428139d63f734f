#!/usr/bin/env bash
# agno 3.1.10 with openai 3.57.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: the metrics of a `Workflow` run have what its steps used, each time that they ran.
# Seen: they have one entry for each name of a step, that of its last run. A step that a `Loop` runs three times counts once,
# and of two steps of one name in two branches of `Parallel` one counts. Here 3 and 2 calls are told as 1,000 tokens each.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet agno==3.1.10 openai==3.57.0
"$folder/env/bin/python" - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

calls = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *given):
        pass

    def do_POST(self):
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        calls.append(wish)
        message = {"role": "assistant", "content": "Rain."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": wish["model"], "choices": [choice]}
        reply["usage"] = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.workflow import Loop, Parallel, Step, Workflow


def make_step(name):
    model = OpenAIChat(id="m", api_key="none", base_url=address)
    return Step(name=name, agent=Agent(name=name, model=model, telemetry=False))


def run(*steps):
    calls.clear()
    told = Workflow(name="weather", steps=list(steps), telemetry=False).run("Tell the weather").metrics.steps
    tokens = {name: each.metrics.total_tokens for name, each in told.items()}
    print(f"{len(calls)} calls of 1,000 tokens, told: {tokens}")
    return len(calls), tokens


assert run(make_step("north"), make_step("south")) == (2, {"north": 1000, "south": 1000})
assert run(Loop(steps=[make_step("north")], max_iterations=3)) == (3, {"north": 1000})
assert run(Parallel(make_step("north"), make_step("north"))) == (2, {"north": 1000})
PY
