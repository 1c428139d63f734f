"""What `Ensemble.improve` is told (V68). Light to import, since `Ensemble` shows these arguments as its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.limits import AnyBudget
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.domain.definitions.review import ReviewHandler
    from ensemble_notebook.evaluation.scorer import AnyScorers
    from ensemble_notebook.trace.store.run_facts import RunOrigin

BUDGET: Final = "$2"
EXAMPLES: Final = "'task.NAME.description' or 'agent.ROLE.system_prompt'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImproveSettings:
    """How texts are improved.

    Attributes:
        of_map: how rows are run and scored.
        change: the places of the texts that change.
        budget: what all of it may spend.
        held_out: how many rows are held out, or which share of them; None: a third.
        seed: of all that is drawn.
        llm: the model that rewrites; None: that of the ensemble, or of the first text's task.
        timeout: seconds for all of it; None: no limit.
        deps, listeners, review_handler: as of a run.
        origin: the cell that it comes from; None: from Python.
    """

    of_map: MapSettings
    change: tuple[str, ...]
    budget: AnyBudget = BUDGET
    held_out: float | None = None
    seed: int = 0
    llm: Any = None
    timeout: float | None = None
    deps: object = None
    listeners: Sequence[Listener] = ()
    review_handler: ReviewHandler | None = None
    origin: RunOrigin | None = None

    def __post_init__(self) -> None:
        """Check what a person may have got wrong."""
        from ensemble_notebook.evaluation.scored_runs import is_number

        if not is_number(self.seed) or self.seed < 0 or not isinstance(self.seed, int):
            raise ValidationError(f"seed must be a whole number from 0, got {self.seed!r}.")
        if self.held_out is not None and (not is_number(self.held_out) or self.held_out <= 0):
            raise ValidationError(
                f"held_out must be a share of the rows, such as 0.3, or how many, such as 40, got {self.held_out!r}."
            )
        if not self.budget:
            raise ValidationError(f"improve spends until its budget is used up: give one, such as budget={BUDGET!r}.")
        scorers = self.of_map.scorers
        if not scorers:
            raise ValidationError("improve needs a score, which tells what is better: give score=SCORER.")
        if len(scorers) > 1:
            names = ", ".join(each.name for each in scorers)
            raise ValidationError(
                f"improve goes by one score, got {len(scorers)}: {names}. Give one of them, or a function that "
                "weighs them."
            )


def read_improve(
    rows: Any,
    *,
    score: AnyScorers | None = None,
    change: str | Sequence[str] = (),
    budget: AnyBudget = BUDGET,
    held_out: float | None = None,
    seed: int = 0,
    llm: Any = None,
    expected: str | None = None,
    id: str | None = None,  # noqa: A002 - as of maps
    attach: str | Sequence[str] = (),
    concurrency: int | None = None,
    executor: Any = None,
    timeout: float | None = None,
    deps: object = None,
    listeners: Sequence[Listener] = (),
    review_handler: ReviewHandler | None = None,
) -> tuple[Any, ImproveSettings]:
    """Read the arguments of `Ensemble.improve`.

    Raises:
        ValidationError: one of them has a wrong value.
    """
    if executor is not None:
        raise ValidationError(
            "improve runs its rows here, where what was done once is not paid again: leave out executor=."
        )
    of_map = MapSettings(score=score, expected=expected, id=id, attach=attach, concurrency=concurrency)
    made = ImproveSettings(
        of_map=of_map,
        change=_read_places(change),
        budget=budget,
        held_out=held_out,
        seed=seed,
        llm=llm,
        timeout=timeout,
        deps=deps,
        listeners=listeners,
        review_handler=review_handler,
    )
    RunSettings(timeout=timeout)  # checks it
    return rows, made


def _read_places(change: Any) -> tuple[str, ...]:
    given = (change,) if isinstance(change, str) else change
    if not isinstance(given, list | tuple) or not given or not all(isinstance(each, str) for each in given):
        raise ValidationError(f"change must list the texts that change, such as {EXAMPLES}, got {change!r}.")
    if twice := [each for each, count in Counter(given).items() if count > 1]:
        raise ValidationError(f"change names {twice[0]!r} several times. Leave it there once.")
    return tuple(given)
