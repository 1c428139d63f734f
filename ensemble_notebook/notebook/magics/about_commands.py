"""``%ensemble``, ``%ensemble help`` and ``%ensemble version``: what there is to type."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.language.options import format_option_help
from ensemble_notebook.errors import make_readable

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
    _write(_OVERVIEW.format(commands="\n  ".join(f"{usage:{width}}{meaning}" for usage, meaning in rows)))


def show_usage(command: LineCommand) -> None:
    """What one sub-command does."""
    _write(f"{command.usage}\n  {command.meaning}\n")


def show_help(_words: Sequence[str], _shell: Any) -> None:
    """The options of a cell."""
    _write(format_option_help())


def show_version(_words: Sequence[str], _shell: Any) -> None:
    """The version of this package."""
    from ensemble_notebook import __version__

    _write(f"ensemble-notebook {__version__}\n")


def _write(text: str) -> None:
    sys.stdout.write(make_readable(text))
