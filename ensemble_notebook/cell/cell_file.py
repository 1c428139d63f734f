"""Cells that are in files, or in texts of Python: with or without their first line, and as ensembles (C32)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.language.options import MAGIC, Options, parse_options
from ensemble_notebook.cell.text.text_file import read_text_file
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble import Ensemble

_NO_OPTIONS: Final = Options()


@dataclass(frozen=True, slots=True)
class CellFile:
    """A cell that was kept as text.

    Attributes:
        body: in YAML; a first line with options is left as an empty one, so that mistakes have the file's lines.
        options: of the first line; the defaults where there is none.
        name: of the file, as it was given; empty for a text of Python.
    """

    body: str
    options: Options = _NO_OPTIONS
    name: str = ""


def read_cell_file(path: Path) -> CellFile:
    """Read a cell from a file.

    Raises:
        ValidationError: the file can't be read, or its first line has a mistake.
    """
    return split_cell(read_text_file(path), str(path))


def split_cell(text: str, name: str = "") -> CellFile:
    """Split a cell into its first line, if that has the magic, and its body.

    Raises:
        ValidationError: the line has a mistake.
    """
    first, _, rest = text.partition("\n")
    if first.split()[:1] != [MAGIC]:
        return CellFile(text, name=name)
    try:
        options = parse_options(first.strip().removeprefix(MAGIC))
    except ValidationError as error:
        raise ValidationError(f"{name}, line 1: {error}" if name else str(error)) from None
    if options.file is not None:
        raise ValidationError(f"{name or 'The text'}, line 1: --file is for a cell, and this one is in a file itself.")
    return CellFile(f"\n{rest}", options, name)


def add_options(given: Options, below: Options) -> Options:
    """Add the options of a file's first line to those that were given, which come first."""
    added = {
        each.name: getattr(below, each.name)
        for each in fields(Options)
        if getattr(given, each.name) == getattr(_NO_OPTIONS, each.name)
    }
    return replace(given, **added | {"inputs": {**below.inputs, **given.inputs}})


def load_ensemble(source: str | Path, namespace: Mapping[str, Any] | None = None) -> Ensemble:
    """Make an ensemble of a cell.

    Args:
        source: a text is the cell, a `Path` the file that holds it. Of a first line with options, those about the
            ensemble hold: its inputs, model, workflow, capture mode, budget and name.
        namespace: the variables that the cell names.

    Raises:
        ValidationError: the file can't be read. As a `CellError`, with all mistakes and their places: the cell can't
            run, or names what is not there.
    """
    given: object = source
    if not isinstance(given, str | Path):
        raise ValidationError(f"Ensemble.from_yaml takes a text or a Path, got {type(given).__name__}.")
    names = {} if namespace is None else namespace
    kept = read_cell_file(given) if isinstance(given, Path) else split_cell(given)
    overrides = kept.options.overrides
    if kept.name:
        cell = read_cell("", names, overrides=overrides, needs_inputs=False, file=kept)
    else:
        cell = read_cell(kept.body, names, overrides=overrides, needs_inputs=False)
    return cell.build(names)
