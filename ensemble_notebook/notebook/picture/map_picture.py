"""The result of a map as a notebook shows it: a sentence, and the first rows of its table, what failed before the rest.

What a task gave that runs for each item of a list is shown alike.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.outputs.secrets import mask, mask_start
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.wording import format_duration, format_money, pluralize
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.html_table import (
    BREAKS,
    FAINT,
    Column,
    Html,
    Line,
    make_bundle,
    tag,
    wrap,
    write_table,
)
from ensemble_notebook.notebook.picture.static_picture import find_variable
from ensemble_notebook.trace.analysis.row_table import NOTHING_SPENT, RowRecord, make_row_frame, sum_spending

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from ensemble_notebook.domain.outputs.task_output import TaskOutput
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

FIRST: Final = 12
_LONGEST: Final = 80
_LONGEST_ERROR: Final = 300
_LEAST_WRAPPED: Final = 24  # characters of a line, so that no column of texts is a tower of words
_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.,_e+-]*")
_NUMBERS: Final = frozenset({"input_tokens", "output_tokens", "cost", "score_cost", "duration", "at work", "score"})
_LEFT_OUT: Final = ("run_id", "error_type", "http_status", "human_wait_ms", "idle_ms")


def make_map_bundle(result: MapResult, expression: str | None = None) -> dict[str, Any]:
    """A result, complete or partial, as plain text and HTML.

    Args:
        result: of a map.
        expression: what gives it in the notebook; None: the variable that has it.
    """
    expression = expression or find_variable(result) or "result"
    said = mask(result.describe())
    notes = [mask(f"! {each}") for each in result.warnings]
    notes += filter(None, [result._describe_sameness()])
    if not len(result):
        return {"text/plain": "\n".join([said, *notes])}
    frame = _order_rows(result.frame).iloc[:, : result.frame.shape[1] - len(result.input_names)]
    if not result._shows_texts:  # a page keeps what it shows (T6a)
        frame = frame.drop(columns=[each for each in frame.columns if each not in _TEXTLESS]).reset_index(drop=True)
    rest = len(result) - FIRST
    more = f"{pluralize(rest, 'more row')}; all of them: {expression}.frame" if rest > 0 else f"{expression}.frame"
    return _make_bundle(said, notes, _write_words(frame, result.metrics.currency), more)


def make_items_bundle(output: EnsembleOutput, task: TaskOutput, expression: str) -> dict[str, Any]:
    """What a task gave that runs for each item, as plain text and HTML.

    Args:
        output: of the run.
        task: has items, in whatever number.
        expression: what gives the output in the notebook.
    """
    import pandas as pd

    names = {each.name for each in task.item_outputs} | {each.name for each in task.item_failures}
    spending = sum_spending(output.trace._fold, names)
    records = {
        each.name: RowRecord(
            status="completed", raw=mask(each.raw), spending=spending.get(each.name, NOTHING_SPENT), reused=each.reused
        )
        for each in task.item_outputs
    }
    for failure in task.item_failures:
        took = spending.get(failure.name, NOTHING_SPENT)
        records[failure.name] = RowRecord(status="failed", error=failure.error, spending=took)
    names_in_order = sorted(records, key=lambda name: int(name[name.rindex("[") + 1 : -1]))  # summarise[12]
    frame = make_row_frame([records[each] for each in names_in_order], pd.Index(names_in_order)).drop(columns="run_id")
    failed = len(task.item_failures)
    counts = ", ".join(
        f"{count:,} {word}" for count, word in ((len(task.item_outputs), "completed"), (failed, "failed")) if count
    )
    said = mask(f"{pluralize(len(records), 'item')} of {task.name}: {counts}")
    whole, rest = f"{expression}[{json.dumps(task.name, ensure_ascii=False)}].item_outputs", len(records) - FIRST
    more = f"{pluralize(rest, 'more item')}; all of them: {whole}" if rest > 0 else whole
    more += f"; what failed: {whole.replace('item_outputs', 'item_failures')}" if failed else ""
    return _make_bundle(said, (), _write_words(_order_rows(frame), output.metrics.currency), more)


def _order_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are shown: what failed, then the others, of all variants alike, each in their order.

    Those that were not needed come last.
    """
    rank = frame["status"].map({"failed": 0, SETTLED: 2}).fillna(1).to_numpy()
    groups = [frame.index.get_level_values("variant"), rank] if "variant" in frame.index.names else [rank]
    place = frame.groupby(groups, sort=False).cumcount().to_numpy()
    shown = sorted(range(len(frame)), key=lambda at: (rank[at], place[at]))[:FIRST]
    return frame.iloc[sorted(shown, key=lambda at: (rank[at], at))]


