"""Settings of this process, for all runs that say nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(slots=True)
class Config:
    """Settings of this process, for all runs that say nothing else; ``ensemble_notebook.config`` is the one there is.

    Attributes:
        capture_mode: ``"metadata"`` (no text at all), ``"off"``, ``"standard"`` or ``"full"``, in any case; None: what
            the environment says.
        max_table_chars: characters of a table in a prompt; rows that do not fit are left out, and said so (E47).
        langsmith: whether variables of the environment that switch on LangChain's tracing (``LANGSMITH_TRACING`` and
            the like) have their effect in runs (E68).

    Raises:
        ValueError: `max_table_chars` is set to something else than a whole number >= 0.
    """

    capture_mode: str | None = None
    max_table_chars: int = 8000
    langsmith: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse at once what would fail in the next run."""
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if name == "max_table_chars" and not is_count:
            raise ValueError(f"config.max_table_chars must be a whole number >= 0, got {value!r}.")
        object.__setattr__(self, name, value)


config: Final = Config()
