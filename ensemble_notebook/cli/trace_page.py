"""``trace``: the file of a trace as one page, opened in the browser."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path


def open_trace(file: Path, out: Path | None, *, opens: bool) -> None:
    """Write the page of a trace, say where it is, and open it where somebody can look.

    Args:
        file: a `*.trace.json`, ours or AgentEnsemble's.
        out: where the page goes; None: a new temporary folder.
        opens: False keeps the browser closed; it stays so on CI.

    Raises:
        OSError, TraceFormatError: the file can't be read.
        ValidationError: `out` has an ending of no format.
    """
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

    trace = ExecutionTrace.load(file)
    name = f"{file.name.removesuffix('.json').removesuffix('.trace')}.html"
    page = trace.export(out or Path(tempfile.mkdtemp(prefix="ensemble-trace-")) / name)
    print(page)
    if opens and not os.environ.get("CI"):
        webbrowser.open(page.resolve().as_uri())
