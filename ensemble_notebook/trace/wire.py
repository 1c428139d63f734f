"""What Python tells the timeline in the browser: a snapshot, then numbered deltas, and details on request (W5, W14).

Every message is JSON-safe and bounded in what one span can add. Knows no comm, widget or notebook; the shape of the
messages is the one seam between this package and the one in TypeScript.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook.trace.detail import details_of, is_empty
from ensemble_notebook.trace.fold import TraceFold
from ensemble_notebook.trace.row import phases_of, row_of, run_of
from ensemble_notebook.trace.span import Span, SpanKind

VERSION: Final = 1
SAVED_BYTES: Final = 200_000

_SAVED_TEXT: Final = 4_000
_SAVED_ROW_SHARE: Final = 0.6
# What a reader misses least is left out first.
_WORTH: Final = (SpanKind.PHASE, SpanKind.TASK, SpanKind.LLM, SpanKind.TOOL, SpanKind.ATTEMPT, SpanKind.TURN)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Wire:
    """The messages about one run. Any number of views may share it; none has a state here.

    Args:
        fold: of the run; may be added to meanwhile, by another thread.
        now: gives the time of day in UTC.
    """

    def __init__(self, fold: TraceFold, now: Callable[[], datetime] = _utc_now) -> None:
        self._fold = fold
        self._now = now

    def snapshot(self) -> dict[str, Any]:
        """Everything by now but streamed text, which a reader gets with the details of a call."""
        with self._fold.lock:
            return {
                "kind": "snapshot",
                "version": VERSION,
                "n": self._fold.count,
                "run": run_of(self._fold, self._now()),
                "phases": phases_of(self._fold),
                "rows": [row_of(span) for span in self._shown()],
            }

    def delta(self, since: int) -> dict[str, Any] | None:
        """What changed after message `since`, at a cost in proportion to that; None when nothing did.

        A number that no message of this run can have had is answered with a snapshot.
        """
        with self._fold.lock:
            count = self._fold.count
            if not 0 <= since <= count:
                return self.snapshot()
            if since == count:
                return None
            changed = sorted(self._fold.tree.changed_since(since), key=lambda span: span.seq)
            return {
                "kind": "delta",
                "from": since,
                "n": count,
                "run": run_of(self._fold, self._now()),
                "rows": [row_of(span) for span in changed if span.kind is not SpanKind.RUN],
                "text": self._streamed(since),
            }

    def details(self, span_id: str) -> dict[str, Any]:
        """What the drawer shows of one span (W6)."""
        with self._fold.lock:
            return details_of(self._fold, span_id)

    def saved(self, max_bytes: int = SAVED_BYTES) -> dict[str, Any]:
        """The content of the trace's own MIME type (W14): a snapshot with details, in at most `max_bytes` of JSON.

        Where not everything fits, ``rows_left_out`` and ``details_left_out`` say how much is missing; turns and
        attempts go first, and texts are shorter than on request. The run and its phases are always there.
        """
        with self._fold.lock:
            saved = {
                **self.snapshot(),
                "kind": "saved",
                "saved_at": self._now().isoformat(),
                "rows": [],
                "details": {},
                "rows_left_out": 0,
                "details_left_out": 0,
            }
            spans = sorted(self._shown(), key=lambda span: _WORTH.index(span.kind))
            room = _Room(max_bytes - _size(saved) - 20)  # the two counts grow
            room_for_rows = _Room(room.left * _SAVED_ROW_SHARE)
            rows = [(span, row_of(span)) for span in spans]
            kept = [(span, row) for span, row in rows if room_for_rows.take(_size(row) + 2)]
            room.take(room_for_rows.taken)
            saved["rows"] = [row for _, row in sorted(kept, key=lambda pair: pair[0].seq)]
            saved["rows_left_out"] = len(rows) - len(kept)
            saved["details_left_out"] = self._save_details(saved["details"], [span for span, _ in kept], room)
            return saved

    def _save_details(self, details: dict[str, Any], spans: list[Span], room: _Room) -> int:
        """Fill in the details of these spans as long as there is room; gives how many found none."""
        left_out = 0
        for span in spans:
            found = details_of(self._fold, span.span_id, _SAVED_TEXT)
            if is_empty(found):
                continue
            if room.take(_size(found) + _size(span.span_id) + 4):
                details[span.span_id] = found
            else:
                left_out += 1
        return left_out

    def _shown(self) -> list[Span]:
        """All spans but the run's, which is told apart."""
        return [span for span in self._fold.spans.values() if span.kind is not SpanKind.RUN]

    def _streamed(self, since: int) -> list[list[str]]:
        """Text that was streamed after message `since`, by call; the latest changes are at the end of `streams`."""
        pieces = []
        for span_id, stream in reversed(self._fold.streams.items()):
            if stream.version <= since:
                break
            if piece := stream.since(since):
                pieces.append([span_id, piece])
        return pieces


class _Room:
    """Bytes that may still be taken. Once something did not fit, smaller things still may."""

    def __init__(self, size: float) -> None:
        self.left = size
        self.taken = 0

    def take(self, size: int) -> bool:
        """Take this much, if there is so much."""
        if size > self.left:
            return False
        self.left -= size
        self.taken += size
        return True


def _size(value: Any) -> int:
    """Bytes of its plain JSON; a packer that writes less spares them."""
    return len(json.dumps(value))
