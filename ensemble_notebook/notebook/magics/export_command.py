"""``%ensemble export RUN FILE``: a run of this notebook, or a remembered one, as a file (T13)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ensemble_notebook.domain.wording import format_size
from ensemble_notebook.errors import ValidationError, make_readable
from ensemble_notebook.notebook.magics.named_runs import WAYS, find_trace


def export_run(words: Sequence[str], shell: Any) -> None:
    """Write a run to a file, as what the end of its name says, and say where it is.

    Raises:
        ValidationError: there are not two words, the variable has no run yet, or no format has this ending.
        StoreError: no run is remembered by this name.
        MissingPackageError: the format needs a package that is not installed.
    """
    if len(words) != 2:
        raise ValidationError(
            f"%ensemble export takes a run {WAYS} and a file that ends in .trace.json, .html, .svg or .parquet."
        )
    file = find_trace(words[0], shell).export(Path(words[1]).expanduser())
    sys.stdout.write(make_readable(f"{words[0]} is in {file} ({format_size(file.stat().st_size)})\n"))
