"""What a model call costs in a conversation that grows: a task that calls a tool 20 times, beside the same by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from benchmarks.peer import ask, bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Agent, Ensemble, Task

_PARAMETERS: Final = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
_OFFERED: Final = {"name": "search", "description": "Look something up.", "parameters": _PARAMETERS}


async def search(query: str) -> str:
    """Look something up."""
    return f"Much was found about {query}."


def measure(*, quick: bool) -> list[Row]:
    turns, rounds = (2, 1) if quick else (20, 21)
    name = f"rounds-{turns}"
    with serving() as url, asyncio.Runner() as runner:
        agent = Agent(role="Cook", goal="Cook well", tools=[search])
        task = Task(description="Find out how to fry a steak.", expected_output="A recipe.", agent=agent)
        ensemble = Ensemble(tasks=[task], llm=f"openai:{name}@{url}")
        (opening,) = prompts(runner.run(ensemble.arun()))
        client = bare(url)

        async def by_hand() -> None:
            messages: list[Any] = list(opening)
            tools = [{"type": "function", "function": _OFFERED}]
            while (reply := await ask(client, name, messages, tools=tools)).tool_calls:
                messages.append(reply)
                for call in reply.tool_calls:
                    found = await search(**json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": found})

        ours, floor = (
            Work(lambda: runner.run(ensemble.arun()), turns + 1),
            Work(lambda: runner.run(by_hand()), turns + 1),
        )
        (comparison,) = compare([(ours, floor)], rounds)
        runner.run(client.close())
    what = f"a model call of {turns + 1} with a tool, CPU"
    return [comparison.row(what, "cpu", "ms", "the openai client", most_ratio=0.5)]
