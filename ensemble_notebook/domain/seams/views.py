"""The hook through which a layer above gives objects their rich views; nothing here knows who registers.

A view is named by kind and given as ``"module:function"``, imported when it is first needed. What makes an object of
one of its views, such as an ensemble of a cell's text, is registered here, too.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_VIEWS: Final[dict[str, str]] = {}


def register_view(kind: str, target: str) -> None:
    """Name the function (as ``"module:function"``) that makes the view of this kind from the object."""
    _VIEWS[kind] = target


def render_view(kind: str, value: Any, *details: Any) -> Any:
    """Render the view of `value`; the kind says which details it takes.

    Raises:
        LookupError: nobody registered this kind.
    """
    if kind not in _VIEWS:
        raise LookupError(f"No view of kind {kind!r} is registered; import ensemble_notebook first.")
    module, _, function = _VIEWS[kind].partition(":")
    return getattr(importlib.import_module(module), function)(value, *details)


def make_mime_bundle(kind: str, value: Any) -> dict[str, Any]:
    """Make the MIME bundle of `value`: its registered view, or its repr where there is none."""
    if kind not in _VIEWS:
        return {"text/plain": repr(value)}
    bundle: dict[str, Any] = render_view(kind, value)
    return bundle
