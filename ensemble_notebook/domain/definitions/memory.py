"""Memory: what tasks remember under a scope, in this run or across runs (E44). Stores are in the memory layer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol, cast, get_args

from ensemble_notebook.domain.outputs.secrets import Record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MemoryEntry(Record):
    """One thing remembered.

    Attributes:
        text: what is remembered.
        created_at: when, in UTC; None if unknown, as for documents that others put into a vector store.
        metadata: where it came from: ``task``, ``agent``, ``run_id``, and whatever the user of the store adds.
    """

    text: str
    created_at: datetime | None
    metadata: Mapping[str, str] = field(default_factory=dict)


class MemoryStore(Protocol):
    """A store for memory entries. Both methods may be plain or async; plain ones are called on a worker thread."""

    def store(self, scope: str, entry: MemoryEntry, /) -> object:
        """Keep an entry.

        Args:
            scope: where.
            entry: what; its secrets are masked.
        """

    def retrieve(
        self, scope: str, query: str, limit: int, /
    ) -> Sequence[MemoryEntry] | Awaitable[Sequence[MemoryEntry]]:
        """Find entries of a scope.

        Args:
            scope: where to look.
            query: the text that entries should fit.
            limit: the most entries.

        Returns:
            The best entries first.
        """


MemoryKind = Literal["short_term", "long_term", "entity"]


def get_memory_kind(store: Any, scope: str) -> MemoryKind:
    """What a scope of a store is to the counts of AgentEnsemble.

    Short-term where it ends with the process, of entities where it holds facts by name. A store of a user's own can
    say so by a method ``get_kind(scope)``; one that says nothing is long-term.
    """
    get_kind = getattr(store, "get_kind", None)
    kind = get_kind(scope) if callable(get_kind) else "long_term"
    return cast(MemoryKind, kind) if kind in get_args(MemoryKind) else "long_term"


STORE_ENDINGS: Final = (".db", ".sqlite", ".sqlite3")
"""How files of memories are called."""


def is_path(text: str, endings: tuple[str, ...] = STORE_ENDINGS) -> bool:
    """True for a text that means a file or folder, and no name."""
    return "/" in text or "\\" in text or text.endswith(endings)


class VectorStore(Protocol):
    """A LangChain vector store, as far as a memory needs one."""

    @property
    def add_texts(self) -> Callable[..., Any]:
        """Keep texts with their metadata."""

    @property
    def similarity_search(self) -> Callable[..., Any]:
        """Find the documents that fit a query."""


def is_vector_store(value: Any) -> bool:
    """Whether an object is a vector store as LangChain has them, which the memory layer can make into a memory."""
    has = [
        any(callable(getattr(value, name, None)) for name in (method, f"a{method}"))
        for method in ("add_texts", "similarity_search")
    ]
    return all(has) and not isinstance(value, type)
