"""A LangChain vector store as a memory: entries are found by meaning (E44).

Knows the vector store by its methods only; imports none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook.domain.definitions.memory import MemoryEntry, is_vector_store
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import ValidationError

_SCOPE: Final = "scope"
_CREATED_AT: Final = "created_at"
# Where a store can't filter, so many documents of other scopes are read through at most.
_READ_LIMIT: Final = 4096


class ScopeFilter(dict[str, str]):
    """A filter on the metadata in both common dialects: a mapping, or a function of a document or its metadata."""

    def __call__(self, document: Any) -> bool:
        """Whether a document is of the scope."""
        metadata = getattr(document, "metadata", document)
        return all(metadata.get(name) == value for name, value in self.items())


class VectorStoreMemory:
    """Any LangChain vector store in place of a memory. What gets old or too much is the store's own business.

    A scope is the ``scope`` in the metadata of a document; documents that were not stored through a memory have none,
    and are never found.

    Args:
        store: an object with ``add_texts`` and ``similarity_search``, or their async variants, which come first.

    Raises:
        ValidationError: it is none.
    """

    def __init__(self, store: Any) -> None:
        if not is_vector_store(store):
            raise ValidationError(
                f"VectorStoreMemory takes an object with add_texts and similarity_search, got {type(store).__name__}."
            )
        self._store = store

    async def store(self, scope: str, entry: MemoryEntry, /) -> None:
        """Keep an entry, its secrets masked (T7)."""
        created_at = entry.created_at.isoformat()
        metadata = {name: mask(value) for name, value in entry.metadata.items()}
        await self._call_store("add_texts", [mask(entry.text)], [{**metadata, _SCOPE: scope, _CREATED_AT: created_at}])

    async def retrieve(self, scope: str, query: str, limit: int, /) -> list[MemoryEntry]:
        """Find at most `limit` entries of the scope, nearest in meaning first."""
        if limit <= 0:
            return []
        query = query if query.strip() else scope  # services refuse to embed nothing
        found = await self._search_with_filter(scope, query, limit)
        if found is None:
            found = await self._search_all_scopes(scope, query, limit)
        return [_to_entry(document) for document in found[:limit]]

    async def _search_with_filter(self, scope: str, query: str, limit: int) -> list[Any] | None:
        """Search with a filter on the scope; None when the store does not take it, or takes no notice of it."""
        is_ours = ScopeFilter({_SCOPE: scope})
        try:
            found = await self._call_store("similarity_search", query, k=limit, filter=is_ours)
        except Exception:  # noqa: BLE001 - each store refuses in its own way; what is really wrong comes again without it
            return None
        return list(found) if all(map(is_ours, found)) else None

    async def _search_all_scopes(self, scope: str, query: str, limit: int) -> list[Any]:
        """Search in all scopes, for more and more documents, until enough are of the one."""
        is_ours = ScopeFilter({_SCOPE: scope})
        count = 4 * limit
        while True:
            found: Sequence[Any] = await self._call_store("similarity_search", query, k=count)
            ours = list(filter(is_ours, found))
            if len(ours) >= limit or len(found) < count or count >= _READ_LIMIT:
                return ours
            count = min(4 * count, _READ_LIMIT)

    async def _call_store(self, name: str, *args: Any, **settings: Any) -> Any:
        method = getattr(self._store, f"a{name}", None)
        if method is not None:
            return await method(*args, **settings)
        return await asyncio.to_thread(getattr(self._store, name), *args, **settings)

    def __repr__(self) -> str:
        """Say the kind of its store."""
        return f"VectorStoreMemory({type(self._store).__name__})"


def _to_entry(document: Any) -> MemoryEntry:
    metadata = {name: str(value) for name, value in document.metadata.items() if name not in (_SCOPE, _CREATED_AT)}
    created_at = datetime.fromisoformat(document.metadata[_CREATED_AT])
    return MemoryEntry(text=document.page_content, created_at=created_at.astimezone(UTC), metadata=metadata)
