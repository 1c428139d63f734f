"""Reads JSON that models and servers write, which may be nested as deep as they like (E67).

Decoders go one call deeper with each level. Where the stack is nearly used up by then, what they raise can come up in
places in which Python can only print it; so the levels are counted before.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

DEEPEST: Final = 400
"""So many levels are read; what is written for people or programs has a dozen."""

# A text, also one without an end, in which brackets mean nothing; or a bracket.
_PART: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[\[\]{}]', re.DOTALL)


def read_json(text: str | bytes, **how: Any) -> Any:
    """Read a JSON value; `how` is as of `json.loads`.

    Raises:
        ValueError: it is none, or one that is nested deeper than `DEEPEST`.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    if _is_too_deep(text):
        raise ValueError("it is nested too deeply")
    return json.loads(text, **how)


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    depth = 0
    for part in _PART.finditer(text):
        mark = part[0]
        if mark in "[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif mark in "]}":
            depth -= 1
    return False
