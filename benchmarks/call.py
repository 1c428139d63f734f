"""What the engine adds to a model call: one task per call, beside the bare client with the same messages."""

from __future__ import annotations

import asyncio

from benchmarks.peer import ask, bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare, without_store
from ensemble_notebook import Agent, Ensemble, Task


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (2, 1) if quick else (100, 21)
    with serving() as url, asyncio.Runner() as runner:
        agent = Agent(role="Cook", goal="Cook well")
        tasks = [Task(description="Fry a steak.", expected_output="A steak.", agent=agent) for _ in range(count)]
        ensemble = Ensemble(tasks=tasks, llm=f"openai:instant@{url}")
        calls = prompts(runner.run(ensemble.arun()))
        client = bare(url)

        async def loop() -> None:
            for messages in calls:
                await ask(client, "instant", messages)

        def forget() -> None:
            with without_store():
                runner.run(ensemble.arun())

        ours, floor = Work(lambda: runner.run(ensemble.arun()), count), Work(lambda: runner.run(loop()), count)
        kept, forgotten = compare([(ours, floor), (Work(forget, count), floor)], rounds)
        runner.run(client.close())
    return [
        kept.row("a model call, CPU", "cpu", "ms", "the openai client", most_ratio=0.9),
        kept.row("a model call, wall", "wall", "ms", "the openai client"),
        forgotten.row("a model call that is not remembered, CPU", "cpu", "ms", "the openai client", most_ratio=0.7),
    ]
