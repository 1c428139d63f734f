"""What ``%ensemble runs`` shows where somebody watches (W130): the board in place of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from IPython.core.getipython import get_ipython

from ensemble_notebook.notebook.live.board_feed import find_board
from ensemble_notebook.notebook.live.board_rows import make_row
from ensemble_notebook.notebook.live.frontend import DisplayMode, choose_display_mode
from ensemble_notebook.notebook.live.page_channel import find_page_channels
from ensemble_notebook.notebook.picture.shown_table import RunsTable
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME
from ensemble_notebook.trace.loading import REMEMBERED_RUNS, ListedRun, list_runs

if TYPE_CHECKING:
    from ensemble_notebook.trace.store.run_store import RunStore

MOST_SAVED: Final = 200
"""Rows that a notebook keeps for who opens it without a kernel."""


class RunsBoard(RunsTable):
    """The same frame, which a page shows as the board of its store, as long as it is as it was made."""

    _store: RunStore
    _listed: list[ListedRun]
    _limit: int | None

    @classmethod
    def make(cls, store: RunStore, most: int | None) -> RunsBoard:
        """The runs of a store: all of them, or so many.

        Raises:
            StoreError: the store can't be read.
        """
        listed = list_runs(store)
        made = cls(REMEMBERED_RUNS.to_frame(listed[:most]))
        # Past pandas, which takes attributes for columns.
        for name, value in (("_store", store), ("_listed", listed), ("_limit", most)):
            object.__setattr__(made, name, value)
        return made

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any] | None:
        """The board; None where nobody watches: then it is the table."""
        shell = get_ipython()
        if shell is None or not self._is_as_made or choose_display_mode(shell) is not DisplayMode.WIDGET:
            return None
        feed, channels = find_board(self._store), find_page_channels()
        bundle: dict[str, Any] = {}
        if channels is None or not channels.has_pages:
            from ensemble_notebook.notebook.live.board_widget import BoardWidget  # which takes a while to import

            widget: Any = BoardWidget(feed, self._limit)._repr_mimebundle_()
            bundle |= {} if widget is None else widget[0]
        if channels is not None:
            bundle[TRACE_MIME] = {"kind": "board", "feed_id": feed.feed_id, **self._make_saved()}
        return {**bundle, "text/plain": repr(self), "text/html": self._repr_html_()}

    def _make_saved(self) -> dict[str, Any]:
        """What a page shows without a kernel."""
        scores, _ = self._store.load_new_scores(0)
        shown = self._listed[: self._limit]
        rows = [
            make_row(each.run, each.summary, scores.get(each.run.run_id, ())) | {"family": each.place.family}
            for each in shown[:MOST_SAVED]
        ]
        return {"rows": rows, "total": len(shown), "most": self._limit}
