"""Writes the values of a section as plain data: the inverse of `ensemble_builder`.

Every kind of value has a writer here, or in `cell_writer` if it refers to members of the cell; a test checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.object_names import ObjectNames
from ensemble_notebook.cell.reading.inline_types import read_inline_type
from ensemble_notebook.cell.reading.mistakes import CellError, MistakeReport
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.yaml_nodes import MappingNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.cell.vocabulary import Key, SectionSchema, ValueKind
from ensemble_notebook.cell.writing.yaml_text import Digits, write_flow
from ensemble_notebook.domain.definitions.agent import get_core_llm
from ensemble_notebook.domain.definitions.amounts import AmountError, read_budget, read_rate
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.limits import COST, Budget, RateLimit, find_rates
from ensemble_notebook.domain.definitions.memory import STORE_ENDINGS
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.templates import TextOfPrompt
from ensemble_notebook.domain.outputs.secrets import has_secret
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.models.model_kinds import list_bare_words

_UNITS: Final = {1.0: "s", 60.0: "min", 3600.0: "h", 86400.0: "day"}
_SIGNS: Final = {"USD": "$", "EUR": "€", "GBP": "£"}
_SCALARS: Final = (str, int, float, bool, type(None))
_LONGEST_NUMBER: Final = 30


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value stands: the label of its section, the definition, and the key."""

    label: str
    owner: Definition
    key: Key

    @property
    def shown(self) -> str:
        """In words: ``handler of task 'gather'``."""
        return f"{self.key.name} of {self.label}"

    def refuse(self, message: str) -> ValidationError:
        """Make the error of a value that can't be written."""
        return ValidationError(Problem(message, self.owner, self.key.name))


ValueWriter = Callable[[Any, Spot], Any]


