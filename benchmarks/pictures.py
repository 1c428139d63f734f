"""Memory of a map over one picture of 5 MB, 50 rows with 10 at once, above the same map with a text in its place."""

from __future__ import annotations

import gc
import os
import tracemalloc
from typing import Any

from benchmarks.row import Row
from benchmarks.server import serving
from ensemble_notebook import Attachment, Ensemble, Task

_AT_ONCE = 10


def measure(*, quick: bool) -> list[Row]:
    count, size = (20, 500_000) if quick else (50, 5_000_000)
    data = b"\x89PNG\r\n\x1a\n" + os.urandom(size)
    picture = Attachment(data, "image/png")
    with serving() as url:
        ensemble = Ensemble(tasks=[Task.of("Look at {photo}")], llm=f"openai:delay-50@{url}")
        _measure_map(ensemble, picture, count)  # what is loaded once is loaded now
        text_peak, text_kept = _measure_map(ensemble, "a picture", count)
        peak, kept = _measure_map(ensemble, picture, count)
    most = 1 + 4 * _AT_ONCE
    peak_of = f"a picture in {count} rows, {_AT_ONCE} at once, peak"
    rows = []
    for what, ours, limit in ((peak_of, peak - text_peak, most), ("what its result keeps", kept - text_kept, 1)):
        pictures = max(0.0, ours / size)
        rows.append(
            Row(
                what=what,
                ours=pictures,
                floor=limit,
                beside="the limit",
                unit="pictures",
                ratio=pictures / limit,
                most=limit,
            )
        )
    return rows


def _measure_map(ensemble: Ensemble, photo: Any, count: int) -> tuple[int, int]:
    """Bytes at the peak of a map, and those that its result keeps."""
    gc.collect()
    tracemalloc.start()
    result = ensemble.map([{"photo": photo}] * count, concurrency=_AT_ONCE)
    gc.collect()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(each.is_done for each in result)
    return peak, held
