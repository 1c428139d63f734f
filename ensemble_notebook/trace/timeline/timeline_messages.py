"""What Python tells the timeline in the browser: a snapshot, then numbered deltas, and details on request (W5, W14).

Every message is JSON-safe and bounded in what one span can add. Knows no comm, widget or notebook; the shape of the
messages is the one seam between this package and the one in TypeScript.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.timeline.span_details import details_of, is_empty
from ensemble_notebook.trace.timeline.timeline_rows import phases_of, row_of, run_of

VERSION: Final = 1
SAVED_BYTES: Final = 200_000

_SAVED_TEXT: Final = 4_000
_SAVED_ROW_SHARE: Final = 0.6


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
            changed = sorted(self._fold.tree.changed_since(since), key=lambda span: span.place)
            return {
                "kind": "delta",
                "from": since,
                "n": count,
                "run": run_of(self._fold, self._now()),
                "rows": [row_of(span) for span in changed if span.kind.traits.is_shown],
                "text": self._streamed(since),
            }

    def details(self, span_id: str) -> dict[str, Any]:
        """What the drawer shows of one span (W6)."""
        with self._fold.lock:
            return details_of(self._fold, span_id)

    def saved(self, max_bytes: int = SAVED_BYTES) -> dict[str, Any]:
        """The content of the trace's own MIME type (W14): a snapshot with details, in at most `max_bytes` of JSON.

        Where not everything fits, ``rows_left_out`` and ``details_left_out`` say how much is missing: turns and
        attempts go first, then the latest calls; texts are shorter than on request. The run and its phases are always
        there. A row whose parent is missing is inside the next span around it.
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
            room = _Room(max_bytes - _size(saved) - 20)  # the two counts grow
            kept = self._save_rows(saved, room)
            self._save_details(saved, kept, room)
            return saved

    def _save_rows(self, saved: dict[str, Any], room: _Room) -> list[Span]:
        """Fill in rows, the most telling first, until their share of the room is used up; gives their spans."""
        spans = sorted(self._shown(), key=lambda span: span.kind.traits.keep_rank)
        reserve = room.left * (1 - _SAVED_ROW_SHARE)
        rows: dict[str, dict[str, Any]] = {}
        for span in spans:
            row = row_of(span)
            if not room.take(_size(row) + 2, reserve):
                break
            rows[span.span_id] = row
        kept = spans[: len(rows)]
        for span in kept:
            around = span.parent
            while around is not None and around.span_id not in rows and around.parent is not None:
                around = around.parent
            if around is not None:
                rows[span.span_id]["parent_id"] = around.span_id
        saved["rows"] = [rows[span.span_id] for span in sorted(kept, key=lambda span: span.place)]
        saved["rows_left_out"] = len(spans) - len(kept)
        return kept

    def _save_details(self, saved: dict[str, Any], spans: list[Span], room: _Room) -> None:
        """Fill in the details of these spans as far as there is room; what is too long makes way for the next."""
        for span in spans:
            details = details_of(self._fold, span.span_id, _SAVED_TEXT)
            if is_empty(details):
                continue
            if room.take(_size(details) + _size(span.span_id) + 4):
                saved["details"][span.span_id] = details
            else:
                saved["details_left_out"] += 1

    def _shown(self) -> list[Span]:
        return [span for span in self._fold.spans.values() if span.kind.traits.is_shown]

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
    """Bytes that may still be taken."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int, reserve: float = 0) -> bool:
        """Take this much, if so much is there beside the reserve."""
        if size > self.left - reserve:
            return False
        self.left -= size
        return True


def _size(value: Any) -> int:
    """Bytes of its plain JSON; a packer that writes less spares them."""
    return len(json.dumps(value))
