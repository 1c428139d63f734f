"""A run with three MCP servers at work at once, each of which takes its end in another way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from ensemble_notebook import Agent, Ensemble, ScriptedChatModel, Task, ToolUse, mcp_tools

SERVER = Path(__file__).parent / "mcp_servers" / "busy.py"
KINDS = ("sync", "async", "deaf")
LIMIT_S = 20.0
"""Within which all is over, also where other tests are at work on the same machine; it takes two seconds at most."""


def make_busy_ensemble(folder: Path) -> Ensemble:
    """Three tasks side by side, each with a server at work, which notes its processes in the folder."""
    agents = [
        Agent(
            role=kind,
            goal="Work",
            tools=mcp_tools(["python", "-S", str(SERVER), kind, str(folder / kind)]),
            llm=ScriptedChatModel(replies=[ToolUse("work", {}), "done"]),
        )
        for kind in KINDS
    ]
    tasks = [Task.of("Work", name=each.role, agent=each) for each in agents]
    return Ensemble(tasks=tasks, workflow="parallel")


def are_at_work(folder: Path) -> bool:
    """Whether all three servers are."""
    return all((folder / kind).exists() for kind in KINDS)


def wait_until_at_work(folder: Path) -> None:
    """Wait until all three servers are."""
    while not are_at_work(folder):
        time.sleep(0.02)


def list_left(folder: Path) -> list[psutil.Process]:
    """List the processes of the three servers that have not ended."""
    pids = [int(pid) for kind in KINDS for pid in (folder / kind).read_text().split()]
    assert len(pids) == len(KINDS) + 1  # one has started another
    return list(_find_running(pids))


def _find_running(pids: list[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:  # of which whoever adopts it has not heard yet
                yield process
        except psutil.NoSuchProcess:
            continue


def check_end(folder: Path) -> None:
    """Check that nothing is left soon. What is, ends here."""
    until = time.monotonic() + LIMIT_S
    while (left := list_left(folder)) and time.monotonic() < until:
        time.sleep(0.02)
    for each in left:
        each.kill()
    assert left == []
