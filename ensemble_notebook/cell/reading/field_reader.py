"""Reads the pairs of a mapping as the fields of a section: finds the key, and reads its kind of value (C2, C3, C11).

Knows what every section has in common; agents, tasks and phases are read in `member_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from ensemble_notebook.cell.language import cell_schema
from ensemble_notebook.cell.language.cell_schema import KeyGroup, SectionSchema
from ensemble_notebook.cell.language.spellings import (
    ASYNC_EXECUTION,
    Spelling,
    find_foreign_hint,
    find_invisible_character,
    find_other_schema,
    list_familiar_words,
    read_model_spelling,
    read_spelling,
)
from ensemble_notebook.cell.language.vocabulary import ValueKind
from ensemble_notebook.cell.reading.sections import KeyValue, Section
from ensemble_notebook.cell.reading.values import (
    describe_node,
    expect_scalar,
    expect_value,
    read_data,
    read_flag,
    read_names,
    read_number,
    read_text,
)
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport, join_names, quote
from ensemble_notebook.cell.text.suggestions import find_nearest_name
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

ValueReader = Callable[[Node, str], Any]
T = TypeVar("T")
R = TypeVar("R")


class FieldReader:
    """Reads mappings into sections; what can't be read is reported and left out.

    Attributes:
        readers: how each kind of value is read, from its node and its label.
        familiar_readers: how the value of a key is read that another tool means otherwise, by that tool's word.
        has_familiar_key: True after a key in another tool's words.
    """

    def __init__(self, report: MistakeReport) -> None:
        self.report = report
        self.has_familiar_key = False
        text, names = partial(read_text, report=report), partial(read_names, report=report)
        self.readers: Mapping[ValueKind, ValueReader] = {
            ValueKind.TEXT: text,
            ValueKind.CHOICE: text,
            ValueKind.FLAG: read_flag,
            ValueKind.NUMBER: partial(read_number, wanted=ValueKind.NUMBER.value),
            ValueKind.EXTRAS: self._read_extras,
            ValueKind.TEXTS: self._read_texts,
            ValueKind.WHOLE: partial(read_number, wanted=ValueKind.WHOLE.value),
            ValueKind.SECONDS: partial(read_number, wanted=ValueKind.SECONDS.value),
            ValueKind.SHARE: partial(read_number, wanted=ValueKind.SHARE.value),
            ValueKind.PRICE: partial(self._read_digits, wanted=ValueKind.PRICE.value),
            ValueKind.AMOUNT: partial(self._read_digits, wanted=ValueKind.AMOUNT.value),
            ValueKind.AGENT: partial(self.read_name, wanted=ValueKind.AGENT.value),
            ValueKind.OBJECT: partial(self.read_name, wanted=ValueKind.OBJECT.value),
            ValueKind.ENSEMBLE: partial(self.read_name, wanted=ValueKind.ENSEMBLE.value),
            ValueKind.PROMPT: partial(self.read_name, wanted=ValueKind.PROMPT.value),
            ValueKind.EXPORTER: partial(self.read_name, wanted=ValueKind.EXPORTER.value),
            ValueKind.NAMES: partial(names, wanted=ValueKind.NAMES.value),
            ValueKind.OBJECTS: partial(names, wanted=ValueKind.OBJECTS.value),
            ValueKind.TOOLS: partial(names, wanted=ValueKind.TOOLS.value),
            ValueKind.ROLES: partial(names, wanted=ValueKind.ROLES.value),
            ValueKind.MODEL: self._read_model,
            ValueKind.INPUTS: self._read_inputs,
            ValueKind.COST: partial(self.read_part, schema=cell_schema.COST),
        }
        self.familiar_readers: Mapping[str, ValueReader] = {}

    def read_fields(self, node: MappingNode, section: Section) -> None:
        """Read every pair of a mapping into a section, and report what is required and missing."""
        for key, each in node.pairs:
            try:
                spelling = self._read_key(key, each, section)
                if key_group := section.schema.key_groups.get(spelling.name):
                    self._read_key_group(section, key_group, KeyValue(key.place, each))
                else:
                    self._read_field(section, spelling, KeyValue(key.place, each))
            except MisreadError as misread:
                self.report.add_misread(misread)
        meant = {self._find_intended(section.schema, key.text) for key, _ in node.pairs} - {None}
        section.has_unknown = section.has_unknown or node.is_partial
        if section.key_values or meant or not section.has_unknown:  # where no key makes sense, that has been said
            self._require(section, meant)

    def _require(self, section: Section, meant: set[str | None]) -> None:
        """Report what is required and neither written nor misspelt."""
        for key in section.schema.keys.values():
            written = section.key_values.keys() | meant
            if key.is_required and key.name not in written and key.word.unless not in written:
                hint = f"Add `{key.name}: ...`, {key.meaning}."
                self.report.add_mistake(section.place, f"{section.label} needs the key {key.name!r}.", hint)

    def expect_mapping(self, node: Node, label: str, hint: str) -> MappingNode:
        """Expect the node to be a mapping."""
        expect_value(node, label)
        if isinstance(node, MappingNode):
            return node
        raise MisreadError(node.place, f"{label} takes a mapping, and this is {describe_node(node)}.", hint)

    def read_each(self, items: Iterable[T], read: Callable[[T], R]) -> list[R]:
        """Read every item; report those that can't be read, and leave them out."""
        found = []
        for item in items:
            try:
                found.append(read(item))
            except MisreadError as misread:
                self.report.add_misread(misread)
        return found

    def read_part(self, node: Node, label: str, *, schema: SectionSchema) -> Section:
        """Read a mapping with keys of its own as a section."""
        section = Section(schema, label, node.place)
        self.read_fields(
            self.expect_mapping(node, label, f"Write {join_names(f'{name}: ...' for name in schema.keys)}."), section
        )
        return section

    def _read_field(self, section: Section, spelling: Spelling, key_value: KeyValue) -> None:
        name = spelling.name
        label = f"{spelling.shown!r} of {section.label}"
        _claim(section, name, label, key_value)
        if name == ASYNC_EXECUTION:
            section.values[name] = read_flag(key_value.value, label)
            return
        key, node = section.schema.keys[name], key_value.value
        if key.word.is_nullable and isinstance(node, ScalarNode) and node.is_plain and node.text in ("null", "~"):
            section.values[name] = None
        else:
            read = self.familiar_readers.get(spelling.word) or self.readers[key.kind]
            section.values[name] = read(node, label)

    def _read_key_group(self, section: Section, key_group: KeyGroup, key_value: KeyValue) -> None:
        """Read a word that holds several fields of the section; a single value is that of the leading one."""
        label = f"{key_group.schema.name!r} of {section.label}"
        if isinstance(key_value.value, MappingNode):
            inner = Section(key_group.schema, label, key_value.key)
            self.read_fields(key_value.value, inner)
        else:
            inner = Section(key_group.schema, section.label, key_value.key)
            self._read_field(inner, Spelling(key_group.lead, key_group.lead, key_group.schema.name), key_value)
        for word, each in inner.key_values.items():
            name = key_group.fields[word]
            _claim(section, name, f"{word!r} of {label}", each)
            if word in inner.values:
                section.values[name] = inner.values[word]

    def _read_key(self, key: ScalarNode, node: Node, section: Section) -> Spelling:
        """Find the field that a key names, and report every spelling that is not the language's own."""
        spelling = read_spelling(section.schema, key.text)
        if spelling.name not in section.schema.known and spelling.name != ASYNC_EXECUTION:
            raise self._explain_unknown_key(key, node, section)
        if spelling.is_familiar:
            self.has_familiar_key = self.has_familiar_key or key.text in list_familiar_words(section.schema)
            self.report.add_notice(key.place, f"{key.text!r} of {section.label} is read as {spelling.shown!r}.")
        return spelling

    def _explain_unknown_key(self, key: ScalarNode, node: Node, section: Section) -> MisreadError:
        schema, word = section.schema, key.text
        section.has_unknown = True
        message = f"unknown key {quote(word)} in {section.label}."
        has = f"{schema.label[0].upper()}{schema.label[1:]} has: {join_names(schema.words, 30)}."
        if odd := find_invisible_character(word):
            message = f"the key {quote(word)} in {section.label} holds the invisible character {odd}."
            return MisreadError(key.place, message, "Delete it and type the key again.")
        if foreign := find_foreign_hint(word):
            return MisreadError(key.place, f"{word!r} of {section.label} has no counterpart here.", foreign)
        if close := self._find_intended(schema, word):
            return MisreadError(key.place, f"{message} Did you mean {close!r}?", has)
        if other := find_other_schema(schema, word):
            return MisreadError(key.place, f"{message} It is a key of {other.label}: look at its indentation.", has)
        if schema is cell_schema.TASK and " " in word.strip() and isinstance(node, ScalarNode):
            return MisreadError(key.place, f"{message} Put the text in quotes if ': ' belongs to it.", has)
        if schema is cell_schema.CELL and isinstance(node, ListNode | MappingNode | ScalarNode):
            return MisreadError(key.place, f"{message} Agents stand under `agents:`, tasks under `tasks:`.", has)
        return MisreadError(key.place, message, has)

    def is_unlike_any_key(self, schema: SectionSchema, word: str) -> bool:
        """Whether nothing is known of a word that could make it a key of this place, or of another one."""
        if read_spelling(schema, word).name in (*schema.known, ASYNC_EXECUTION) or find_invisible_character(word):
            return False
        return not (find_foreign_hint(word) or self._find_intended(schema, word) or find_other_schema(schema, word))

    def _find_intended(self, schema: SectionSchema, word: str) -> str | None:
        """Find the key that an unknown one is a misspelling of, in the words that the list of valid ones has."""
        known = (*schema.words, *schema.keys, *list_familiar_words(schema))
        close = None if word in schema.known else find_nearest_name(word, known)
        return None if close is None else read_spelling(schema, close).shown

    def _read_digits(self, node: Node, label: str, *, wanted: str) -> str:
        """Read money as text: so it loses nothing on its way to a decimal."""
        read_number(node, label, wanted=wanted)
        return expect_scalar(node, label, wanted).text

    def read_name(self, node: Node, label: str, *, wanted: str) -> ScalarNode:
        """Read a name, which stays a node, so that a mistake about it can be shown where it stands."""
        read_text(node, label, report=self.report, wanted=wanted)
        return expect_scalar(node, label, wanted)

    def _read_model(self, node: Node, label: str) -> ScalarNode | Section:
        if isinstance(node, MappingNode):
            return self.read_part(node, label, schema=cell_schema.MODEL)
        found = self.read_name(node, label, wanted=ValueKind.MODEL.value)
        familiar = read_model_spelling(found.text)
        if familiar != found.text:
            self.report.add_notice(found.place, f"{quote(found.text)} is read as {quote(familiar)}.")
            found = ScalarNode(found.start, found.end, found.place, familiar, is_plain=found.is_plain)
        return found

    def _read_extras(self, node: Node, label: str) -> Any:
        self.expect_mapping(node, label, "Write `name: value` below it, indented.")
        return read_data(node, label)

    def _read_texts(self, node: Node, label: str) -> str | list[str]:
        if not isinstance(node, ListNode):
            return read_text(node, label, report=self.report, wanted=ValueKind.TEXTS.value)
        return self.read_each(node.items, lambda item: read_text(item, label, report=self.report, wanted="a text"))

    def _read_inputs(self, node: Node, label: str) -> dict[str, Any]:
        def read(pair: tuple[ScalarNode, Node]) -> tuple[str, Any]:
            return pair[0].text, read_data(pair[1], f"the input {quote(pair[0].text)}")

        return dict(
            self.read_each(self.expect_mapping(node, label, "Write `name: value` below it, indented.").pairs, read)
        )


def _claim(section: Section, name: str, label: str, key_value: KeyValue) -> None:
    """Note where a field is written.

    Raises:
        MisreadError: it has been written before, in another spelling.
    """
    if name in section.key_values:
        first = section.key_values[name].key.line
        message = f"{label} is given twice; the first one, in another spelling, is in line {first}."
        raise MisreadError(key_value.key, message, "Remove one of them.")
    section.key_values[name] = key_value
