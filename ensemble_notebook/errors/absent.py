"""What stands in a pickle for a model, a tool, a function: its description, and an error for who asks more (E63)."""

from __future__ import annotations

from typing import Any, NoReturn

from ensemble_notebook.errors.base import AbsentObjectError
from ensemble_notebook.errors.text import make_readable


class DescribedObject:
    """A model, tool or function as a ``repr`` shows it.

    Attributes:
        kind: what it is, such as ``"model"`` or ``"handler"``.
        description: its name, secrets masked.
    """

    __slots__ = ("description", "kind")

    def __init__(self, kind: str, description: str) -> None:
        self.kind = kind
        self.description = description

    def __repr__(self) -> str:
        """Kind and name."""
        return f"<{self.kind} {self.description}>"


class AbsentObject(DescribedObject):
    """Something that was not pickled: it may hold keys or connections, or may not exist where the pickle goes."""

    __slots__ = ()

    @property
    def __name__(self) -> str:
        """The name of a function or tool, for views."""
        return self.description

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """It can't be called.

        Raises:
            AbsentObjectError: always.
        """
        raise self.make_error()

    def __getattr__(self, name: str) -> NoReturn:
        """It has nothing else.

        Raises:
            AbsentObjectError: always; an `AttributeError`, so that ``hasattr`` says no.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.make_error()

    def __eq__(self, other: object) -> bool:
        """Equal by what they say."""
        return isinstance(other, AbsentObject) and (self.kind, self.description) == (other.kind, other.description)

    def __hash__(self) -> int:
        """As equality."""
        return hash((self.kind, self.description))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as it is."""
        return AbsentObject, (self.kind, self.description)

    def __repr__(self) -> str:
        """What it was."""
        return f"<{self.kind} {self.description}, not in the pickle>"

    def make_error(self) -> AbsentObjectError:
        """What is to be told to whoever asks for the object itself."""
        return AbsentObjectError(
            f"The {self.kind} {self.description} is not here: this object comes from a pickle, which keeps only a "
            f"description of models, tools and functions. Use the object that was pickled, or put the {self.kind} in "
            f"again with dataclasses.replace()."
        )


def describe_object(value: Any) -> str:
    """The name of a model, tool or function, secrets masked; never its ``repr``, which may hold anything."""
    kind = type(value).__name__
    for attribute in ("__qualname__", "__name__", "name", "model_name", "model"):
        try:
            name = getattr(value, attribute, None)
        except Exception:  # noqa: BLE001 - a foreign property
            continue
        if isinstance(name, str) and name:
            return make_readable(name if attribute.startswith("__") else f"{name} ({kind})")
    return make_readable(kind)
