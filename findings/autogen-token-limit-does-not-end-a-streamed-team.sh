#!/usr/bin/env bash
# autogen-agentchat 0.7.5, autogen-ext 0.7.5 with openai 3.57.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: a team with `TokenUsageTermination(max_total_token=2500)` ends by it, streamed or not. The server is one that
# sends the usage of a stream when it is asked to, as OpenAI's is.
# Seen: with `AssistantAgent(model_client_stream=True)` the server is not asked to. Each message then has a `models_usage` of
# 0 tokens, a number and no None, so that the limit is never reached, without a warning: the team goes on until something
# else ends it, here its 12th message. With `stream_options={"include_usage": True}` given to the client, the same team
# ends where it should.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet autogen-agentchat==0.7.5 "autogen-ext[openai]==0.7.5" openai==3.57.0
"$folder/env/bin/python" - <<'PY'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TokenUsageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient

USAGE = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
asked = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *given):
        pass

    def do_POST(self):
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        options = wish.get("stream_options") or {}
        asked.append(options)
        reply = {"id": "1", "created": 1, "model": wish["model"]}
        if not wish.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}
            self.answer("application/json", [reply | {"object": "chat.completion", "choices": [choice], "usage": USAGE}])
            return
        reply["object"] = "chat.completion.chunk"
        parts = [
            reply | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Rain."}, "finish_reason": None}]},
            reply | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
        if options.get("include_usage"):
            parts.append(reply | {"choices": [], "usage": USAGE})
        self.answer("text/event-stream", parts)

    def answer(self, kind, parts):
        lines = [json.dumps(each) for each in parts]
        if kind == "text/event-stream":
            lines = [f"data: {each}\n\n" for each in [*lines, "[DONE]"]]
        body = "".join(lines).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


async def find_end(is_streamed, **more):
    asked.clear()
    client = OpenAIChatCompletionClient(
        model="m",
        api_key="none",
        base_url=f"http://127.0.0.1:{server.server_port}/v1",
        model_info={
            "vision": False,
            "function_calling": True,
            "json_output": False,
            "family": "unknown",
            "structured_output": False,
        },
        **more,
    )
    team = RoundRobinGroupChat(
        [AssistantAgent("forecaster", model_client=client, model_client_stream=is_streamed)],
        termination_condition=TokenUsageTermination(max_total_token=2500) | MaxMessageTermination(12),
    )
    end = await team.run(task="Tell the weather")
    used = client.total_usage()
    print(f"streamed {is_streamed}, {more}: {len(asked)} calls, counted {used.prompt_tokens + used.completion_tokens} tokens")
    print(f"  {end.stop_reason}")
    await client.close()
    return len(asked), end.stop_reason


calls, reason = asyncio.run(find_end(False))
assert calls == 3 and reason.startswith("Token usage limit reached")
calls, reason = asyncio.run(find_end(True))
assert calls == 11 and reason.startswith("Maximum number of messages 12 reached")
calls, reason = asyncio.run(find_end(True, stream_options={"include_usage": True}))
assert calls == 3 and reason.startswith("Token usage limit reached")
PY
