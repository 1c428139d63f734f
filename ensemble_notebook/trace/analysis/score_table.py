"""The table of scores: what code, judges and people made of the outputs of runs (V9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.tables.shared_columns import arrange
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table

SCORES: Final = Table(
    "score of a run, or of something in it",
    None,
    arrange(
        (
            Column("map_run_id", "string", "of the map that the run is a row of"),
            Column("run_id", "string", "of the run that was scored; of a map, the row's own run", is_nullable=False),
            Column("span_id", "string", "of what was scored inside the run; NA for the run as a whole"),
            Column("variant", "category", "of the row"),
            Column("row", "category", "label of the row, as the map calls it"),
            Column("repeat", "Int64", "number of the repeat, from 1"),
            Column("name", "category", "of the score", is_nullable=False),
            Column("value", "Float64", "the number; 1 or 0 where it passed or failed"),
            Column("label", "string", "the word, where the score is one"),
            Column("passed", "boolean", "whether it passed, where the score says that"),
            Column(
                "reason",
                "string",
                "why; what the scorer failed with, where it did",
                lambda each: each.reason or each.error,
            ),
            Column("kind", "category", "code, judge or human", "kind.value", is_nullable=False),
            Column("scorer", "category", "name of the function or the judge"),
            Column("model", "category", "that the judge asked"),
            Column("cost", "Float64", "of the judge, in currency"),
            Column("scored_at", UTC_TIME, "when it was given", is_nullable=False),
        ),
        "variant",
        "row",
        "repeat",
        "name",
        "value",
        "label",
        "passed",
        "reason",
    ),
)


def clean_scores(records: Iterable[ScoreRecord], *, keeps_texts: bool) -> tuple[ScoreRecord, ...]:
    """The scores that count, as a trace may tell them: secrets masked, no texts where none are kept."""
    return tuple(_clean(each if keeps_texts else each.without_texts()) for each in list_current(records))


def _clean(record: ScoreRecord) -> ScoreRecord:
    texts = ("name", "label", "reason", "error", "scorer", "author", "variant", "row")
    values = {name: getattr(record, name) for name in texts}
    cleaned: dict[str, Any] = {name: None if value is None else clean_text(value) for name, value in values.items()}
    return record if cleaned == values else replace(record, **cleaned)
