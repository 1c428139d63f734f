"""The scores of a run, put where they belong among its spans (V9), so that views can tell and colour them.

A score of a row of a map belongs to the task that the row is in the map; one of something inside a run to that span.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.spans.span import ShownScore
from ensemble_notebook.trace.spans.span_tree import SpanTree

_Place: TypeAlias = tuple[str | None, str | None, int | None]
"""Variant, row and repeat."""


class ScoreFold:
    """The scores of one run, by the spans that they are of.

    Attributes:
        names: of the scores, in order of appearance: the order in which spans have them.
        change_count: how often there were new ones.
    """

    def __init__(self, tree: SpanTree) -> None:
        self.names: list[str] = []
        self.change_count: int = 0
        self._tree = tree
        self._known: set[str] = set()
        self._by_span: dict[str, list[ScoreRecord]] = {}
        self._rows: dict[_Place, str] = {}
        self._early: list[ScoreRecord] = []

    def learn_rows(self, plan: ExecutionPlan) -> None:
        """The plan of a map says which task is which row; scores that came before it find their place."""
        if plan.design is None:
            return
        tasks = {span.name: span_id for span_id, span in self._tree.spans.items() if span.is_planned}
        self._rows = {
            (each.variant, each.row or None, each.repeat): tasks[each.name]
            for each in plan.design.rows
            if each.name in tasks
        }
        early, self._early = self._early, []
        self._place(early)

    def add(self, records: Iterable[ScoreRecord], *, keeps_texts: bool) -> bool:
        """Take in scores of the run; those that it has already change nothing.

        Args:
            records: in the order in which they were given.
            keeps_texts: whether words of judges and people may be told (T6a).

        Returns:
            Whether there was a new one.
        """
        new = [each if keeps_texts else each.without_texts() for each in records if each.id not in self._known]
        self._known.update(each.id for each in new)
        if new:
            self.change_count += 1
            self._tree.next_version()
            self._place(new)
        return bool(new)

    def _place(self, records: Iterable[ScoreRecord]) -> None:
        for each in records:
            row_id = None if each.map_run_id is None else self._rows.get((each.variant, each.row, each.repeat))
            span_id = each.span_id or row_id or each.run_id
            if span_id not in self._tree.spans:  # not known yet, or not in this run
                self._early.append(each)
                continue
            name = clean_text(each.name)
            if name not in self.names:
                self.names.append(name)
            of_span = self._by_span.setdefault(span_id, [])
            of_span.append(each)
            values = {clean_text(score.name): _read(score) for score in list_current(of_span)}
            span = self._tree.spans[span_id]
            span.scores = tuple(values.get(name) for name in self.names)
            self._tree.touch(span)


def _read(record: ScoreRecord) -> ShownScore:
    if record.passed is not None:
        return record.passed
    if record.value is not None:
        return record.value if math.isfinite(record.value) else None
    return None if record.label is None else clean_text(record.label)


def clean_scores(records: Iterable[ScoreRecord], *, keeps_texts: bool) -> tuple[ScoreRecord, ...]:
    """The scores that count, as a trace may tell them: secrets masked, no texts where none are kept."""
    texts = ("name", "label", "reason", "error", "scorer", "author", "variant", "row")
    cleaned = []
    for each in list_current(records):
        record = each if keeps_texts else each.without_texts()
        values: dict[str, Any] = {name: value for name in texts if (value := getattr(record, name)) is not None}
        safe: dict[str, Any] = {name: clean_text(value) for name, value in values.items()}
        cleaned.append(record if safe == values else replace(record, **safe))
    return tuple(cleaned)
