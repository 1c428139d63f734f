"""Twenty random runs, forked at each of their spans: the requests that depend on the span, and those that were made.

What depends is told by how the run was drawn, and what was made by a server that logs each request. It takes minutes,
and so is not among the other tests, which try some of these spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ensemble_notebook import config
from tests.support.fork_world import World
from tests.support.forks_of_worlds import fork_world
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[None]:
    config.store = tmp_path / "runs.sqlite"
    yield
    config.store = None


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("seed", range(100, 120))
def test_fork_at_each_span_asks_what_depends_on_that(
    seed: int, server: OpenAIServer, add_figures: Callable[..., None]
) -> None:
    world, is_stored = World(seed, server.url, says_the_same=seed % 4 == 0), seed % 2 == 1
    server.choose = world.answer
    forks = [*fork_world(world, is_stored=is_stored)]
    add_figures(
        runs=1,
        forked_from="the store" if is_stored else "the output",
        spans=len(forks),
        requests_expected=sum(each.expected.total() for each in forks),
        requests_made=sum(each.asked.total() for each in forks),
        spans_not_as_expected=sum(each.find_fault() is not None for each in forks),
    )
    assert [fault for each in forks if (fault := each.find_fault()) is not None] == []
