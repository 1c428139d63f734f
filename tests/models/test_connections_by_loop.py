"""What is open, on which loop, and for how long."""

import asyncio
import gc
import threading
import weakref

from ensemble_notebook.models.openai.connections import ConnectionsByLoop


class Connection:
    """Remembers on which loop it was opened and closed."""

    def __init__(self):
        self.opened_on = id(asyncio.get_running_loop())
        self.closed_on = None

    async def aclose(self):
        await asyncio.sleep(0)
        self.closed_on = id(asyncio.get_running_loop())


def test_one_thing_per_key_and_loop():
    kept = ConnectionsByLoop()

    async def take():
        first, second = await asyncio.gather(kept.get("a", Connection), kept.get("a", Connection))
        other = await kept.get("b", Connection)
        assert first.connections is second.connections
        assert other.connections is not first.connections
        return first.connections

    assert asyncio.run(take()) is not asyncio.run(take())


def test_thing_is_closed_with_its_loop_on_its_loop():
    kept = ConnectionsByLoop()

    async def take():
        return (await kept.get("a", Connection)).connections

    connection = asyncio.run(take())
    assert connection.closed_on == connection.opened_on


def test_dropped_thing_is_closed_when_nobody_holds_it_any_more():
    kept = ConnectionsByLoop()

    async def drop():
        handle = await kept.get("a", Connection)
        connection = handle.connections
        kept.drop("a")
        await asyncio.sleep(0.01)
        assert connection.closed_on is None
        assert (await kept.get("a", Connection)).connections is not connection
        del handle
        await asyncio.sleep(0.01)
        assert connection.closed_on == connection.opened_on

    asyncio.run(drop())


def test_loops_of_several_threads_have_their_own():
    kept = ConnectionsByLoop()
    barrier = threading.Barrier(4)
    found = []

    async def take():
        barrier.wait()
        found.append((await kept.get("a", Connection)).connections)

    threads = [threading.Thread(target=asyncio.run, args=(take(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in found}) == 4
    assert all(each.closed_on == each.opened_on for each in found)


def test_ended_loop_is_not_kept_in_memory():
    kept = ConnectionsByLoop()

    class Tied(Connection):
        def __init__(self):
            super().__init__()
            self.loop = asyncio.get_running_loop()

    async def take():
        await kept.get("a", Tied)
        return weakref.ref(asyncio.get_running_loop())

    shut_down = asyncio.run(take())
    loop = asyncio.new_event_loop()
    just_closed = loop.run_until_complete(take())
    loop.close()
    del loop
    kept = asyncio.run(take())
    gc.collect()
    assert (shut_down(), just_closed(), kept()) == (None, None, None)


def test_things_of_a_loop_that_nobody_runs_any_more_are_closed_on_demand():
    kept = ConnectionsByLoop()
    idle = asyncio.new_event_loop()
    handle = idle.run_until_complete(kept.get("a", Connection))

    async def close():
        running = await kept.get("a", Connection)
        await asyncio.to_thread(kept.close)
        return running.connections.closed_on

    assert asyncio.run(close()) is None
    assert handle.connections.closed_on == handle.connections.opened_on
    idle.close()


def test_all_is_closed_when_the_last_one_who_holds_it_leaves():
    kept = ConnectionsByLoop()

    async def run(kept_open_until):
        async with kept.held():
            handle = await kept.get("a", Connection)
            await kept_open_until
        return handle.connections

    async def runs():
        now = asyncio.Event()
        first = asyncio.create_task(run(asyncio.sleep(0)))
        last = asyncio.create_task(run(now.wait()))
        assert (await first).closed_on is None
        now.set()
        assert (await last).closed_on == id(asyncio.get_running_loop())
        again = await kept.get("a", Connection)
        return again.connections is last.result()

    assert not asyncio.run(runs())


def test_those_of_other_loops_are_closed_on_their_loop_when_the_last_run_ends():
    kept = ConnectionsByLoop()
    opened, closed = threading.Event(), threading.Event()
    found = []

    class Telling(Connection):
        async def aclose(self):
            await super().aclose()
            closed.set()

    async def elsewhere():
        found.append((await kept.get("a", Telling)).connections)
        opened.set()
        await asyncio.to_thread(closed.wait, 30)

    async def run():
        async with kept.held():
            assert await asyncio.to_thread(opened.wait, 30)

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()
    asyncio.run(run())
    thread.join()
    assert closed.is_set()
    assert found[0].closed_on == found[0].opened_on
