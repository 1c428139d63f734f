"""What the run of an ensemble is told that does a task which was sent back (E54).

Found through a context variable: what is run is the ensemble's own `arun`, whose parameters are everybody's.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ensemble_notebook.engine.specs.revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerRevision:
    """What the tasks of an ensemble are told whose own task was sent back (E54).

    Attributes:
        revision: of that task.
        previous: what the tasks inside put out last, by name; None where that is not known.
    """

    revision: Revision
    previous: Mapping[str, str] | None

    def revise(self, name: str, *, is_final: bool) -> Revision:
        """The revision of a task inside; what the final one puts out is the output of the task around it."""
        if self.previous is None:
            return self.revision if is_final else replace(self.revision, previous=None)
        return replace(self.revision, previous=self.previous.get(name))


_inner: Final[contextvars.ContextVar[InnerRevision | None]] = contextvars.ContextVar(
    "ensemble_inner_revision", default=None
)


@contextmanager
def hand_down(revision: InnerRevision | None) -> Iterator[None]:
    """Have the run that begins inside the ``with`` block told this; runs that its own tasks begin are not."""
    token = _inner.set(revision)
    try:
        yield
    finally:
        _inner.reset(token)


def find_inner_revision() -> InnerRevision | None:
    """What the run that is about to begin is told; None for nothing."""
    return _inner.get()


def forget_inner_revision() -> None:
    """What begins from here on in this context is told nothing."""
    _inner.set(None)
