"""What the engine adds to a model call: one task per call, beside bare LangChain with the same messages."""

from __future__ import annotations

import asyncio

from benchmarks.peer import bare, prompts
from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Agent, Ensemble, Task


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (2, 1) if quick else (100, 21)
    with serving() as url, asyncio.Runner() as runner:
        agent = Agent(role="Cook", goal="Cook well")
        tasks = [Task(description="Fry a steak.", expected_output="A steak.", agent=agent) for _ in range(count)]
        ensemble = Ensemble(tasks=tasks, llm=f"openai:instant@{url}")
        calls = prompts(runner.run(ensemble.arun()))
        model = bare("instant", url)

        async def loop() -> None:
            for messages in calls:
                await model.ainvoke(messages)

        ours, floor = Work(lambda: runner.run(ensemble.arun()), count), Work(lambda: runner.run(loop()), count)
        (comparison,) = compare([(ours, floor)], rounds)
        runner.run(model.root_async_client.close())
    return [
        comparison.row("a model call, CPU", "cpu", "ms", "ChatOpenAI.ainvoke", most_ratio=0.75),
        comparison.row("a model call, wall", "wall", "ms", "ChatOpenAI.ainvoke", most_ratio=0.75),
    ]
