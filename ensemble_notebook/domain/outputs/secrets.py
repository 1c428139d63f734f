"""Keys and other secrets: recognised, and masked before anything is recorded, shown or written (T7).

Knows the shapes of keys, the values that it was told to protect, and the environment variables whose names say that
they hold secrets.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from ensemble_notebook.errors import Pickled, register_mask, remove_control_characters

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
# Code that only names a password is left alone: ``password=None``, ``password=getpass()``, ``password={secret}``.
_PASSWORD: Final = (
    r"((?i:password|passwd|passphrase)(?:=[\"']?|[\"']\s*:\s*[\"']))(?!None\b|True\b|False\b|null\b|[\w.]+[(\[])"
    r"[^\s\"'&,;)}\]*{<][^\s\"'&,;)}\]]{3,}"
)
_AUTHORIZATION: Final = (
    r"((?i:authorization)[\"']?\s*[=:]\s*[\"']?"
    r"(?:(?i:basic|bearer|digest|token|apikey|negotiate) +(?=[\w.~+/=:-]{6})|(?=[\w.~+/=-]{16})))[\w.~+/=:-]+"
)
_CLOUD_NAME: Final = r"(?i:secret_?access_?key|account_?key|shared_?access_?key|client_?secret|sas_?token)"
_CLOUD_KEY: Final = "(" + _CLOUD_NAME + _VALUE + "={0,2}"
_PARAMETER_NAME: Final = (
    r"[?&](?i:api[-_]?key|key|access[-_]?token|token|auth|sig|signature|secret|client[-_]?secret|password|pwd"
    r"|x-amz-signature|x-amz-credential|x-amz-security-token)="
)
_PARAMETER: Final = "(" + _PARAMETER_NAME + r")[^&#\s\"'<>*][^&#\s\"'<>]*"
_LABELLED: Final = {
    "Bearer ": r"(Bearer )[A-Za-z0-9._~+/=-]{16,}",
    "://": r"(://)[^/?#\s@\"'<>]+(?=@)",
    **dict.fromkeys(("assword", "ASSWORD", "asswd", "ASSWD", "assphrase", "ASSPHRASE"), _PASSWORD),
    **dict.fromkeys(("uthorization", "UTHORIZATION"), _AUTHORIZATION),
    **dict.fromkeys(("ecret", "SECRET", "ccount", "ACCOUNT", "ccess", "ACCESS", "as_token", "AS_TOKEN"), _CLOUD_KEY),
    "=": _PARAMETER,
    "PRIVATE KEY-----": r"(PRIVATE KEY-----)[A-Za-z0-9+/=\s]+(?=-----END)",
    **{name: rf"({name}{_VALUE}" for name in ("api_key", "API_KEY", "api-key", "Api-Key", "apikey", "apiKey")},
}
# A text is searched for the hint first: that is a hundred times cheaper than the pattern, and nearly always the end.
_RULES: Final = (
    *((hint, re.compile(rf"(?<![A-Za-z0-9])()(?:{shape})")) for hint, shape in _SHAPES.items()),
    *((hint, re.compile(shape)) for hint, shape in _LABELLED.items()),
)
# In place of the hints that nearly every text has.
_SIGNS: Final = {
    "=": _PARAMETER_NAME.removesuffix("=") + '(?:=|":)',  # or the name of a value, in JSON
    "://": r"://[^/?#\s@]+@",
    **dict.fromkeys(("ecret", "SECRET", "ccount", "ACCOUNT", "ccess", "ACCESS", "as_token", "AS_TOKEN"), _CLOUD_NAME),
}
_SHORTEST: Final = 8
_LONGEST: Final = 10_000
_LONGEST_KNOWN: Final = 4_000

_protected: Final[dict[str, None]] = {}

C = TypeVar("C", bound=type)

_SECRET_NAME: Final = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|access[_-]?key|token|secret|password|passwd|passphrase|authorization|credentials?)$",
    re.IGNORECASE,
)


def protect(value: str) -> None:
    """Mask this value wherever it appears from now on.

    Values under 8 characters are taken for placeholders (``x``, ``ollama``), which would hide ordinary words.
    """
    if len(value) >= _SHORTEST:
        _protected.setdefault(value)


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: ``OPENAI_API_KEY``, ``x-api-key``, ``password``."""
    return _SECRET_NAME.search(name) is not None


