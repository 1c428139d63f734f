"""The pairs of a mapping as the fields of a draft: which key is meant, and what form its value has (C2, C3, C11).

Knows what every place in a cell has in common; agents, tasks and phases are read in `member`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from ensemble_notebook.cell.language import cell_schema as schema
from ensemble_notebook.cell.language.cell_schema import Scope, Spread
from ensemble_notebook.cell.language.spellings import (
    ASYNC_EXECUTION,
    Spelling,
    familiar_names,
    foreign_hint,
    invisible,
    other_scope,
    read_model_spelling,
    read_spelling,
)
from ensemble_notebook.cell.language.vocabulary import Kind
from ensemble_notebook.cell.reading import values as value
from ensemble_notebook.cell.reading.drafts import Draft, Written
from ensemble_notebook.cell.text.mistakes import MisreadError, Report, listed, nearest_name, quoted
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

Form = Callable[[Node, str], Any]
T = TypeVar("T")
R = TypeVar("R")


class FieldReader:
    """Reads mappings into drafts; what can't be read is reported and left out.

    Attributes:
        forms: how each kind of value is read, from its node and its label.
        spelled: how the value of a key is read that another tool means otherwise, by that tool's word.
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
            Kind.SHARE: partial(value.number, wanted=Kind.SHARE.value),
            Kind.PRICE: partial(self._digits, wanted=Kind.PRICE.value),
            Kind.AMOUNT: partial(self._digits, wanted=Kind.AMOUNT.value),
            Kind.AGENT: partial(self.name, wanted=Kind.AGENT.value),
            Kind.OBJECT: partial(self.name, wanted=Kind.OBJECT.value),
            Kind.PROMPT: partial(self.name, wanted=Kind.PROMPT.value),
            Kind.EXPORTER: partial(self.name, wanted=Kind.EXPORTER.value),
            Kind.NAMES: partial(names, wanted=Kind.NAMES.value),
            Kind.OBJECTS: partial(names, wanted=Kind.OBJECTS.value),
            Kind.ROLES: partial(names, wanted=Kind.ROLES.value),
            Kind.MODEL: self._model,
            Kind.INPUTS: self._inputs,
            Kind.COST: partial(self.part, scope=schema.COST),
        }
        self.spelled: Mapping[str, Form] = {}

    def fields(self, node: MappingNode, draft: Draft) -> None:
        """Read every pair of a mapping into a draft, and miss what is required."""
        for key, each in node.pairs:
            try:
                spelling = self._key(key, each, draft)
                if spread := draft.scope.spreads.get(spelling.name):
                    self._spread(draft, spread, Written(key.place, each))
                else:
                    self._field(draft, spelling, Written(key.place, each))
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

    def each(self, items: Iterable[T], read: Callable[[T], R]) -> list[R]:
        """What every item is read as; those that can't be read are reported and left out."""
        found = []
        for item in items:
            try:
                found.append(read(item))
            except MisreadError as misread:
                self.report.misread(misread)
        return found

    def part(self, node: Node, label: str, *, scope: Scope) -> Draft:
        """A mapping inside a value, with keys of its own."""
        draft = Draft(scope, label, node.place)
        self.fields(self.mapping(node, label, f"Write {listed(f'{name}: ...' for name in scope.keys)}."), draft)
        return draft

    def _field(self, draft: Draft, spelling: Spelling, written: Written) -> None:
        name = spelling.name
        label = f"{spelling.shown!r} of {draft.label}"
        _claim(draft, name, label, written)
        if name == ASYNC_EXECUTION:
            draft.values[name] = value.flag(written.value, label)
            return
        key, node = draft.scope.keys[name], written.value
        if key.word.is_nullable and isinstance(node, ScalarNode) and node.is_plain and node.text in ("null", "~"):
            draft.values[name] = None
        else:
            form = self.spelled.get(spelling.word) or self.forms[key.kind]
            draft.values[name] = form(node, label)

    def _spread(self, draft: Draft, spread: Spread, written: Written) -> None:
        """A word that holds several fields of the draft; a single value stands for the leading one."""
        label = f"{spread.scope.name!r} of {draft.label}"
        if isinstance(written.value, MappingNode):
            inner = Draft(spread.scope, label, written.key)
            self.fields(written.value, inner)
        else:
            inner = Draft(spread.scope, draft.label, written.key)
            self._field(inner, Spelling(spread.lead, spread.lead, spread.scope.name), written)
        for word, each in inner.written.items():
            name = spread.fields[word]
            _claim(draft, name, f"{word!r} of {label}", each)
            if word in inner.values:
                draft.values[name] = inner.values[word]

    def _key(self, key: ScalarNode, node: Node, draft: Draft) -> Spelling:
        """The field that a key names; reports every spelling that is not the language's own."""
        spelling = read_spelling(draft.scope, key.text)
        if spelling.name not in draft.scope.known and spelling.name != ASYNC_EXECUTION:
            raise self._unknown(key, node, draft)
        if spelling.is_familiar:
            self.has_familiar_key = self.has_familiar_key or key.text in familiar_names(draft.scope)
            self.report.notice(key.place, f"{key.text!r} of {draft.label} is read as {spelling.shown!r}.")
        return spelling

    def _unknown(self, key: ScalarNode, node: Node, draft: Draft) -> MisreadError:
        scope, word = draft.scope, key.text
        draft.has_unknown = True
        message = f"unknown key {quoted(word)} in {draft.label}."
        has = f"{scope.label[0].upper()}{scope.label[1:]} has: {listed(scope.words, 30)}."
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
        known = (*scope.words, *scope.keys, *familiar_names(scope))
        return None if word in scope.known else nearest_name(word, known)

    def _digits(self, node: Node, label: str, *, wanted: str) -> str:
        """Money keeps its digits: as text, it loses nothing on its way to a decimal."""
        value.number(node, label, wanted=wanted)
        return value.scalar(node, label, wanted).text

    def name(self, node: Node, label: str, *, wanted: str) -> ScalarNode:
        """A name stays a node, so that a mistake about it can be shown where it stands."""
        value.text(node, label, report=self.report, wanted=wanted)
        return value.scalar(node, label, wanted)

    def _model(self, node: Node, label: str) -> ScalarNode | Draft:
        if isinstance(node, MappingNode):
            return self.part(node, label, scope=schema.MODEL)
        found = self.name(node, label, wanted=Kind.MODEL.value)
        familiar = read_model_spelling(found.text)
        if familiar != found.text:
            self.report.notice(found.place, f"{quoted(found.text)} is read as {quoted(familiar)}.")
            found = ScalarNode(found.start, found.end, found.place, familiar, is_plain=found.is_plain)
        return found

    def _inputs(self, node: Node, label: str) -> dict[str, Any]:
        def read(pair: tuple[ScalarNode, Node]) -> tuple[str, Any]:
            return pair[0].text, value.data(pair[1], f"the input {quoted(pair[0].text)}")

        return dict(self.each(self.mapping(node, label, "Write `name: value` below it, indented.").pairs, read))


def _claim(draft: Draft, name: str, label: str, written: Written) -> None:
    """Note where a field is written.

    Raises:
        MisreadError: it has been written before, in another spelling.
    """
    if name in draft.written:
        first = draft.written[name].key.line
        message = f"{label} is given twice; the first one, in another spelling, is in line {first}."
        raise MisreadError(written.key, message, "Remove one of them.")
    draft.written[name] = written
