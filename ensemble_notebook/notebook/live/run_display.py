"""Where a cell shows its run: a rich notebook, a notebook without a reader, or a terminal (C30).

A display is opened at once with what is planned, may follow the run, and is closed with what stays. Its outputs are
made while the cell runs and only updated later: one that is made later may land in whatever cell is the last by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from IPython.display import display as untyped_display

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.live.display_mode import DisplayMode
from ensemble_notebook.notebook.live.run_painter import RunPainter
from ensemble_notebook.notebook.picture.safe_markdown import neutralize_markdown
from ensemble_notebook.notebook.picture.static_picture import make_output_bundle, make_plan_bundle, make_snapshot_bundle

if TYPE_CHECKING:
    from ensemble_notebook.domain.definitions.cost import CostConfiguration
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.run_handle import RunHandle
    from ensemble_notebook.notebook.live.cell_reviewer import CellReviewer
    from ensemble_notebook.notebook.live.terminal_table import TerminalTable

display: Any = untyped_display

# A run that ended for another reason has a last output, but no answer.
_FINAL: Final = (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS)


class RunDisplay(Protocol):
    """The place of one run.

    Attributes:
        listeners: what has to hear of the run, so that it can be followed.
        has_buttons: a person may be able to answer in what is shown.
    """

    listeners: Sequence[Any]
    has_buttons: bool

    def open(self, plan: ExecutionPlan) -> None:
        """First sign of life."""

    def follow(self, handle: RunHandle, reviewer: CellReviewer, /) -> None:
        """Show the run while it goes on, with what it asks."""

    def paused(self) -> AbstractContextManager[None]:
        """Whatever moves rests inside, so that there can be a prompt."""

    def close(self, output: EnsembleOutput | None) -> None:
        """Show what stays; None where the run was given up before it had an end."""


def make_run_display(
    mode: DisplayMode, cost: CostConfiguration | None, *, has_timeline: bool, is_background: bool
) -> RunDisplay:
    """The display of a cell; `cost` are the ensemble's own rates."""
    if mode is DisplayMode.TEXT:
        return TerminalDisplay(cost, has_timeline=has_timeline, is_background=is_background)
    live = RunPainter(cost) if mode is DisplayMode.WIDGET and has_timeline else None
    return NotebookDisplay(live, has_timeline=has_timeline, is_background=is_background)


class NotebookDisplay:
    """Two outputs: the timeline, which ends as a static picture, and the answer below it.

    The widget comes second: a table of what is planned can be shown before the widget's library is imported.
    """

    def __init__(self, live: RunPainter | None, *, has_timeline: bool, is_background: bool) -> None:
        self.listeners: Sequence[Any] = () if live is None else (live,)
        self.has_buttons = live is not None
        self._live = live
        self._has_timeline = has_timeline
        self._is_background = is_background
        self._timeline: Any = None
        self._answer: Any = None
        self._widget: Any = None

    def open(self, plan: ExecutionPlan) -> None:
        if self._has_timeline:
            self._timeline = display(make_plan_bundle(plan, "starting"), raw=True, display_id=True)
        if self._is_background:
            # The cell is over when the answer comes: its place has to be made now.
            self._answer = display(_make_text_bundle(""), raw=True, display_id=True)

    def follow(self, handle: RunHandle, reviewer: CellReviewer, /) -> None:
        if self._live is not None:
            from ensemble_notebook.notebook.live.timeline_widget import TimelineWidget

            self._widget = TimelineWidget(self._live.messages, handle.cancel, reviewer)
            self._timeline.update(self._widget)
            self._live.show(self._widget)

    def paused(self) -> AbstractContextManager[None]:
        """A page goes on by itself; nothing is in the way of a prompt."""
        return nullcontext()

    def close(self, output: EnsembleOutput | None) -> None:
        if self._live is not None:
            self._live.close()
        if self._widget is not None and output is not None:
            from ensemble_notebook.notebook.live.timeline_widget import keep_timeline

            keep_timeline(output, self._widget)
        if self._timeline is not None:
            self._timeline.update(self._make_last_picture(output), raw=True)
        if (answer := _find_answer(output)) is not None:
            bundle = {"text/plain": remove_control_characters(answer), "text/markdown": neutralize_markdown(answer)}
            if self._answer is None:
                display(bundle, raw=True)
            else:
                self._answer.update(bundle, raw=True)

    def _make_last_picture(self, output: EnsembleOutput | None) -> dict[str, Any]:
        if output is not None:
            return make_output_bundle(output)
        return (
            _make_text_bundle("") if self._live is None else make_snapshot_bundle(self._live.messages.make_snapshot())
        )


class TerminalDisplay:
    """A table that moves while the cell runs, and the answer below it. In the background nothing is shown."""

    has_buttons = False

    def __init__(self, cost: CostConfiguration | None, *, has_timeline: bool, is_background: bool) -> None:
        from rich.console import Console

        self._has_timeline = has_timeline and not is_background
        self._has_answer = not is_background
        self._console = Console(force_jupyter=False)
        self._live = RunPainter(cost) if self._has_timeline and self._console.is_terminal else None
        self.listeners: Sequence[Any] = () if self._live is None else (self._live,)
        self._table: TerminalTable | None = None

    def open(self, plan: ExecutionPlan) -> None:
        """The table appears with its first event, which is there at once."""

    def follow(self, _handle: RunHandle, _reviewer: CellReviewer, /) -> None:
        if self._live is not None:
            from ensemble_notebook.notebook.live.terminal_table import TerminalTable

            self._table = TerminalTable(self._live.messages, self._console)
            self._live.show(self._table)

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext() if self._table is None else self._table.paused()

    def close(self, output: EnsembleOutput | None) -> None:
        if self._live is not None:
            self._live.close()
        if self._table is not None:
            self._table.close()
            for warning in () if output is None else output.late_warnings:
                display(_make_text_bundle(f"! {remove_control_characters(warning)}"), raw=True)
        elif self._has_timeline and output is not None:
            display(_make_text_bundle(make_output_bundle(output)["text/plain"]), raw=True)
        if self._has_answer and (answer := _find_answer(output)) is not None:
            display(_make_text_bundle(f"\n{remove_control_characters(answer)}"), raw=True)


def _find_answer(output: EnsembleOutput | None) -> str | None:
    """The final text of a run that has completed, without secrets; None where there is none."""
    if output is None or output.status not in _FINAL or not output.raw.strip():
        return None
    if output.trace.capture_mode is CaptureMode.METADATA:  # no page keeps it
        return None
    return mask(output.raw)


def _make_text_bundle(text: str) -> dict[str, Any]:
    return {"text/plain": text}
