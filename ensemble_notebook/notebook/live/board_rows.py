"""The remembered runs as the board of runs shows them (W130): a row for each, read from the store again as it changes.

No run is folded for it that has a kept summary. What has none yet has a row without sums until it is folded, a few at a
time. Secrets in texts are masked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunKind, RunStatus
from ensemble_notebook.domain.outputs.score import ScoreRecord, list_current
from ensemble_notebook.domain.wording import format_percent
from ensemble_notebook.errors import StoreError
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.families import find_places
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunSummary
from ensemble_notebook.trace.store.run_store import RunStore

Row = dict[str, Any]
"""What a view is told of a run: plain values. What is unknown is absent."""

LONGEST_INPUTS: Final = 200
FOLDING_S: Final = 0.1
"""For how long runs without a summary are folded until the others are told of."""
_RESUMABLE: Final = (RunStatus.FAILED, RunStatus.INTERRUPTED, RunStatus.BUDGET_EXCEEDED, RunStatus.EXITED_EARLY)


class BoardRows:
    """The rows of a store as they were read last. For one thread.

    Args:
        store: with the runs.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._rows: dict[str, Row] = {}
        self._scores: dict[str, list[ScoreRecord]] = {}
        self._last_score = 0
        self._stamp: object = None
        self._made: dict[str, RunSummary] = {}
        self._unmade: list[str] = []
        self._damaged: set[str] = set()

    @property
    def rows(self) -> list[Row]:
        """All of them, newest first."""
        return list(self._rows.values())

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be folded."""
        return not self._unmade

    def has_changed(self) -> bool:
        """Whether there may be something new: the file is another one, or a run goes on, whose process may end."""
        is_running = any(row["status"] == RunStatus.RUNNING.value for row in self._rows.values())
        return is_running or self._stamp != _read_stamp(self._store.path)

    def read(self) -> tuple[list[Row], list[str]]:
        """The rows that are new or have changed since, newest first, and the ids of the runs that are gone.

        Raises:
            StoreError: the store can't be read.
        """
        self._stamp = _read_stamp(self._store.path)
        runs = self._store.list_runs()
        summaries = self._store.load_summaries()
        fresh, self._last_score = self._store.load_new_scores(self._last_score)
        for run_id, records in fresh.items():
            self._scores.setdefault(run_id, []).extend(records)
        known = {run.run_id: run for run in runs}
        parents = {run.run_id: run.facts.forked_from_run or run.facts.resumed_from for run in runs}
        places = find_places(parents)
        self._made = {run_id: each for run_id, each in self._made.items() if run_id not in summaries}
        self._unmade = []
        before, self._rows = self._rows, {}
        for run in runs:
            summary = summaries.get(run.run_id) or self._made.get(run.run_id)
            is_wanting = summary is None or summary.picture is None or run.status is RunStatus.RUNNING
            if is_wanting and run.run_id not in self._damaged:
                self._unmade.append(run.run_id)
            row = make_row(run, summary, self._scores.get(run.run_id, ()))
            row["family"] = places[run.run_id].family
            if _is_forkable(run) and has_cell(run.run_id, known, parents):
                row["is_forkable"] = True
            self._rows[run.run_id] = row
        changed = [row for run_id, row in self._rows.items() if before.get(run_id) != row]
        return changed, [run_id for run_id in before if run_id not in self._rows]

    def fold_some(self) -> list[Row]:
        """Fold some of the runs that have no summary yet; gives their rows. What is damaged is not tried again."""
        end, changed = time.monotonic() + FOLDING_S, []
        while self._unmade and time.monotonic() < end:
            run_id = self._unmade.pop(0)
            try:
                summary = self._store.summarize(run_id)
            except StoreError:
                self._damaged.add(run_id)
                continue
            if summary is None or run_id not in self._rows:
                continue
            self._made[run_id] = summary
            before, row = self._rows[run_id], self._rows[run_id] | _describe_summary(summary)
            self._rows[run_id] = row
            if before != row:
                changed.append(row)
        return changed


def has_cell(run_id: str, known: Mapping[str, RememberedRun], parents: Mapping[str, str | None]) -> bool:
    """Whether a run is of a cell whose text is known, or came of such a run."""
    seen: set[str] = set()
    while run_id in known and run_id not in seen:
        seen.add(run_id)
        origin = known[run_id].facts.origin
        if origin is not None and origin.text:
            return True
        run_id = parents.get(run_id) or ""
    return False


def _is_forkable(run: RememberedRun) -> bool:
    is_one = run.facts.kind in (None, RunKind.RUN, RunKind.FORK)
    return is_one and run.status is not RunStatus.RUNNING and run.facts.keeps_texts


def make_row(run: RememberedRun, summary: RunSummary | None, scores: Iterable[ScoreRecord] = ()) -> Row:
    """The row of a run.

    Args:
        run: as the store has it.
        summary: what it came to; None where nobody knows yet.
        scores: of it, in the order in which they were given.
    """
    facts, origin = run.facts, run.facts.origin
    is_of_cell = facts.keeps_texts and origin is not None and bool(origin.text)
    known: Mapping[str, Any] = {
        "name": None if facts.name is None else clean_text(facts.name),
        "kind": None if facts.kind is None else facts.kind.value,
        "parent": facts.forked_from_run or facts.resumed_from,
        "changed": [*facts.changed] or None,
        "notebook": None if origin is None or not origin.notebook else clean_text(PurePath(origin.notebook).name),
        "variable": None if origin is None else origin.variable,
        "cell": None if origin is None else origin.cell,
        "framework": None if facts.framework is None else clean_text(facts.framework),
        "scores": describe_scores(scores) or None,
        "is_resumable": True if is_of_cell and run.status in _RESUMABLE else None,
    }
    row = {"run_id": run.run_id, "status": run.status.value, "start_ms": facts.started_at.timestamp() * 1000}
    row |= {name: value for name, value in known.items() if value is not None}
    return row if summary is None else row | _describe_summary(summary)


def _describe_summary(summary: RunSummary) -> Row:
    tokens = [each for each in (summary.input_tokens, summary.output_tokens) if each is not None]
    inputs = clean_text(", ".join(f"{name}: {value}" for name, value in summary.inputs.items()))
    known: Mapping[str, Any] = {
        "tasks": summary.tasks,
        "tasks_done": summary.tasks_done,
        "wall_ms": summary.wall_ms,
        "tokens": sum(tokens) if tokens else None,
        "cost": None if summary.cost is None else float(summary.cost),
        "currency": summary.currency,
        "inputs": inputs if len(inputs) <= LONGEST_INPUTS else f"{inputs[: LONGEST_INPUTS - 1]}…",
        "picture": summary.picture,
    }
    return {name: value for name, value in known.items() if value not in (None, "")}


def describe_scores(records: Iterable[ScoreRecord]) -> list[list[Any]]:
    """What a run was scored as a whole: for each name a text, the number to sort it by or None, and if more is better.

    Of several, as of the rows of a map, it is the mean, the share that passed, or the label that most have.
    """
    by_name: dict[str, list[ScoreRecord]] = {}
    for each in list_current(records):
        if each.span_id is None and each.measure is not None:
            by_name.setdefault(each.current_name, []).append(each)
    described = []
    for name, alike in by_name.items():
        labels = Counter(each.label for each in alike if each.label is not None)
        passed = [each.passed for each in alike if each.passed is not None]
        values = [each.value for each in alike if each.value is not None]
        text, number = "", None
        if passed:
            number = sum(passed) / len(passed)
            alone = "passed" if passed[0] else "not passed"
            text = alone if len(passed) == 1 else f"{format_percent(number)} passed"
        elif values:
            number = sum(values) / len(values)
            text = f"{number:.6g}" if len(values) == 1 else f"{number:.3g}"
        elif labels:
            text = labels.most_common(1)[0][0] or ""
        described.append([clean_text(name), clean_text(text), number, alike[-1].higher_is_better])
    return described


def _read_stamp(path: Path) -> object:
    """What tells whether the file was written to: of the database, and of what is not yet in it."""
    stamps: list[tuple[int, int] | None] = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = each.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_mtime_ns, found.st_size))
    return stamps
