"""A DataFrame that says below itself what a person should know of it, such as that a scorer failed (V3)."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import ClassVar

import pandas as pd

from ensemble_notebook.errors import make_readable


class NotedFrame(pd.DataFrame):
    """A frame with notes. What is made of it, by `head` or a query, is a plain one: they may not hold for that."""

    notes: Sequence[str] = ()
    _metadata: ClassVar[list[str]] = ["notes"]

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    @classmethod
    def make(cls, frame: pd.DataFrame, notes: Sequence[str]) -> NotedFrame:
        """The frame with these notes."""
        made = cls(frame)
        made.notes = tuple(notes)
        return made

    def __repr__(self) -> str:
        """The frame as pandas shows it, and a line for each note."""
        return "\n".join([super().__repr__(), *(make_readable(f"! {each}") for each in self.notes)])

    def _repr_html_(self) -> str | None:
        """The same for a page."""
        table: str | None = super()._repr_html_()  # type: ignore[misc]
        if table is None:
            return None
        return table + "".join(f"<div>! {html.escape(make_readable(each))}</div>" for each in self.notes)
