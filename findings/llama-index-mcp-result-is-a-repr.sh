#!/usr/bin/env bash
# llama-index-tools-mcp 0.6.0, llama-index-core 0.14.25, mcp 2.3.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: the model reads the text of an MCP tool's result, and gets the bounds of its arguments (`minimum`, `maximum`), as the
# server gives them.
# Seen: the message of the tool is the repr of the Python object: `meta=None content=[TextContent(type='text', text='rain', ...)]
# structured_content={'result': 'rain'} is_error=False ...`, so that each text is read, and paid for, twice, with marks around it
# that nobody has written. The bounds are dropped from the schema, where types, defaults and enums are kept.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet llama-index-tools-mcp==0.6.0 llama-index-core==0.14.25 llama-index-llms-openai-like==0.8.1 mcp==2.3.0
cat >"$folder/weather.py" <<'PY'
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

server = MCPServer("weather")


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


from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def ask():
    client = BasicMCPClient(sys.executable, args=[sys.argv[1]])
    (tool,) = (await client.list_tools()).tools
    llm = OpenAILike(
        model="m", api_base=address, api_key="none", is_chat_model=True, is_function_calling_model=True
    )
    tools = await McpToolSpec(client).to_tool_list_async()
    await FunctionAgent(tools=tools, llm=llm, streaming=False).run("Tell the weather")
    return tool.input_schema


given = asyncio.run(ask())["properties"]["days"]
sent = wishes[0]["tools"][0]["function"]["parameters"]["properties"]["days"]
print(f"of the server: {given}")
print(f"to the model:  {sent}")
assert (given["minimum"], given["maximum"]) == (1, 7)
assert not {"minimum", "maximum"} & sent.keys()
result = wishes[1]["messages"][-1]["content"]
print(f"its result:    {result}")
assert result.startswith("meta=None content=[TextContent(") and result.count("rain") == 2
PY
