"""Parameters of a model beside its name, as a spec mapping has them (E56): checked, and passed on as they are.

Knows values only; whoever makes the model passes them on under the same names, which are langchain-openai's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from ensemble_notebook.errors import Problem, ValidationError, did_you_mean

SchemaMode = Literal["auto", "native", "prompt"]
SCHEMA_MODES: Final = ("auto", "native", "prompt")


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """What a spec says of a model beside which one it is.

    Attributes:
        settings: by the names of langchain-openai.
        schema_mode: how the model is told of the schema of its reply: natively, in the prompt, or as it is known to
            take it.
    """

    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    schema_mode: SchemaMode = "auto"

    @property
    def max_tokens(self) -> int | None:
        """The limit of a reply, where one is given."""
        return self.settings.get("max_tokens")

    def choose_schema_support(self, *, is_known: bool) -> bool:
        """Whether a model is given schemas natively; `is_known`: whether it is known to take them."""
        return is_known if self.schema_mode == "auto" else self.schema_mode == "native"


def read_parameters(llm: Any) -> ModelParameters:
    """Read the parameters in a spec mapping; none for texts and objects.

    Raises:
        ValidationError: one of them has a value that can't be meant.
    """
    if not isinstance(llm, Mapping):
        return ModelParameters()
    given = {name: value for name, value in llm.items() if name in PARAMETERS and value is not None}
    for name, value in given.items():
        check_parameter(name, value)
    schema_mode = given.pop("schema_mode", "auto")
    return ModelParameters(MappingProxyType(given), schema_mode)


def check_parameter(name: str, value: Any) -> None:
    """Check the value of a parameter.

    Raises:
        ValidationError: it can't be meant; names the parameter.
    """
    wanted, is_fit = _EXPECTED[name]
    if not is_fit(value):
        nearest = did_you_mean(value, SCHEMA_MODES) if name == "schema_mode" and isinstance(value, str) else ""
        message = f"The {name} of a model must be {wanted}, got {value!r}.{nearest}"
        raise ValidationError(Problem(message, field="llm", item=name))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_stop(value: Any) -> bool:
    texts = value if isinstance(value, list | tuple) else [value]
    return bool(texts) and all(isinstance(text, str) and text for text in texts)


def _is_data(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_EXPECTED: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "temperature": ("a number >= 0", lambda value: _is_number(value) and value >= 0),
    "max_tokens": ("a whole number > 0", lambda value: _is_whole(value) and value > 0),
    "top_p": ("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
    "seed": ("a whole number", _is_whole),
    "stop": ("a text, or a list of texts", _is_stop),
    "reasoning_effort": ("a word that the model knows, such as low or high", _is_text),
    "extra_body": ("a mapping of names to values", _is_data),
    "schema_mode": ("auto, native or prompt", lambda value: value in SCHEMA_MODES),
}
PARAMETERS: Final = tuple(_EXPECTED)
