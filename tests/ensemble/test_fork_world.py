"""Forks at the spans of random runs, held to an oracle that knows nothing of spans: what is asked and called (E100)."""

from __future__ import annotations

import pytest

from tests.support.fork_world import World
from tests.support.forks_of_worlds import fork_world
from tests.support.openai_server import OpenAIServer


@pytest.mark.parametrize("seed", [4, 26])
def test_what_depends_on_the_span_is_done_anew_and_nothing_else_e100(seed: int, server: OpenAIServer) -> None:
    world = World(seed, server.url, says_the_same=seed == 4)
    server.choose = world.answer
    forks = [*fork_world(world, most=8)]
    assert len(forks) >= 8
    assert [each for each in forks if each.find_fault()] == []


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("is_stored", [False, True])
def test_what_the_store_has_is_kept_as_it_went_e100(server: OpenAIServer, *, is_stored: bool) -> None:
    world = World(110, server.url)
    server.choose = world.answer
    assert [
        fault for each in fork_world(world, most=4, is_stored=is_stored) if (fault := each.find_fault()) is not None
    ] == []


@pytest.mark.parametrize("seed", range(100, 120))
def test_random_runs_are_forked_all_over_e100(seed: int, server: OpenAIServer) -> None:
    world = World(seed, server.url, says_the_same=seed % 4 == 0)
    server.choose = world.answer
    assert [fault for each in fork_world(world, most=10) if (fault := each.find_fault()) is not None] == []
