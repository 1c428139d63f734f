"""What a model call costs in a conversation that grows: a task that calls a tool 20 times, beside the same by hand.

And what it costs more where a rule says of each call that nobody is to be asked about it: an async one, which the loop
calls as it calls the tool, and a plain one, for which a thread is woken, so that one that blocks holds nothing else up.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from benchmarks.peer import ask, bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Agent, Ensemble, Task, Tool

_PARAMETERS: Final = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
_OFFERED: Final = {"name": "search", "description": "Look something up.", "parameters": _PARAMETERS}


async def search(query: str) -> str:
    """Look something up."""
    return f"Much was found about {query}."


async def never(_: object) -> bool:
    """Ask about no call."""
    return False


def measure(*, quick: bool) -> list[Row]:
    turns, rounds = (2, 1) if quick else (20, 21)
    name = f"rounds-{turns}"
    with serving() as url, asyncio.Runner() as runner:

        def make_ensemble(tool: Any) -> Ensemble:
            agent = Agent(role="Cook", goal="Cook well", tools=[tool])
            task = Task(description="Find out how to fry a steak.", expected_output="A recipe.", agent=agent)
            return Ensemble(tasks=[task], llm=f"openai:{name}@{url}")

        ensemble, ruled = make_ensemble(search), make_ensemble(Tool(search, review=never))
        threaded = make_ensemble(Tool(search, review=lambda _: False))
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
        others = [Work(lambda each=each: runner.run(each.arun()), turns + 1) for each in (ruled, threaded, ensemble)]
        pairs = [(ours, floor), *((each, ours) for each in others)]
        by_client, by_rule, by_thread, by_itself = compare(pairs, rounds)
        runner.run(client.close())
    what = f"a model call of {turns + 1} with a tool, CPU"
    return [
        by_client.row(what, "cpu", "ms", "the openai client", most_ratio=0.5),
        by_rule.row("the same under a rule that never asks", "cpu", "ms", "without", most_ratio=1.05),
        by_thread.row("the same under a plain function, on a thread", "cpu", "ms", "without", most_ratio=None),
        by_itself.row("the same against itself", "cpu", "ms", "without", most_ratio=None),
    ]
