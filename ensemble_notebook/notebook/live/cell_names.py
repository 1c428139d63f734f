"""What a notebook calls its cells: code in them runs as files whose names tell nobody anything (E48)."""

from __future__ import annotations

import re
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
