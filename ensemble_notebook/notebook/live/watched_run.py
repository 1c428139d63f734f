"""The timeline of a run of another framework, live in the cell that made it (W171): see `ensemble.watching`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from ensemble_notebook.domain.events import Event
from ensemble_notebook.notebook.live.frontend import DisplayMode, choose_display_mode
from ensemble_notebook.notebook.live.run_display import RunDisplay, ShownCell, make_run_display
from ensemble_notebook.notebook.picture.static_picture import find_view

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput


class WatchedRunView:
    """A display of a run that begins without a plan, and that nobody can stop or answer here."""

    def __init__(self, display: RunDisplay) -> None:
        self._display = display
        display.open(None)
        display.follow(None, None)

    def on_event(self, event: Event) -> None:
        """Take in the next event."""
        for each in self._display.listeners:
            each.on_event(event)

    def close(self, output: EnsembleOutput) -> None:
        """Show what stays."""
        self._display.close(output)


def show_watched_run(_name: str | None) -> WatchedRunView | None:
    """The view of a run that begins in the cell, or terminal, of this context; None where it is to have none."""
    shell: Any = get_ipython()
    if shell is None:
        return None
    magics: Any = shell.magics_manager.registry.get("EnsembleMagics")
    if magics is not None and not magics.timeline:
        return None
    shown = ShownCell(variable="", cell=None, has_timeline=True, is_background=True, has_answer=False, view=find_view())
    mode = choose_display_mode(shell, DisplayMode.AUTO if magics is None else magics.display)
    return WatchedRunView(make_run_display(mode, None, shown))


def call_at_cell_end(flush: Callable[[], None]) -> Callable[[], object]:
    """Have this called at the end of each cell, since what is shown later belongs to none; gives what ends that."""
    shell: Any = get_ipython()
    if shell is None:
        return bool

    def at_end(_result: object = None) -> None:
        flush()

    shell.events.register("post_run_cell", at_end)

    def leave() -> None:
        shell.events.unregister("post_run_cell", at_end)

    return leave
