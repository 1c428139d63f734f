"""A library that speaks MCP by hand, since it starts in no time: resources, a template of them, and prompts.

Its argument is a file, whose text is that of ``notes://today``. What it is asked for, it notes in a file beside that.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

NOTES = Path(sys.argv[1])
WHO = {"name": "who_am_i", "description": "Say which process this is.", "inputSchema": {"type": "object"}}
TODAY = {"uri": "notes://today", "name": "today", "description": "What is to be done today."}
OTHERS = [{"uri": f"notes://{name}", "name": name} for name in ("picture", "both", "zip", "end")]
DAYS = {"uriTemplate": "notes://days/{day}", "name": "of_day", "description": "The notes of a day."}
ARGUMENTS = [{"name": "text", "required": True}, {"name": "tone", "description": "How it sounds."}]
REVIEW = {"name": "review", "description": "Review a text.", "arguments": ARGUMENTS}
TALK = {"name": "talk-of", "arguments": [{"name": "topic", "required": True}]}


PICTURE = (  # one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class WrongError(Exception):
    """What is asked for is not there."""


def count(what: str) -> None:
    with Path(f"{NOTES}.asked").open("a") as file:
        print(what, file=file)


def read(uri: str) -> list[dict[str, Any]]:
    if uri == "notes://today":
        count("today")
        return [{"uri": uri, "text": NOTES.read_text(), "mimeType": "text/markdown"}]
    if uri.startswith("notes://days/"):
        day = unquote(uri.removeprefix("notes://days/"))
        count(day)
        return [{"uri": uri, "text": f"notes of {day}"}]
    if uri == "notes://both":
        return [{"uri": f"notes://{each}", "text": each} for each in ("one", "two")]
    if uri == "notes://picture":
        return [{"uri": uri, "blob": PICTURE, "mimeType": "image/png"}]
    if uri == "notes://blob":
        return [{"uri": uri, "blob": "bm8gcGljdHVyZQ==", "mimeType": "text/plain"}]
    if uri == "notes://zip":
        return [{"uri": uri, "blob": "bm8gcGljdHVyZQ==", "mimeType": "application/zip"}]
    if uri == "notes://end":
        print("out of ink", file=sys.stderr, flush=True)
        os._exit(3)
    raise WrongError(f"Unknown resource: {uri}")


def tell(name: str, given: dict[str, str]) -> list[tuple[str, Any]]:
    count(name)
    if name == "review":
        return [("user", f"Review this in a {given.get('tone', 'kind')} tone: {given['text']}")]
    if name == "talk-of":
        return [
            ("user", f"Do you know {given['topic']}?"),
            ("assistant", "I do."),
            ("user", f"Then tell me of {{{given['topic']}}}."),
        ]
    if name == "look":
        return [("user", {"type": "image", "data": PICTURE, "mimeType": "image/png"}), ("user", "What is it?")]
    return [("user", "Hello!"), ("assistant", "Hello, who are you?")]


def to_content(said: Any) -> dict[str, Any]:
    return {"type": "text", "text": said} if isinstance(said, str) else said


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            facts = {
                "capabilities": {"resources": {}, "prompts": {}},
                "serverInfo": {"name": "library", "version": "1"},
            }
            return {"protocolVersion": params["protocolVersion"], **facts}
        case "resources/list":
            return {"resources": OTHERS} if params.get("cursor") else {"resources": [TODAY], "nextCursor": "2"}
        case "resources/templates/list":
            return {"resourceTemplates": [DAYS]}
        case "resources/read":
            return {"contents": read(params["uri"])}
        case "prompts/list":
            return {"prompts": [REVIEW, TALK, {"name": "greet"}, {"name": "look"}]}
        case "prompts/get":
            said = tell(params["name"], params.get("arguments") or {})
            return {"messages": [{"role": role, "content": to_content(each)} for role, each in said]}
        case "tools/list":
            return {"tools": [WHO]}
    return {"content": [{"type": "text", "text": f"process {os.getpid()}"}]}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        try:
            came = {"result": answer(asked["method"], asked.get("params") or {})}
        except WrongError as error:
            came = {"error": {"code": -32002, "message": str(error)}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **came}), flush=True)
