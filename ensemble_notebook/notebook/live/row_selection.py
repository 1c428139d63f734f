"""Which rows of a map are selected in its views, as labels of its `frame`: the selection of spans, told in rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from traitlets import HasTraits, TraitType

from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.notebook.live.run_feed import find_feed_of
from ensemble_notebook.notebook.live.timeline_widget import make_timeline

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult
    from ensemble_notebook.notebook.live.run_feed import RunFeed


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
        feed: of the run of the map.
        labels: of all rows, by their names in the timeline.

    Attributes:
        selection: labels of the rows that are selected, or in which something is; a list, since pandas takes it as
            labels: ``result.frame.loc[result.selection]``. To change it, set it.
    """

    selection = _Labels()

    def __init__(self, feed: RunFeed, labels: Mapping[str, Any]) -> None:
        super().__init__()
        self._messages = feed.messages
        self._spans = feed.selection
        self._labels = labels
        self.selection = []
        self._follow()
        self._spans.observe(self._follow, "selection")

    def select(self, labels: Any) -> None:
        """Select the rows of these labels, in all views of the map.

        Raises:
            ValidationError: the map has no row of this label, or its views don't have it.
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
            if lacking := next((name for name in names[label] if name not in ids), None):
                raise ValidationError(f"{lacking} was taken over from an earlier map, so it is in no view of this one.")
        self._spans.selection = [ids[name] for label in wanted for name in names[label]]

    def _follow(self, _change: object = None) -> None:
        found = [self._messages.name_task_around(span) for span in self._spans.selection]
        self.selection = [self._labels[name] for name in found if name is not None and name in self._labels]


def make_row_selection(result: MapResult) -> RowSelection:
    """The selection of a map that has had rows to run."""
    output = result._last_output
    assert output is not None
    make_timeline(output, result.score_records)
    feed = find_feed_of(output)
    assert feed is not None
    labels = result.frame.index.tolist()
    return RowSelection(feed, {row.name: label for row, label in zip(result.rows, labels, strict=True)})
