"""Warnings about callables of the user that are broken: one in each run for each of them (E59)."""

from __future__ import annotations

from ensemble_notebook.domain.events import Warned
from ensemble_notebook.engine.events.event_stream import SpanEmitter


class BrokenCallables:
    """The callables of one run that did something wrong by now.

    What the fault leads to (a refusal, a failed task, an answer without memory) is decided where it happens. This is
    for the person, who would otherwise see the effect and look for its cause in the agents.
    """

    def __init__(self) -> None:
        self._warned: set[object] = set()

    def warn_once(self, key: object, message: str, span: SpanEmitter) -> None:
        """Warn, unless this run has warned of the same callable before.

        Args:
            key: tells callables apart; hashable.
            message: names the callable and says what is wrong with it, and what it should do.
            span: where it happened.
        """
        if key not in self._warned:
            self._warned.add(key)
            span.emit(Warned, message=message)
