"""A server that speaks MCP by hand, so that it can do it wrongly. Its argument says how; it has one tool, `tell`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

TELL = {"name": "tell", "description": "Tell something.", "inputSchema": {"type": "object", "properties": {}}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
HOW = sys.argv[1]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None is silence."""
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if method == "initialize":
        facts = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"], **facts}
    if method == "tools/list":
        cursor = params.get("cursor")
        if HOW == "pages":
            name = {None: "tell", "2": "ask", "3": "tell.more"}[cursor]
            after = {None: {"nextCursor": "2"}, "2": {"nextCursor": "3"}, "3": {}}[cursor]
            return {"tools": [{**TELL, "name": name}], **after}
        return {"tools": list_tools()}
    return call_tool(params) if method == "tools/call" else {}


def list_tools() -> list[dict[str, Any]]:
    if HOW == "tasks":
        render = {**TELL, "name": "render", "execution": {"taskSupport": "required"}}
        return [{**TELL, "execution": {"taskSupport": "optional"}}, render]
    if HOW == "open":
        return [{**TELL, "inputSchema": json.loads(sys.argv[2])}]
    return [TELL, TELL] if HOW == "alike" else [TELL]


def call_tool(params: dict[str, Any]) -> dict[str, Any] | None:
    if HOW == "talkative":
        print("Loading with", sys.argv[-1], "...\n{}\n\nready", flush=True)
    if HOW == "silent":
        return None
    if HOW == "malformed":
        return {"content": "no list at all"}
    if HOW == "open":
        return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
    if HOW == "parts":
        image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
        link = {"type": "resource_link", "name": "atlas", "uri": "file:///atlas"}
        page = {"type": "resource", "resource": {"uri": "file:///page", "text": "a page"}}
        return {"content": [{"type": "text", "text": "two"}, {"type": "text", "text": "lines"}, image, link, page]}
    if HOW == "camera":
        page = {"uri": "file:///scan", "blob": PNG, "mimeType": "image/png"}
        image = {"type": "image", "data": PNG, "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": "taken"}, image, {"type": "resource", "resource": page}]}
    return {"content": [{"type": "text", "text": "x" * 20_000_000 if HOW == "huge" else "told"}]}


if HOW == "hang":
    time.sleep(600)
for line in sys.stdin:
    if HOW == "rubbish":
        print("<html>no such page</html>", flush=True)
        continue
    asked = json.loads(line)
    if HOW == "modern" and asked["method"] == "initialize":
        send({"id": asked["id"], "error": {"code": -32601, "message": "Method not found: initialize"}})
        continue
    if HOW == "simple" and asked["method"].startswith(("resources/", "prompts/")):
        send({"id": asked["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    if HOW == "failing" and asked["method"] == "tools/call":
        send({"id": asked["id"], "error": {"code": -32603, "message": "x" * 1_000_000}})
        continue
    if "id" in asked and (result := answer(asked["method"], asked.get("params") or {})) is not None:
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if HOW == "modern" else {}
        send({"id": asked["id"], "result": {**result, **modern}})
