"""What a kind of model spec has to say about itself, and the parameters that a spec mapping may have (E56).

A provider is one class that derives from `ModelSpec`, in a module of its own, and one line in the table of
`model_kinds`. Knows no kind by name, and opens nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from ensemble_notebook.domain.definitions.agent import MAX_RETRY_WAIT
from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.errors import Problem, ValidationError, did_you_mean

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ensemble_notebook.models.openai.endpoint import Endpoint

Notice = Callable[[str], None]
"""Tells what is about to take its time."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What the model's `ChatPort` will say of it: name, who serves it, and the limit of an output, where it has one.

    `server` is where its requests go, and with which key, in words; None where they stay in this process, and where
    only an object knows.
    """

    name: str
    provider: str | None
    max_tokens: int | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecForm:
    """One form of spec, as it is here.

    Attributes:
        spec: as it is written.
        meaning: what answers.
        is_ready: whether it could be used now.
        note: what it uses, or what is missing.
    """

    spec: str
    meaning: str
    is_ready: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model behind the OpenAI protocol, as a spec knows it.

    Attributes:
        endpoint: where it is; models of one endpoint share their connections.
        provider: who serves it; None for what its address says.
        key_variable: where its key comes from, for advice; None where none is sent.
        advice: what to do about an answer with a status, where the spec knows better than the status alone.
        has_tool_support: whether it calls tools.
        has_schema_support: whether it holds its replies to a schema; None for what its address and name say.
        refused_kinds: which of pictures and PDFs it does not take; empty for what its name says.
        context_window: tokens that it can take, where the server says so.
        place_count: how many connections of this process a request takes.
        settings: where the parameters of the spec say nothing, by langchain-openai's names.
        watch_socket: is told of each socket of its connections, so that it can cut them; raises where there may be no
            more. Whoever asks it: our transport, or LangChain's client.
    """

    endpoint: Endpoint
    provider: str | None = None
    key_variable: str | None = None
    advice: Mapping[int, str] = field(default_factory=dict)
    has_tool_support: bool = True
    has_schema_support: bool | None = None
    refused_kinds: frozenset[str] = frozenset()
    context_window: int | None = None
    place_count: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    watch_socket: Callable[[Any], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeModel:
    """A chat model of LangChain that is made for a spec: one for each key and event loop.

    Attributes:
        key: tells it from others.
        make: makes it, without retries of its own; called on a thread, since it imports packages.
        provider: who serves it; None for what the model says.
        key_variable: where its key comes from, for advice.
        watch_socket: as of `ServedModel`, for one that speaks the OpenAI protocol.
    """

    key: Hashable
    make: Callable[[], Any]
    provider: str | None = None
    key_variable: str | None = None
    watch_socket: Callable[[Any], None] | None = None


class ModelSpec(ABC):
    """One kind of spec, and all that is about it. A frozen dataclass with slots, equal to others by its fields.

    Attributes:
        words: what its texts begin with, up to the colon or the end.
        forms: as they are written, ``word`` or ``word:NAME``, for lists and mistakes.
        examples: texts to propose while somebody writes.
        parameters: those that a mapping with this spec may have; None for all of them.
        calls_tools: False where it is known beforehand that no model of the kind calls any.
        answers: False where no model is asked, so that it is not advised to whoever has a real question.
    """

    __slots__ = ()

    words: ClassVar[tuple[str, ...]]
    forms: ClassVar[tuple[str, ...]]
    examples: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[tuple[str, ...] | None] = None
    calls_tools: ClassVar[bool] = True
    answers: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def read(cls, word: str, rest: str | None) -> Self | None:
        """Read a text; None where it has none of the forms.

        Args:
            word: one of `words`.
            rest: what stands behind the colon, stripped; None where there is no colon.

        Raises:
            ValidationError: it is meant to be one, and names no model; made by `make_spec_error`.
        """

    @classmethod
    def guess(cls, text: str) -> str | None:  # noqa: ARG003 - most kinds are written in one way
        """Guess the sentence that helps whoever wrote this, which is no spec; None where it looks like another kind."""
        return None

    @property
    @abstractmethod
    def text(self) -> str:
        """The spec as it is written, which is its name in recordings: the same on each machine, without keys."""

    @property
    def key_variable(self) -> str | None:
        """The environment variable that its key is in; None where it needs none."""
        return None

    def with_key_variable(self, variable: str) -> Self:  # noqa: ARG002
        """Copy it with another variable for its key.

        Raises:
            ValidationError: it takes none.
        """
        raise make_spec_error(f"The model {self.text!r} takes no key: leave out api_key_env.", "api_key_env")

    def check(self) -> None:  # noqa: B027 - most can be used wherever they are written
        """Check whether it can be used here, as far as that is known without opening anything.

        Raises:
            ValidationError: its key variable is not set, or its file is not there.
        """

    @abstractmethod
    def identify(self, parameters: ModelParameters) -> ModelIdentity:
        """Tell who the model is, without opening anything: for prices and estimates.

        Why not simply ask its port: that needs a running loop, a client, and perhaps a server to be started first.

        Raises:
            ValidationError: that can't be told here.
        """

    @abstractmethod
    async def open(self, parameters: ModelParameters, notice: Notice) -> ServedModel | MadeModel | BaseChatModel:
        """Say what its port is made of, or make a chat model of LangChain; see `ChatSource.prepare` for `notice`."""

    @classmethod
    @abstractmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        """Describe each of `forms`, and what it comes to here. Opens nothing."""


def make_spec_error(message: str, item: str | None = None) -> ValidationError:
    """Make the error for a spec; `item` is the field of a mapping that is wrong."""
    return ValidationError(Problem(message, field="llm", item=item))


def make_key_error(text: str, variable: str | None) -> ValidationError:
    """Make the error for a spec without its key."""
    return make_spec_error(
        f"The model {text!r} needs a key in the environment variable {variable}, which is not set. Set it before you "
        f"start Jupyter, or run: import os, getpass; os.environ['{variable}'] = getpass.getpass(). The model 'local' "
        f"needs no key."
    )


# --- Parameters of a model beside its name: checked, and passed on as they are ----------------------------------
#
# Whoever makes the model passes them on under the same names, which are langchain-openai's.


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
    given.pop(MAX_RETRY_WAIT, None)  # whoever asks the model reads it
    return ModelParameters(MappingProxyType(given), schema_mode)


def check_parameter(name: str, value: Any) -> None:
    """Check the value of a parameter.

    Raises:
        ValidationError: it can't be meant; names the parameter.
    """
    wanted, is_fit = _EXPECTED[name]
    if not is_fit(value):
        nearest = did_you_mean(value, SCHEMA_MODES) if name == "schema_mode" and isinstance(value, str) else ""
        raise make_spec_error(f"The {name} of a model must be {wanted}, got {value!r}.{nearest}", name)


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
    MAX_RETRY_WAIT: ("seconds > 0", is_seconds),
}
PARAMETERS: Final = tuple(_EXPECTED)
