"""``%ensemble sql``: SQL over all remembered runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Final

from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    import pandas as pd
    from IPython.core.interactiveshell import InteractiveShell

_FIRST: Final = re.compile(r"(?:-o|--out)(?:[\s=]+(?P<name>\S+))?(?:\s+(?P<query>.*))?", re.DOTALL)
_LAST: Final = re.compile(
    r"(?P<query>.*\S)\s+(?:-o|--out)[\s=]+(?P<name>(?!(?:asc|desc|end)$)\w+)", re.DOTALL | re.IGNORECASE
)
"""SQL would read it as a column `o` that is taken away, or as a comment; what may follow such a column stays SQL."""


def ask_runs(words: Sequence[str], shell: InteractiveShell) -> pd.DataFrame | None:
    """The rows that a SELECT gives; None where they are bound.

    Raises:
        ValidationError: it is not typed as it is meant, or see `ensemble_notebook.store.sql`.
        StoreError, MissingPackageError: as of `ensemble_notebook.store.sql`.
    """
    from ensemble_notebook.store import sql

    text = "".join(words)
    bound = _FIRST.fullmatch(text) or _LAST.fullmatch(text)
    name, query = (None, text) if bound is None else (bound["name"] or "", bound["query"] or "")
    is_bad = name is not None and (not name.isidentifier() or iskeyword(name))
    if is_bad or not query or query.startswith("-"):  # a comment would hide all of the line
        raise ValidationError(
            f"%ensemble sql can't read {text!r}. It is %ensemble sql [-o NAME] SELECT ..., such as "
            "%ensemble sql SELECT name, count(*) FROM runs GROUP BY name."
        )
    rows = sql(query)
    if name is None:
        return rows
    shell.user_ns[name] = rows
    return None
