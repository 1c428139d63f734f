"""The pairs of a mapping as the fields of a draft: which key is meant, and what form its value has (C2, C3, C11).

Knows what every place in a cell has in common; agents, tasks and phases are read in `member`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ensemble_notebook.cell import schema, value
from ensemble_notebook.cell.draft import Draft, Written
from ensemble_notebook.cell.mistake import MisreadError, Report, listed, nearest_name, quoted
from ensemble_notebook.cell.node import ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.cell.schema import Kind, Scope
from ensemble_notebook.cell.spelling import (
    ASYNC_EXECUTION,
    familiar_names,
    foreign_hint,
    invisible,
    other_scope,
    read_model_spelling,
    read_spelling,
)

Form = Callable[[Node, str], Any]


class FieldReader:
    """Reads mappings into drafts; what can't be read is reported and left out.

    Attributes:
        forms: how each kind of value is read, from its node and its label.
        has_familiar_key: True after a key in another tool's words.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.has_familiar_key = False
        text, names = partial(value.text, report=report), partial(value.names, report=report)
        self.forms: Mapping[Kind, Form] = {
            Kind.TEXT: text,
            Kind.CHOICE: text,
            Kind.FLAG: value.flag,
            Kind.WHOLE: partial(value.number, wanted=Kind.WHOLE.value),
            Kind.SECONDS: partial(value.number, wanted=Kind.SECONDS.value),
            Kind.PRICE: self._price,
            Kind.AGENT: partial(self._name, wanted=Kind.AGENT.value),
            Kind.OBJECT: partial(self._name, wanted=Kind.OBJECT.value),
            Kind.NAMES: partial(names, wanted=Kind.NAMES.value),
            Kind.OBJECTS: partial(names, wanted=Kind.OBJECTS.value),
            Kind.MODEL: self._model,
            Kind.INPUTS: self._inputs,
            Kind.COST: partial(self.part, scope=schema.COST),
        }

    def fields(self, node: MappingNode, draft: Draft) -> None:
        """Read every pair of a mapping into a draft, and miss what is required."""
        for key, each in node.pairs:
            try:
                name = self._key(key, each, draft)
                self._field(draft, name, Written(key.place, each))
            except MisreadError as misread:
                self.report.misread(misread)
        meant = {self._meant(draft.scope, key.text) for key, _ in node.pairs} - {None}
        draft.has_unknown = draft.has_unknown or node.is_partial
        if draft.written or meant or not draft.has_unknown:  # where no key makes sense, that has been said
            self._require(draft, meant)

    def _require(self, draft: Draft, meant: set[str | None]) -> None:
        """Report what is required and neither written nor misspelt."""
        for key in draft.scope.keys.values():
            if key.is_required and key.name not in draft.written and key.name not in meant:
                hint = f"Add `{key.name}: ...`, {key.meaning}."
                self.report.mistake(draft.place, f"{draft.label} needs the key {key.name!r}.", hint)

    def mapping(self, node: Node, label: str, hint: str) -> MappingNode:
        """The node as a mapping."""
        value.expect_written(node, label)
        if isinstance(node, MappingNode):
            return node
        raise MisreadError(node.place, f"{label} takes a mapping, and this is {value.describe(node)}.", hint)

    def part(self, node: Node, label: str, *, scope: Scope) -> Draft:
        """A mapping inside a value, with keys of its own."""
        draft = Draft(scope, label, node.place)
        self.fields(self.mapping(node, label, f"Write {listed(f'{name}: ...' for name in scope.keys)}."), draft)
        return draft

    def _field(self, draft: Draft, name: str, written: Written) -> None:
        label = f"{name!r} of {draft.label}"
        if name in draft.written:
            first = draft.written[name].key.line
            message = f"{label} is given twice; the first one, in another spelling, is in line {first}."
            raise MisreadError(written.key, message, "Remove one of them.")
        draft.written[name] = written
        if name == ASYNC_EXECUTION:
            draft.values[name] = value.flag(written.value, label)
            return
        key, node = draft.scope.keys[name], written.value
        if key.is_nullable and isinstance(node, ScalarNode) and node.is_plain and node.text in ("null", "~"):
            draft.values[name] = None
        else:
            draft.values[name] = self.forms[key.kind](node, label)

    def _key(self, key: ScalarNode, node: Node, draft: Draft) -> str:
        """The field that a key names; reports every spelling that is not the language's own."""
        scope, word = draft.scope, key.text
        spelling = read_spelling(scope, word)
        if spelling.name not in scope.keys and spelling.name != ASYNC_EXECUTION:
            raise self._unknown(key, node, draft)
        if spelling.is_familiar:
            self.has_familiar_key = self.has_familiar_key or word in familiar_names(scope)
            self.report.notice(key.place, f"{word!r} of {draft.label} is read as {spelling.name!r}.")
        return spelling.name

    def _unknown(self, key: ScalarNode, node: Node, draft: Draft) -> MisreadError:
        scope, word = draft.scope, key.text
        draft.has_unknown = True
        message = f"unknown key {quoted(word)} in {draft.label}."
        has = f"{scope.label[0].upper()}{scope.label[1:]} has: {listed(scope.keys, 20)}."
        if odd := invisible(word):
            message = f"the key {quoted(word)} in {draft.label} holds the invisible character {odd}."
            return MisreadError(key.place, message, "Delete it and type the key again.")
        if foreign := foreign_hint(word):
            return MisreadError(key.place, f"{word!r} of {draft.label} has no counterpart here.", foreign)
        if close := self._meant(scope, word):
            return MisreadError(key.place, f"{message} Did you mean {close!r}?", has)
        if other := other_scope(scope, word):
            return MisreadError(key.place, f"{message} It is a key of {other.label}: look at its indentation.", has)
        if scope is schema.TASK and " " in word.strip() and isinstance(node, ScalarNode):
            return MisreadError(key.place, f"{message} Put the text in quotes if ': ' belongs to it.", has)
        if scope is schema.CELL and isinstance(node, ListNode | MappingNode | ScalarNode):
            return MisreadError(key.place, f"{message} Agents stand under `agents:`, tasks under `tasks:`.", has)
        return MisreadError(key.place, message, has)

    def _meant(self, scope: Scope, word: str) -> str | None:
        """The key that an unknown one is a misspelling of."""
        return None if word in scope.keys else nearest_name(word, [*scope.keys, *familiar_names(scope)])

    def _price(self, node: Node, label: str) -> str:
        """A price keeps its digits: as text, it loses nothing on its way to a decimal."""
        value.number(node, label, wanted=Kind.PRICE.value)
        return value.scalar(node, label, Kind.PRICE.value).text

    def _name(self, node: Node, label: str, *, wanted: str) -> ScalarNode:
        """A name stays a node, so that a mistake about it can be shown where it stands."""
        found = value.scalar(node, label, wanted)
        value.text(node, label, report=self.report)
        return found

    def _model(self, node: Node, label: str) -> ScalarNode | Draft:
        if isinstance(node, MappingNode):
            return self.part(node, label, scope=schema.MODEL)
        found = self._name(node, label, wanted=Kind.MODEL.value)
        familiar = read_model_spelling(found.text)
        if familiar != found.text:
            self.report.notice(found.place, f"{quoted(found.text)} is read as {quoted(familiar)}.")
            found = ScalarNode(found.start, found.end, found.place, familiar, is_plain=found.is_plain)
        return found

    def _inputs(self, node: Node, label: str) -> dict[str, Any]:
        found = {}
        for name, each in self.mapping(node, label, "Write `name: value` below it, indented.").pairs:
            try:
                found[name.text] = value.data(each, f"the input {quoted(name.text)}")
            except MisreadError as misread:
                self.report.misread(misread)
        return found
