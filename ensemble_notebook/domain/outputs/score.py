"""Scores (V3): what a scorer gives for one run, with a reason where it has one, and how it is kept."""

from __future__ import annotations

import math
import uuid
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.value_text import is_missing
from ensemble_notebook.errors import ValidationError

ScoreValue = bool | int | float | str | None


@dataclass(frozen=True, slots=True, repr=False)
class Score(Record):
    """What a scorer gives where a value alone does not say all.

    Args:
        value: a bool is pass or fail, a number a score, a text a label; None is no opinion.
        reason: why, in words.
        higher_is_better: whether the larger number is the better one. A bool needs no such word: True is better.
        low: the least that a number of this score can be, in any run. With both bounds what is known of its mean while
            rows come needs no approximation (V61).
        high: the most that it can be.
        span: the span of the run that shows it, or its id, for `check`; the score is of the run as a whole.

    Raises:
        ValidationError: the value is none of these, or outside of its bounds.
    """

    value: ScoreValue
    reason: str | None = None
    higher_is_better: bool = True
    low: float | None = None
    high: float | None = None
    span: Any = None

    def __post_init__(self) -> None:
        """Make the value a plain one: numpy's numbers and texts are none."""
        object.__setattr__(self, "value", read_score_value(self.value))
        object.__setattr__(self, "span", getattr(self.span, "span_id", self.span))
        if self.reason is not None and not isinstance(self.reason, str):
            raise ValidationError(f"the reason of a Score is a text or None, got {type(self.reason).__name__}")
        if not isinstance(self.higher_is_better, bool):
            raise ValidationError(f"higher_is_better is True or False, got {self.higher_is_better!r}")
        self._check_bounds()

    def _check_bounds(self) -> None:
        if self.low is None and self.high is None:
            return
        ends = [read_score_value(each) for each in (self.low, self.high)]
        if any(isinstance(each, bool | str | None) for each in ends) or not ends[0] < ends[1]:  # type: ignore[operator]
            raise ValidationError(
                f"low and high of a Score are two numbers, the least and the most that it can be, got "
                f"low={self.low!r} and high={self.high!r}"
            )
        if isinstance(self.value, bool | str):
            raise ValidationError(f"low and high are about numbers, and {self.value!r} is none: leave them out")
        if self.value is not None and not ends[0] <= self.value <= ends[1]:  # type: ignore[operator]
            raise ValidationError(f"{self.value:g} is outside of its bounds, low={self.low:g} to high={self.high:g}")


def read_score_value(given: Any) -> ScoreValue:
    """The value of a score: True or False, a number, a text, or None for what is missing (None, NaN, NA).

    Raises:
        ValidationError: it is none of these; the message goes on from the name of the scorer.
    """
    value = given.value if isinstance(given, Enum) else given
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a number or bool of numpy
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if value is None or is_missing(value):
        return None
    if isinstance(value, Mapping | bytes | complex) or not hasattr(value, "__float__"):
        what = "an empty dict" if isinstance(value, Mapping) and not value else f"a {type(value).__name__}"
        known = "True or False, a number, a text, a Score, a dict of these by name, or None for no opinion"
        raise ValidationError(f"it gave {what}, and a score is {known}")
    number: int | float = value if isinstance(value, int) else float(value)
    if isinstance(number, float) and math.isinf(number):
        raise ValidationError("it gave an infinite number, of which no mean can be made")
    return number


Measure = Literal["passed", "value", "label"]
RENAMED: Final = MappingProxyType({"equals": "is_equal"})
"""What the scores of ready-made scorers are called, by what older versions called them: frames have such a method."""


def find_name(wanted: str, names: Container[str]) -> str:
    """The name of a score that a person asks for, perhaps by what an older version called it."""
    return wanted if wanted in names else RENAMED.get(wanted, wanted)


CHECK: Final = "check."
"""What the names of the scores begin with that a check leaves."""