def _make_bundle(said: str, notes: Iterable[str], frame: pd.DataFrame, more: str) -> dict[str, Any]:
    plain = "\n".join([said, *notes, _align_texts(frame).to_string(), more])
    html = wrap(
        tag("div", tag("strong", said)),
        *(tag("div", each) for each in notes),
        _write_html(frame),
        tag("div", more, style=FAINT),
    )
    return make_bundle(mask(remove_control_characters(plain)), html)


def _list_texts(frame: pd.DataFrame) -> list[str]:
    """The columns that are read from the left: all but numbers."""
    return [
        name
        for name in frame.columns
        if name not in _NUMBERS and not all(_NUMBER.fullmatch(each) for each in frame[name] if each)
    ]


def _align_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with texts from the left, under their names: pandas sets all from the right."""
    widths = {name: max([len(str(name)), *map(len, frame[name])]) for name in _list_texts(frame)}
    filled = {name: frame[name].str.ljust(width) for name, width in widths.items()}
    return frame.assign(**filled).rename(columns={name: str(name).ljust(width) for name, width in widths.items()})


def _write_html(frame: pd.DataFrame) -> Html:
    """The table for a page: numbers from the right, texts from the left and whole, in lines that wrap."""
    texts = frozenset(_list_texts(frame))
    columns = [Column("" if name is None else str(name)) for name in frame.index.names]
    for name in frame.columns:
        longest = max(map(len, (str(name), *frame[name])))  # a head is no tower of letters either
        style = f"{BREAKS};min-width:{min(longest, _LEAST_WRAPPED)}ch" if name in texts else ""
        columns.append(Column(str(name), is_number=name not in texts, style=style))
    labels = (label if isinstance(label, tuple) else (label,) for label in frame.index)
    rows = frame.itertuples(index=False, name=None)
    lines = [Line(cells=[*map(str, label), *row]) for label, row in zip(labels, rows, strict=True)]
    return write_table(columns, lines)


def _write_words(frame: pd.DataFrame, currency: str) -> pd.DataFrame:
    """The rows in words, without columns that say nothing."""
    frame = frame.drop(columns=[each for each in _LEFT_OUT if each in frame.columns])
    for each in ("score_cost", "error", "raw"):
        if each in frame.columns and frame[each].isna().all():
            frame = frame.drop(columns=each)
    if not frame["input_tokens"].sum():  # handlers take none
        frame = frame.drop(columns=["input_tokens", "output_tokens", "cost"])
    if not frame["reused"].any():
        frame = frame.drop(columns="reused")
    shown = {name: [_write(name, each, currency) for each in frame[name]] for name in frame.columns}
    return frame.assign(**shown).astype("object").rename(columns=_SHOWN_AS)


_SHOWN_AS: Final = {"duration_ms": "duration", "active_ms": "at work"}
_TEXTLESS: Final = frozenset({"status", "input_tokens", "output_tokens", "cost", *_SHOWN_AS, "reused"})


def _write(name: str, value: Any, currency: str) -> str:
    """A value of the table, as people read it; nothing for what is unknown."""
    if value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value):
        return ""
    if name in ("cost", "score_cost"):
        return format_money(value, currency)
    if name in _SHOWN_AS:
        return format_duration(value)
    longest = _LONGEST_ERROR if name == "error" else _LONGEST
    text = " ".join(mask_start(str(value), 2 * longest).split())
    return remove_control_characters(text if len(text) <= longest else f"{text[:longest]}…")
