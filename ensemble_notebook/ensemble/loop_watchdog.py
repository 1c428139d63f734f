"""Watches over a run that is to end, and tells when its event loop is blocked and won't end it (E66).

Something that blocks in an async function, such as ``time.sleep``, holds the loop: no interrupt and no timeout reaches
the run through it. Knows nothing of runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final

from ensemble_notebook.engine.threads.loop_thread import LoopThread

GRACE_S: Final = 0.5
ANSWER_LIMIT_S: Final = 0.3
_INTERVAL_S: Final = 0.2


def watch_loop(thread: LoopThread, done: Future[None], give_up: Callable[[], None], *, after_s: float = 0.0) -> None:
    """Have `give_up` called, on a thread of its own, where the loop does not answer although a run is to end.

    Args:
        thread: whose loop.
        done: of the run; once it is, nothing is watched any more.
        give_up: ends the run in another way.
        after_s: when the run is to end, from now; it has half a second more to do so.
    """

    def watch() -> None:
        wait([done], timeout=after_s + GRACE_S)
        while not done.done():
            if not thread.is_responsive(ANSWER_LIMIT_S):
                give_up()
                return
            wait([done], timeout=_INTERVAL_S)

    threading.Thread(target=watch, name="ensemble-watchdog", daemon=True).start()