class ScoreKind(StrEnum):
    """Who gave a score."""

    CODE = "code"
    JUDGE = "judge"
    HUMAN = "human"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScoreRecord(Record):
    """One score of one run, or of a span of it.

    One that has neither `passed`, `value` nor `label` says that there was no opinion, or with `error`, that the scorer
    failed: so both can be counted later.

    Attributes:
        name: of the score.
        kind: who gave it.
        scored_at: UTC.
        run_id: of the run that was scored; of a map, the row's own run.
        map_run_id: of the map that the run is a row of; None for a run of its own.
        span_id: of what was scored inside the run; None for the run as a whole, and for a time of it.
        from_ms, to_ms: the time of the run that it is about, in milliseconds since its start; None for no such time.
        variant, row, repeat: which row of the map it was, as the map calls them.
        value: a number; 1 or 0 where it passed or failed.
        passed: whether it passed; None where the score is no such.
        label: a word; None where the score is none.
        reason: why, in words.
        error: what the scorer failed with.
        scorer: name of the function or the judge; None for a person.
        scorer_version: of a judge: another prompt or model, another version.
        author: of a person's score: who gave it.
        model: that the judge asked.
        cost: of the judge, in the currency of the run.
        judge_run_id: of the run of a judge that came after the end.
        higher_is_better: whether more of it is better.
        low, high: the least and the most that its number can be; None where nobody has said.
        pair_of: the score that this is of, where a judge compared two variants: `name` has the pair with it, and the
            value is 1 where the run was preferred, 0.5 for a tie, and 0 where the other one was.
        against: the variant that it was compared with.
        has_changed_mind: whether the judge chose otherwise with the two the other way round, which is a tie.
        replaces: whether it takes the place of those before it with its name, for the same run and span.
        id: unique.
    """

    name: str
    kind: ScoreKind
    scored_at: datetime
    run_id: str
    map_run_id: str | None = None
    span_id: str | None = None
    from_ms: float | None = None
    to_ms: float | None = None
    variant: str | None = None
    row: str | None = None
    repeat: int | None = None
    value: float | None = None
    passed: bool | None = None
    label: str | None = None
    reason: str | None = None
    error: str | None = None
    scorer: str | None = None
    scorer_version: str | None = None
    author: str | None = None
    model: str | None = None
    cost: Decimal | None = None
    judge_run_id: str | None = None
    higher_is_better: bool = True
    low: float | None = None
    high: float | None = None
    pair_of: str | None = None
    against: str | None = None
    has_changed_mind: bool | None = None
    replaces: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def is_of_run(self) -> bool:
        """Whether it is about the run as a whole."""
        return self.span_id is None and self.from_ms is None

    @property
    def measure(self) -> Measure | None:
        """What kind of score it is; None where there was no opinion, or the scorer failed."""
        if self.passed is not None:
            return "passed"
        if self.value is not None:
            return "value"
        return None if self.label is None else "label"

    @property
    def current_name(self) -> str:
        """Its name as this version calls the scores of the same scorer."""
        is_ready_made = (self.scorer or "").partition("(")[0] == self.name
        return RENAMED.get(self.name, self.name) if is_ready_made else self.name

    @property
    def stored_run_id(self) -> str:
        """The id of the run that the store has it with: of the map, where the run is a row of one."""
        return self.map_run_id or self.run_id

    def without_texts(self) -> ScoreRecord:
        """The same as it is kept where no texts are: no reasons, no words of a judge or a person."""
        label = self.label if self.kind is ScoreKind.CODE else None
        error = None if self.error is None else self.error.partition(":")[0]
        return replace(self, reason=None, label=label, error=error)


def list_current(records: Iterable[ScoreRecord]) -> tuple[ScoreRecord, ...]:
    """The scores that count, in order: without those that a later one has replaced, each once.

    Args:
        records: in the order in which they were given; the same one may be there twice.
    """
    current: dict[tuple[object, ...], dict[str, ScoreRecord]] = {}
    known: dict[str, ScoreRecord] = {}
    for each in records:
        if each.id in known:
            continue
        known[each.id] = each
        alike = current.setdefault((each.run_id, each.span_id, each.from_ms, each.to_ms, each.name), {})
        if each.replaces:
            alike.clear()
        alike[each.id] = each
    kept = {id_ for alike in current.values() for id_ in alike}
    return tuple(each for id_, each in known.items() if id_ in kept)
