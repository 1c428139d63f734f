"""When a map ends early (V60): the order in which its rows run, and which of them are not needed any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ensemble_notebook.domain.definitions.enums import DONE
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED, KnownRows, UntilClear, pair_rows
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings
from ensemble_notebook.ensemble.many_runs.row_runs import RowOutcome
from ensemble_notebook.ensemble.many_runs.rows import Row
from ensemble_notebook.ensemble.scoring import CheckedScorers
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.evaluation.clear_verdict import ClearVerdict, StoredSide, Values, describe_several, order_rows
from ensemble_notebook.evaluation.scored_runs import Ending, Failed, Question, ScoredRun, name_scores
from ensemble_notebook.evaluation.verdicts import list_runs


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str | None: ...


class PlannedRun(Protocol):
    """A row under one of the variants, as it is planned."""

    @property
    def name(self) -> str: ...
    @property
    def row(self) -> Row: ...
    @property
    def variant(self) -> Named: ...
    @property
    def repeat(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class EarlierMap:
    """A stored map that a map without variants is held to.

    Attributes:
        result: of it.
        loss: the most that may be lost against it.
        failed: what a row that failed counts as, where the score is a number.
    """

    result: MapResult
    loss: float
    failed: Failed

    def pair(self, rows: KnownRows) -> StoredSide:
        """What its runs count as, by the rows of the later map."""
        pairs = pair_rows(self.result._list_known_rows(), rows)
        later = {before: now for now, before in pairs.partners.items()}
        runs = [(later[str(each.row)], each) for each in list_runs(self.result) if each.row in later]

        def read(question: Question) -> Values:
            counted = (((row, run.repeat), question.read(run)) for row, run in runs)
            return {place: value for place, value in counted if value is not None}

        return StoredSide(loss=self.loss, failed=self.failed, read=read)


def make_early_end(
    settings: MapSettings,
    variants: Sequence[str],
    runs: Mapping[str, PlannedRun],
    kept: Mapping[str, RowResult],
    scorers: CheckedScorers,
    stored: StoredSide | None = None,
) -> EarlyEnd | None:
    """What ends a map early; None where nobody wants that.

    Args:
        settings: of the map.
        variants: their names.
        runs: all of it, by name.
        kept: those of an earlier map that are taken over.
        scorers: of the map.
        stored: an earlier map that it is held to, in place of variants.

    Raises:
        ValidationError: there is nothing to compare, or what was taken over can't be.
    """
    names = [name for each in scorers.single for name in scorers.list_names(each)]
    asked = settings.read_until_clear(len(names))
    if asked is None:
        return None
    pairs = [each.name for each in scorers.pairs]
    if not names or asked.score in pairs:
        raise ValidationError(
            f"until_clear looks at each run by itself, and {asked.score or pairs[0]!r} compares two: leave it out, or "
            "name another score."
        )
    if asked.score is None and len(names) > 1:
        raise ValidationError(describe_several(names, asked.level))
    return EarlyEnd(asked, settings, variants, runs, kept, stored)


class EarlyEnd:
    """Looks after each run whether the verdict on the variants is clear.

    Attributes:
        asked: what is to be clear.
    """

    def __init__(
        self,
        asked: UntilClear,
        settings: MapSettings,
        variants: Sequence[str],
        runs: Mapping[str, PlannedRun],
        kept: Mapping[str, RowResult],
        stored: StoredSide | None,
    ) -> None:
        self.asked = asked
        self._runs = runs
        if len(variants) < 2 and stored is None:
            raise ValidationError(
                "until_clear compares variants, and there is only one: run variants(...).map(rows), or leave it out."
            )
        rows = list(dict.fromkeys(each.row.name for each in runs.values()))
        seen = set(rows) - {run.row.name for name, run in runs.items() if name not in kept}
        self._rows = order_rows(rows, asked.seed, seen)
        self._verdict = ClearVerdict(asked, variants, self._rows, settings.repeat or 1, stored)
        scores = {} if settings.resume is None else name_scores(settings.resume.score_records)
        for name, each in kept.items():  # all that was seen counts
            run = runs[name]
            self._verdict.add(
                ScoredRun(
                    variant=run.variant.name or "",
                    row=run.row.name,
                    repeat=run.repeat or 1,
                    scores=scores.get(each.run_id or "", {}),
                )
            )
        if self.fault is not None:
            raise self.fault

    @property
    def fault(self) -> ValidationError | None:
        """Why nothing can be compared; None as long as nothing is wrong."""
        return self._verdict.fault

    def list_names(self) -> list[str]:
        """All runs in the order in which they run: those of a row together, under each variant and each time."""
        places = {row: place for place, row in enumerate(self._rows)}
        return sorted(self._runs, key=lambda name: places[self._runs[name].row.name])

    def find_reason(self, name: str) -> str | None:
        """Why a run that has not begun need not do so; None where it is needed."""
        if self.fault is not None:
            return str(self.fault)
        return NOT_NEEDED if self._verdict.is_needless(self._runs[name].variant.name or "") else None

    def add(self, run: PlannedRun, outcome: RowOutcome) -> None:
        """Take in a run that has ended."""
        is_done = outcome.status in DONE
        self._verdict.add(
            ScoredRun(
                variant=run.variant.name or "",
                row=run.row.name,
                repeat=run.repeat or 1,
                ending=Ending.DONE if is_done else Ending.FAILED if outcome.error is not None else Ending.INCOMPLETE,
                scores=name_scores(outcome.scores).get(outcome.run_id, {}),
            )
        )
