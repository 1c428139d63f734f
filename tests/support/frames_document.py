"""``docs/frames.md``: every frame and column, made from the tables that the frames are made from (T20, T21, T28).

``make frames-document`` writes it; a test holds the committed file to the tables.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from ensemble_notebook.trace.analysis.agent_stats import AGENTS
from ensemble_notebook.trace.analysis.critical_path import CRITICAL_PATH
from ensemble_notebook.trace.analysis.map_rows import MAP_ROWS
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.tables.frame_tables import (
    ATTEMPTS,
    DELEGATIONS,
    ERRORS,
    EVENTS,
    LINKS,
    LLM_CALLS,
    MESSAGES,
    PHASES,
    REVIEWS,
    RUNS,
    SCORES,
    SPANS,
    TASKS,
    TOOL_CALLS,
)
from ensemble_notebook.trace.tables.table import Table

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "frames.md"

TABLES: Final[Mapping[str, Table]] = {
    "runs": RUNS,
    "phases": PHASES,
    "tasks": TASKS,
    "agents": AGENTS,
    "llm_calls": LLM_CALLS,
    "attempts": ATTEMPTS,
    "tool_calls": TOOL_CALLS,
    "delegations": DELEGATIONS,
    "reviews": REVIEWS,
    "links": LINKS,
    "critical_path": CRITICAL_PATH,
    "rows": MAP_ROWS,
    "scores": SCORES,
    "errors": ERRORS,
    "messages": MESSAGES,
    "events": EVENTS,
    "spans": SPANS,
}
"""The properties of `Frames`, the small tables first."""

_INTRODUCTION: Final = """\
<!-- Made by `make frames-document` from ensemble_notebook/trace/tables and ensemble_notebook/trace/analysis. -->
# Frames

`output.frames` has a run as pandas DataFrames. Each is made when it is first used, and kept. A run that failed or was
stopped, or that was loaded from a file, has the same frames with the same columns, and so has a run without a single
row for one of them.

```python
output.frames.tasks[["agent", "duration_ms", "total_tokens", "cost"]]
output.frames.critical_path.groupby("kind", observed=True)["share"].sum()
output.frames.timeseries(dt=0.5)[["llm_requests", "tools"]].max()
```

[The lesson on reading traces](../notebooks/06-reading-traces.ipynb) has ten questions, and the lines that answer each.
`output.plot` draws tokens, cost, tasks and concurrency from these frames (extra `plots`). `.plot()` of pandas itself
needs Matplotlib, which does not come with this package.

`load_traces()` gives the same frames for many runs at once, each with the column `run_id`.

`frames.to_parquet(FOLDER)` writes all of them, one file each, for DuckDB, polars and others (extra `parquet`):

```python
output.frames.to_parquet("tables")
load_traces().to_parquet("month", overwrite=True)  # of many runs; the files of these tables are replaced
```

A column has the same type in each file of its table, also where nothing is in it: a category is a dictionary of text, a
list of names a list, a dict JSON text. `timeseries` is there with bins of a hundredth of the run.

- Ids are the index, and they join: `task_id`, `parent_id`, `llm_id`, `src` and `dst` are `span_id` elsewhere. Where no
  index is named below, it is the row's number, from 0.
- A name that ends in `_ms` is a number of milliseconds, by a clock that never jumps. A name that ends in `_time` is an
  instant, UTC, to the microsecond: here as nanoseconds, in files of Parquet as microseconds, which DuckDB can subtract.
- Unknown is `NA`, never 0. A sum over a part that is unknown is that of the known part, and `tokens_complete` or
  `cost_complete` beside it is false. The column "NA" below says where there can be one.
- Tokens and cost stand on the attempts, which are the leaves. In `spans` they stand nowhere else, so that a plain sum
  is right; all other frames have sums over what is beneath a row, those of `delegations` without what they delegate
  further. `input_tokens` includes what was read from a cache, `output_tokens` what was spent on reasoning.
