"""How a part of the fold says which of its methods takes in which events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, TypeVar

from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.spans.span import Span

Handler = Callable[[Any, Any], object]
_H = TypeVar("_H", bound=Handler)


def on(*types: type[Event]) -> Callable[[_H], _H]:
    """Mark a method that takes in events of these types."""

    def mark(method: _H) -> _H:
        vars(method)["event_types"] = types
        return method

    return mark


def on_open(*types: type[Event]) -> Callable[[Callable[[Any, Any, Span], Any]], Handler]:
    """Mark a method that takes in events of these types with their spans; of one that is over, they change nothing."""

    def mark(method: Callable[[Any, Any, Span], Any]) -> Handler:
        @wraps(method)
        def take_in(fold: Any, event: Any) -> Any:
            span = fold.tree.open.get(event.span_id)
            return None if span is None else method(fold, event, span)

        return on(*types)(take_in)

    return mark


class EventFold:
    """What takes in events of some types, by methods that `on` and `on_open` mark; for the latter it has a `tree`."""

    # By class: a fold that refers to itself stays until somebody looks for garbage, hundreds of megabytes of it.
    handlers: ClassVar[Mapping[type[Event], Handler]] = {}

    def __init_subclass__(cls) -> None:
        """Where several methods are for a type, the last one takes it in."""
        own = {type_: each for each in vars(cls).values() for type_ in getattr(each, "event_types", ())}
        cls.handlers = {**cls.handlers, **own}

    def take_in(self, event: Event) -> None:
        """Take in an event. A type that it doesn't know changes nothing."""
        if (handler := self.handlers.get(type(event))) is not None:
            handler(self, event)
