#!/usr/bin/env bash
# crewai 1.15.30 (PyPI, 1 GB), Python 3.11, seen on 29 November 2026.
#
# Guess: `crew.kickoff().token_usage` is what the calls of that kickoff used.
# Seen: it adds up, for each agent, all that the agent's LLM object has used since it was made. Two agents that share one
# `LLM` have each call counted twice, three thrice; and a second kickoff of the same crew has the first one's calls in it.
# Here 2 calls are told as 4, and in the second kickoff as 8. With an `LLM` for each agent the first kickoff is right.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet crewai==1.15.30
export CREWAI_DISABLE_TELEMETRY=true CREWAI_TRACING_ENABLED=false OTEL_SDK_DISABLED=true
"$folder/env/bin/python" - 2>/dev/null <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from crewai import LLM, Agent, Crew, Task

calls = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *given):
        pass

    def do_POST(self):
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        calls.append(wish)
        choice = {"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": wish["model"], "choices": [choice]}
        body = json.dumps(reply | {"usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


def make_model():
    return LLM(model="openai/gpt-4o-mini", base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")


def make_crew(models):
    agents = [Agent(role=f"Forecaster {n}", goal="Tell it", backstory="At sea.", llm=each) for n, each in enumerate(models)]
    return Crew(agents=agents, tasks=[Task(description="?", expected_output="A word", agent=each) for each in agents])


def kick_off(crew):
    calls.clear()
    told = crew.kickoff().token_usage
    print(f"  {len(calls)} calls, told: {told.successful_requests} requests, {told.total_tokens} tokens")
    return len(calls), told.successful_requests, told.total_tokens


print("a model for each of two agents:")
assert kick_off(make_crew([make_model(), make_model()])) == (2, 2, 2000)
print("one model for both, kicked off twice:")
model = make_model()
crew = make_crew([model, model])
assert kick_off(crew) == (2, 4, 4000)
assert kick_off(crew) == (2, 8, 8000)
PY
