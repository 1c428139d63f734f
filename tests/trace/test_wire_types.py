"""TypeScript's types are those that Python's tables make (T27, T28)."""

from __future__ import annotations

import pytest

from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.wire_types import FILES, FOLDER


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
    assert len({kind.traits.keep_rank for kind in SpanKind}) == len(SpanKind)


def test_bars_can_be_read_without_colour() -> None:
    bars = [kind.traits.bar for kind in SpanKind if kind.traits.bar is not None]
    assert len({bar.glyph for bar in bars}) == len({bar.level for bar in bars}) == len(bars)
