"""Variants of an ensemble, run side by side, with one table of results (E73)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_handle import MapHandle
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.map_run import MapSettings, OnError, make_settings, start_map
from ensemble_notebook.ensemble.many_runs.rows import make_only_row
from ensemble_notebook.ensemble.many_runs.variant import make_variants
from ensemble_notebook.ensemble.run_settings import (
    Inputs,
    Pace,
    PathLike,
    ReplayTools,
    Resumable,
    RunSettings,
    join_inputs,
)
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
        resume: MapResult | Resumable = None,
        redo: Sequence[str] = (),
        anyway: bool = False,
        timeout: float | None = None,
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        reuse: bool = False,
        only: Task | str | None = None,
        **variables: Any,
    ) -> MapResult:
        """Run each variant with these inputs, side by side. The result has a row for each variant.

        All arguments are as for `Ensemble.map`; `score` takes the place of the one that the variants were made with.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake; nothing was called.
            DeadlineExceededError, RunInterrupted: the map was stopped; has the partial result as ``output``.
            ScoringError: a scorer failed for each run; has the whole result as ``result``.
        """
        settings, map_settings = make_settings(
            resume,
            repeat=repeat,
            concurrency=concurrency,
            executor=executor,
            score=self._score if score is None else score,
            expected=expected,
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
            redo=redo,
            anyway=anyway,
        )
        return self.start(make_only_row(join_inputs(inputs, variables)), settings, map_settings).run_to_end()

    def map(
        self,
        rows: Any,
        *,
        repeat: int | None = None,
        on_error: OnError = "keep",
        score: AnyScorers | None = None,
        expected: str | None = None,
        id: str | None = None,  # noqa: A002 - the usual name of such a column
        concurrency: int | None = None,
        executor: Any = None,
        resume: MapResult | Resumable = None,
        redo: Sequence[str] = (),
        anyway: bool = False,
        timeout: float | None = None,
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        reuse: bool = False,
        only: Task | str | None = None,
    ) -> MapResult:
        """Run each variant with each row: all rows of the first variant, then those of the next.

        All arguments and errors are as for `Ensemble.map`; `score` takes the place of the one that the variants were
        made with.
        """
        settings, map_settings = make_settings(
            resume,
            repeat=repeat,
            on_error=on_error,
            concurrency=concurrency,
            executor=executor,
            score=self._score if score is None else score,
            expected=expected,
            id=id,
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
            redo=redo,
            anyway=anyway,
        )
        return self.start(rows, settings, map_settings).run_to_end()

    def start(
        self, rows: Any, settings: RunSettings, map_settings: MapSettings, inputs: Mapping[str, Any] | None = None
    ) -> MapHandle:
        """Prepare the run; `MapHandle.begin` begins it. As `start_map`; the score is the one in `map_settings`."""
        return start_map(self._ensemble, rows, settings, map_settings, inputs, self._variants)

    def __repr__(self) -> str:
        """The names."""
        return f"<Variants {', '.join(self.names)}>"