- Money is in `currency`. It is a float here; `output.metrics.cost` is the exact decimal.
- Words that repeat are categories, in order of appearance: group with `observed=True`.
"""
_SQL: Final = """
## SQL

`store.sql` asks all remembered runs at once, in the SQL of DuckDB (extra `sql`). The tables are those above by their
names, but for `timeseries`; what is an index there is a column, and each has `run_id`. The answer is a DataFrame:

```python
from ensemble_notebook import store

spent = store.sql('''
    select date_trunc('day', start_time) as day, name, count(*) as runs, sum(input_tokens + output_tokens) as tokens
    from runs
    where start_time > now() - interval 1 month
    group by all order by day, name
''')
slowest = store.sql('''
    select r.name, s.task, quantile_cont(s.duration_ms, 0.95) as p95_ms
    from spans s join runs r using (run_id)
    where s.kind = 'task' group by all order by p95_ms desc
''')
asked = store.sql("select inputs->>'topic' as topic, status from runs where inputs is not null")
```

In a line of a notebook, `-o` binds the answer:

```python
%ensemble sql -o failed SELECT run_id, task, error_type FROM errors WHERE is_origin
```

A statement is one SELECT, which can read these tables and nothing else: no files, no network, no variables. Only the
columns that it names are read from the store; a star reads all. Words are texts here, dicts JSON text
(`inputs->>'topic'`), lists lists (`unnest(depends_on)`). An instant is UTC, and two of them can be subtracted.
A join of two tables with the column `name` answers with `name` and `name_1`.
"""
_HEAD: Final = ("| Column | dtype | Unit | NA | Meaning |", "|---|---|---|---|---|")
_COMMON: Final = ("", "## In several frames", "", *_HEAD)


def make_document() -> str:
    """The text of the file."""
    common = _find_common()
    tables = (line for name in TABLES for line in _describe(name, common))
    return "\n".join([_INTRODUCTION, *_list_frames(), *_SQL.rstrip().split("\n"), *_COMMON, *common, *tables]) + "\n"


def _find_common() -> list[str]:
    """The rows of columns that mean the same in several frames, told once: of a name, the most frequent."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for table in (*TABLES.values(), TIMESERIES):
        for name, row in _rows_of(table):
            counts[name][row] += 1
    return [row for rows in counts.values() for row, count in rows.most_common(1) if count > 1]


def _list_frames() -> Iterator[str]:
    yield "| Frame | One row per |"
    yield "|---|---|"
    for name, table in [*TABLES.items(), ("timeseries", TIMESERIES)]:
        yield f"| [`{name}{'(dt)' if name == 'timeseries' else ''}`](#{name}) | {_escape(table.short_grain)} |"


def _describe(name: str, common: Collection[str]) -> Iterator[str]:
    yield from _describe_table(name, TABLES[name], common)
    if name == "critical_path":
        yield from _describe_table("timeseries", TIMESERIES, common)
        yield ""
        yield "`timeseries(dt)` is a method: `dt` is the length of a bin, in seconds or as a timedelta; without it, a"
        yield "hundredth of the run."


def _describe_table(name: str, table: Table, common: Collection[str]) -> Iterator[str]:
    yield ""
    yield f"## {name}"
    yield ""
    yield f"One row per {table.grain}."
    if shared := [name for name, row in _rows_of(table) if row in common]:
        yield from textwrap.wrap(f"[As in others](#in-several-frames): {', '.join(shared)}.", 120)
    yield ""
    yield from _HEAD
    yield from (row for _, row in _rows_of(table) if row not in common)


def _rows_of(table: Table) -> Iterator[tuple[str, str]]:
    """Each column by its name, and its row in a table of columns."""
    for column in table.all_columns:
        is_index = column is table.index
        name = f"`{column.name}`{' *(index)*' if is_index else ''}"
        unknown = "yes" if column.is_nullable and not is_index else ""
        cells = (name, column.dtype, column.unit or "", unknown, _escape(column.meaning))
        yield name, f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the file."""
    DOCUMENT.write_text(make_document(), encoding="utf-8")


if __name__ == "__main__":
    main()
