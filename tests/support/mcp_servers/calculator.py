"""A calculator that speaks MCP, by the official package: over stdio, or with a port as its argument over HTTP."""

from __future__ import annotations

import os
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from pydantic import BaseModel

server = MCPServer("calculator")


class Answer(BaseModel):
    """What is asked of the person."""

    digits: int


@server.tool()
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@server.tool()
def mul(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


@server.tool()
def divide(a: float, b: float) -> float:
    """Divide one number by another."""
    if b == 0:
        raise ValueError("nobody divides by zero")
    return a / b


@server.tool(name="who-am-i")
def who_am_i() -> str:
    """Say which process this is."""
    return f"process {os.getpid()}"


@server.tool()
async def round_it(value: float, ctx: Context[Any, Any]) -> str:
    """Round a number to as many digits as the person wants."""
    answer = await ctx.elicit("How many digits do you want?", Answer)
    return str(round(value, answer.data.digits)) if answer.action == "accept" else f"not rounded: {answer.action}"


@server.tool()
async def think(ctx: Context[Any, Any]) -> str:
    """Have the client's model think."""
    await ctx.session.create_message(messages=[], max_tokens=10)
    return "thought"


class Account(BaseModel):
    """With what nobody should see."""

    owner: str
    api_key: str


@server.tool()
def look_up(owner: str) -> Account:
    """Look up an account."""
    return Account(owner=owner, api_key="sk-abcdefghijklmnopqrstuvwxyz123456")


@server.tool()
def tell_header(name: str, ctx: Context[Any, Any]) -> str:
    """Tell a header of the request."""
    return str(ctx.request_context.request.headers.get(name))


@server.tool()
def print_much(size: int) -> str:
    """Print a lot."""
    return "x" * size


@server.resource("constants://{name}", description="A number that has a name.")
def constant(name: str) -> str:
    return f"{name} is 3.14"


@server.prompt()
def check(sum_of: str) -> list[Message]:
    """Check a sum."""
    return [UserMessage("Can you count?"), AssistantMessage("Yes."), UserMessage(f"Is {sum_of} right?")]


@server.tool()
def die() -> None:
    """End the process."""
    print("out of paper", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
