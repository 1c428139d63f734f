"""An ensemble can be read from a cell, and written as one (C32).

The cell language is a layer above, so it is called through the registered views.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble


class ConvertibleEnsemble(RunnableEnsemble, ABC):
    """The part of `Ensemble` that reads and writes cells."""

    __slots__ = ()

    @classmethod
    def from_yaml(cls, source: str | Path, namespace: Mapping[str, Any] | None = None) -> Self:
        """Make an ensemble from a cell.

        Args:
            source: the text of the cell, or the `Path` of a file that holds it. A first line ``%%ensemble ...`` may be
                there; its options about the ensemble (inputs, model, workflow, ...) are used.
            namespace: the variables that the cell may name, such as ``globals()``. Dotted names are imported.

        Raises:
            ValidationError: the file can't be read, or the cell has mistakes; lists all of them with their lines.
        """
        made: Self = render_view("from_cell", source, namespace)
        return made

    def to_yaml(self, namespace: Mapping[str, Any] | None = None) -> str:
        """Write the ensemble as the body of a cell. ``from_yaml(e.to_yaml(names), names)`` makes an equal ensemble.

        Args:
            namespace: the variables that the cell may name, such as ``globals()``. Without it, functions and classes
                are written by their own or dotted names, and other objects can't be written.

        Raises:
            ValidationError: the ensemble can't run, or holds something that a cell can't express, such as a lambda, a
                model object without a variable, an input that is not plain data, or a key. Names the place and the
                remedy.
        """
        text: str = render_view("cell", self, namespace)
        return text
