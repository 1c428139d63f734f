"""The timeline widget: carries the messages about a run to the browser, and a few commands back.

Only imported when a widget is needed, because anywidget takes a while. The widget renders nothing and knows nothing of
spans; the bundle of ``js/`` does.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from ensemble_notebook.notebook.live.cell_reviewer import CellReviewer, read_decision
from ensemble_notebook.notebook.live.display_mode import DisplayMode, choose_display_mode
from ensemble_notebook.notebook.picture.static_picture import make_messages, make_output_bundle, make_snapshot_bundle

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

_STATIC: Final = Path(__file__).parents[2] / "static"
_SNAPSHOT_INTERVAL_S: Final = 1.0
# A snapshot of a large run costs time; it may take a twentieth of it at most.
_SNAPSHOT_SHARE: Final = 20

_widgets: weakref.WeakKeyDictionary[EnsembleOutput, TimelineWidget] = weakref.WeakKeyDictionary()


class TimelineWidget(anywidget.AnyWidget):
    """One run, live or finished.

    Any thread may paint, and any may bring messages (W13: while a cell is busy, they come on another one).

    Attributes:
        snapshot: the run as of at most a second ago, for views that come late or come back; the only synced trait.
            All else goes by messages, so nothing is ever resent.
    """

    pulse_s = None  # its bars grow by the page's clock

    _esm = (_STATIC / "timeline.js").read_text(encoding="utf-8")
    _css = (_STATIC / "timeline.css").read_text(encoding="utf-8")

    snapshot = traitlets.Dict().tag(sync=True)

    def __init__(
        self, messages: TimelineMessages, stop: Callable[[], None] | None = None, reviewer: CellReviewer | None = None
    ) -> None:
        self._messages = messages
        self._stop = stop
        self._reviewer = reviewer
        self._lock = threading.Lock()
        self._next_snapshot = 0.0
        super().__init__(snapshot=self._mark_answerable(messages.make_snapshot()))
        self._sent: int = self.snapshot["n"]
        self.on_msg(self._receive)
        _answer_at_once(self.comm)

    def paint(self, is_last: bool, /) -> None:
        """Send what has changed since the last time."""
        with self._lock:
            delta = self._messages.make_delta(self._sent)
            if delta is not None:
                self._sent = delta["n"]
                self.send(self._mark_answerable(delta))
            now = time.monotonic()
            if is_last or now >= self._next_snapshot:
                self.snapshot = self._mark_answerable(self._messages.make_snapshot())
                spent = time.monotonic() - now
                self._next_snapshot = now + max(_SNAPSHOT_INTERVAL_S, _SNAPSHOT_SHARE * spent)
            if is_last:
                # Nothing is left to stop or to answer, and the run's handle would keep its output alive.
                self._stop = self._reviewer = None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and beside it the static picture for places that have no widgets."""
        bundle: Any = super()._repr_mimebundle_(**options)
        if bundle is not None:
            bundle[0].update(make_snapshot_bundle(self._messages.make_snapshot()))
        return bundle

    def close(self) -> None:
        """Take it out of the kernel and of all pages."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()

    def _receive(self, _widget: object, content: Any, _buffers: object) -> None:
        """Answer a view. Called on any thread; quick, and touches nothing but the messages and the run's handle."""
        kind = content.get("kind") if isinstance(content, dict) else None
        with self._lock:
            if self._reviewer is not None:
                self._reviewer.hear()
            if kind == "hello":
                self._send_state(content.get("have"))
            elif kind == "ping":
                self.send({"kind": "pong", "nonce": content.get("nonce")})
            elif kind == "details":
                self._send_question_text(str(content.get("span_id")))
            elif kind == "review" and self._reviewer is not None:
                decision = read_decision(content.get("verdict"), content.get("text"))
                if decision is not None:
                    self._reviewer.answer(str(content.get("span_id")), decision)
            elif kind == "stop" and self._stop is not None:
                self._stop()

    def _send_question_text(self, span_id: str) -> None:
        """Send the details of a span; of a question all of its text, since a person may want to edit it."""
        details = self._messages.make_details(span_id)
        text = None if self._reviewer is None else self._reviewer.text_of(span_id)
        self.send(details if text is None else {**details, "input": text})

    def _send_state(self, have: Any) -> None:
        """Send what a view lacks; one that knows nothing, or something else, gets a snapshot."""
        message = self._messages.make_delta(have if isinstance(have, int) else -1)
        if message is not None:
            self.send(self._mark_answerable(message))

    def _mark_answerable(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message, asking a person nothing where somebody else is asked."""
        if self._reviewer is None or not self._reviewer.is_asked:
            message["run"]["waiting"] = []
        return message


class StaticTimeline:
    """The timeline of a finished run where nobody watches: a widget would leave its whole state in the notebook."""

    def __init__(self, output: EnsembleOutput) -> None:
        self._output = output

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_output_bundle(self._output)


def make_timeline(output: EnsembleOutput) -> TimelineWidget | StaticTimeline:
    """The explorable timeline of a finished run; the same output has the same widget (W16).

    A still picture where a notebook is executed without a reader.
    """
    shell = get_ipython()
    if shell is not None and choose_display_mode(shell) is DisplayMode.STATIC:
        return StaticTimeline(output)
    widget = _widgets.get(output)
    if widget is None or widget.comm is None:
        widget = TimelineWidget(make_messages(output))
        keep_timeline(output, widget)
    return widget


def keep_timeline(output: EnsembleOutput, widget: TimelineWidget) -> None:
    """Let a widget live as long as the output of its run: a page that was reloaded may still ask for it."""
    _widgets[output] = widget
    weakref.finalize(output, widget.close).atexit = False


def _answer_at_once(comm: Any) -> None:
    """Have messages of this widget delivered where the frontend wants them, which is beside a busy cell.

    ipykernel 7.4 sends them to the shell that last used the comm, which is the busy one. Where there is no such
    routing, nothing changes; the view finds out by a ping whether its buttons work.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default
