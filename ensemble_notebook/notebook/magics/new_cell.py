"""Puts a text into a new cell below the running one, if the frontend can; otherwise shows it."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.notebook.live.display_mode import has_reader


class CellText(str):
    """The text of a cell, which shows itself without quotes."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))


def give_cell(text: str, shell: Any) -> CellText | None:
    """Put a text into a new cell, if the line is a statement of its own and a person sees it.

    Returns:
        The text, if no cell was made, or the value is assigned: ``source = %ensemble python desk``.
    """
    if _takes_cells(shell) and stands_alone(shell):
        shell.set_next_input(text.rstrip("\n"), replace=False)
        return None
    return CellText(text)


def stands_alone(shell: Any) -> bool:
    """Whether the magic is the last line of the cell, so that its value would be shown."""
    entered: list[str] = shell.history_manager.input_hist_raw[-1:] or [""]
    return entered[0].strip().rpartition("\n")[2].lstrip().startswith("%ensemble")


def _takes_cells(shell: Any) -> bool:
    """Whether the frontend can make a cell or prompt; one that executes a whole notebook can't."""
    if getattr(shell, "kernel", None) is not None:
        return has_reader(shell)
    from IPython.terminal.interactiveshell import TerminalInteractiveShell

    return isinstance(shell, TerminalInteractiveShell)
