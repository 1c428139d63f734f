"""The other conditions of a what-if: concurrency, faster work, no waits; checked against the run."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

# The kinds with time of their own. The time of other spans is that of the spans inside.
_TIMED: Final = (
    *(SpanKind.TASK, SpanKind.LLM, SpanKind.ATTEMPT, SpanKind.TOOL),
    *(SpanKind.GUARDRAIL, SpanKind.MEMORY, SpanKind.REVIEW, SpanKind.WAIT),
)
BACKOFF: Final = "backoff"
REVIEW: Final = "review"
WAITS: Final = ("rate_limit", "budget", BACKOFF, REVIEW)
"""The waits that can be dropped. The queue for a free place is changed by `max_concurrency`."""

NO_TIME: Final = math.inf
"""The factor by which a dropped wait is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is different from the run.

    Attributes:
        places: how many tasks may run at the same time; None: as in the run.
        tasks: by task name, the factor by which the task and all spans in it are faster.
        kinds: by kind of span, the factor by which the own time of such spans is shorter.
        dropped: causes of the waits that take no time.
    """

    places: int | None = None
    tasks: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[SpanKind, float] = field(default_factory=dict)
    dropped: Collection[str] = ()

    def get_task_factor(self, span: Span) -> float:
        """The factor by which a task and all spans in it are faster."""
        if span.kind is not SpanKind.TASK:
            return 1.0
        is_whole = span.is_own_task and span.item_of is None  # an item is quicker by the task that it is an item of
        return self.tasks.get(span.name, 1.0) * (self.kinds.get(SpanKind.TASK, 1.0) if is_whole else 1.0)

    def get_own_factor(self, span: Span) -> float:
        """The factor by which the own time of a span is shorter; for a model call, the time of its attempts."""
        if span.kind is SpanKind.TASK:
            return 1.0
        factor = self.kinds.get(span.kind, 1.0)
        return factor * self.kinds.get(SpanKind.LLM, 1.0) if span.kind is SpanKind.ATTEMPT else factor

    def drops(self, span: Span) -> bool:
        """Whether the own time of a span is a dropped wait."""
        if span.kind is SpanKind.REVIEW:
            return REVIEW in self.dropped
        return span.kind is SpanKind.WAIT and span.wait_kind in self.dropped


def read_scenario(
    spans: Iterable[Span],
    max_concurrency: int | None,
    speedup: Mapping[str, float] | None,
    drop_waits: bool | str | Iterable[str],
) -> Scenario:
    """Check the arguments of `ExecutionTrace.what_if`.

    Raises:
        ValidationError: there is no such task, kind or wait, or a number makes no sense.
    """
    is_count = isinstance(max_concurrency, int) and not isinstance(max_concurrency, bool) and max_concurrency > 0
    if max_concurrency is not None and not is_count:
        raise ValidationError(f"max_concurrency must be a whole number from 1, got {max_concurrency!r}.")
    names = {span.name for span in spans if span.kind is SpanKind.TASK}
    tasks: dict[str, float] = {}
    kinds: dict[SpanKind, float] = {}
    by_name = {kind.value: kind for kind in _TIMED}
    for name, factor in (speedup or {}).items():
        if not _is_factor(factor):
            raise ValidationError(f"speedup[{name!r}] must be a number above 0, 2 for twice as fast, got {factor!r}.")
        if name in names:  # a task goes before a kind of the same name
            tasks[name] = float(factor)
        elif name in by_name:
            kinds[by_name[name]] = float(factor)
        else:
            nearest = did_you_mean(str(name), [*sorted(names), *by_name])
            raise ValidationError(f"speedup names {name!r}: no task of this run, and no kind that takes time.{nearest}")
    return Scenario(places=max_concurrency, tasks=tasks, kinds=kinds, dropped=_read_waits(drop_waits))


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _read_waits(drop_waits: bool | str | Iterable[str]) -> Collection[str]:
    if isinstance(drop_waits, bool):
        return WAITS if drop_waits else ()
    chosen = (drop_waits,) if isinstance(drop_waits, str) else tuple(drop_waits)
    for name in chosen:
        if name not in WAITS:
            nearest = did_you_mean(str(name), WAITS)
            raise ValidationError(f"drop_waits names {name!r}, which is no wait that can be dropped.{nearest}")
    return chosen
