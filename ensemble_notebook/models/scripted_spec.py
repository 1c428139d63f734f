"""The spec ``scripted``: no model, but an answer to everything, which says that nobody thought about it (E41).

It repeats what it was asked. Where an output type is asked for, it gives a value of that type, so that a cell can be
tried out before there is a model.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from ensemble_notebook.models.model_spec import ModelIdentity, ModelParameters, ModelSpec, Notice, SpecForm

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel


@dataclass(frozen=True, slots=True)
class ScriptedSpec(ModelSpec):
    """No model: an echo that says so."""

    words: ClassVar = ("scripted",)
    forms: ClassVar = ("scripted",)
    parameters: ClassVar = ()

    @classmethod
    def read(cls, word: str, rest: str | None) -> Self | None:  # noqa: ARG003
        """Read ``scripted``."""
        return cls() if rest is None else None

    @property
    def text(self) -> str:
        """As it is written."""
        return "scripted"

    def identify(self, parameters: ModelParameters) -> ModelIdentity:  # noqa: ARG002
        """Tell that there is none."""
        return ModelIdentity("scripted", "scripted")

    async def open(self, parameters: ModelParameters, notice: Notice) -> ScriptedChatModel:  # noqa: ARG002
        """Make an echo; tell of the import that the first one of a process takes its time for (E57)."""
        base = sys.modules.get("langchain_core.language_models.chat_models")
        if base is None or getattr(base.__spec__, "_initializing", False):  # another thread may be at it
            notice("Loading langchain-core ...")
        return await asyncio.to_thread(make_echo_model)

    @classmethod
    def describe(cls) -> tuple[SpecForm, ...]:
        """Say that it is there."""
        meaning = "no model: an echo, labelled as such"
        return (SpecForm(spec=cls.forms[0], meaning=meaning, is_ready=True, note="to try a cell with"),)


# --- A value that fits a JSON schema, as far as that is simple: patterns and rules between fields are left unread -----


DEEPEST: Final = 6
"""Further inside, there is only what must be there, so that a type that holds itself has an end."""

_FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "nobody@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class _Examples:
    """Values for a schema, which refers to nothing outside; whoever needs one to fit has to check it.

    Args:
        root: the schema.
        text: what is said wherever any text will do.
    """

    def __init__(self, root: Mapping[str, Any], text: str) -> None:
        self._root = root
        self._text = text

    def make(self, schema: Any, depth: int) -> Any:
        """The value of a part; None where nothing simple is known of it."""
        if not isinstance(schema, Mapping) or depth > 2 * DEEPEST:
            return None
        if given := [schema[name] for name in ("const", "default") if name in schema]:
            return given[0]
        if some := schema.get("enum") or schema.get("examples"):
            return some[0]
        other = self._find_other(schema, depth)
        return self._make_by_type(schema, depth) if other is None else self.make(other, depth + 1)

    def _find_other(self, schema: Mapping[str, Any], depth: int) -> Any:
        """The schema that says what this one leaves to others; None where it says it itself."""
        if "$ref" in schema:
            return self._resolve(schema["$ref"])
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            return _choose(parts, depth)
        return next(iter(schema.get("allOf", ())), None)

    def _make_by_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                return self._make_object(schema, depth)
            case "array":
                return self._make_array(schema, depth)
            case "integer" | "number":
                return _make_number(schema)
            case "boolean":
                return False
            case "string":
                return self._make_text(schema)
        return None

    def _resolve(self, reference: str) -> Any:
        found: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(name) if isinstance(found, Mapping) and name else found
        return found

    def _make_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self.make(part, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if depth < DEEPEST or name in required
        }

    def _make_array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        known = [self.make(each, depth + 1) for each in schema.get("prefixItems", ())]
        wanted = max(schema.get("minItems", 0), int(depth < DEEPEST and schema.get("maxItems") != 0))
        if known or "items" not in schema:
            return known or [self._text] * wanted
        return [self.make(schema["items"], depth + 1) for _ in range(wanted)]

    def _make_text(self, schema: Mapping[str, Any]) -> str:
        text = _FORMATS.get(schema.get("format", ""), self._text)
        return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]


def _choose(parts: list[Any], depth: int) -> Any:
    """The first that is something; deep inside nothing, where that will do."""
    nothing = [each for each in parts if isinstance(each, Mapping) and each.get("type") == "null"]
    something = [each for each in parts if each not in nothing]
    first, second = (nothing, something) if depth >= DEEPEST else (something, nothing)
    return (first or second)[0]


def _make_number(schema: Mapping[str, Any]) -> float:
    """0, else a number next to a bound, or between the two."""
    step = schema.get("multipleOf", 1)
    lows = [schema[name] for name in ("minimum", "exclusiveMinimum") if name in schema]
    highs = [schema[name] for name in ("maximum", "exclusiveMaximum") if name in schema]
    numbers = [(bound // step + offset) * step for bound in (*lows, *highs) for offset in (0, 1, -1)]
    if lows and highs:
        numbers.append((max(lows) + min(highs)) / 2)
    least, most = max(lows, default=-math.inf), min(highs, default=math.inf)
    excluded = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    return next((each for each in (0, *numbers) if least <= each <= most and each not in excluded), 0)


# --- The echo ---------------------------------------------------------------------------------------------------------


LABEL: Final = "[scripted: no model was asked]"
_MAX_ECHOED_CHARACTERS: Final = 400
# The last section of a prompt that asks for a type; a correction has it, too (E16).
_SCHEMA: Final = re.compile(r"^## Output Format\n.*?^```json\n(\{.*?)\n```", re.MULTILINE | re.DOTALL)


def make_echo_model() -> ScriptedChatModel:
    """Make the model.

    Its requests raise a `LookupError` where it has no value of the output type that is asked for.
    """
    from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel

    return ScriptedChatModel(default=_answer)


def _answer(messages: Sequence[BaseMessage]) -> str:
    from ensemble_notebook.models.langchain.replies import extract_text

    text = extract_text(messages[-1].content).strip()
    if found := _SCHEMA.findall(text):
        from jsonschema_rs import validator_for

        schema = json.loads(found[-1])
        value = _Examples(schema, LABEL).make(schema, 0)
        if not validator_for(schema).is_valid(value):
            raise LookupError(
                "'scripted' has no value of this output type, which takes a model: name one, such as `local`, or write "
                "a ScriptedChatModel with replies of your own."
            )
        return json.dumps(value, ensure_ascii=False)
    excerpt = text if len(text) <= _MAX_ECHOED_CHARACTERS else text[:_MAX_ECHOED_CHARACTERS] + " ..."
    return f"{LABEL} {excerpt}"
