"""What a frontend gets of each object of ours: values of plain types, since not each of them takes others (W14)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any, Final

import pytest

import ensemble_notebook
from tests.notebook.conftest import Shell

PLAIN: Final = (str, int, float, bool, type(None))

SHOWN: Final = {
    "EnsembleOutput": "out",
    "ExecutionPlan": "team.plan()",
    "ExecutionTrace": "out.trace",
    "RunDiff": "out.diff(again)",
    "TextChanges": "out.diff(again).outputs",
    "CheckReport": "checked",
    "Improvement": "better",
    "MapResult": "mapped",
    "LoadedRuns": "loaded",
    "Comparison": "mapped.compare('warm', 'cold')",
    "ScoreHistory": "loaded.score_history('is_short')",
    "NotedFrame": "NotedFrame.make(mapped.frame, ['a note'])",
    "Figure": "out.plot.tokens()",
    "Row": "out.plot.tokens() | out.plot.cost()",
    "Column": "out.plot.tokens() & out.plot.cost()",
    "RunHistory": "get_ipython().run_line_magic('ensemble', 'runs --compare')",
    "RunsBoard": "get_ipython().run_line_magic('ensemble', 'runs')",
    "ForkPlan": "out.fork(call, plan=True)",
    "Rerun": "out.rerun(call)",
    "Transcript": "out.messages()",
    "RunsTable": "RunsTable(make_run_table(RunStore.open()))",
    "BoardWidget": "BoardWidget(find_board(RunStore.open()))",
    "ModelsTable": "get_ipython().run_line_magic('ensemble', 'models')",
    "CellSchema": "get_ipython().run_line_magic('ensemble', 'schema')",
    "PlainTimeline": "PlainTimeline(feed, lambda: make_output_bundle(out))",
    "TimelineWidget": "TimelineWidget(feed)",
}
"""Each class of ours that shows itself in a rich form -> what makes one of it."""

MADE: Final = """
from ensemble_notebook import Ensemble, load_traces
from ensemble_notebook.ensemble.checking import CheckedExpectation, CheckReport
from ensemble_notebook.notebook.live.board_feed import find_board
from ensemble_notebook.notebook.live.board_widget import BoardWidget
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.notebook.live.timeline_widget import PlainTimeline, TimelineWidget
from ensemble_notebook.notebook.picture.static_picture import make_messages, make_output_bundle
from ensemble_notebook.notebook.picture.shown_table import RunsTable
from ensemble_notebook.trace.analysis.noted_frame import NotedFrame
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store.run_store import RunStore
from tests.support.store import wait_for_store
from tests.support.tickets import make_rewriter, make_rows, make_team, right

def is_short(output):
    return len(output.raw) < 4

team = Ensemble.from_yaml("llm: scripted\\ntasks: [hello]\\n", {})
out, again = team.run(), team.run()
call = out.frames.spans.query("kind == 'llm'").index[0]
many = Ensemble.from_yaml("llm: scripted\\ntasks: ['a {style} word for {thing}']\\n", {})
styles = {"warm": {"style": "warm"}, "cold": {"style": "cold"}}
mapped = many.variants(styles, score=is_short).map([{"thing": each} for each in "abc"])
better = make_team(lambda rules: 0.5).improve(
    make_rows(12), score=right, change="task.label.description", budget="200 calls", llm=make_rewriter()
)
checked = CheckReport(title="1 of 1 holds", lines=(CheckedExpectation(shown="is_short", holds=True),))
wait_for_store()
loaded = load_traces()
feed = RunFeed(make_messages(out))
"""


def list_shown() -> set[str]:
    """The classes of the package that a frontend shows in more than plain text, without those that are only derived."""
    found = set()
    for module in pkgutil.walk_packages(ensemble_notebook.__path__, "ensemble_notebook."):
        for each in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(each) and each.__module__ == module.name:
                names = ("_repr_mimebundle_", "_repr_html_", "_repr_json_")
                if any(hasattr(each, name) for name in names) and each.__name__ not in (
                    "_Offline",
                    "ShownTable",
                    "JoinedFrames",
                ):
                    found.add(each.__name__)
    return found


def list_foreign(value: Any, place: str) -> Iterator[str]:
    """Where a value is not plain by its type, subclasses included."""
    if type(value) is dict:
        for key, part in value.items():
            yield from list_foreign(key, f"a key of {place}")
            yield from list_foreign(part, f"{place}[{key!r}]")
    elif type(value) in (list, tuple):  # both are lists in JSON
        for number, part in enumerate(value):
            yield from list_foreign(part, f"{place}[{number}]")
    elif type(value) not in PLAIN:
        yield f"{place} is of {type(value)}"


def test_each_class_that_shows_itself_has_an_example():
    assert list_shown() == SHOWN.keys()


def test_what_an_object_shows_is_plain_by_its_type(shell: Shell, store_path) -> None:
    assert shell.run(MADE).success
    for name, expression in SHOWN.items():
        value = shell.ip.ev(expression)
        assert type(value).__name__ == name
        bundle, metadata = shell.ip.display_formatter.format(value)
        assert len(bundle) > 1, name
        assert list(list_foreign([bundle, metadata], name)) == []


@pytest.mark.parametrize("mode", ["static", "widget", "text"])
def test_what_a_cell_displays_is_plain_by_its_type(shell: Shell, store_path, mode: str) -> None:
    shell.run(f"%config EnsembleMagics.display = {mode!r}")
    body = "\nllm: scripted\ntasks: ['hello {thing}']"
    shell.run("rows = [{'thing': 'a'}, {'thing': 'b'}]")
    task = "{name: list, description: x, output_type: {all: [str]}}"
    items = f"\nllm: scripted\ntasks: [{task}, {{description: 'a {{item}}', for_each: list.all}}]"
    for line, cell in (
        ("-i thing=you", body),
        ("--dry-run", body),
        ("--map rows", body),
        ("", items),
        ("", "\nllm: scripted\ntsks: [hello]"),
        ("-b -o later -i thing=you", body),
    ):
        shell.run(f"%%ensemble {line}{cell}")
    shell.run("later.result()")
    assert shell.displayed
    assert list(list_foreign([each["data"] for each in shell.displayed], mode)) == []
