"""The inputs of a run as the code of one item sees them, which may look at the whole list that the item is of (E53)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class WatchedInputs(Mapping[str, Any]):
    """Inputs that tell when one of them is read: then it counts for reuse beside the item (C34a).

    Args:
        inputs: of the run.
        name: of the input that has the items.
        note_read: called when somebody reads it, on any thread.
    """

    def __init__(self, inputs: Mapping[str, Any], name: str, note_read: Callable[[], None]) -> None:
        self._inputs = inputs
        self._name = name
        self._note_read = note_read

    def __getitem__(self, name: str) -> Any:
        """Get the value of an input."""
        if name == self._name:
            self._note_read()
        return self._inputs[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, as of any mapping."""
        return iter(self._inputs)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._inputs)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """Give all of them with others, which is to read them."""
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """Give others with all of them."""
        return {**other, **self}

    def copy(self) -> dict[str, Any]:
        """Copy all of them, which is to read them."""
        return dict(self)

    def __repr__(self) -> str:
        """As of the inputs."""
        return repr(dict(self))
