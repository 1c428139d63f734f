"""Reuse against an oracle: after edits, models are asked for what these change, and for nothing else (C34, C34a)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook import config
from tests.support.code_cell import Notebook
from tests.support.openai_server import OpenAIServer
from tests.support.reuse_world import UNCOUNTED, Oracle, World, answer, edits, worlds


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(choose=answer) as server:
        yield server


def run(world: World, notebook: Notebook, server: OpenAIServer) -> list[str]:
    """Run with reuse; the roles of the agents whose requests came to the server."""
    server.clear()
    world.build(notebook, server.url).run(reuse=True)
    return sorted(re.findall(r"You are (Agent \d)", str([each.messages[0] for each in server.requests])))


@pytest.fixture(scope="module", autouse=True)
def store() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "store", str(Path(folder) / "runs.db"))
        yield


# Each example runs a dozen ensembles over HTTP; 200 of them were tried when this was written.
@settings(max_examples=12)
@given(world=worlds(), changes=st.lists(edits, min_size=1, max_size=4))
def test_c34_requests_after_edits_are_those_that_the_oracle_names(server, world, changes):
    oracle, notebook = Oracle(), Notebook()
    assert run(world, notebook, server) == oracle.list_requests(world)
    for change in changes:
        world = world.edit(*change)
        assert run(world, notebook, server) == oracle.list_requests(world)
        assert run(world, Notebook(), server) == []


@settings(max_examples=6)
@given(world=worlds(), changes=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(UNCOUNTED), st.integers(0, 3))))
def test_c34_edits_that_do_not_count_cause_no_request(server, world, changes):
    run(world, Notebook(), server)
    for change in changes:
        world = world.edit(*change)
    assert run(world, Notebook(), server) == []
