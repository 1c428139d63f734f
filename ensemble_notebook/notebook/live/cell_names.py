"""The names of the notebook and its cells, whose code runs under file names that mean nothing to users (E48)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from IPython.core.getipython import get_ipython

_TYPED: Final = re.compile(r"<ipython-input-(\d+)-")


def name_cell(file: str) -> str | None:
    """``In[3]`` for the file of that cell; None for other files."""
    untyped_get: Any = get_ipython
    shell = untyped_get()
    name_code = getattr(getattr(shell, "compile", None), "format_code_name", None)
    if callable(name_code) and (named := name_code(file)):
        return str(named[1])
    typed = _TYPED.match(file)
    return None if typed is None else f"In[{typed[1]}]"


def find_notebook(names: Mapping[str, Any]) -> str | None:
    """The file of the notebook that has these variables, as far as its frontend tells; else None."""
    found = names.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME")
    return found if isinstance(found, str) else None
