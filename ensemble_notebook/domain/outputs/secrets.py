"""Keys and other secrets: recognised, and masked before anything is recorded, shown or written (T7).

Knows shapes of keys and the values it was told to protect; never where they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ensemble_notebook.errors import register_mask

MASK: Final = "***"

# Asterisks count: providers quote half-masked keys in their errors.
_BODY: Final = r"[A-Za-z0-9_*-]"
_SHAPES: Final = {
    **{prefix: rf"{prefix}{_BODY}{{16,}}" for prefix in ("sk-", "xai-", "pplx-", "nvapi-", "glpat-", "tvly-")},
    **{prefix: rf"{prefix}{_BODY}{{16,}}" for prefix in ("gsk_", "hf_", "lsv2_", "pcsk_", "r8_", "github_pat_")},
    **{prefix: rf"{prefix}{_BODY}{{16,}}" for prefix in ("ghp_", "gho_", "ghs_", "ghu_", "ghr_")},
    "AIza": rf"AIza{_BODY}{{30,}}",
    "AKIA": r"AKIA[A-Z0-9]{16}",
    "ASIA": r"ASIA[A-Z0-9]{16}",
    "xox": r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "eyJ": r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}",
}
# What gives these away is the text around them, which stays.
_VALUE: Final = r"[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9_./+-]{20,}"
_LABELLED: Final = {
    "Bearer ": r"(Bearer )[A-Za-z0-9._~+/=-]{16,}",
    "://": r"(://)[^/\s:@]*:[^/\s@]+(?=@)",
    "PRIVATE KEY-----": r"(PRIVATE KEY-----)[A-Za-z0-9+/=\s]+(?=-----END)",
    **{name: rf"({name}{_VALUE}" for name in ("api_key", "API_KEY", "api-key", "Api-Key", "apikey", "apiKey")},
}
# A text is searched for the hint first: that is a hundred times cheaper than the pattern, and nearly always the end.
_RULES: Final = (
    *((hint, re.compile(rf"(?<![A-Za-z0-9])()(?:{shape})")) for hint, shape in _SHAPES.items()),
    *((hint, re.compile(shape)) for hint, shape in _LABELLED.items()),
)
_SHORTEST: Final = 8

_protected: Final[dict[str, None]] = {}


def protect(value: str) -> None:
    """Mask this value wherever it appears from now on.

    Values under 8 characters are taken for placeholders (``x``, ``ollama``), which would hide ordinary words.
    """
    if len(value) >= _SHORTEST:
        _protected.setdefault(value)


def mask(text: str) -> str:
    """The text with every protected value and everything that looks like a key replaced by ``***`` (T7)."""
    for value in _sort_protected_values():
        text = text.replace(value, MASK)
    for pattern in _find_matching_rules(text):
        text = pattern.sub(rf"\1{MASK}", text)
    return text


def has_secret(text: str) -> bool:
    """Whether a text holds a protected value or something that looks like a key: a cell with one is refused."""
    return mask(text) != text


def _sort_protected_values() -> list[str]:
    """Longest first, since one may begin with another."""
    return sorted(_protected, key=len, reverse=True)


def _find_matching_rules(text: str) -> Iterator[re.Pattern[str]]:
    return (pattern for hint, pattern in _RULES if hint in text)


register_mask(mask)
