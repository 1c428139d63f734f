"""A LangChain vector store as a memory: entries are found by meaning (E44).

Knows the vector store by its methods only; imports none.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.memory import MemoryEntry, MemoryStore, is_path, is_vector_store
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import SuggestsNames, ValidationError
from ensemble_notebook.memory.full_text_store import InMemoryStore, SqliteMemory

# What the metadata of our documents are called, so that they don't meet those of others. 0.1.0 wrote them bare.
_PREFIX: Final = "ensemble_"
_SCOPE: Final = "scope"
_CREATED_AT: Final = "created_at"
# So many documents are read through at most for those of one scope.
_READ_LIMIT: Final = 4096


class ScopeFilter(dict[str, str]):
    """A filter on the metadata in both common dialects: a mapping, or a function of a document or its metadata."""

    def __call__(self, document: Any) -> bool:
        """Whether a document is of the scope."""
        metadata = getattr(document, "metadata", document) or {}
        return all(metadata.get(name) == value for name, value in self.items())


class VectorStoreMemory(SuggestsNames):
    """A LangChain vector store as a memory. It has no limits of its own for age or number of entries.

    Documents that others put into the store belong to every scope. Those of tasks have their scope in the metadata, as
    ``ensemble_scope``.

    Args:
        store: an object with ``add_texts`` and ``similarity_search``, or their async variants, which are preferred.
        read_only: False lets tasks write into the store.

    Attributes:
        read_only: as given.
        is_wrapped: whether `wrap` has made it.

    Raises:
        ValidationError: the object has no such methods.
    """

    def __init__(self, store: Any, *, read_only: bool = True) -> None:
        if not is_vector_store(store):
            wanted = "an object with add_texts and similarity_search"
            raise ValidationError(f"VectorStoreMemory takes {wanted}, got {type(store).__name__}.")
        if not isinstance(read_only, bool):
            raise ValidationError(f"VectorStoreMemory read_only must be True or False, got {read_only!r}.")
        self._store = store
        self.read_only = read_only
        self.is_wrapped = False

    @classmethod
    def wrap(cls, store: Any) -> VectorStoreMemory:
        """Make one of a store that was given as it is: nobody said that tasks may not write, so a run tells of it.

        Args:
            store: as for the constructor.
        """
        made = cls(store)
        made.is_wrapped = True
        return made

    async def store(self, scope: str, entry: MemoryEntry, /) -> None:
        """As `MemoryStore.store`; secrets are masked.

        Raises:
            ValidationError: the store is read-only.
        """
        if self.read_only:
            remedy = "Where tasks may write into it, give memory=VectorStoreMemory(store, read_only=False)."
            raise ValidationError(f"This vector store is only read. {remedy}")
        metadata = {f"{_PREFIX}{name}": mask(value) for name, value in entry.metadata.items()}
        metadata[f"{_PREFIX}{_SCOPE}"] = scope
        metadata[f"{_PREFIX}{_CREATED_AT}"] = (entry.created_at or datetime.now(UTC)).isoformat()
        await self._call_store("add_texts", [mask(entry.text)], [metadata])

    async def retrieve(self, scope: str, query: str, limit: int, /) -> list[MemoryEntry]:
        """As `MemoryStore.retrieve`; finds entries of the scope, and documents of no scope, by meaning."""
        if limit <= 0:
            return []
        query = query if query.strip() else scope  # services refuse to embed nothing
        found, is_all = await self._search_all_scopes(scope, query, limit)
        if len(found) < limit and not is_all:
            found += [each for each in await self._search_with_filter(scope, query, limit) if each not in found]
        return [_to_entry(document) for document in found[:limit]]

    async def _search_all_scopes(self, scope: str, query: str, limit: int) -> tuple[list[Any], bool]:
        """Search in all scopes, for more and more documents, until enough fit; and whether these were all there are."""
        count = 4 * limit
        while True:
            found: Sequence[Any] = list(await self._call_store("similarity_search", query, k=count))
            fitting = [document for document in found if _find_scope(document) in (scope, None)]
            if len(fitting) >= limit or len(found) < count or count >= _READ_LIMIT:
                return fitting, len(found) < count
            count = min(4 * count, _READ_LIMIT)

    async def _search_with_filter(self, scope: str, query: str, limit: int) -> list[Any]:
        """Search with a filter on the scope, for a few entries among many of others, where the store takes one."""
        found: list[Any] = []
        for name in (f"{_PREFIX}{_SCOPE}", _SCOPE):
            wanted = ScopeFilter({name: scope})
            try:
                filtered = await self._call_store("similarity_search", query, k=limit, filter=wanted)
            except Exception:  # noqa: BLE001 - each store refuses in its own way; what is wrong was told without it
                continue
            found += [document for document in filtered if _find_scope(document) == scope]
        return found

    async def _call_store(self, name: str, *args: Any, **settings: Any) -> Any:
        method = getattr(self._store, f"a{name}", None)
        if method is not None:
            return await method(*args, **settings)
        return await asyncio.to_thread(getattr(self._store, name), *args, **settings)

    def __repr__(self) -> str:
        """Say the kind of its store."""
        return f"VectorStoreMemory({type(self._store).__name__}{'' if self.read_only else ', read_only=False'})"


def _get_metadata(document: Any) -> Mapping[str, Any]:
    """The metadata of a document, whose keys are texts; none where it has something else."""
    metadata = getattr(document, "metadata", None)
    if not isinstance(metadata, Mapping):
        return {}
    return {str(name): value for name, value in metadata.items()}


def _find_scope(document: Any) -> str | None:
    """The scope of a document that a task stored; None for documents of others."""
    metadata = _get_metadata(document)
    scope = metadata.get(f"{_PREFIX}{_SCOPE}")
    if scope is None and _read_time(metadata.get(_CREATED_AT)) is not None:
        scope = metadata.get(_SCOPE)  # as 0.1.0 wrote it, both together
    return scope if isinstance(scope, str) else None


def _to_entry(document: Any) -> MemoryEntry:
    metadata = _get_metadata(document)
    own = _find_scope(document) is not None
    prefix = _PREFIX if f"{_PREFIX}{_SCOPE}" in metadata else ""
    kept = (f"{prefix}{_SCOPE}", f"{prefix}{_CREATED_AT}") if own else ()
    return MemoryEntry(
        text=str(getattr(document, "page_content", document)),
        created_at=_read_time(metadata.get(f"{prefix}{_CREATED_AT}")),
        metadata={name.removeprefix(prefix): str(value) for name, value in metadata.items() if name not in kept},
    )


def _read_time(text: Any) -> datetime | None:
    """A time with its zone, as our documents have it; None for anything else."""
    try:
        time = datetime.fromisoformat(text)
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (OverflowError, TypeError, ValueError):
        return None


def to_memory(value: Any) -> MemoryStore:
    """Convert an object to a memory: one with `store` and `retrieve`, or a vector store.

    Raises:
        ValidationError: it is neither.
    """
    if all(callable(getattr(value, name, None)) for name in ("store", "retrieve")) and not isinstance(value, type):
        return cast(MemoryStore, value)
    if is_vector_store(value):
        return cast(MemoryStore, VectorStoreMemory.wrap(value))
    kind = value.__name__ if isinstance(value, type) else type(value).__name__
    known = "an object with store(scope, entry) and retrieve(scope, query, limit), or a LangChain vector store"
    raise ValidationError(f"A memory is {known}; got {kind}.")


def open_memory(given: bool | str | os.PathLike[str]) -> MemoryStore | None:
    """Make the store that a short form means: True is a new one in memory, a path one in that file, False none.

    Raises:
        ValidationError: the text is no path, or the file can't be used.
    """
    if isinstance(given, bool):
        return InMemoryStore() if given else None
    if isinstance(given, str) and not is_path(given):
        wanted = "an object with store and retrieve, True, or the path of a file such as 'notes.db'"
        raise ValidationError(f"Ensemble memory must be {wanted}, got {given!r}.")
    return SqliteMemory(given)
