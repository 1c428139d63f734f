"""The specs ``scripted``, an echo to try a cell with (E41), and ``scripted:NAME``, which misbehaves on purpose (E140).

What they answer is `scripted_answers`'s, which is not imported before one is opened.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Self

from ensemble_notebook.errors import did_you_mean
from ensemble_notebook.models.model_spec import (
    ModelIdentity,
    ModelParameters,
    ModelSpec,
    Notice,
    SpecForm,
    make_spec_error,
)

if TYPE_CHECKING:
    from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel

MISTAKES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "loops": "asks for a tool for ever",
        "wrong_tool": "asks for a tool that there is not, then for the right one",
        "ignores_format": "answers in prose, whatever type is asked for",
        "injected": "does what the result of a tool orders",
        "flatters": "finds everything good, as a judge too",
        "slow": "takes a second for each reply",
        "refuses": "refuses to answer",
    }
)
"""What models do that misbehave on purpose, by name."""


@dataclass(frozen=True, slots=True)
class ScriptedSpec(ModelSpec):
    """No model: an echo that says so, or one that misbehaves.

    Attributes:
        name: of `MISTAKES`; None for the echo.
    """

    words: ClassVar = ("scripted",)
    forms: ClassVar = ("scripted", "scripted:NAME")
    examples: ClassVar = ("scripted", *(f"scripted:{each}" for each in MISTAKES))
    answers: ClassVar = False
    parameters: ClassVar = ()

    name: str | None = None

    @classmethod
    def read(cls, word: str, rest: str | None) -> Self:
        """Read ``scripted`` and ``scripted:NAME``."""
        if rest is None or rest in MISTAKES:
            return cls(rest)
        raise make_spec_error(
            f"{f'{word}:{rest}'!r} names no scripted model.{did_you_mean(f'{word}:{rest}', cls.examples)}"
        )

    @property
    def text(self) -> str:
        """As it is written."""
        return "scripted" if self.name is None else f"scripted:{self.name}"

    def identify(self, parameters: ModelParameters) -> ModelIdentity:  # noqa: ARG002
        """Tell that there is none."""
        return ModelIdentity(self.text, "scripted")

    async def open(self, parameters: ModelParameters, notice: Notice) -> ScriptedChatModel:  # noqa: ARG002
        """Make it; tell of the import that the first one of a process takes its time for (E57)."""
        base = sys.modules.get("langchain_core.language_models.chat_models")
        if base is None or getattr(base.__spec__, "_initializing", False):  # another thread may be at it
            notice("Loading langchain-core ...")
        return await asyncio.to_thread(_make_model, self)

    @classmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        """Say that they are there."""
        echo, misbehaving = cls.forms
        names = ", ".join(MISTAKES)
        return (
            SpecForm(
                spec=echo, meaning="no model: an echo, labelled as such", is_ready=True, note="to try a cell with"
            ),
            SpecForm(spec=misbehaving, meaning="no model: it misbehaves on purpose", is_ready=True, note=names),
        )


def _make_model(spec: ScriptedSpec) -> ScriptedChatModel:
    from ensemble_notebook.models.langchain.scripted_answers import AnsweringModel

    return AnsweringModel(model_name=spec.text, misbehaviour=spec.name)
