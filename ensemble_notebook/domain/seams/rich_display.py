"""The hook through which a layer above gives objects their rich faces; nothing here knows who registers.

A face is named by kind and given as ``"module:function"``, imported when it is first needed.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_FACES: Final[dict[str, str]] = {}


def register_face(kind: str, target: str) -> None:
    """Name the function (as ``"module:function"``) that makes the face of this kind from the object."""
    _FACES[kind] = target


def face(kind: str, value: Any) -> Any:
    """The face of `value`.

    Raises:
        LookupError: nobody registered this kind.
    """
    if kind not in _FACES:
        raise LookupError(f"No view of kind {kind!r} is registered; import ensemble_notebook first.")
    module, _, function = _FACES[kind].partition(":")
    return getattr(importlib.import_module(module), function)(value)


def rich_bundle(kind: str, value: Any) -> dict[str, Any]:
    """The MIME bundle of `value`: its registered face, or its repr where there is none."""
    if kind not in _FACES:
        return {"text/plain": repr(value)}
    bundle: dict[str, Any] = face(kind, value)
    return bundle
