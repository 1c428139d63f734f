"""Template variables in texts (E6): ``{name}`` is replaced once, ``{{name}}`` is a literal ``{name}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.value_text import write_value
from ensemble_notebook.errors import PromptTemplateError

_NAME: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{\{([A-Za-z0-9_]+)\}\}|\{([A-Za-z0-9_]+)\}", re.ASCII)


def is_variable_name(value: object) -> bool:
    """True for what may stand between the braces."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def find_variables(text: str) -> Iterator[str]:
    """Find the names of the variables of a text, in order, with repetitions."""
    return (match[2] for match in _PLACEHOLDER.finditer(text) if match[2] is not None)


def check_variables(texts: Iterable[str], inputs: Mapping[str, Any]) -> None:
    """Check that every variable of every text has a value.

    Raises:
        PromptTemplateError: names all missing ones over all texts, in order, once each.
    """
    missing: dict[str, str] = {}
    for text in texts:
        for name in find_variables(text):
            if name not in inputs:
                missing.setdefault(name, text)
    if missing:
        raise PromptTemplateError(tuple(missing), next(iter(missing.values())))


def render(text: str, inputs: Mapping[str, Any]) -> str:
    """Render the text with its variables filled in: one pass, None becomes empty, other values are written as E47 says.

    Other braces stay as they are, and so do variables without a value (a run has none: `check_variables` came first).
    """

    def fill(match: re.Match[str]) -> str:
        if match[1] is not None:
            return "{" + match[1] + "}"
        value = inputs.get(match[2], match[0])
        return value if isinstance(value, str) else write_value(value, config.max_table_chars).text

    return _PLACEHOLDER.sub(fill, text) if "{" in text else text
