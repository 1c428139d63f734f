"""Each way in which a run ends, with servers of MCP at work in it: it ends soon, and nothing of them is left (E83).

In each run three servers are at work at once: one that does not look at its input, one that ends with it, and one that
is deaf to signals, and has started a process that is so, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ensemble_notebook import DeadlineExceededError, Ensemble, RunInterrupted
from tests.support.busy_servers import (
    LIMIT_S,
    are_at_work,
    check_end,
    list_left,
    make_busy_ensemble,
    wait_until_at_work,
)

ROOT = Path(__file__).parents[2]


# --- On the loop of the caller ----------------------------------------------------------------------------------------


async def until(has_come: Callable[[], bool]) -> None:
    """What is waited for comes from other processes."""
    async with asyncio.timeout(LIMIT_S):
        while not has_come():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def all_at_work(folder: Path) -> None:
    await until(lambda: are_at_work(folder))


async def cancel(ensemble: Ensemble, folder: Path) -> None:
    """As `asyncio.wait_for` does."""
    run = asyncio.ensure_future(ensemble.arun())
    await all_at_work(folder)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def cancel_twice(ensemble: Ensemble, folder: Path) -> None:
    """Whoever is in a hurry."""
    run = asyncio.ensure_future(ensemble.arun())
    await all_at_work(folder)
    run.cancel()
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def leave_stream(ensemble: Ensemble, folder: Path) -> None:
    async with ensemble.stream():
        await all_at_work(folder)


async def fail_beside(ensemble: Ensemble, folder: Path) -> None:
    async def fail() -> None:
        await all_at_work(folder)
        raise ZeroDivisionError

    async def run_beside() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ensemble.arun())
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await run_beside()


async def leave_to_itself(ensemble: Ensemble, folder: Path) -> None:
    """The loop ends, and with it all that goes on."""
    run = asyncio.ensure_future(ensemble.arun())
    await all_at_work(folder)
    assert not run.done()


@pytest.mark.parametrize("way", [cancel, cancel_twice, leave_stream, fail_beside, leave_to_itself])
@pytest.mark.parametrize("is_service", [False, True], ids=["script", "service"])
def test_e83_the_servers_of_a_run_on_the_callers_loop_end_with_it(
    way: Callable[[Ensemble, Path], Awaitable[None]], is_service: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        await way(make_busy_ensemble(tmp_path), tmp_path)
        if is_service and way is not leave_to_itself:  # its loop goes on
            await until(lambda: not list_left(tmp_path))

    asyncio.run(main())
    assert list_left(tmp_path) == []


@pytest.mark.parametrize(
    "way",
    [
        lambda ensemble, timeout_s: ensemble.run(timeout=timeout_s),
        lambda ensemble, timeout_s: asyncio.run(ensemble.arun(timeout=timeout_s)),
    ],
    ids=["run", "arun"],
)
def test_e83_the_servers_of_a_run_end_with_its_time(way: Callable[[Ensemble, float], object], tmp_path: Path) -> None:
    for timeout_s in (1, 4, 16):  # until they are at work in time
        ensemble = make_busy_ensemble(tmp_path)
        with pytest.raises(DeadlineExceededError):
            way(ensemble, timeout_s)
        if are_at_work(tmp_path):
            break
    check_end(tmp_path)


def test_e83_the_servers_of_a_run_end_when_it_is_cancelled(tmp_path: Path) -> None:
    handle = make_busy_ensemble(tmp_path).start()
    wait_until_at_work(tmp_path)
    handle.cancel()
    with pytest.raises(RunInterrupted):
        handle.result(timeout=LIMIT_S)
    check_end(tmp_path)


# --- With the process -------------------------------------------------------------------------------------------------

STARTED = "handle = ensemble.start(); wait_until_at_work(folder)"
WAYS = {
    "plain end": (STARTED, None, 0),
    "no clean-up": (f"{STARTED}; os._exit(4)", None, 4),
    "interrupt": ("ensemble.run()", signal.SIGINT, 1),
    "interrupt of a loop": ("asyncio.run(ensemble.arun())", signal.SIGINT, -signal.SIGINT),
    "terminated": ("ensemble.run()", signal.SIGTERM, -signal.SIGTERM),
}


def test_e83_the_servers_end_with_the_process_however_it_ends(tmp_path: Path) -> None:
    scripts, said = {}, {}
    for way, (code, _, _) in WAYS.items():
        (folder := tmp_path / way).mkdir()
        start = "import asyncio, os, pathlib; from tests.support.busy_servers import *"
        made = f"folder = pathlib.Path({str(folder)!r}); ensemble = make_busy_ensemble(folder)"
        command = [sys.executable, "-c", f"{start}\n{made}\n{code}"]
        scripts[way] = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    for way, (_, number, status) in WAYS.items():
        wait_until_at_work(tmp_path / way)
        if number is not None:
            os.kill(scripts[way].pid, number)
        said[way] = scripts[way].communicate(timeout=LIMIT_S)[1]
        assert (way, scripts[way].returncode) == (way, status)
        check_end(tmp_path / way)
    assert [said[way] for way in ("plain end", "no clean-up", "terminated")] == [""] * 3
    assert "destroyed" not in said["interrupt"] + said["interrupt of a loop"]
