"""`output.what_if(...)`: how long a run would have taken with other concurrency, faster work or fewer waits (T23)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ensemble_notebook.domain.outputs.secrets import mask_repr
from ensemble_notebook.domain.wording import format_duration, format_percent
from ensemble_notebook.errors import SuggestsNames, ValidationError, did_you_mean
from ensemble_notebook.trace.analysis.schedule import Schedule, Times
from ensemble_notebook.trace.folding.milestones import Milestone, Milestones, is_linked, is_startup
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import ActiveInterval, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.table import Column, HasFrames, Table, as_frame, make_known

# The kinds with time of their own. The time of other spans is that of the spans inside.
_TIMED: Final = (
    *(SpanKind.TASK, SpanKind.LLM, SpanKind.ATTEMPT, SpanKind.TOOL),
    *(SpanKind.GUARDRAIL, SpanKind.MEMORY, SpanKind.SCORE, SpanKind.REVIEW, SpanKind.WAIT),
)
BACKOFF: Final = "backoff"
REVIEW: Final = "review"
WAITS: Final = ("rate_limit", "budget", "connection", BACKOFF, REVIEW)
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
    chosen: Collection[str]
    if isinstance(drop_waits, bool):
        chosen = WAITS if drop_waits else ()
    else:
        chosen = (drop_waits,) if isinstance(drop_waits, str) else tuple(drop_waits)
    for name in chosen:
        if name not in WAITS:
            nearest = did_you_mean(str(name), WAITS)
            raise ValidationError(f"drop_waits names {name!r}, which is no wait that can be dropped.{nearest}")
    return Scenario(places=max_concurrency, tasks=tasks, kinds=kinds, dropped=chosen)


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


class InnerTimes:
    """How long one piece of work would take, computed from the spans inside it.

    Inside a task, each span begins once the spans that had ended before it have ended, after the same pause. So an
    unchanged scenario gives the measured times, and shortening a span never makes the task longer.

    Args:
        spans: of a run that has ended.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        inside: defaultdict[str | None, list[Span]] = defaultdict(list)
        for span in spans:
            if span.start_ms is not None and span.end_ms is not None and not is_linked(span) and not is_startup(span):
                inside[span.enclosing_id].append(span)
        self._inside: Mapping[str | None, Sequence[Span]] = inside

    def predict_ms(self, interval: ActiveInterval, scenario: Scenario) -> float:
        """How long this part of a task or review would take, in milliseconds."""
        span, seq, start_ms, end_seq, end_ms = interval
        if end_ms is None or end_seq is None:
            return 0.0
        children = [each for each in self._inside.get(span.span_id, ()) if seq <= each.seq <= end_seq]
        pace, around = 1.0, span.parent
        while around is not None:
            pace, around = pace * scenario.get_task_factor(around), around.parent
        return self._predict(span, start_ms, end_ms, children, pace, scenario)

    def _predict(
        self, span: Span, start_ms: float, end_ms: float, children: Sequence[Span], pace: float, scenario: Scenario
    ) -> float:
        """The same for any span. Everything in it is `pace` times as fast, because of the spans around it."""
        pace *= scenario.get_task_factor(span)
        own_pace = NO_TIME if scenario.drops(span) else pace * scenario.get_own_factor(span)
        in_order = sorted(children, key=lambda each: each.seq)
        by_end = sorted(children, key=lambda each: each.end_seq or 0)
        ends: dict[str, float] = {}
        over = 0
        released_ms, new_released_ms, backoff_ms = start_ms, 0.0, 0.0
        latest_ms, new_latest_ms = start_ms, 0.0
        for child in in_order:
            while over < len(by_end) and (by_end[over].end_seq or 0) < child.seq:
                ended = by_end[over]
                released_ms = max(released_ms, min(ended.end_ms or 0.0, end_ms))
                new_released_ms = max(new_released_ms, ends[ended.span_id])
                backoff_ms = ended.backoff_ms or 0.0 if ended.kind is SpanKind.ATTEMPT else 0.0
                over += 1
            child_start_ms = min(child.start_ms or 0.0, end_ms)
            child_end_ms = min(child.end_ms or 0.0, end_ms)
            pause_ms = max(0.0, child_start_ms - released_ms)
            waited_ms = min(pause_ms, backoff_ms)
            new_pause_ms = (pause_ms - waited_ms) / own_pace
            new_pause_ms += 0.0 if BACKOFF in scenario.dropped else waited_ms / pace
            below = self._inside.get(child.span_id, ())
            length_ms = self._predict(child, child_start_ms, child_end_ms, below, pace, scenario)
            ends[child.span_id] = new_released_ms + new_pause_ms + length_ms
            latest_ms, new_latest_ms = max(latest_ms, child_end_ms), max(new_latest_ms, ends[child.span_id])
        return new_latest_ms + max(0.0, end_ms - latest_ms) / own_pace


