#!/usr/bin/env bash
# mcp 2.3.0 (PyPI), Python 3.11, seen on 28 November 2026.
#
# Guess: a prompt that is asked for without its required argument, with one that it does not take, or by a name that is
# none, is refused with the code -32602, as the specification of MCP says of prompts ("Invalid params"), and the message
# names the argument.
# Seen: servers that are written with `MCPServer` answer all three as a fault of their own: -32603, "Internal server
# error", in the handshake of 2026-07-28, which tells neither prompt nor argument; and the code 0, which is in no
# specification, in the older one. A client can't tell its own mistake from a fault of the server. Resources of the same
# server are refused with -32602, and named.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet mcp==2.3.0
"$folder/env/bin/python" - <<'PY'
import asyncio
import logging

from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer

logging.disable()
server = MCPServer("reviews")


@server.prompt()
def review(text: str) -> str:
    return f"Review: {text}"


async def refuse(request):
    try:
        await request
    except MCPError as error:
        return error.error.code, error.error.message
    return None


async def main() -> None:
    for mode, code in (("auto", -32603), ("legacy", 0)):
        async with Client(server, mode=mode) as client:
            refused = {
                "missing argument": await refuse(client.get_prompt("review", {})),
                "unknown argument": await refuse(client.get_prompt("review", {"text": "a", "tone": "kind"})),
                "unknown prompt": await refuse(client.get_prompt("reviews", {})),
                "unknown resource": await refuse(client.read_resource("file:///nothing")),
            }
        for what, (seen, message) in refused.items():
            print(f"{mode}, {what}: {seen}, {message}")
        assert [seen for seen, _ in refused.values()] == [code, code, code, -32602]
        assert "tone" not in refused["unknown argument"][1]


asyncio.run(main())
PY