class SectionWriter:
    """Writes sections.

    Args:
        names: finds the names of objects.
        currency: of the prices, which amounts of money are in.

    Attributes:
        writers: how each kind of value is written.
    """

    def __init__(self, names: ObjectNames, currency: str) -> None:
        self.names, self._currency = names, currency
        self._limits: dict[int, str] = {}
        self.writers: Mapping[ValueKind, ValueWriter] = {
            **dict.fromkeys((ValueKind.TEXT, ValueKind.SCALAR), self._write_text),
            **dict.fromkeys(
                (ValueKind.FLAG, ValueKind.NUMBER, ValueKind.WHOLE, ValueKind.SHARE), lambda value, _: value
            ),
            ValueKind.SECONDS: lambda value, _: int(value) if value == int(value) else value,
            ValueKind.CHOICE: lambda value, _: str(value.value if isinstance(value, Enum) else value),
            **dict.fromkeys((ValueKind.TEXTS, ValueKind.EXTRAS, ValueKind.INPUTS), self.write_data),
            **dict.fromkeys((ValueKind.PRICE, ValueKind.AMOUNT), _write_decimal),
            **dict.fromkeys((ValueKind.OBJECT, ValueKind.PROMPT, ValueKind.DEPS, ValueKind.ENSEMBLE), self._name),
            **dict.fromkeys(
                (ValueKind.OBJECTS, ValueKind.FUNCTIONS),
                lambda value, spot: write_names([self._name(each, spot) for each in value], spot),
            ),
            ValueKind.TOOLS: self._write_tools,
            ValueKind.MODEL: self._write_model,
            ValueKind.OUTPUT_TYPE: self._write_output_type,
            **dict.fromkeys((ValueKind.COST, ValueKind.PROMPT_TEXTS, ValueKind.CONSTRAINTS), self._write_part),
            ValueKind.RATE: self._write_rate,
            ValueKind.BUDGET: self._write_budget,
            ValueKind.REVIEW: self._write_reviews,
            ValueKind.MEMORIES: self._write_scopes,
            ValueKind.STORE: self._write_store,
            ValueKind.EXPORTER: self._write_exporter,
        }

    def write_section(
        self, definition: Definition, schema: SectionSchema, label: str, leave_out: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Write the fields of a definition that differ from their defaults, each under its shortest word."""
        short = {name: word for word, name in schema.short_words.items()}
        left_out = frozenset(leave_out)
        return {
            short.get(key.name, key.name): self.write_value(value, Spot(label, definition, key))
            for key, value in list_written(definition, schema)
            if key.name not in left_out
        }

    def write_value(self, value: Any, spot: Spot) -> Any:
        """Write one value; None where it is the explicit one of its key."""
        return None if value is None else self.writers[spot.key.kind](value, spot)

    # plain values

    def _write_text(self, value: Any, spot: Spot) -> Any:
        text = value.pattern if hasattr(value, "pattern") else value
        if isinstance(text, str):
            _check_text(text, spot)
        return text

    def write_data(self, value: Any, spot: Spot) -> Any:
        """Write texts, numbers, flags, lists and mappings as they are.

        Raises:
            ValidationError: something else is in it.
        """
        if isinstance(value, Mapping) and all(type(name) is str for name in value):
            return {name: self.write_data(each, spot) for name, each in value.items()}
        if type(value) is list:
            return [self.write_data(each, spot) for each in value]
        if type(value) not in _SCALARS:
            raise spot.refuse(
                f"The {spot.shown} holds an object of type {type(value).__name__}, and a cell holds data."
            )
        if isinstance(value, str):
            _check_text(value, spot)
        return value

    # objects of the notebook

    def _name(self, value: Any, spot: Spot) -> str:
        return self.names.find(value, spot.shown, spot.owner, spot.key.name)

    def _write_tools(self, value: Sequence[Any], spot: Spot) -> Any:
        """Write tools by their names; those without one may be the items of a list that has one."""
        found, left = [], list(value)
        while left:
            known = self.names.look_up(left[0])
            bundle = None if known is not None else self.names.find_list(left)
            name, count = bundle or (self._name(left[0], spot), 1)
            found.append(name)
            del left[:count]
        return write_names(found, spot)

    def _write_model(self, value: Any, spot: Spot) -> Any:
        if isinstance(value, str):
            _check_text(value, spot)
            return value
        if isinstance(value, Mapping):
            core = get_core_llm(value)
            if core is not value and self.names.look_up(core) is None and (name := self.names.look_up(value)):
                return name
            keys = vocabulary.MODEL.keys
            if unknown := [name for name in value if name not in keys]:
                raise spot.refuse(f"The {spot.shown} has {unknown[0]!r}, which a model in a cell has not.")
            written = {name: self.write_data(each, spot) for name, each in value.items() if name not in ("model", COST)}
            model, rates = value["model"], find_rates(value, None)
            priced = {} if rates is None else {COST: self._write_part(rates, spot)}
            return {"model": self._write_model(model, spot), **written, **priced}
        name = self._name(value, spot)
        if name in list_bare_words():
            message = f"The {spot.shown} is in a variable {name!r}, and in a cell that word is a model of its own."
            raise spot.refuse(f"{message} Bind it to another name.")
        return name

    def _write_output_type(self, value: Any, spot: Spot) -> Any:
        if not isinstance(value, Mapping):
            return self._name(value, spot)
        if (name := self.names.look_up(value)) is not None:
            return name
        written = write_output_type(value)
        if written is None:
            message = f"The {spot.shown} is a JSON schema that a cell would not take as it is."
            raise spot.refuse(f"{message} Bind it to a variable, and give the namespace that has it.")
        return written

    # parts with keys of their own

    def _write_part(self, value: Definition, spot: Spot) -> dict[str, Any]:
        schema = next(each for each in vocabulary.SCHEMAS if each.definition is type(value))
        return self.write_section(value, schema, f"{spot.key.name} of {spot.label}")

    def _write_rate(self, value: RateLimit, spot: Spot) -> Any:
        if (name := self._name_limit(value, spot)) is not None:
            return name
        written = self._write_part(value, spot)
        text = f"{value.requests}/{_UNITS.get(value.period)}"
        try:
            is_short = "wait_timeout" not in written and read_rate(text) == {
                "requests": value.requests,
                "period": value.period,
            }
        except AmountError:
            return written
        return text if is_short else written

    def _write_budget(self, value: Budget, spot: Spot) -> Any:
        if (name := self._name_limit(value, spot)) is not None:
            return name
        if value.is_shared:
            message = f"The {spot.shown} is shared with other runs, so a cell has to name its variable."
            raise spot.refuse(f"{message} Bind it to one, and give the namespace that has it.")
        written = self._write_part(value, spot)
        if written.keys() - value.limits.keys():
            return written
        text = ", ".join(self._write_limit(name, limit) for name, limit in value.limits.items())
        try:
            found = read_budget(text)
        except AmountError:
            return written
        limits = {name: Decimal(found[name]) if name in found else None for name in value.limits}
        is_same = limits == {name: Decimal(limit) for name, limit in value.limits.items()}
        return text if is_same and found.get("currency", self._currency) == self._currency else written

    def _write_limit(self, name: str, limit: Decimal | int) -> str:
        if name == "max_cost":
            sign = _SIGNS.get(self._currency)
            return f"{sign}{limit:f}" if sign else f"{limit:f} {self._currency}"
        count = f"{int(limit) // 1000}k" if int(limit) % 1000 == 0 else str(limit)
        return f"{count} {'tokens' if name == 'max_tokens' else 'calls'}"

    def _name_limit(self, value: RateLimit | Budget, spot: Spot) -> str | None:
        """Find the variable of a limit. One that several hold is one for all of them, so it needs one."""
        name = self.names.look_up(value)
        if name is None and (first := self._limits.get(id(value))) is not None:
            message = f"The {spot.shown} is the same object as the {first}, and in a cell they would be two."
            raise spot.refuse(f"{message} Bind it to a variable, and give the namespace that has it.")
        self._limits[id(value)] = spot.shown
        return name

    def _write_reviews(self, value: Sequence[Review], spot: Spot) -> Any:
        gates = [self._write_part(each, spot) for each in value]
        short = [
            gate if gate.keys() - {"timing"} else each.timing.value for gate, each in zip(gates, value, strict=True)
        ]
        return short[0] if len(short) == 1 else short

    def _write_scopes(self, value: Sequence[str], spot: Spot) -> Any:
        for each in value:
            _check_text(each, spot)
        return write_names(list(value), spot)

    # files

    def _write_store(self, value: Any, spot: Spot) -> Any:
        from ensemble_notebook.memory.full_text_store import InMemoryStore, Retention, SqliteMemory

        if self.names.look_up(value) is None and getattr(value, "retention", None) == Retention():
            if type(value) is SqliteMemory:
                here = Path.cwd()
                text = (value.path.relative_to(here) if value.path.is_relative_to(here) else value.path).as_posix()
                return text if "/" in text or text.endswith(STORE_ENDINGS) else f"./{text}"
            if type(value) is InMemoryStore:
                return True
        return self._name(value, spot)

    def _write_exporter(self, value: Any, spot: Spot) -> str:
        from ensemble_notebook.trace.exporters import JsonTraceExporter

        if type(value) is JsonTraceExporter and self.names.look_up(value) is None:
            return str(value.path) if value.path.suffix == ".json" else f"{value.path}/"
        return self._name(value, spot)


def write_names(names: list[str], spot: Spot) -> Any:
    """Write names: a single one stands alone.

    Raises:
        ValidationError: one stands twice, which a cell does not take.
    """
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise spot.refuse(f"The {spot.shown} has {repeated!r} twice, and a cell takes it once.")
    return names[0] if len(names) == 1 and "," not in names[0] else names


def _check_text(text: str, spot: Spot) -> None:
    """Refuse what can't stand in a cell.

    Raises:
        ValidationError: the text holds a key, or half of a character.
    """
    if has_secret(text):
        message = f"The {spot.shown} holds what looks like a key, and keys never stand in a cell."
        raise spot.refuse(f"{message} Put it into an environment variable.")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise spot.refuse(f"The {spot.shown} holds half of a character (a lone surrogate), which no cell can hold.")


def _write_decimal(value: Decimal, _: Spot) -> Digits:
    text = f"{value:f}"
    return Digits(text if len(text) <= _LONGEST_NUMBER else str(value))


# The written form is read back and used only if it gives the same schema.

_NAMES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_OBJECT: Final = {"type", "properties", "required", "additionalProperties"}


def write_output_type(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write a JSON schema as a cell has it; None where a cell can't say it."""
    for written in (_write_fields(schema), _to_plain(schema)):
        if isinstance(written, dict) and _read(written) == _order(_to_plain(schema)):
            return written
    return None


def _read(written: dict[str, Any]) -> Any:
    """What a cell would read, in its order; None where it would not read it."""
    report = MistakeReport(SourceText(write_flow(written)))
    try:
        with report:
            node = read_tree(report)
            found = read_inline_type(node, "it", report) if isinstance(node, MappingNode) else None
    except CellError:
        return None
    return _order(found)


def _order(schema: Any) -> Any:
    """The same with the order of mappings in it, which models see."""
    if isinstance(schema, Mapping):
        return [(name, _order(each)) for name, each in schema.items()]
    return [_order(each) for each in schema] if isinstance(schema, list) else (type(schema), schema)


def _to_plain(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {name: _to_plain(each) for name, each in schema.items()}
    return [_to_plain(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _write_fields(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write an object as its fields; None where it is none that fields could mean."""
    properties = schema.get("properties")
    if set(schema) != _OBJECT or not isinstance(properties, Mapping) or not properties:
        return None
    written = {}
    for name, each in properties.items():
        kind = _write_type(each) if isinstance(each, Mapping) else None
        if kind is None:
            return None
        is_optional = name not in schema["required"]
        if is_optional and not isinstance(kind, str):
            return None
        if is_optional:
            kind = " | ".join(part for part in kind.split(" | ") if part != "null") + "?"
        written[name] = kind
    return written


def _write_type(schema: Mapping[str, Any]) -> Any:
    if not schema:
        return "any"
    if isinstance(schema.get("enum"), list):
        words = [each for each in schema["enum"] if each is not None]
        return " | ".join(each if isinstance(each, str) else write_flow(each) for each in words)
    if set(schema) == {"type", "items"} and schema["type"] == "array":
        items = _write_type(schema["items"]) if isinstance(schema["items"], Mapping) else None
        return None if items is None else [items]
    if set(schema) == {"type"}:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        names = [_NAMES.get(each) if isinstance(each, str) else None for each in kinds]
        return " | ".join(each for each in names if each is not None) if all(names) else None
    return _write_fields(schema)


# It goes by the vocabulary, so that a new word is written once it has a row there.

_PLAIN: Final = (str, int, float, bool, Enum)
_COLLECTIONS: Final = (tuple, dict, MappingProxyType)


def list_written(definition: Definition, schema: SectionSchema) -> Iterator[tuple[Key, Any]]:
    """List the keys of a definition that have to be written, with their values, in the order of the definition."""
    for key in schema.keys.values():
        value = getattr(definition, key.name)
        if not _is_default(definition, key, value):
            yield key, value


def _is_default(definition: Definition, key: Key, value: Any) -> bool:
    """Whether a value is what holds without its key."""
    kind: Any = type(definition)
    field = kind.__dataclass_fields__[key.name]
    default = key.default if field.default is MISSING else field.default
    if value is default or isinstance(value, TextOfPrompt):
        return True
    if default is None or default == ():
        return type(value) in _COLLECTIONS and not value
    return isinstance(default, _PLAIN) and isinstance(value, _PLAIN) and value == default
