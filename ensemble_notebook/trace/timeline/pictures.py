"""What the marks in texts stand for in a view (W167): each picture and PDF in words, and as the trace has it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from ensemble_notebook.domain.attachments import list_digests
from ensemble_notebook.domain.events import AttachmentAdded
from ensemble_notebook.domain.thumbnails import shrink_thumbnail
from ensemble_notebook.domain.wording import format_size, pluralize
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text

MOST_SENT: Final = 60
"""So many small pictures one message has; of others it has the words alone."""
_SIZES: Final = (320, 160, 96, 64)
_LONGEST_NAME: Final = 80
_SMALLEST: Final = 900
"""What a small picture takes at least, in characters."""

PackedPictures = dict[str, list[str | None]]


def pack_pictures(fold: TraceFold, shown: Any) -> PackedPictures:
    """What the marks in these records stand for: by digest, what it is, and a WebP picture as base64 or None."""
    digests = list_digests(json.dumps(shown)) if fold.attachments else []
    return pack_digests(fold, digests)


def pack_digests(fold: TraceFold, digests: Iterable[str]) -> PackedPictures:
    """The same of these digests; nothing of those that the run does not have."""
    found = [fold.attachments[each] for each in dict.fromkeys(digests) if each in fold.attachments]
    return {
        each.digest: [_describe(each), each.thumbnail if place < MOST_SENT else None]
        for place, each in enumerate(found)
    }


def fit_pictures(fold: TraceFold, digests: Iterable[str], room: int) -> PackedPictures:
    """The same in so many characters: all of them smaller where they are too large, or as many as there is room for."""
    found = [fold.attachments[each] for each in dict.fromkeys(digests) if each in fold.attachments]
    found = found[: room // _SMALLEST]
    packed: PackedPictures = {}
    for size in _SIZES:
        packed = {each.digest: [_describe(each), _shrink(each.thumbnail, size)] for each in found}
        if _measure(packed) <= room:
            break
    while packed and _measure(packed) > room:
        del packed[next(reversed(packed))]
    return packed


def _shrink(thumbnail: str | None, size: int) -> str | None:
    return thumbnail if thumbnail is None or size == _SIZES[0] else shrink_thumbnail(thumbnail, size)


def _measure(packed: PackedPictures) -> int:
    return len(json.dumps(packed))


def _describe(event: AttachmentAdded) -> str:
    kind = "picture" if event.page_count is None else f"PDF of {pluralize(event.page_count, 'page')}"
    name = clean_text(event.file_name[:_LONGEST_NAME])
    return " · ".join(filter(None, [name, kind, format_size(event.size_bytes), event.thumbnail_fault]))
