"""A month of runs is asked by SQL, as docs/frames.md says it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_store import RunStore
from tests.stories.conftest import Notebook
from tests.support.event_builder import START, EventBuilder

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "frames.md"
GREETING: Final = """
%%ensemble --name greeting -i topic=tides
llm: scripted
tasks: ["Greet {topic}"]
"""
FAILURE: Final = """
def cook(task):
    raise OSError("no gas")

from ensemble_notebook import Ensemble, Task
dinner = Ensemble(name="dinner", tasks=[Task(name="cook", description="Cook", expected_output="Food", handler=cook)])
try:
    dinner.run()
except Exception as error:
    print(error)
"""


def remember(days: int, seconds: float) -> None:
    """Have the store remember a run of so many days ago."""
    run_id, begun = f"tide{days}", datetime.now(UTC) - timedelta(days=days)
    build = EventBuilder({"plan": ()}, name="tide", run_id=run_id)
    with build.task("plan"), build.turn():
        build.llm("Done.", seconds=seconds, input_tokens=100, output_tokens=20)
    writer = RunStore.open().begin(RunFacts(run_id=run_id, name="tide", started_at=begun))
    for event in build.finish():
        writer.on_event(replace(event, time=event.time - START + begun))
    writer.close().result(20)


@pytest.mark.usefixtures("store_path")
def test_a_month_of_runs_is_asked_by_sql(notebook: Notebook) -> None:
    for days, seconds in ((3, 1.0), (3.01, 2.0), (10, 5.0), (40, 9.0)):
        remember(days, seconds)
    notebook.run(GREETING, FAILURE)
    section = DOCUMENT.read_text().partition("\n## SQL\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^```python\n(.+?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    assert len(cells) == 2
    notebook.run(*cells)
    spent = notebook.value("spent[spent.name == 'tide'][['runs', 'tokens']].values.tolist()")
    assert sum(runs for runs, _ in spent) == 3  # that of 40 days ago is older than a month
    assert sum(tokens for _, tokens in spent) == 3 * 120
    assert notebook.value("spent.day.is_monotonic_increasing")
    assert notebook.value("slowest[['name', 'task']].values.tolist()[0]") == ["tide", "plan"]
    assert notebook.value("float(slowest.p95_ms[0])") > 5_000
    assert notebook.value("asked.values.tolist()") == [["tides", "completed"]]
    assert notebook.value("failed[['task', 'error_type']].values.tolist()") == [["cook", "OSError"]]
