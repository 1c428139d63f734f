"""One measurement of the transport in a process of its own: prints the seconds of CPU that it took. Any version's.

``python benchmarks/transport_work.py WORK URL`` with the checkout to measure in ``PYTHONPATH``. Knows the public
interface alone.
"""

from __future__ import annotations

import sys
import time

from ensemble_notebook import Ensemble, Task


class Watcher:
    """A listener for whom replies are streamed."""

    wants_tokens = True

    def on_event(self, event: object) -> None:
        """Do nothing."""


def make_task(name: str, *before: Task) -> Task:
    return Task(name=name, description="Go on.", expected_output="A step.", context=before)


def make_chain(url: str) -> Ensemble:
    """50 calls, one after the other."""
    tasks: list[Task] = []
    for number in range(50):
        tasks.append(make_task(f"t{number}", *tasks[-1:]))
    return Ensemble(tasks=tasks, llm=f"openai:instant@{url}")


def make_stream(url: str) -> Ensemble:
    """One reply in 500 chunks, which come one by one."""
    return Ensemble(tasks=[make_task("t")], llm=f"openai:words-500-pause-1@{url}", listeners=[Watcher()])


def make_crowd(url: str) -> Ensemble:
    """200 calls side by side."""
    tasks = [make_task(f"t{number}") for number in range(200)]
    return Ensemble(tasks=tasks, llm=f"openai:instant@{url}", workflow="parallel")


WORKS = {"chain": make_chain, "stream": make_stream, "crowd": make_crowd}


if __name__ == "__main__":
    ensemble = WORKS[sys.argv[1]](sys.argv[2])
    ensemble.run()  # imports and connections
    started = time.process_time()
    ensemble.run()
    print(time.process_time() - started)
