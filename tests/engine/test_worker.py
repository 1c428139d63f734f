"""Worker threads: reused, enough of them, and never in the way of the loop or of the interpreter's exit."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ensemble_notebook.engine.function_caller import EAGER_THREADS, ThreadPool
from ensemble_notebook.engine.loop_thread import CrossThreadEvent

PATIENCE_S = 30.0


def with_pool(main: Callable[[ThreadPool], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        pool = ThreadPool()
        try:
            return await asyncio.wait_for(main(pool), PATIENCE_S)
        finally:
            pool.close()

    return asyncio.run(run())


async def call(pool: ThreadPool, label: str, function: Callable[[], Any]) -> Any:
    return await pool.call(label, function)


def test_the_result_comes_back_from_a_daemon_thread() -> None:
    async def main(pool: ThreadPool) -> threading.Thread:
        return await pool.call("here", threading.current_thread)

    thread = with_pool(main)
    assert thread is not threading.current_thread()
    assert thread.daemon


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError("k"), StopAsyncIteration(), TimeoutError()], ids=repr)
def test_what_a_function_raises_comes_back_as_it_is(error: Exception) -> None:
    def fail() -> None:
        raise error

    async def main(pool: ThreadPool) -> None:
        with pytest.raises(type(error)) as caught:
            await pool.call("fail", fail)
        assert caught.value is error

    with_pool(main)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), StopIteration()], ids=repr
)
def test_what_would_end_a_loop_or_a_process_comes_back_as_a_runtime_error(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def main(pool: ThreadPool) -> None:
        with pytest.raises(RuntimeError, match=type(error).__name__) as caught:
            await pool.call("fail", fail)
        assert caught.value.__cause__ is error
        assert await pool.call("next", lambda: "alive") == "alive"

    with_pool(main)


def test_calls_one_after_another_share_one_thread_e2() -> None:
    async def main(pool: ThreadPool) -> set[int]:
        return {await pool.call("ident", threading.get_ident) for _ in range(50)}

    assert len(with_pool(main)) == 1


def test_calls_side_by_side_each_get_a_thread() -> None:
    async def main(pool: ThreadPool) -> None:
        meeting = threading.Barrier(EAGER_THREADS)
        await asyncio.gather(*(call(pool, "meet", meeting.wait) for _ in range(EAGER_THREADS)))

    with_pool(main)


def test_hanging_calls_never_starve_others_e15() -> None:
    release = threading.Event()

    async def main(pool: ThreadPool) -> str:
        hanging = [asyncio.create_task(call(pool, "hang", release.wait)) for _ in range(EAGER_THREADS)]
        try:
            return await pool.call("quick", lambda: "done")
        finally:
            release.set()
            await asyncio.gather(*hanging)

    assert with_pool(main) == "done"


def test_many_quick_calls_need_few_threads() -> None:
    async def main(pool: ThreadPool) -> set[int]:
        return set(await asyncio.gather(*(call(pool, "ident", threading.get_ident) for _ in range(1000))))

    assert len(with_pool(main)) < 100


def test_a_cancelled_call_is_named_while_it_runs_and_forgotten_after_e35() -> None:
    started, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        started.set()
        release.wait()

    async def main(pool: ThreadPool) -> ThreadPool:
        sleepy = asyncio.create_task(call(pool, "tool sleepy", hang))
        await pool.call("watch", started.wait)
        assert pool.list_abandoned() == []
        sleepy.cancel()
        await asyncio.wait([sleepy])
        assert pool.list_abandoned() == ["tool sleepy"]
        return pool

    pool = with_pool(main)
    release.set()
    threads[0].join(PATIENCE_S)
    assert pool.list_abandoned() == []


def test_a_call_cancelled_before_its_turn_never_runs() -> None:
    release, ran = threading.Event(), threading.Event()

    async def main(pool: ThreadPool) -> None:
        hanging = [asyncio.create_task(call(pool, "hang", release.wait)) for _ in range(EAGER_THREADS)]
        late = asyncio.create_task(call(pool, "late", ran.set))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.wait([late])
        release.set()
        await asyncio.gather(*hanging)
        await pool.call("last", lambda: None)

    with_pool(main)
    assert not ran.is_set()


def test_a_function_sees_the_callers_context_variables_and_can_not_change_them_e15() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    def read_and_change() -> str:
        seen = user.get()
        user.set("changed")
        return seen

    async def main(pool: ThreadPool) -> list[str]:
        user.set("ada")
        seen = [await pool.call("read", read_and_change), await pool.call("read", user.get)]
        return [*seen, user.get()]

    assert with_pool(main) == ["ada", "ada", "ada"]


def test_threads_end_when_the_pool_closes() -> None:
    async def main(pool: ThreadPool) -> threading.Thread:
        return await pool.call("here", threading.current_thread)

    thread = with_pool(main)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_function_that_outlives_its_loop_does_no_harm() -> None:
    started, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        started.set()
        release.wait()

    async def main(pool: ThreadPool) -> None:
        hanging = asyncio.create_task(call(pool, "hang", hang))
        await pool.call("watch", started.wait)
        hanging.cancel()
        await asyncio.wait([hanging])

    with_pool(main)
    release.set()
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()


def test_a_hanging_function_does_not_delay_the_exit_of_the_interpreter_e15() -> None:
    program = """
import asyncio, threading
from ensemble_notebook.engine.function_caller import ThreadPool

async def main():
    pool, started = ThreadPool(), threading.Event()
    async def hang():
        await pool.call("hang", lambda: (started.set(), threading.Event().wait()))

    hanging = asyncio.create_task(hang())
    await pool.call("watch", started.wait)
    hanging.cancel()
    pool.close()
    print("over")

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"
    assert done.stderr == ""


def test_who_waits_for_another_thread_goes_on_once_it_has_said_so() -> None:
    async def main() -> bool:
        event = CrossThreadEvent()

        async def wait() -> None:
            await event

        waiting = asyncio.create_task(wait())
        assert await asyncio.to_thread(event.set)
        await asyncio.wait_for(waiting, PATIENCE_S)
        return event.is_cancelled

    assert not asyncio.run(main())


def test_a_word_for_somebody_who_was_cancelled_is_lost() -> None:
    async def main() -> bool:
        event = CrossThreadEvent()

        async def wait() -> None:
            await event

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert event.set()
        await asyncio.sleep(0)
        return event.is_cancelled

    assert asyncio.run(main())
