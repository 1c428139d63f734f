"""What a call takes that is made again: replies of a rerun, beside the bare client with the same messages (F1)."""

from __future__ import annotations

import asyncio

from benchmarks.peer import ask, bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Agent, Ensemble, Task


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (2, 1) if quick else (100, 21)
    with serving() as url, asyncio.Runner() as runner:
        agent = Agent(role="Cook", goal="Cook well")
        task = Task(description="Fry a steak.", expected_output="A steak.", agent=agent)
        output = Ensemble(tasks=[task], llm=f"openai:instant@{url}").run()
        (messages,) = prompts(output)
        call = next(each.span_id for each in output.trace.spans if each.kind == "llm")
        client = bare(url)

        async def loop() -> None:
            for _ in range(count):
                await ask(client, "instant", messages)

        ours = Work(lambda: runner.run(output.arerun(call, repeat=count)), count)
        (replies,) = compare([(ours, Work(lambda: runner.run(loop()), count))], rounds)
        runner.run(client.close())
    return [replies.row("a reply of a call made again, CPU", "cpu", "ms", "the openai client", most_ratio=1.5)]