def protect_environment() -> None:
    """Mask the values of all variables that are named as secrets are, whether anybody uses them or not."""
    protect_named(os.environ)


def protect_named(values: Mapping[str, Any]) -> None:
    """Mask the texts whose names say that they are secrets, in dicts and lists inside as well."""
    found: list[tuple[str, Any]] = list(values.items())
    seen: set[int] = set()
    while found:
        name, value = found.pop()
        if isinstance(value, str):
            if is_secret_name(name):
                protect(value.strip())
        elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))  # one may hold itself
            inner = value.items() if isinstance(value, Mapping) else ((name, each) for each in value)
            found += [(key if isinstance(key, str) else name, each) for key, each in inner]


def mask(text: str) -> str:
    """The text with every protected value and everything that looks like a key replaced by ``***``."""
    # A run has the same text in several events, and the same prompt for many tasks.
    return _mask_once(text, tuple(_protected)) if len(text) <= _LONGEST_KNOWN else _mask(text)


@functools.lru_cache(maxsize=512)
def _mask_once(text: str, _values: tuple[str, ...]) -> str:
    """The same for a text that may come again; anew when there are other protected values."""
    return _mask(text)


def _mask(text: str) -> str:
    for value in sorted(_protected, key=len, reverse=True):  # longest first, since one may begin with another
        text = text.replace(value, MASK)
    for hint, pattern in _RULES:
        if hint in text:
            text = pattern.sub(rf"\1{MASK}", text)
    return text


def mask_start(text: str, length: int) -> str:
    """The first `length` characters of a text, or fewer, masked, at a cost that does not grow with the text.

    A secret that goes on past them is recognised by what comes after, so no part of it is left.
    """
    if len(text) <= length:
        return mask(text)
    masked = mask(text[: length + _LONGEST])
    return masked[: max(0, min(length, len(masked) - min(_LONGEST, len(text) - length)))]


def mask_id(given: str) -> str:
    """An id; where it has a secret in it, another one instead that is as much its own."""
    masked = mask(given)
    return given if masked == given else f"{masked}-{hashlib.sha256(given.encode(errors='replace')).hexdigest()[:8]}"


def mask_named(name: str, text: str) -> str:
    """The value of something that has a name, masked: the name may tell that it is a secret (``api_key``)."""
    told = mask(f"{name}={text}")
    return told[len(name) + 1 :] if told.startswith(f"{name}=") else mask(text)


def mask_values(value: Any) -> Any:
    """Plain lists and dicts with all texts in them masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask_values(name): mask_values(each) for name, each in value.items()}
    return [mask_values(each) for each in value] if isinstance(value, list | tuple) else value


def mask_repr(cls: C) -> C:
    """A class whose ``repr`` shows no secrets and no control characters."""
    kind: Any = cls
    written = kind.__repr__

    @functools.wraps(written)
    def shown(self: Any) -> str:
        protect_environment()
        return mask(remove_control_characters(written(self)))

    kind.__repr__ = shown
    return cls


class Record(Pickled):
    """The base of records, dataclasses with ``repr=False``: their ``repr`` and pickles hold no secrets (E63, E69)."""

    __slots__ = ()

    def __repr__(self) -> str:
        """All fields, secrets masked."""
        kind: Any = type(self)
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(kind) if each.repr)
        return mask(remove_control_characters(f"{kind.__qualname__}({shown})"))


def list_signs() -> tuple[str, ...]:
    """Regular expressions for other engines than `re`: where none is found, nothing looks like a key.

    None of them needs a character that JSON writes in another way, so they find what is in JSON, too.
    """
    return tuple(dict.fromkeys(_SIGNS.get(hint) or re.escape(hint) for hint, _ in _RULES))


def list_protected() -> tuple[str, ...]:
    """The values that are masked wherever they appear."""
    return tuple(_protected)


def has_secret(text: str) -> bool:
    """Whether a text holds a protected value or something that looks like a key: a cell with one is refused."""
    return mask(text) != text


register_mask(mask)
protect_environment()
