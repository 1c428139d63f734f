"""A run as a file of another kind (T13): what the end of the name says. Knows no page: a view above makes those."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.chrome_trace import make_chrome_trace
from ensemble_notebook.trace.otlp_json import make_otlp_trace
from ensemble_notebook.trace.parquet_files import check_parquet, write_parquet
from ensemble_notebook.trace.tables.frame_tables import SPANS
from ensemble_notebook.trace.trace_file import write_whole

if TYPE_CHECKING:
    from ensemble_notebook.domain.events import Event
    from ensemble_notebook.trace.frames import Frames


_PROMISE: Final = re.compile(r"\.[a-z]+\.json(\.gz)?$")
"""A word before `.json` promises a format."""


class ExportedTrace(Protocol):
    """What is asked of a trace here."""

    @property
    def run_id(self) -> str: ...

    @property
    def events(self) -> Sequence[Event]: ...

    @property
    def frames(self) -> Frames: ...

    def save(self, path: Path, /) -> Path: ...


def find_format(path: Path) -> Callable[[ExportedTrace, Path], Path]:
    """Who writes a run as what the end of the file's name says, and gives the file.

    Where it can't be written, what was there before is still there.

    Raises:
        ValidationError: no format has this ending; names those that there are.
    """
    name = path.name.lower()
    ending = next((ending for ending in FORMATS if name.endswith(ending)), "")
    # Nobody looks for a trace of ours under a format that is not ours.
    if not ending or (ending.startswith(".json") and _PROMISE.search(name.replace(".trace.json", ".json"))):
        known = ", ".join(f"{ending} ({meaning})" for ending, (_, meaning) in FORMATS.items())
        raise ValidationError(
            f"A run can't be exported to {path.name!r}. The end of the name says what it becomes: {known}."
        )
    return FORMATS[ending][0]


def _write_text(path: Path, text: str) -> Path:
    return write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def _write_spans(trace: ExportedTrace, path: Path) -> Path:
    check_parquet()
    return write_whole(path, lambda draft: write_parquet(trace.frames.spans, SPANS, draft))


def _write_chrome(trace: ExportedTrace, path: Path) -> Path:
    return _write_text(path, json.dumps(make_chrome_trace(trace.frames), ensure_ascii=False))


def _write_otlp(trace: ExportedTrace, path: Path) -> Path:
    return _write_text(path, json.dumps(make_otlp_trace(trace.run_id, trace.events), ensure_ascii=False))


FORMATS: Final[dict[str, tuple[Callable[[ExportedTrace, Path], Path], str]]] = {
    ".chrome.json": (
        _write_chrome,
        "slices, arrows and counters for Perfetto and other viewers of the trace event format",
    ),
    ".otlp.json": (_write_otlp, "spans of OpenTelemetry, for collectors and viewers that take OTLP"),
    ".json": (lambda trace, path: trace.save(path), "the trace, which can be loaded again; best .trace.json"),
    ".json.gz": (lambda trace, path: trace.save(path), "the same, compressed"),
    ".html": (
        lambda trace, path: _write_text(path, render_view("page", trace)),
        "a report as one page, without a network",
    ),
    ".svg": (lambda trace, path: _write_text(path, render_view("svg", trace)), "a picture"),
    ".parquet": (_write_spans, "the table of spans"),
}
"""What a run can be written as: the end of the name, who writes it, and what it is."""
