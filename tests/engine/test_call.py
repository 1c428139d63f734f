"""Calling functions of users: sync on threads, async on the loop, and nothing they raise ends the loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ensemble_notebook.engine.function_caller import FunctionCaller, is_async


def with_caller(main: Callable[[FunctionCaller], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        caller = FunctionCaller()
        try:
            return await asyncio.wait_for(main(caller), 30)
        finally:
            caller.close()

    return asyncio.run(run())


def plain(word: str) -> str:
    return word


async def delayed(word: str) -> str:
    return word


class Service:
    async def method(self, word: str) -> str:
        return word

    async def __call__(self, word: str) -> str:
        return word


def handing_out(word: str) -> Awaitable[str]:
    """A plain function that returns a coroutine."""
    return delayed(word)


def name_of(function: Any) -> str:
    """A name for a test of it, without an address in memory: several processes must agree on it."""
    return getattr(function, "__name__", type(function).__name__)


@pytest.mark.parametrize("function", [delayed, functools.partial(delayed), Service().method, Service()], ids=name_of)
def test_async_functions_are_known_in_every_form(function: Any) -> None:
    assert is_async(function)


@pytest.mark.parametrize("function", [plain, functools.partial(plain), handing_out, str, Service, len], ids=name_of)
def test_other_callables_are_not_async(function: Any) -> None:
    assert not is_async(function)


@pytest.mark.parametrize("function", [plain, delayed, handing_out, Service().method, Service()], ids=name_of)
def test_every_form_gives_its_result(function: Any) -> None:
    async def main(caller: FunctionCaller) -> Any:
        return await caller.call("echo", function, "hello")

    assert with_caller(main) == "hello"


def test_async_functions_run_on_the_loop_and_sync_ones_do_not_e2() -> None:
    async def on_loop() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def main(caller: FunctionCaller) -> list[bool]:
        here = await caller.call("async", on_loop)
        return [here, await caller.call("sync", lambda: threading.current_thread() is threading.main_thread())]

    assert with_caller(main) == [True, False]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError("mine")], ids=repr)
def test_an_async_function_can_not_end_the_loop(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    async def main(caller: FunctionCaller) -> str:
        with pytest.raises(RuntimeError, match=type(error).__name__) as caught:
            await caller.call("fail", fail)
        assert caught.value.__cause__ is error
        return "alive"

    assert with_caller(main) == "alive"


def test_a_cancelled_call_of_an_async_function_is_cancelled() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main(caller: FunctionCaller) -> bool:
        call = asyncio.ensure_future(caller.call("forever", forever))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled()

    assert with_caller(main)


def test_a_mistake_in_the_call_itself_is_an_ordinary_error() -> None:
    async def main(caller: FunctionCaller) -> None:
        for function in (plain, delayed):
            with pytest.raises(TypeError, match="positional argument"):
                await caller.call("wrong", function)

    with_caller(main)
