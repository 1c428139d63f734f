"""The dotted names that cells have imported: objects without a name of their own are called so when written back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_MOST: Final = 1_000
_imported: Final[dict[str, None]] = {}


def remember_import(name: str) -> None:
    """Remember a name that led to an object."""
    _imported.pop(name, None)
    _imported[name] = None
    if len(_imported) > _MOST:
        del _imported[next(iter(_imported))]


def list_imported() -> Iterator[str]:
    """List them, the latest first. What they lead to may have changed since."""
    return iter(list(reversed(_imported)))
