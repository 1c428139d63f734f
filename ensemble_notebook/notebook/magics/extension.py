"""``%load_ext ensemble_notebook`` and ``%unload_ext``: silent, cheap, repeatable, and leaving nothing behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.notebook.magics.cell_help import begin_help, end_help
from ensemble_notebook.notebook.magics.ensemble_magics import EnsembleMagics
from ensemble_notebook.notebook.magics.line_commands import complete_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LINE_MAGIC: Final = "%ensemble"
_QUESTION: Final = re.compile(r"^(\s*)%ensemble +([a-z]+) *\?+[ \t]*$", re.MULTILINE)


def load(shell: InteractiveShell) -> None:
    """Add ``%%ensemble`` and ``%ensemble``; a second time changes nothing."""
    if not _find_loaded(shell):
        magics = EnsembleMagics(shell)
        shell.register_magics(magics)
        magics.begin_warm_up()
        shell.input_transformers_cleanup.extend((add_missing_body, ask_for_help))
        shell.strdispatchers["complete_command"].add_s(_LINE_MAGIC, complete_ensemble)
        begin_help(shell)
        if getattr(shell, "kernel", None) is not None:
            from ensemble_notebook.notebook.live.page_channel import begin_page_channels

            begin_page_channels(shell)


def add_missing_body(lines: list[str]) -> list[str]:
    """A body for a cell that is only ``%%ensemble ...``: IPython refuses empty ones before the magic could help."""
    words = lines[0].split(maxsplit=1) if lines else []
    is_bare = words[:1] == ["%%ensemble"] and not any(line.strip() for line in lines[1:])
    return [lines[0].rstrip() + "\n", "\n"] if is_bare and not lines[0].rstrip().endswith("?") else lines


def ask_for_help(lines: list[str]) -> list[str]:
    """``%ensemble resume?`` as a question about this sub-command; IPython would look for an object of that name."""
    if not lines or lines[0].lstrip().startswith("%%"):
        return lines
    return [_QUESTION.sub(r"\1%ensemble \2 --help", line) for line in lines]


def complete_ensemble(event: Any) -> list[str]:
    """The words that may follow on a line of ``%ensemble``, for IPython's completer."""
    words = event.line.split()[1:]
    if not event.symbol:  # the last word is finished
        words.append("")
    return [each for each in complete_line(words) if each.startswith(event.symbol)]


def unload(shell: InteractiveShell) -> None:
    """Take out the magics and their configuration; variables stay."""
    from ensemble_notebook.notebook.live.page_channel import end_page_channels

    end_page_channels(shell)
    end_help(shell)
    configurables: list[Any] = shell.configurables
    transformers = shell.input_transformers_cleanup
    ours = {each.__qualname__ for each in (add_missing_body, ask_for_help)}
    transformers[:] = [each for each in transformers if getattr(each, "__qualname__", "") not in ours]
    shell.strdispatchers["complete_command"].strs.pop(_LINE_MAGIC, None)
    for magics in _find_loaded(shell):
        magics.stop_warm_up()
        configurables.remove(magics)
        for kind, names in magics.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
        shell.magics_manager.registry.pop(type(magics).__name__, None)


def _find_loaded(shell: InteractiveShell) -> list[Any]:
    """By name, because a reloaded module has another class of the same name."""
    return [each for each in shell.configurables if type(each).__name__ == EnsembleMagics.__name__]
