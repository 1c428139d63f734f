"""Errors as files and pickles tell of them, and errors of others with their secrets masked."""

from __future__ import annotations

import contextlib
import traceback
from functools import cache
from itertools import islice
from typing import Any, Final

from ensemble_notebook.errors.base import get_message, mask_text
from ensemble_notebook.errors.http_status import read_http_status
from ensemble_notebook.errors.origin import iterate_linked

_DEEPEST: Final = 100


class RecordedError(Exception):
    """An error as a file or a pickle tells of it; its class has the name of the one that was raised."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name, since the class is made at run time and can't be imported."""
        facts = (getattr(self, name, None) for name in ("origin", "http_status"))
        return make_recorded_error, (type(self).__name__, str(self), *facts)


@cache
def _make_error_class(name: str) -> type[RecordedError]:
    return type(name, (RecordedError,), {})


def make_recorded_error(
    name: str, message: str, origin: str | None = None, http_status: int | None = None
) -> RecordedError:
    """The error of a class of this name, with this message.

    Args:
        name: of its class.
        message: of the error.
        origin: where it came from, see `errors.origin`; None: unknown.
        http_status: with which a server refused the request; None: none did.
    """
    # A file may hold any name. Python refuses one with a null or half a character, and an empty one says nothing.
    whole = mask_text(str(name)).replace("\0", "").encode(errors="replace").decode()
    error = _make_error_class(whole or "Error")(message)
    facts = {"origin": origin, "http_status": http_status}
    vars(error).update({name: fact for name, fact in facts.items() if fact is not None})
    return error


def mask_error(error: BaseException) -> BaseException:
    """The same error with secrets masked in its text, and in the texts of all errors behind it.

    Servers quote keys in their refusals. The text is changed in place, so that ``except`` and ``isinstance`` work as
    before; where a foreign class does not allow that, a stand-in of the same name takes its place in the chain.
    """
    masked = _mask_one(error)
    for each in islice(iterate_linked(masked), _DEEPEST):
        for link in ("__cause__", "__context__"):
            behind = getattr(each, link)
            if behind is not None and (stand_in := _mask_one(behind)) is not behind:
                is_suppressed = each.__suppress_context__
                setattr(each, link, stand_in)
                each.__suppress_context__ = is_suppressed
    return masked


def _mask_one(error: BaseException) -> BaseException:
    if not _tells_secret(error):
        return error
    with contextlib.suppress(Exception):
        error.args = tuple(mask_text(each) if isinstance(each, str) else each for each in error.args)
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, mask_text(value))
        if notes := getattr(error, "__notes__", None):
            notes[:] = [mask_text(str(each)) for each in notes]
    if not _tells_secret(error):
        return error
    with contextlib.suppress(Exception):
        text, kind = mask_text(str(error)), type(error)
        words = {"__str__": lambda _: text, "__repr__": lambda _: f"{kind.__name__}({text!r})"}
        error.__class__ = type(
            kind.__name__, (kind,), {**words, "__module__": kind.__module__, "__doc__": kind.__doc__}
        )
    if not _tells_secret(error):
        return error
    name = type(error).__name__
    stand_in = make_recorded_error(name, mask_text(get_message(error)), http_status=read_http_status(error))
    stand_in.__cause__, stand_in.__context__ = error.__cause__, error.__context__
    return stand_in.with_traceback(error.__traceback__)


def _tells_secret(error: BaseException) -> bool:
    try:
        told = "".join(traceback.format_exception_only(error)) + repr(error)
    except Exception:  # noqa: BLE001 - a broken text of a foreign error
        return False
    return mask_text(told) != told
