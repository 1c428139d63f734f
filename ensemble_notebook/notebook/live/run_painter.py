"""The listener behind a live view: folds events as they come, and paints at most ten times a second.

Events arrive on the listener's own thread and are only folded there, so a slow view never holds up the run; painting
has a thread of its own, in the context of the cell, so that what it shows lands there (E17: it asks for streamed
replies, because somebody watches).
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ensemble_notebook.domain.events import Event, RunEnded
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.notebook.picture.static_picture import can_resume
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.domain.definitions.limits import CostConfiguration

# Longer than a tenth of a second, so that any second holds ten paints at most, although the last one does not wait: one
# at its beginning, eight more, and the last.
INTERVAL_S: Final = 0.115
# Between two paints events are folded twice; one by one, a fast run would wait for them.
REST_S: Final = 0.05
# A run with very many spans is painted less often, so that it is not held up by its view: after a paint the painter
# rests for so many times the CPU that it took, but never longer than a person would notice as a stop.
REST_SHARE: Final = 20
LONGEST_REST_S: Final = 0.5
LAST_PAINT_LIMIT_S: Final = 2.0

logger = logging.getLogger(__name__)


class LiveView(Protocol):
    """Shows a run while it goes on: painted by one thread when something has happened, and each `pulse_s` seconds."""

    @property
    def pulse_s(self) -> float | None: ...

    def paint(self, is_last: bool, /) -> None: ...


class RunPainter:
    """One run as it happens.

    Args:
        cost: the ensemble's own rates.
        variable: the name that its output will have in the notebook.
        cell: what the notebook calls the cell that runs it.
        wants_tokens: replies are to be streamed, since somebody watches.
        view: in which the run opens; None: in the one that says most.

    Attributes:
        messages: what views are told of the run so far.
        wants_tokens: as given.
        rest_s: events may come together.
    """

    rest_s: Final = REST_S

    def __init__(
        self,
        cost: CostConfiguration | None = None,
        variable: str | None = None,
        cell: str | None = None,
        *,
        wants_tokens: bool = True,
        view: str | None = None,
    ) -> None:
        self.wants_tokens: Final = wants_tokens
        self._fold = TraceFold(cost)
        self.messages = TimelineMessages(
            self._fold, variable=variable, cell=cell, is_resumable=can_resume(cell), view=view
        )
        self._scores: deque[Sequence[ScoreRecord]] = deque()
        self._changed = threading.Event()
        self._is_over = threading.Event()
        self._painter: threading.Thread | None = None

    def on_event(self, event: Event) -> None:
        """Take in the next event; what comes after the end belongs to another run."""
        if self._is_over.is_set():
            return
        self._fold.add(event)
        while self._scores:
            self._fold.add_scores(self._scores.popleft())
        if isinstance(event, RunEnded):
            self._is_over.set()
        self._changed.set()

    def on_scores(self, scores: Sequence[ScoreRecord]) -> None:
        """Take in scores of the run with its next event. Called on its loop, which is not to wait for a paint."""
        self._scores.append(scores)

    def show(self, view: LiveView) -> None:
        """Let a view follow the run; it is painted at once."""
        self._changed.set()
        work = contextvars.copy_context().run
        self._painter = threading.Thread(target=work, args=(self._paint, view), name="ensemble-painter", daemon=True)
        self._painter.start()

    def close(self, *, has_end: bool = True) -> None:
        """Wait, for a moment, until the end has arrived, if there is one, and is painted; then nothing is any more."""
        if has_end:
            self._is_over.wait(LAST_PAINT_LIMIT_S)
        self.end()
        if self._painter is not None:
            self._painter.join(LAST_PAINT_LIMIT_S)

    def end(self) -> None:
        """Nothing more comes: the next paint is the last."""
        self._is_over.set()
        self._changed.set()

    def _paint(self, view: LiveView) -> None:
        is_last = False
        while not is_last:
            self._changed.wait(view.pulse_s)
            self._changed.clear()
            is_last = self._is_over.is_set()
            began_s = time.thread_time()
            try:
                view.paint(is_last)
            except Exception:
                logger.exception("The live view %s failed; the run goes on without it.", type(view).__name__)
                return
            took_s = time.thread_time() - began_s
            self._is_over.wait(min(max(INTERVAL_S, REST_SHARE * took_s), LONGEST_REST_S))
