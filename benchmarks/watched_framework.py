"""What it costs a run of LangGraph that it is watched (T104), with the instrumentation of OpenInference.

Both have the instrumentation and a provider. The watched one is written into the run store as it goes, as is the
default, and is over when all of it has been taken in.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

from benchmarks.row import Row
from benchmarks.server import serving
from benchmarks.stopwatch import Work, compare
from ensemble_notebook import Watch, watch


def search(query: str) -> str:
    """Look something up."""
    return f"Much was found about {query}."


def measure(*, quick: bool) -> list[Row]:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    turns, rounds, count = (1, 1, 1) if quick else (4, 15, 5)
    provider = TracerProvider(shutdown_on_exit=False)
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    with serving() as url, contextlib.redirect_stdout(io.StringIO()):
        model = ChatOpenAI(model=f"rounds-{turns}", base_url=url, api_key="none", max_retries=0)
        agent: Any = create_agent(model, tools=[search], system_prompt="Cook well.", name="Cook")

        def run() -> None:
            for _ in range(count):
                agent.invoke({"messages": [("user", "Find out how to fry a steak.")]})

        def run_watched() -> None:
            with watch(provider) as watched:
                run()
            watches.append(watched)

        watches: list[Watch] = []
        (runs,) = compare([(Work(run_watched, count), Work(run, count))], rounds)
    assert all(len(each.runs) == count for each in watches)
    instrumentor.uninstrument()
    alone, what = "the same, not watched", f"a watched LangGraph run of {turns + 1} calls"
    return [
        runs.row(f"{what}, CPU", "cpu", "ms", alone, most_ratio=1.15),
        runs.row(f"{what}, wall", "wall", "ms", alone),
    ]
