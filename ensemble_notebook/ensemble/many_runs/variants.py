"""Variants of an ensemble, run side by side, with one table of results (E73)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments, MapSettings, read_map, read_repeated
from ensemble_notebook.ensemble.many_runs.variant import make_variants
from ensemble_notebook.ensemble.run_settings import Inputs, read_run, takes
from ensemble_notebook.errors import SuggestsNames
from ensemble_notebook.evaluation.scorer import AnyScorers


class Variants(SuggestsNames):
    """Several forms of an ensemble that run together, with one budget account, one timeline and one table.

    Made by `Ensemble.variants`.

    Args:
        ensemble: the original.
        changes: by variant name: fields of the ensemble, ``"task.NAME.FIELD"``, ``"agent.ROLE.FIELD"``, or inputs.
        score: what scores each completed run: a scorer, a list of them, or a dict of them by name.

    Attributes:
        names: of the variants, in order.

    Raises:
        ValidationError: there is nothing of that name to change, or the value is wrong.
    """

    def __init__(
        self, ensemble: RunnableEnsemble, changes: Mapping[str, Mapping[str, Any]], score: AnyScorers | None = None
    ) -> None:
        self._ensemble = ensemble
        self._variants = make_variants(ensemble, changes)
        MapSettings(score=score)  # a mistake is told at once
        self._score = score
        self.names: tuple[str, ...] = tuple(str(each.name) for each in self._variants)

    @takes(read_run)
    def run(
        self,
        /,
        inputs: Inputs = None,
        *,
        repeat: int | None = None,
        score: AnyScorers | None = None,
        expected: str | None = None,
        concurrency: int | None = None,
        executor: Any = None,
        **given: Any,
    ) -> MapResult:
        """Run each variant with these inputs, side by side. The result has a row for each variant.

        Arguments are as for `Ensemble.run`, and `concurrency` and `executor` as for `Ensemble.map`; `score` takes the
        place of the one that the variants were made with.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake; nothing was called.
            DeadlineExceededError, RunInterrupted: the map was stopped; has the partial result as ``output``.
            ScoringError: a scorer failed for each run; has the whole result as ``result``.
        """
        of_map = {"repeat": repeat, "expected": expected, "concurrency": concurrency, "executor": executor}
        return self._run(read_repeated(inputs, given, score=self._score if score is None else score, **of_map))

    @takes(read_map)
    def map(self, rows: Any, *, score: AnyScorers | None = None, **given: Any) -> MapResult:
        """Run each variant with each row: all rows of the first variant, then those of the next.

        All arguments and errors are as for `Ensemble.map`; `score` takes the place of the one that the variants were
        made with.
        """
        return self._run(read_map(rows, score=self._score if score is None else score, **given))

    def _run(self, given: MapArguments) -> MapResult:
        return start_map(self._ensemble, given, variants=self._variants).run_to_end()

    def __repr__(self) -> str:
        """The names."""
        return f"<Variants {', '.join(self.names)}>"
