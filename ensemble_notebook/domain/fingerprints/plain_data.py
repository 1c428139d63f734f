"""Plain data, as in JSON, encoded at once: lists, tuples and dicts of scalars, however large."""

from __future__ import annotations

from typing import Any, Final

from ensemble_notebook.domain.fingerprints.content import SCALARS

# Deeper data may be a ring, and wider data the same lists over and over: both are compared object by object.
_DEEPEST: Final = 16
_MOST: Final = 1_000_000
_TEXT: Final = {str}


class _NotPlainError(Exception):
    """Something in it is no plain data."""


def write_plain(value: Any) -> bytes | None:
    """Encode plain data with sorted keys; None if something in it is not plain, or it is too deep or wide."""
    try:
        return _write(value, _DEEPEST, [_MOST]).encode("utf-8", "surrogatepass")
    except _NotPlainError:
        return None


def _write(value: Any, depth: int, room: list[int]) -> str:
    kind = type(value)
    if kind in SCALARS:
        return repr(value)
    room[0] -= 1
    if kind not in (list, tuple, dict) or not depth or room[0] < 0:
        raise _NotPlainError
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            raise _NotPlainError
        if SCALARS.issuperset(map(type, value.values())):
            return f"{{{sorted(value.items())!r}}}"
        return f"{{{', '.join([f'{key!r}: {_write(value[key], depth - 1, room)}' for key in sorted(value)])}}}"
    if SCALARS.issuperset(map(type, value)):
        return repr(value)
    return f"{kind.__name__}({', '.join([_write(each, depth - 1, room) for each in value])})"
