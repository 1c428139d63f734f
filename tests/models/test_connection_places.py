"""The places for connections: how many, who is next, and what is given back when somebody leaves."""

import asyncio
import gc
import os
import resource
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from ensemble_notebook.models.connection_places import ConnectionPlaces, PlacesOfModel, connection_places, find_limit
from ensemble_notebook.models.openai.connections import Connections
from tests.support.openai_server import Answer, OpenAIServer


def places_for(count):
    return ConnectionPlaces(lambda: count)


def count_descriptors():
    return len(list(Path("/dev/fd").iterdir())) - 1  # but for the one that looks


async def turns(times=3):
    for _ in range(times):
        await asyncio.sleep(0)


def test_half_of_the_free_descriptors_are_for_connections():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = count_descriptors()
    found = []
    try:
        for limit in (open_now + 101, open_now + 2, 5_000):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            found.append(find_limit())
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now, hard))
        found.append(find_limit())  # with none left to look with
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found == [50, 1, 256, 1]


def test_first_come_first_served_and_nobody_passes_the_line():
    places, order = places_for(2), []

    async def use(name, count=1):
        await places.take(count)
        order.append(name)

    async def scenario():
        assert places.try_take(2)
        uses = [asyncio.create_task(use(*each)) for each in (("wide", 2), ("narrow",), ("last",))]
        await turns()
        places.give_back(1)
        await turns()
        assert not order  # the first one needs two
        assert not places.try_take(1)  # and nobody gets by it
        places.give_back(1)
        await uses[0]
        places.give_back(2)
        await asyncio.gather(*uses)

    asyncio.run(scenario())
    assert order == ["wide", "narrow", "last"]


@pytest.mark.parametrize("is_called", [False, True])
def test_who_is_cancelled_in_line_leaves_no_place_taken(is_called):
    places = places_for(1)

    async def scenario():
        assert places.try_take(1)
        first, second = (asyncio.create_task(places.take(1)) for _ in range(2))
        await turns()
        if is_called:
            places.give_back(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        if not is_called:
            places.give_back(1)
        await second
        places.give_back(1)
        assert places.try_take(1)

    asyncio.run(scenario())


def test_those_who_wait_on_a_loop_that_is_gone_are_passed_over():
    places = places_for(1)
    assert places.try_take(1)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # which tells of the task that is left
    left = loop.create_task(places.take(1))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    places.give_back(1)
    assert places.try_take(1)
    del left, loop
    gc.collect()


def test_line_is_one_for_all_loops():
    places, order = places_for(1), []

    async def use(name):
        await places.take(1)
        order.append(name)
        places.give_back(1)

    assert places.try_take(1)
    threads = [Thread(target=asyncio.run, args=(use(name),)) for name in "ab"]
    for thread in threads:
        thread.start()
    places.give_back(1)
    for thread in threads:
        thread.join()
    assert sorted(order) == ["a", "b"]
    assert places.try_take(1)


def test_one_who_needs_more_than_there_are_gets_them_alone():
    both_ends = PlacesOfModel(places_for(1), count=2)
    assert both_ends.try_take()
    assert not both_ends.try_take()
    both_ends.give_back()
    assert both_ends.try_take()


def test_limit_is_found_again_when_it_is_forgotten():
    found = iter([1, 2])
    places = ConnectionPlaces(lambda: next(found))
    assert [places.try_take(1) for _ in range(2)] == [True, False]
    places.give_back(1)
    places.forget_limit()
    assert [places.try_take(1) for _ in range(3)] == [True, True, False]


def test_idle_connections_to_one_server_make_room_for_those_to_another(monkeypatch):
    places = places_for(4)
    monkeypatch.setattr("ensemble_notebook.models.openai.connections.connection_places", places)
    with ExitStack() as stack:
        servers = [stack.enter_context(OpenAIServer(default=Answer(delay=0.05))) for _ in range(2)]

        async def ask(connections, url):
            if not places.try_take(1):
                await places.take(1)
            try:
                async with connections.session.post(f"{url}/chat/completions", json={}) as response:
                    await response.read()
                    return count_descriptors()
            finally:
                places.give_back(1)

        async def scenario():
            pools = [(Connections(each.url), each.url) for each in servers]
            before = count_descriptors()
            most = 0
            for pool in (*pools, *pools):
                most = max(most, *await asyncio.gather(*(ask(*pool) for _ in range(12))))
            for connections, _ in pools:
                await connections.aclose()
            return most - before

        more = asyncio.run(scenario())
        # Each open connection has its other end in this process, too, which may close a moment later.
        assert more <= 2 * 4 + 4
        assert [each.max_in_flight for each in servers] == [4, 4]
        assert len({each.peer for each in servers[0].requests}) <= 8  # used again as long as nobody needs the room


def test_forked_child_has_all_places():
    reader, writer = os.pipe()
    taken = 0
    while connection_places.try_take(1):
        taken += 1
    try:
        if (child := os.fork()) == 0:
            os.write(writer, b"y" if connection_places.try_take(1) else b"n")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 1) == b"y"
    finally:
        connection_places.give_back(taken)
        os.close(reader)
        os.close(writer)
