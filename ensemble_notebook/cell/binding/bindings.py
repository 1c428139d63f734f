"""The values of a draft with the notebook's names resolved, and parts made into definitions (C4).

What refers to members of the cell is made in `assembly`, which adds its ways for those kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ensemble_notebook.cell.binding.definitions import Construction
from ensemble_notebook.cell.binding.names import EXPORTERS, FUNCTIONS, LIMITS, PROMPTS, STORES, Resolver, Unimported
from ensemble_notebook.cell.language.cell_schema import Key
from ensemble_notebook.cell.language.vocabulary import Kind
from ensemble_notebook.cell.reading.drafts import Draft
from ensemble_notebook.cell.text.mistakes import MisreadError, Report
from ensemble_notebook.cell.text.yaml_nodes import ScalarNode
from ensemble_notebook.domain.definitions.definition import Checked

Binder = Callable[[Draft, Key, Any], Any]


class Binding:
    """Binds the values of drafts.

    Attributes:
        binders: how each kind of value is bound, from its draft, its key and itself; None leaves it out. Kinds
            without one are taken as they are.
    """

    def __init__(self, resolver: Resolver, construction: Construction, report: Report) -> None:
        self._resolver, self._construction, self._report = resolver, construction, report
        self.binders: Mapping[Kind, Binder | None] = {
            Kind.MODEL: self._model,
            Kind.OBJECT: self._object,
            Kind.PROMPT: self._prompt,
            Kind.OBJECTS: self._functions,
            Kind.FUNCTIONS: self._functions,
            Kind.SHAPE: self._shape,
            Kind.COST: self.made,
            Kind.RATE: self._limit,
            Kind.BUDGET: self._limit,
            Kind.REVIEW: self.all_made,
            Kind.CONSTRAINTS: self.made,
            Kind.MEMORIES: self._texts,
            Kind.STORE: self._store,
            Kind.EXPORTER: self._exporter,
        }

    def fields(self, draft: Draft) -> dict[str, Any]:
        """The values of a draft, ready for its definition; what can't be bound is reported and left out."""
        found = {}
        for name, value in draft.values.items():
            key = draft.scope.keys.get(name)
            if key is None:
                continue
            binder = self.binders.get(key.kind, _as_it_is)
            if binder is None:
                continue
            try:
                found[name] = binder(draft, key, value)
            except MisreadError as misread:
                self._report.misread(misread)
        return found

    def made(self, _: Draft, key: Key, value: Draft) -> Checked:
        """A part as its definition."""
        cls = value.scope.definition
        assert cls is not None, key.name
        return self._construction.make(cls, value, self.fields(value))

    def all_made(self, draft: Draft, key: Key, value: Iterable[Draft]) -> tuple[Checked, ...]:
        """Parts as their definitions; one that can't be made is left out."""
        return self.each(draft, key, value, lambda part: self.made(draft, key, part))

    def each(self, draft: Draft, key: Key, values: Iterable[Any], make: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Something made of every item that is no mistake; their places are kept."""
        found, places = [], []
        for value in values:
            try:
                found.append(make(value))
                places.append(value.place)
            except MisreadError as misread:
                self._report.misread(misread)
        self._construction.place_items(draft, key.name, dict(enumerate(places)))
        return tuple(found)

    def _model(self, _: Draft, __: Key, value: Any) -> Any:
        if isinstance(value, ScalarNode):
            return self._resolver.model(value)
        return self._resolver.server(value) if isinstance(value, Draft) else value

    def _object(self, _: Draft, key: Key, value: ScalarNode) -> Any:
        return self._resolver.find(value, FUNCTIONS, key.word.label)

    def _prompt(self, _: Draft, __: Key, value: ScalarNode) -> Any:
        return self._resolver.find(value, PROMPTS)

    def _functions(self, draft: Draft, key: Key, value: Iterable[ScalarNode]) -> tuple[Any, ...]:
        """Functions; a stand-in where there is none, so that the others are checked, too."""
        return self.each(draft, key, value, lambda node: self._function(node, key.word.label))

    def _function(self, node: ScalarNode, label: str) -> Any:
        try:
            return self._resolver.find(node, FUNCTIONS, label)
        except MisreadError as misread:
            self._report.misread(misread)
            return Unimported(node.text)

    def _shape(self, _: Draft, __: Key, value: Any) -> Any:
        return self._resolver.shape(value) if isinstance(value, ScalarNode) else value

    def _limit(self, draft: Draft, key: Key, value: Draft | ScalarNode) -> Any:
        """A limit of its own, or one of the notebook, which is shared with whoever else holds it."""
        if isinstance(value, Draft):
            return self.made(draft, key, value)
        found = self._resolver.find(value, LIMITS[key.kind])
        return None if isinstance(found, Unimported) else found

    def _texts(self, draft: Draft, key: Key, value: Iterable[ScalarNode]) -> tuple[str, ...]:
        return self.each(draft, key, value, lambda node: node.text.strip())

    def _store(self, _: Draft, __: Key, value: bool | ScalarNode) -> Any:
        if isinstance(value, bool):
            return self._resolver.store(None) if value else None
        if _is_path(value.text, (".db", ".sqlite", ".sqlite3")):
            return self._resolver.store(value)
        return self._resolver.find(value, STORES)

    def _exporter(self, _: Draft, __: Key, value: ScalarNode) -> Any:
        if _is_path(value.text, (".json",)):
            return self._resolver.exporter(value)
        return self._resolver.find(value, EXPORTERS)


def _is_path(text: str, endings: tuple[str, ...]) -> bool:
    """True for a text that means a file or folder and no name of the notebook."""
    return "/" in text or "\\" in text or text.endswith(endings)


def _as_it_is(_: Draft, __: Key, value: Any) -> Any:
    return value
