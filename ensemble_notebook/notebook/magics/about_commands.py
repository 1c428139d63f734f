"""``%ensemble``, ``%ensemble help`` and ``%ensemble version``: what there is to type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.reading.options import format_option_help
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.notebook.live.frontend import write_text
from ensemble_notebook.notebook.picture.shown_table import ShownColumn, ShownTable
from ensemble_notebook.trace.tables.table import Column, Table

if TYPE_CHECKING:
    from ensemble_notebook.notebook.magics.line_commands import LineCommand


_OVERVIEW: Final = """\
Teams of language-model agents in a notebook cell.

  {commands}

The smallest cell:

  %%ensemble
  - Name three facts about tides
  - Write a haiku from them
"""


def show_overview(commands: Sequence[LineCommand]) -> None:
    """Every sub-command, with one line each."""
    rows = [
        ("%%ensemble", "runs the ensemble that the cell declares, in YAML"),
        ("%ensemble --file PATH ...", "runs the cell in a file; the options are those of %%ensemble"),
        *((each.usage, each.meaning) for each in commands),
        ("%config EnsembleMagics", "the defaults: llm, timeline, display, store, warm_up"),
    ]
    width = max(len(usage) for usage, _ in rows) + 4
    write_text(_OVERVIEW.format(commands="\n  ".join(f"{usage:{width}}{meaning}" for usage, meaning in rows)))


def show_usage(command: LineCommand) -> None:
    """What one sub-command does."""
    write_text(f"{command.usage}\n  {command.meaning}\n")


def show_help(_words: Sequence[str], _shell: Any) -> None:
    """The options of a cell."""
    write_text(format_option_help())


def show_version(_words: Sequence[str], _shell: Any) -> None:
    """The version of this package."""
    from ensemble_notebook import __version__

    write_text(f"ensemble-notebook {__version__}\n")


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
    from ensemble_notebook.models.model_kinds import describe_models

    if words:
        raise ValidationError(f"%ensemble models takes no {words[0]!r}. It lists what each form of spec comes to here.")
    return ModelsTable(MODELS.to_frame(describe_models()))
