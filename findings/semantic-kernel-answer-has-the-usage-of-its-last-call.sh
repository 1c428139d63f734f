#!/usr/bin/env bash
# semantic-kernel 1.45.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: the usage in the metadata of an agent's answer is what it took to get that answer: all model calls of it, as the
# plugins that it calls are called inside.
# Seen: it is the usage of the last call: an answer after two rounds of tools has a third of the tokens that were paid for.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet semantic-kernel==1.45.0
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
        if sum(each["role"] == "tool" for each in wish["messages"]) < 2:
            function = {"name": wish["tools"][0]["function"]["name"], "arguments": "{}"}
            message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
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

import asyncio

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Weather:
    @kernel_function(description="Tells the weather")
    def look_out(self) -> str:
        return "rain"


async def ask():
    service = OpenAIChatCompletion(ai_model_id="m", async_client=AsyncOpenAI(api_key="none", base_url=address))
    agent = ChatCompletionAgent(service=service, name="forecaster", plugins=[Weather()])
    return await agent.get_response("Tell the weather")


answer = asyncio.run(ask())
usage = answer.message.metadata["usage"]
print(f"{len(calls)} calls of 1,000 tokens, told: {usage.prompt_tokens + usage.completion_tokens} tokens")
assert answer.message.content == "Rain."
assert (len(calls), usage.prompt_tokens + usage.completion_tokens) == (3, 1000)
PY
