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

_BOUND: Final = re.compile(r"-o(?:[\s=]+(\S+))?(?:\s+(.*))?", re.DOTALL)


def ask_runs(words: Sequence[str], shell: InteractiveShell) -> pd.DataFrame | None:
    """The rows that a SELECT gives; None where they are bound.

    Raises:
        ValidationError: it is not typed as it is meant, or see `ensemble_notebook.store.sql`.
        StoreError, MissingPackageError: as of `ensemble_notebook.store.sql`.
    """
    from ensemble_notebook.store import sql

    text = "".join(words)
    bound = _BOUND.fullmatch(text)
    name, query = (None, text) if bound is None else (bound[1] or "", bound[2] or "")
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
