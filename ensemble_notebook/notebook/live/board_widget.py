"""The widget of the board of runs, for pages without our extension: carries messages between its feed and the browser.

It is imported only when a widget is needed, because importing anywidget takes a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from ensemble_notebook.notebook.live.board_feed import BoardFeed
from ensemble_notebook.notebook.live.page_channel import answer_at_once, find_page_channels
from ensemble_notebook.notebook.live.timeline_widget import STATIC, TimelineWidget


class BoardWidget(anywidget.AnyWidget):
    """Carries the messages of a board, and of the timelines that are opened below it.

    Args:
        feed: of the board.
        most: runs that it shows; None for all.

    Attributes:
        feed_id: of the feed.
        most: as given.
    """

    _esm = (STATIC / "board.js").read_text(encoding="utf-8")
    _css = TimelineWidget._css

    feed_id = traitlets.Unicode().tag(sync=True)
    most = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, feed: BoardFeed, most: int | None = None) -> None:
        super().__init__(feed_id=feed.feed_id, most=most)
        self._feed = feed
        self.on_msg(self._receive)
        answer_at_once(self.comm)

    def send(self, content: dict[str, Any], buffers: Sequence[Any] | None = None) -> None:
        """Send a message to all views of this widget."""
        super().send(content, buffers)

    def _receive(self, _widget: object, content: Any, _buffers: object) -> None:
        """Hand the message of a view to the board; the module of timelines is sent once one is opened."""
        if isinstance(content, dict) and content.get("kind") == "module":
            own = TimelineWidget.class_own_traits(sync=True)
            texts = {name: each.default_value for name, each in own.items() if name.startswith("_")}
            self.send({"kind": "module", "texts": {"timeline": TimelineWidget._esm, **texts}})
        else:
            self._feed.receive(self, content)
        channels = find_page_channels()
        if channels is not None:
            channels.renew_busy()
