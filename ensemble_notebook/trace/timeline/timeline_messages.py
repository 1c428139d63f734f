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
from ensemble_notebook.trace.tables.timeline_columns import VERSION
from ensemble_notebook.trace.timeline.span_details import is_empty, to_details
from ensemble_notebook.trace.timeline.timeline_rows import to_phases, to_row, to_run

SAVED_BYTES: Final = 200_000

_SAVED_TEXT: Final = 4_000
_SAVED_ROW_SHARE: Final = 0.6


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TimelineMessages:
    """The messages about one run. Any number of views may share it; none has a state here.

    Args:
        fold: of the run; may be added to meanwhile, by another thread.
        now: gives the time of day in UTC.
    """

    def __init__(self, fold: TraceFold, now: Callable[[], datetime] = _utc_now) -> None:
        self._fold = fold
        self._now = now

    def make_snapshot(self) -> dict[str, Any]:
        """Everything by now but streamed text, which a reader gets with the details of a call."""
        with self._fold.lock:
            return {
                "kind": "snapshot",
                "version": VERSION,
                "n": self._fold.count,
                "run": to_run(self._fold, self._now()),
                "phases": to_phases(self._fold),
                "rows": [to_row(span) for span in self._list_shown()],
            }

    def make_delta(self, since: int) -> dict[str, Any] | None:
        """What changed after message `since`, at a cost in proportion to that; None when nothing did.

        A number that no message of this run can have had is answered with a snapshot.
        """
        with self._fold.lock:
            count = self._fold.count
            if not 0 <= since <= count:
                return self.make_snapshot()
            if since == count:
                return None
            changed = sorted(self._fold.tree.list_changed_since(since), key=lambda span: span.position)
            return {
                "kind": "delta",
                "version": VERSION,
                "from": since,
                "n": count,
                "run": to_run(self._fold, self._now()),
                "rows": [to_row(span) for span in changed if span.kind.traits.is_shown],
                "text": self._collect_streamed(since),
            }

    def make_details(self, span_id: str) -> dict[str, Any]:
        """What the drawer shows of one span (W6)."""
        with self._fold.lock:
            return to_details(self._fold, span_id)

    def make_saved_view(self, max_bytes: int = SAVED_BYTES) -> dict[str, Any]:
        """The content of the trace's own MIME type (W14): a snapshot with details, in at most `max_bytes` of JSON.

        Where not everything fits, ``rows_left_out`` and ``details_left_out`` say how much is missing: turns and
        attempts go first, then the latest calls; texts are shorter than on request. The run and its phases are always
        there. A row whose parent is missing is inside the next span around it.
        """
        with self._fold.lock:
            saved = {
                **self.make_snapshot(),
                "kind": "saved",
                "saved_at": self._now().isoformat(),
                "rows": [],
                "details": {},
                "rows_left_out": 0,
                "details_left_out": 0,
            }
            budget = _ByteBudget(max_bytes - _measure_bytes(saved) - 20)  # the two counts grow
            kept = self._save_rows(saved, budget)
            self._save_details(saved, kept, budget)
            return saved

    def _save_rows(self, saved: dict[str, Any], budget: _ByteBudget) -> list[Span]:
        """Fill in rows, the most telling first, until their share of the room is used up; gives their spans."""
        spans = sorted(self._list_shown(), key=lambda span: span.kind.traits.keep_rank)
        reserve = budget.left * (1 - _SAVED_ROW_SHARE)
        rows: dict[str, dict[str, Any]] = {}
        for span in spans:
            row = to_row(span)
            if not budget.take(_measure_bytes(row) + 2, reserve):
                break
            rows[span.span_id] = row
        kept = spans[: len(rows)]
        for span in kept:
            around = span.parent
            while around is not None and around.span_id not in rows and around.parent is not None:
                around = around.parent
            if around is not None:
                rows[span.span_id]["parent_id"] = around.span_id
        saved["rows"] = [rows[span.span_id] for span in sorted(kept, key=lambda span: span.position)]
        saved["rows_left_out"] = len(spans) - len(kept)
        return kept

    def _save_details(self, saved: dict[str, Any], spans: list[Span], budget: _ByteBudget) -> None:
        """Fill in the details of these spans as far as there is room; what is too long makes way for the next."""
        for span in spans:
            details = to_details(self._fold, span.span_id, _SAVED_TEXT)
            if is_empty(details):
                continue
            if budget.take(_measure_bytes(details) + _measure_bytes(span.span_id) + 4):
                saved["details"][span.span_id] = details
            else:
                saved["details_left_out"] += 1

    def _list_shown(self) -> list[Span]:
        return [span for span in self._fold.spans.values() if span.kind.traits.is_shown]

    def _collect_streamed(self, since: int) -> list[list[str]]:
        """The text that was streamed after message `since`, by call. What changed last is at the end of `streams`."""
        pieces = []
        for span_id, stream in reversed(self._fold.streams.items()):
            if stream.version <= since:
                break
            if piece := stream.read_since(since):
                pieces.append([span_id, piece])
        return pieces


class _ByteBudget:
    """Bytes that may still be taken."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int, reserve: float = 0) -> bool:
        """Take this much, if so much is there beside the reserve."""
        if size > self.left - reserve:
            return False
        self.left -= size
        return True


def _measure_bytes(value: Any) -> int:
    """How many bytes it takes as plain JSON. A packer that writes less has bytes to spare."""
    return len(json.dumps(value))
