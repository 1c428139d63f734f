"""The base of plain records: their ``repr`` and their pickles hold no secrets (E63, E69)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import Pickled, remove_control_characters


class Record(Pickled):
    """For dataclasses with ``repr=False``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """All fields, secrets masked."""
        kind: Any = type(self)
        shown = ", ".join(
            f"{each.name}={getattr(self, each.name)!r}" for each in fields(cast("Any", self)) if each.repr
        )
        return mask(remove_control_characters(f"{kind.__qualname__}({shown})"))
