"""Details of a compared object that can be shown: the code in it, and what that reaches by name."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.content import SCALARS
from ensemble_notebook.domain.fingerprints.content_graph import ContentNode
from ensemble_notebook.domain.outputs.secrets import mask_named

ITS_CODE: Final = "its code"
_MOST: Final = 40
_MOST_SEEN: Final = 10_000
_LONGEST: Final = 40


def shorten(digest: bytes) -> str:
    """Shorten a digest to a length that still distinguishes versions of one thing."""
    return f"#{digest.hex()[:12]}"


def show_value(name: str, value: object) -> str | None:
    """A short plain value as text, masked; None for all others."""
    if type(value) not in SCALARS:
        return None
    text = mask_named(name, repr(value))
    return f"={text}" if len(text) <= _LONGEST and text.isprintable() else None


def write_details(root: ContentNode) -> tuple[tuple[str, str], ...]:
    """Write what the code in an object reaches, by name: short values as text, all else as digests."""
    found: dict[str, str] = {}
    seen, waiting = {id(root)}, deque([("", root)])
    while waiting and len(found) < _MOST and len(seen) < _MOST_SEEN:
        label, node = waiting.popleft()
        is_code = node.content is not None and node.content.is_code
        if is_code:
            found.setdefault(_name_code(label, node.subject, is_first=ITS_CODE not in found), shorten(node.own))
        for name, child in node.children:
            # Also if it was seen: Python has one object for each small number, so that two names may share a value.
            if is_code and name and not name.startswith(".") and not _holds_code(child):
                found.setdefault(name, show_value(name, child.subject) or shorten(child.digest or child.own))
                name = ""
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((name, child))
    return tuple(found.items())


def _name_code(label: str, code: Any, *, is_first: bool) -> str:
    """What a function or class is called: by the name that reaches it, else its own."""
    name = code.__name__ if not label or label.startswith(".") else label
    if isinstance(code, type):
        return f"its class {name}"
    return ITS_CODE if is_first else f"its helper {name}"


def _holds_code(node: ContentNode) -> bool:
    """Whether it is code, or a wrapper of code, such as a decorated function or a bound method."""
    return node.content is not None and (node.content.is_code or callable(node.subject))