def split_at_items(milestones: Sequence[Milestone], spans: Iterable[Span]) -> list[Milestone]:
    """The milestones of a run, and those of its items (E53), as a schedule has to see them: an item at a time.

    The items of a task share the places of the run with all other work, so each is work of its own. What is left of the
    task itself is what comes before its items and after them, where reviews are: its end is what comes after them.
    """
    items: defaultdict[str | None, list[ActiveInterval]] = defaultdict(list)
    for span in spans:
        if span.item_of is not None and span.is_own_task:
            items[span.enclosing_id] += [each for each in span.active_intervals if each.end_seq is not None]
    return [part for each in milestones for part in _split(each, items.get(each.span.span_id, ()))]


def _split(whole: Milestone, items: Iterable[ActiveInterval]) -> list[Milestone]:
    """The parts of a task between its items, and the items; each waits for what comes before it."""
    if whole.interval is None:
        return [whole]
    rest, before = whole.interval, whole.before
    parts: list[Milestone] = []
    for items_at_once in _list_rounds([each for each in items if rest.seq < each.seq < whole.end_seq]):
        # When they could have begun, had there been a place.
        ready_ms = min(each.start_ms - (each.span.queue_ms or 0.0) for each in items_at_once)
        lead = rest._replace(end_seq=items_at_once[0].seq - 1, end_ms=max(ready_ms, rest.start_ms))
        leading = _make_milestone(lead, before)
        done = [_make_milestone(each, [leading]) for each in items_at_once]
        parts += [leading, *done]
        rest = rest._replace(seq=max(each.end_seq for each in done), start_ms=max(each.end_ms for each in done))
        before = done
    whole.interval, whole.seq, whole.before = rest, rest.seq, before
    return [*parts, whole]


def _list_rounds(items: Iterable[ActiveInterval]) -> list[list[ActiveInterval]]:
    """The items that could be worked on side by side; where a review has sent them back, they come again."""
    rounds: list[dict[str, ActiveInterval]] = []
    for each in sorted(items, key=lambda each: each.seq):
        if not rounds or each.span.name in rounds[-1]:
            rounds.append({})
        rounds[-1][each.span.name] = each
    return [list(each.values()) for each in rounds]


def _make_milestone(interval: ActiveInterval, before: list[Milestone]) -> Milestone:
    end_seq = interval.seq if interval.end_seq is None else interval.end_seq
    milestone = Milestone(interval.span, interval.seq, end_seq, interval.end_ms, interval)
    milestone.before = before
    return milestone


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedTask(SuggestsNames):
    """A task that ran, and its predicted times; the attributes are the columns."""

    span: Span
    predicted_start_ms: float
    predicted_end_ms: float
    critical: bool

    @property
    def predicted_duration_ms(self) -> float:
        """From its first start to its last end."""
        return self.predicted_end_ms - self.predicted_start_ms


PREDICTED: Final = Table(
    "task of the plan, or item of one, that ran, in order of its predicted start",
    make_known("span_id", "string", "of the task, as in frames.tasks", "span.span_id"),
    (
        Column("task", "category", "name of the task", "span.name"),
        Column("phase", "category", "name of the phase, NA in a flat ensemble", "span.phase"),
        Column("start_ms", "Float64", "as it was: start, since the run started", "span.start_ms"),
        Column("duration_ms", "Float64", "as it was: from its first start to its last end", "span.duration_ms"),
        Column("predicted_start_ms", "Float64", "start, since the run started"),
        Column("predicted_duration_ms", "Float64", "from its first start to its last end"),
        Column("critical", "boolean", "whether the length of the predicted run hangs on it"),
    ),
)


