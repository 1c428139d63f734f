"""What a map is told: its rows, its settings as one run, and how the rows are run (E52, E72).

Light to import, since `Ensemble` shows these arguments as its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ensemble_notebook.domain.definitions.limits import AnyBudget
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.map_design import MOST_REPEATS, UntilClear
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.ensemble.run_settings import (
    SETTING_NAMES,
    Answers,
    Inputs,
    Pace,
    PathLike,
    ReplayTools,
    Resumable,
    RunSettings,
    join_inputs,
)
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.evaluation.scorer import AnyScorers, Scorer

OnError = Literal["keep", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """How the rows are run.

    Attributes:
        repeat: how often each row runs, 1 to 1,000; None: once, and the result does not number it.
        on_error: ``"keep"``: a failed row is a value in the result; ``"raise"``: the first failed row ends the map.
        concurrency: the most rows at the same time; None: 10, or twice the slots of the executor, where they are known.
        resume: an earlier result whose completed rows are taken over; None: none.
        redo, anyway, answers: as of `RunSettings`, with that result.
        score: what scores each completed row: a scorer, a list of them, or a dict of them by name; None: nothing.
        expected: the column of what a row should come to; None: ``expected``, ``target`` or ``expected_output``.
        id: the column that tells rows apart, here and in other maps; None: ``id``, where there is one.
        executor: a `concurrent.futures` executor, a Dask client or another object with ``submit``; None: this process.
        attach: the columns whose texts are paths of pictures and PDFs; a single name is one.
        budget: in place of the ensemble's; None: that.
        until_clear: ends the map where the verdict on its variants is clear at this level, as 0.05, or under one of
            several scores, ``{"right": 0.05}``; None: all rows run.
        seed: of the order in which rows run then.
        is_: the label that counts then, of a score that gives labels.

    Raises:
        ValidationError: a field has a wrong value.
    """

    repeat: int | None = None
    on_error: OnError = "keep"
    concurrency: int | None = None
    resume: MapResult | None = None
    redo: Sequence[str] = ()
    anyway: bool = False
    answers: Answers | None = None
    score: AnyScorers | None = None
    expected: str | None = None
    id: str | None = None
    executor: Any = None
    attach: str | Sequence[str] = ()
    budget: AnyBudget | None = None
    until_clear: float | Mapping[str, float] | None = None
    seed: int = 0
    is_: str | None = None
    scorers: tuple[Scorer, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Check what a person may have got wrong."""
        from ensemble_notebook.evaluation.scorer import read_scorers

        if self.on_error not in ("keep", "raise"):
            raise ValidationError(f"on_error must be 'keep' or 'raise', got {self.on_error!r}.")
        if self.concurrency is not None and not (_is_whole(self.concurrency) and self.concurrency >= 1):
            raise ValidationError(f"concurrency must be a whole number >= 1 or None, got {self.concurrency!r}.")
        if self.repeat is not None and not (_is_whole(self.repeat) and 1 <= self.repeat <= MOST_REPEATS):
            raise ValidationError(f"repeat must be a whole number from 1 to {MOST_REPEATS:,}, got {self.repeat!r}.")
        for name in ("expected", "id"):
            if not isinstance(given := getattr(self, name), str | None):
                raise ValidationError(f"{name} must be the name of a column or None, got {given!r}.")
        object.__setattr__(self, "attach", _read_columns(self.attach))
        object.__setattr__(self, "scorers", read_scorers(self.score))
        if not _is_whole(self.seed) or self.seed < 0:
            raise ValidationError(f"seed must be a whole number from 0, got {self.seed!r}.")
        if self.until_clear is None:
            if self.is_ is not None or self.seed:
                name = "seed" if self.is_ is None else "is_"
                raise ValidationError(f"{name} is about until_clear: give that, too, or leave out {name}.")
        elif not self.scorers:
            raise ValidationError("until_clear needs scores, which a verdict is about: give score=, too.")
        else:
            self.read_until_clear()

    def read_until_clear(self, score_count: int = 1) -> UntilClear | None:
        """When the map ends early; None: not before all rows have run.

        Args:
            score_count: how many scores there are, as far as that is known before they are given.

        Raises:
            ValidationError: it is no level, or no single score with a level.
        """
        if self.until_clear is None:
            return None
        from ensemble_notebook.evaluation.scored_runs import is_number

        score, level = None, self.until_clear
        if isinstance(level, Mapping):
            if len(level) != 1:
                raise ValidationError(f'until_clear names one score, as {{"right": 0.05}}, got {level!r}.')
            ((score, level),) = level.items()
        if not is_number(level) or not 0 < level < 1:
            raise ValidationError(f"until_clear must be a level above 0 and below 1, as 0.05, got {level!r}.")
        return UntilClear(
            level=float(level), score=score, is_=self.is_, seed=self.seed, score_count=max(1, score_count)
        )


