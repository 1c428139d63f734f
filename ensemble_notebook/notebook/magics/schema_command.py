"""``%ensemble schema``: what a cell may hold, as a JSON Schema (C22)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ensemble_notebook.cell.writing.editor_schema import make_editor_schema
from ensemble_notebook.errors import ValidationError


class CellSchema(dict[str, Any]):
    """A schema that is shown as JSON: a tree where the page has one, else its text."""

    def _repr_json_(self) -> dict[str, Any]:
        return dict(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(json.dumps(self, indent=2))


def show_schema(words: Sequence[str], _shell: Any) -> CellSchema:
    """The schema of a cell, draft 2020-12.

    Raises:
        ValidationError: a word follows.
    """
    if words:
        raise ValidationError(
            f"%ensemble schema takes no {words[0]!r}. It gives the schema; `jupyter ensemble schema > FILE` writes it."
        )
    return CellSchema(make_editor_schema())
