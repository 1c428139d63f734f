"""Structured output: the schema of an output type, and values read from what a model wrote (E16).

Knows texts and types; asking a model again is `reply_correction`'s.
"""

from __future__ import annotations

import functools
import json
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from ensemble_notebook.engine.agent.json_search import find_json_values, read_whole_json
from ensemble_notebook.errors import OutputParsingError

_LONGEST_FAULT: Final = 2000


class OutputFormat:
    """One output type.

    Args:
        kind: a pydantic model, a dataclass, a TypedDict, or a JSON schema of type object.

    Attributes:
        schema: JSON schema with a ``title``.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        if isinstance(kind, Mapping):
            self.schema: dict[str, Any] = {"title": "Output", "type": "object", **kind}
            self._check = _make_schema_check(self.schema)
        else:
            from pydantic import TypeAdapter

            adapter: TypeAdapter[Any] = TypeAdapter(_to_pydantic_type(kind))
            self.schema = {"title": kind.__name__, **adapter.json_schema()}
            self._check = adapter.validate_python

    @property
    def instructions(self) -> str:
        """For the prompt of a model that is not held to the schema natively."""
        schema = json.dumps(self.schema, ensure_ascii=False, indent=2)
        return f"Reply with one JSON value that fits this schema, and with nothing else:\n```json\n{schema}\n```"

    def read(self, text: str) -> Any:
        """The value in a reply: in a fenced block, the whole text, or the first complete JSON value in prose.

        Raises:
            ValueError: nothing in it fits; says what is wrong with the candidate that came first.
        """
        first_fault = None
        for value in find_json_values(text):
            try:
                return self._check(value)
            except Exception as error:  # noqa: BLE001 - pydantic's, the schema validator's, or a validator of the user
                first_fault = first_fault or _describe_fault(error)
        raise ValueError(first_fault or "it holds no complete JSON value")

    def read_whole(self, text: str) -> Any:
        """The value that a text is as a whole, in a fence or without: of one that was cut off, no part counts (E58).

        Raises:
            ValueError: it is no such value; says what is wrong.
        """
        return self.accept(read_whole_json(text))

    def read_or_fail(self, text: str, value: Any = None) -> Any:
        """The value in a text that nobody can be asked to correct, or the one that is there already.

        Raises:
            OutputParsingError: it does not fit.
        """
        try:
            return self.read(text) if value is None else self.accept(value)
        except ValueError as error:
            raise self.make_error(text, [str(error)]) from None

    def make_error(self, text: str, faults: list[str], **facts: str) -> OutputParsingError:
        """The error of a text that can't be read, after as many attempts as there are faults."""
        return OutputParsingError(
            raw_output=text, output_type=self.kind, parse_errors=faults, attempt_count=len(faults), **facts
        )

    def accept(self, value: Any) -> Any:
        """A value that is there already, held to the type.

        Raises:
            ValueError: it does not fit; says what is wrong.
        """
        try:
            return self._check(value)
        except Exception as error:
            raise ValueError(_describe_fault(error)) from error


@functools.lru_cache(maxsize=256)
def _get_format_of_type(kind: type) -> OutputFormat:
    return OutputFormat(kind)


def get_output_format(kind: Any) -> OutputFormat:
    """The format of an output type; made once for a class."""
    return _get_format_of_type(kind) if isinstance(kind, type) else OutputFormat(kind)


def _to_pydantic_type(kind: Any) -> Any:
    """The type itself; on Python 3.11, where pydantic can't look into a ``typing.TypedDict``, one that it can."""
    if sys.version_info >= (3, 12) or not typing.is_typeddict(kind):
        return kind
    from typing_extensions import TypedDict

    make: Any = TypedDict
    return make(kind.__name__, typing.get_type_hints(kind, include_extras=True), total=kind.__total__)


def _make_schema_check(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What holds a value to a schema.

    Raises:
        Exception: it is no schema, or refers to another document, which nobody fetches (E43).
    """
    from jsonschema_rs import validator_for

    validator = validator_for(dict(schema), retriever=_refuse_to_fetch)

    def check(value: Any) -> Any:
        validator.validate(value)
        return value

    return check


def _refuse_to_fetch(address: str) -> Any:
    raise LookupError(f"{address} is not fetched; put its definitions under $defs")


def _describe_fault(error: Exception) -> str:
    """What is wrong, on one line, with the place in the value; cut where there is no end of faults."""
    if callable(errors := getattr(error, "errors", None)):
        faults = [f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in errors()]
        text = "; ".join(faults)
    elif (path := getattr(error, "instance_path", None)) is not None:
        text = f"{'.'.join(map(str, path)) or 'the value'}: {getattr(error, 'message', error)}"
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_FAULT else text[:_LONGEST_FAULT] + " ..."
