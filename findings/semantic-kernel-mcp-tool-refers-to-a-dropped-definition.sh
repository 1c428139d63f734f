#!/usr/bin/env bash
# semantic-kernel 1.45.0 with mcp 1.30.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: a tool of an MCP server reaches the model with the schema that the server gives, and its result as the text of
# its content.
# Seen: `properties` and `required` of the schema are sent, its `$defs` are not. An argument that is an object, as FastMCP
# makes of a pydantic model, is sent as a `$ref` to a definition that is not there, so that the model can't know its fields.
# The result is sent as the repr of a list of Python objects.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet "semantic-kernel[mcp]==1.45.0" mcp==1.30.0
cat >"$folder/weather.py" <<'PY'
from typing import Annotated

from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel, Field

server = FastMCP("weather")


class Place(BaseModel):
    city: str


@server.tool()
def forecast(place: Place, days: Annotated[int, Field(ge=1, le=7)] = 1) -> str:
    """Tell the weather."""
    return "rain"


server.run()
PY
"$folder/env/bin/python" - "$folder/weather.py" <<'PY'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

wishes = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *given):
        pass

    def do_POST(self):
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wishes.append(wish)
        message = {"role": "assistant", "content": "Rain."}
        if wish["messages"][-1]["role"] != "tool":
            function = {"name": wish["tools"][0]["function"]["name"], "arguments": '{"place": {"city": "Oslo"}}'}
            message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": wish["model"]}
        reply["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
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


from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStdioPlugin


async def ask():
    service = OpenAIChatCompletion(ai_model_id="m", async_client=AsyncOpenAI(api_key="none", base_url=address))
    async with MCPStdioPlugin(name="weather", command=sys.executable, args=[sys.argv[1]]) as plugin:
        (tool,) = (await plugin.session.list_tools()).tools
        await ChatCompletionAgent(service=service, name="forecaster", plugins=[plugin]).get_response("Tell the weather")
    return tool.inputSchema


given = asyncio.run(ask())
sent = wishes[0]["tools"][0]["function"]["parameters"]
print(f"of the server: {json.dumps(given)}")
print(f"to the model:  {json.dumps(sent)}")
assert given["properties"]["place"] == sent["properties"]["place"] == {"$ref": "#/$defs/Place"}
assert "Place" in given["$defs"]
assert "$defs" not in sent
result = wishes[1]["messages"][-1]["content"]
print(f"its result:    {result}")
assert result.startswith("[TextContent(inner_content=TextContent(") and "text='rain'" in result
PY
