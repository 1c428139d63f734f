"""The selection in the views of a run, as data: spans, a range of time (W7), and the time at which it is shown (W35).

There is one state for all views of a run, in all pages and for Python; of a map it is told in rows as well. Knows no
comm and no widget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, SupportsFloat

from traitlets import All, Bunch, HasTraits, TraitType

from ensemble_notebook.errors import ValidationError, did_you_mean

if TYPE_CHECKING:
    from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

TimeRange = tuple[float, float]


class _SpanIds(TraitType[list[str], Iterable[str]]):
    """Ids of spans of the run, each once, in the order in which they were selected."""

    info_text = "ids of spans"

    def validate(self, obj: Any, value: Any) -> list[str]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValidationError(f"selection takes a list of span ids, got {value!r}.")
        selected = list(dict.fromkeys(value))
        unknown = [each for each in selected if not obj.has_span(each)]
        if unknown:
            raise ValidationError(obj.describe_unknown(unknown))
        return [str(each) for each in selected]


class _Range(TraitType[TimeRange | None, Iterable[float] | None]):
    """From when to when, in milliseconds since the start of the run."""

    default_value = None
    allow_none = True
    info_text = "(from_ms, to_ms)"

    def validate(self, _obj: Any, value: Any) -> TimeRange | None:
        if value is None:
            return None
        try:
            from_ms, to_ms = map(float, value)
        except (TypeError, ValueError):
            raise ValidationError(f"range takes (from_ms, to_ms) or None, got {value!r}.") from None
        if not (math.isfinite(from_ms) and math.isfinite(to_ms)) or from_ms < 0:
            raise ValidationError(f"range counts milliseconds from the start of the run, got {value!r}.")
        if from_ms >= to_ms:
            raise ValidationError(f"range has to end after it begins: from_ms is {from_ms:g}, to_ms is {to_ms:g}.")
        return from_ms, to_ms


class _Time(TraitType[float | None, float | None]):
    """A time in a run that is over, in seconds since its start; None for its end, also where its length is given."""

    default_value = None
    allow_none = True
    info_text = "seconds since the start of the run"

    def validate(self, obj: Any, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, SupportsFloat):
            raise ValidationError(f"time takes seconds since the start of the run, or None, got {value!r}.")
        length_s = obj.get_length_s()
        if length_s is None:
            raise ValidationError(
                "Only a run that is over, and whose times are known, can be shown at a time: time stays None."
            )
        time_s = float(value)
        if not 0 <= time_s <= length_s:
            raise ValidationError(
                f"time has to be in the run, from 0 to {length_s:g} seconds; got {time_s:g}. None shows the end."
            )
        return None if time_s == length_s else time_s


class RunSelection(HasTraits):
    """The selection of a run. Any thread may set it; observers are called on that one.

    Args:
        messages: about the run, which know its spans.
        tell: called after each change, before the observers.

    Attributes:
        selection: ids of spans, in the order in which they were selected. A list, since pandas takes it as labels,
            where a tuple would be one label of several levels: ``frames.spans.loc[selection]``. To change it, set it.
        range: ``(from_ms, to_ms)`` since the start of the run; None where no time is marked.
        time: seconds since the start of a run that is over: it is shown as it was then; None: as it is.
    """

    selection = _SpanIds()
    range = _Range()
    time = _Time()

    def __init__(self, messages: TimelineMessages, tell: Callable[[], object]) -> None:
        super().__init__()
        self._messages = messages
        self._tell: Callable[[], object] = int
        self.selection = []  # so that observers are told what was selected before, from the first change on
        self._tell = tell

    def notify_change(self, change: Bunch) -> None:
        """Have views told before any observer, which may fail."""
        self._tell()
        super().notify_change(change)

    def has_span(self, span_id: Any) -> bool:
        """Whether the run has this span by now."""
        return isinstance(span_id, str) and self._messages.has_span(span_id)

    def get_length_s(self) -> float | None:
        """How long the run took, to the microsecond; None while it goes on, and where nothing is known of times."""
        length_ms = self._messages.length_ms
        return None if length_ms is None else round(length_ms / 1000, 6)

    def describe_unknown(self, span_ids: list[Any]) -> str:
        """What to say of ids that no span of the run has."""
        first, *others = span_ids
        more = f" and {len(others)} more" if others else ""
        near = did_you_mean(str(first), self._messages.list_span_ids())
        return f"The run has no span {first!r}{more}.{near} The ids are the index of its frames.spans."

    def take(self, content: dict[str, Any]) -> None:
        """Take over what a view says; what it leaves out stays, and what makes no sense changes nothing."""
        spans = content.get("selection")
        if isinstance(spans, list):
            self.selection = [each for each in spans if self.has_span(each)]
        if "range" in content:
            with suppress(ValidationError):
                self.range = content["range"]
        if "time" in content:
            ms = content["time"]
            is_number = isinstance(ms, int | float) and not isinstance(ms, bool)
            with suppress(ValidationError):
                self.time = ms / 1000 if is_number else ms

    def to_message(self) -> dict[str, Any]:
        """What views are told."""
        ms = None if self.time is None else self.time * 1000
        return {"kind": "selection", "selection": self.selection, "range": self.range, "time": ms}


class _OfRun(TraitType[Any, Any]):
    """A trait that a timeline has in common with its run."""

    def get(self, obj: Any, _cls: Any = None) -> Any:
        return getattr(obj.run_selection, str(self.name))

    def set(self, obj: Any, value: Any) -> None:
        setattr(obj.run_selection, str(self.name), value)


class SelectableTimeline(HasTraits):
    """A timeline whose selection is that of its run: all timelines of a run show and tell the same.

    Observers are kept with the run's selection, so that ``report.timeline.observe(act, "selection")`` works, whichever
    object `report.timeline` is by then.

    Attributes:
        selection, range, time: as those of `RunSelection`.
    """

    selection = _OfRun()
    range = _OfRun()
    time = _OfRun()

    def __init__(self, run_selection: RunSelection, **traits: Any) -> None:
        self.run_selection = run_selection
        super().__init__(**traits)

    def observe(self, handler: Any, names: Any = All, type: Any = "change") -> None:  # noqa: A002 - as it is
        """Call `handler` with each change; a second time changes nothing."""
        for traits, some in self._find_traits(names):
            traits.observe(handler, some, type)

    def unobserve(self, handler: Any, names: Any = All, type: Any = "change") -> None:  # noqa: A002 - as it is
        """Call it no more."""
        for traits, some in self._find_traits(names):
            traits.unobserve(handler, some, type)

    def _find_traits(self, names: Any) -> list[tuple[Any, Any]]:
        """Who has the traits of these names, and which: the selection of the run, and this timeline itself."""
        shared = ["selection", "range", "time"]
        if names is All:
            return [(self.run_selection, shared), (super(), All)]
        names = [names] if isinstance(names, str) else list(names)
        own = [name for name in names if name not in shared]
        common = [name for name in names if name in shared]
        found = [(super(), own)] if own else []
        return [(self.run_selection, common), *found] if common else found  # traitlets asks before there is a selection


class _Labels(TraitType[list[Any], Iterable[Any]]):
    """Labels of rows, each once, in the order in which the rows were selected."""

    info_text = "labels of rows"

    def validate(self, _obj: Any, value: Any) -> list[Any]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValidationError(f"selection takes a list of labels of the frame, got {value!r}.")
        return list(dict.fromkeys(value))


class RowSelection(HasTraits):
    """The selection of a map. Any thread may set it; observers are called on that one.

    Args:
        spans: what is selected in the views of the map.
        labels: of all rows, by their names in the timeline.

    Attributes:
        selection: labels of the rows that are selected, or in which something is; a list, since pandas takes it as
            labels: ``result.frame.loc[result.selection]``. To change it, set it.
    """

    selection = _Labels()

    def __init__(self, spans: RunSelection, labels: Mapping[str, Any]) -> None:
        super().__init__()
        self._messages = spans._messages
        self._spans = spans
        self._labels = labels
        self.selection = []
        self._follow()
        self._spans.observe(self._follow, "selection")

    def select(self, labels: Any) -> None:
        """Select the rows of these labels, in all views of the map.

        Raises:
            ValidationError: the map has no row of this label.
        """
        names: dict[Any, list[str]] = {}
        for name, label in self._labels.items():
            names.setdefault(label, []).append(name)
        ids = self._messages.find_tasks()
        wanted = _Labels().validate(self, labels)
        for label in wanted:
            if label not in names:
                near = did_you_mean(str(label), map(str, names))
                raise ValidationError(f"The map has no row {label!r}.{near} Labels are the index of its frame.")
        self._spans.selection = [ids[name] for label in wanted for name in names[label] if name in ids]

    def _follow(self, _change: object = None) -> None:
        found = [self._messages.name_task_around(span) for span in self._spans.selection]
        self.selection = [self._labels[name] for name in found if name is not None and name in self._labels]
