"""TypeScript's types are those that Python's tables make (T27, T28)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ensemble_notebook
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.wire_types import FILES, FOLDER, INTERFACES


@pytest.mark.parametrize("name", FILES)
def test_the_committed_file_is_the_one_that_the_tables_make(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name](), "run `make wire-types`"


def test_every_kind_says_where_it_can_be_and_what_begins_and_ends_it() -> None:
    names = {kind.value for kind in SpanKind}
    for kind in SpanKind:
        assert set(kind.traits.parents) <= names
        assert kind.traits.starts
        assert kind.traits.ends
        assert not (kind.traits.is_leaf and kind.traits.has_totals)
    assert [kind for kind in SpanKind if not kind.traits.parents] == [SpanKind.RUN]


def test_bars_can_be_read_without_colour() -> None:
    bars = [kind.traits.bar for kind in SpanKind if kind.traits.bar is not None]
    assert len({bar.glyph for bar in bars}) == len({bar.level for bar in bars}) == len(bars)


def readers() -> str:
    """What is written about rows and runs by those who show them."""
    scripts = [path for path in FOLDER.parent.rglob("*.ts*") if path.parent != FOLDER and "test" not in path.stem]
    pictures = Path(ensemble_notebook.__file__).parent.joinpath("notebook").rglob("*.py")
    return "\n".join(
        path.read_text(encoding="utf-8") for path in [*scripts, *pictures] if path.parent.name != "testing"
    )


def test_nothing_is_sent_that_nobody_reads() -> None:
    text = readers()
    unread = [
        f"{name}.{column.name}"
        for name, table in INTERFACES.items()
        for column in table.all_columns
        if not re.search(rf"\.{column.name}\b|[\"']{column.name}[\"']|\b{column.name}[,}}:]", text)
    ]
    assert unread == []


def test_units_are_those_of_the_names() -> None:
    units = {column.name: column.unit for table in INTERFACES.values() for column in table.all_columns}
    assert (units["start_ms"], units["input_tokens"], units["max_cost"]) == ("ms", "tokens", "currency")
    assert units["tokens_complete"] is units["currency"] is units["attempt"] is None


def test_money_carries_its_currency() -> None:
    for table in INTERFACES.values():
        if any(column.unit == "currency" for column in table.columns):
            assert "currency" in {column.name for column in table.columns}