def _read_columns(attach: Any) -> tuple[str, ...]:
    named = (attach,) if isinstance(attach, str) else attach
    if not isinstance(named, list | tuple) or not all(isinstance(each, str) for each in named):
        raise ValidationError(f"attach must be the name of a column or a list of names, got {attach!r}.")
    return tuple(dict.fromkeys(named))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class MapArguments(NamedTuple):
    """What somebody has called a door of a map with.

    Attributes:
        rows: a DataFrame, or mappings.
        settings: of the map as one run.
        map_settings: how the rows are run.
    """

    rows: Any
    settings: RunSettings
    map_settings: MapSettings


def read_map(
    rows: Any,
    *,
    repeat: int | None = None,
    score: AnyScorers | None = None,
    expected: str | None = None,
    id: str | None = None,  # noqa: A002 - the usual name of such a column
    on_error: OnError = "keep",
    concurrency: int | None = None,
    executor: Any = None,
    attach: str | Sequence[str] = (),
    resume: MapResult | Resumable = None,
    redo: Sequence[str] = (),
    anyway: bool = False,
    answers: Answers | None = None,
    budget: AnyBudget | None = None,
    until_clear: float | Mapping[str, float] | None = None,
    seed: int = 0,
    is_: str | None = None,
    timeout: float | None = None,
    record: PathLike | None = None,
    replay: PathLike | None = None,
    replay_tools: ReplayTools = None,
    pace: Pace = None,
    reuse: bool = False,
    only: Task | str | None = None,
    deps: object = None,
    listeners: Sequence[Listener] = (),
    review_handler: ReviewHandler | None = None,
) -> MapArguments:
    """Read the arguments of a map. `resume` is a result, whose rows are taken over, or an earlier run.

    Raises:
        ValidationError: an argument has a wrong value.
    """
    given = dict(locals())  # its parameters are fields of the settings, under the same names
    del given["rows"]

    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

    of_map = {each.name for each in fields(MapSettings) if each.init}
    if isinstance(resume, MapResult):
        RunSettings(resume=resume.run_id or "", redo=redo, anyway=anyway, answers=answers)  # checks them
    else:
        of_map -= {"resume", "redo", "anyway", "answers"}
    map_settings = MapSettings(**{name: each for name, each in given.items() if name in of_map})
    settings = RunSettings(**{name: each for name, each in given.items() if name not in of_map})
    return MapArguments(rows, settings, map_settings)


def read_repeated(inputs: Inputs, given: Mapping[str, Any], **of_map: Any) -> MapArguments:
    """Read the arguments of a door of one run that is made many times.

    Args:
        inputs: of each of them.
        given: what else a run takes: settings and template variables.
        **of_map: what a map takes beside them.

    Raises:
        ValidationError: an argument has a wrong value, or is for one run.
    """
    from ensemble_notebook.ensemble.many_runs.rows import make_only_row

    settings = {name: value for name, value in given.items() if name in SETTING_NAMES}
    variables = {name: value for name, value in given.items() if name not in SETTING_NAMES}
    for name in ("continue_from", "history"):
        if settings.pop(name, None) is not None:
            raise ValidationError(f"{name} goes on with one run, and this makes many: leave it out.")
    if variables.pop("until_clear", None) is not None:
        raise ValidationError("until_clear ends many rows, and there is only one: run map(rows), or leave it out.")
    return read_map(make_only_row(join_inputs(inputs, variables)), **of_map, **settings)
