"""The view in which a run opens (C100, W141)."""

from __future__ import annotations

import pytest

from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME

CELL = "\ntasks:\n  see: {description: See, handler: look}\n"
MANY = "\ntasks:\n  see: {{for_each: [{}], description: 'See {{{{item}}}}', handler: look}}\n"


@pytest.fixture
def looking(shell):
    """A shell with a handler that takes no time."""
    shell.run("def look(task): return 'seen'")
    return shell


def opens_as(shell) -> str:
    """The view in which the run that was shown last opens."""
    return [bundle for bundle in shell.seen() if TRACE_MIME in bundle][-1][TRACE_MIME]["run"]["view"]


@pytest.mark.parametrize(
    "line, cell, view",
    [
        ("", CELL, "bars"),
        ("", MANY.format(", ".join(map(str, range(12)))), "bars"),
        ("", MANY.format(", ".join(map(str, range(13)))), "grid"),
        (" --map rows", CELL, "grid"),
        (" --view graph", CELL, "graph"),
        (" --view bars --map rows", CELL, "bars"),
    ],
)
def test_a_run_opens_in_the_view_that_says_most_or_is_asked_for_c100_w141(looking, line, cell, view):
    looking.run("rows = [{'a': 1}, {'a': 2}]")
    looking.run(f"%%ensemble{line}{cell}")
    assert opens_as(looking) == view


def test_the_setting_counts_for_all_timelines_and_the_line_before_it_c100(looking):
    looking.run("%config EnsembleMagics.view = 'table'")
    looking.run(f"%%ensemble -o out{CELL}")
    assert opens_as(looking) == "table"
    looking.run(f"%%ensemble --view messages -o said{CELL}")
    assert opens_as(looking) == "messages"
    looking.run("%ensemble fork said see -o other --output seen --view graph")
    assert opens_as(looking) == "graph"


def test_a_view_that_there_is_not_is_refused_with_those_that_there_are_c100(looking):
    looking.run(f"%%ensemble -o out{CELL}")
    error = looking.error("%ensemble fork out see --view grit")
    assert "--view can't be 'grit'. It is one of bars, graph, grid, messages, table." in str(error)


@pytest.mark.parametrize(
    "line, view", [("report", "graph"), ("manager", "graph"), ("map", "grid"), ("report --view table", "table")]
)
def test_a_demo_opens_in_its_graph_and_one_of_a_map_in_its_grid_w141(shell, line, view):
    assert shell.run(f"%ensemble demo {line}").success
    assert opens_as(shell) == view
