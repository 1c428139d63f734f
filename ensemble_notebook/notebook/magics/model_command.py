"""``%ensemble models``: what the forms of a model spec come to on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.errors import ValidationError
from ensemble_notebook.notebook.picture.shown_table import ShownColumn, ShownTable
from ensemble_notebook.trace.tables.table import Column, Table

MODELS: Final = Table(
    "form of a model spec",
    Column("spec", "string", "as it is written", is_nullable=False),
    (
        Column("is_ready", "boolean", "it could be used now", is_nullable=False),
        Column("meaning", "string", "what answers", is_nullable=False),
        Column("note", "string", "what it uses, or what is missing", is_nullable=False),
    ),
)


class ModelsTable(ShownTable):
    """What each form of spec comes to here, as `MODELS` has it."""

    made_of = tuple(each.name for each in MODELS.columns)
    nothing = "There is no form of spec."
    shown = (
        ShownColumn("spec", lambda row: str(row["spec"])),
        ShownColumn("ready", lambda row: "yes" if row["is_ready"] else "no"),
        ShownColumn("meaning", lambda row: str(row["meaning"]), is_whole=True),
        ShownColumn("note", lambda row: str(row["note"]), is_whole=True, is_faint=True),
    )


def list_models(words: Sequence[str], _shell: Any) -> ModelsTable:
    """Every form of spec. Opens nothing.

    Raises:
        ValidationError: a word follows.
    """
    from ensemble_notebook.models.model_catalog import describe_models

    if words:
        raise ValidationError(f"%ensemble models takes no {words[0]!r}. It lists what each form of spec comes to here.")
    return ModelsTable(MODELS.to_frame(describe_models()))
