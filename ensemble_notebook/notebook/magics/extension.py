"""``%load_ext ensemble_notebook`` and ``%unload_ext``: silent, cheap, repeatable, and leaving nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ensemble_notebook.notebook.magics.ensemble_magics import EnsembleMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load(shell: InteractiveShell) -> None:
    """Add ``%%ensemble`` and ``%ensemble``; a second time changes nothing."""
    if not _find_loaded(shell):
        magics = EnsembleMagics(shell)
        shell.register_magics(magics)
        magics.begin_warm_up()
        shell.input_transformers_cleanup.append(add_missing_body)


def add_missing_body(lines: list[str]) -> list[str]:
    """A body for a cell that is only ``%%ensemble ...``: IPython refuses empty ones before the magic could help."""
    words = lines[0].split(maxsplit=1) if lines else []
    is_bare = words[:1] == ["%%ensemble"] and not any(line.strip() for line in lines[1:])
    return [lines[0].rstrip() + "\n", "\n"] if is_bare and not lines[0].rstrip().endswith("?") else lines


def unload(shell: InteractiveShell) -> None:
    """Take out the magics and their configuration; variables stay."""
    configurables: list[Any] = shell.configurables
    transformers = shell.input_transformers_cleanup
    transformers[:] = [
        each for each in transformers if getattr(each, "__qualname__", "") != add_missing_body.__qualname__
    ]
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