@mask_repr
@dataclass(frozen=True)
class Prediction(SuggestsNames, HasFrames):
    """How long a run would have taken under other conditions.

    Attributes:
        wall_ms: the predicted length, in milliseconds, as in frames.runs.
        actual_ms: the measured length.
        critical_path: names of the tasks that would determine the length, in order of time.
        tasks: the rows of `frame`.
    """

    wall_ms: float
    actual_ms: float
    critical_path: tuple[str, ...]
    tasks: Sequence[PredictedTask] = field(repr=False)

    @as_frame(PREDICTED)
    def frame(self) -> Sequence[PredictedTask]:
        return self.tasks

    @property
    def saved_ms(self) -> float:
        """How much shorter the run would have been; below 0 if it would have been longer."""
        return self.actual_ms - self.wall_ms

    @property
    def summary(self) -> str:
        """What it would come to, in a line: ``3.2 s instead of 5 s, 36% less``."""
        share = abs(self.saved_ms) / self.actual_ms if self.actual_ms else 0.0
        less = f", {format_percent(share)} {'less' if self.saved_ms > 0 else 'more'}" if share >= 0.005 else ""
        return f"{format_duration(self.wall_ms)} instead of {format_duration(self.actual_ms)}{less}"

    def __repr__(self) -> str:
        """What it would come to, in a line, and what it would hang on."""
        path = f"; critical path: {' → '.join(self.critical_path)}" if self.critical_path else ""
        return f"{self.summary}{path}"


def predict(
    fold: TraceFold,
    max_concurrency: int | None = None,
    speedup: Mapping[str, float] | None = None,
    drop_waits: bool | str | Iterable[str] = False,
) -> Prediction:
    """The prediction for a run; see `ExecutionTrace.what_if`.

    Raises:
        ValidationError: the run has not ended, or the scenario does not fit it.
    """
    run = fold.run
    if run is None or run.end_ms is None or run.start_ms is None:
        raise ValidationError("what_if needs a run that has ended: until then nobody knows how long its tasks take.")
    spans = fold.spans.values()
    scenario = read_scenario(spans, max_concurrency, speedup, drop_waits)
    milestones = Milestones(
        run, [span for span in spans if span is not run and span.end_seq is not None and is_linked(span)]
    )
    milestones.link()
    work = split_at_items(milestones.list_latest_first(), spans)
    schedule, inner_times = Schedule(work, run.start_ms, fold.max_concurrency), InnerTimes(spans)
    lengths = [
        0.0 if (interval := node.milestone.interval) is None else inner_times.predict_ms(interval, scenario)
        for node in schedule.nodes
    ]
    times = schedule.predict(scenario.places, lengths)
    chain = [schedule.nodes[number].milestone for number in times.list_chain()]
    on_chain = [each.span for each in chain if each.interval is not None and each.span.kind is SpanKind.TASK]
    return Prediction(
        wall_ms=times.wall_ms,
        actual_ms=run.end_ms,
        critical_path=tuple(dict.fromkeys(each.item_of or each.name for each in on_chain)),
        tasks=_list_tasks(schedule, times, {each.span.span_id for each in chain}),
    )


def _list_tasks(schedule: Schedule, times: Times, critical: Collection[str]) -> list[PredictedTask]:
    found: dict[str, tuple[Span, float, float]] = {}
    for number, node in enumerate(schedule.nodes):
        span = node.milestone.span
        if node.takes_place and span.kind is SpanKind.TASK:
            _, start_ms, end_ms = found.get(span.span_id, (span, times.starts[number], 0.0))
            found[span.span_id] = span, min(start_ms, times.starts[number]), max(end_ms, times.ends[number])
    tasks = [
        PredictedTask(span=span, predicted_start_ms=start_ms, predicted_end_ms=end_ms, critical=span_id in critical)
        for span_id, (span, start_ms, end_ms) in found.items()
    ]
    return sorted(tasks, key=lambda task: (task.predicted_start_ms, task.span.position))
