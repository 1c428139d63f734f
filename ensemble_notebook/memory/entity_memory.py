"""Facts about people, places and things, found when they are mentioned by name (E44).

Why not ask a model who is meant: a task would wait and pay for it, and nobody could tell what it will be given.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook.domain.definitions.memory import MemoryEntry, MemoryKind, get_memory_kind
from ensemble_notebook.errors import SuggestsNames, ValidationError
from ensemble_notebook.memory.full_text_store import InMemoryStore, split_words
from ensemble_notebook.memory.vector_store_memory import to_memory

_ENTITY: Final = "entity"
# So many entries are looked through for the ones that are meant.
_MAX_CANDIDATES: Final = 200


class EntityMemory(SuggestsNames):
    """A store one scope of which holds facts about entities; all else is passed on as it is.

    ::

        memory = EntityMemory(SqliteMemory("~/lesson.db"))
        memory.put("Ada Lovelace", "wrote the first program")
        Ensemble(memory=memory, tasks=[Task.of("Write about Ada Lovelace", memory=("entities", "drafts"))])

    A task that reads the scope is given the facts whose entity its query mentions, as whole words in any case, and
    whatever else was stored there and fits.

    Args:
        store: where everything is kept, with plain methods; left out, an `InMemoryStore`.
        scope: the one with the facts.

    Raises:
        ValidationError: it is no such store.
    """

    def __init__(self, store: Any = None, *, scope: str = "entities") -> None:
        memory = InMemoryStore() if store is None else to_memory(store)
        if inspect.iscoroutinefunction(memory.retrieve):
            raise ValidationError(f"EntityMemory needs a store with plain methods, got {memory!r}.")
        self._store: Any = memory  # a `MemoryStore` whose methods are plain, as they are called here
        self._scope = scope

    def put(self, name: str, fact: str) -> None:
        """Keep a fact about an entity. A fact that is already known is not kept twice.

        Args:
            name: of the entity.
            fact: a text.

        Raises:
            ValidationError: the name has no letters or digits, or the fact is blank.
        """
        if not split_words(name) or not fact.strip():
            raise ValidationError(f"A fact has a name and a text, got {name!r} and {fact!r}.")
        name, fact = name.strip(), fact.strip()
        if fact not in self.get(name):
            entry = MemoryEntry(text=f"{name}: {fact}", created_at=datetime.now(UTC), metadata={_ENTITY: name})
            self._store.store(self._scope, entry)

    def get(self, name: str) -> tuple[str, ...]:
        """The facts about an entity, in the order in which they were put.

        Args:
            name: of the entity.
        """
        found: Sequence[MemoryEntry] = self._store.retrieve(self._scope, name, _MAX_CANDIDATES)
        about = [each for each in found if split_words(each.metadata.get(_ENTITY, "")) == split_words(name)]
        about.sort(key=lambda entry: (entry.created_at is not None, entry.created_at))
        return tuple(each.text.removeprefix(f"{each.metadata[_ENTITY]}: ") for each in about)

    def store(self, scope: str, entry: MemoryEntry, /) -> object:
        """As `MemoryStore.store`, in any scope."""
        kept: object = self._store.store(scope, entry)
        return kept

    def retrieve(self, scope: str, query: str, limit: int, /) -> Sequence[MemoryEntry]:
        """As `MemoryStore.retrieve`; leaves out facts about entities that the query does not mention."""
        if scope != self._scope:
            others: Sequence[MemoryEntry] = self._store.retrieve(scope, query, limit)
            return others
        found = self._store.retrieve(scope, query, max(limit, _MAX_CANDIDATES))
        return [entry for entry in found if _is_mentioned(query, entry.metadata.get(_ENTITY))][: max(0, limit)]

    def get_kind(self, scope: str, /) -> MemoryKind:
        """Say which scope holds the facts; for other scopes, as the wrapped store.

        Args:
            scope: its name.
        """
        return "entity" if scope == self._scope else get_memory_kind(self._store, scope)

    def __repr__(self) -> str:
        """Say what it keeps its facts in."""
        return f"EntityMemory({self._store!r}, scope={self._scope!r})"


def _is_mentioned(query: str, entity: str | None) -> bool:
    """Whether a query names an entity, by whole words; what is about no entity counts as named."""
    return entity is None or f" {' '.join(split_words(entity))} " in f" {' '.join(split_words(query))} "
