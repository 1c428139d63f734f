"""A user's object taken in as a memory (E44)."""

from __future__ import annotations

from typing import Any, cast

from ensemble_notebook.domain.definitions.memory import MemoryStore, is_vector_store
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.memory.vector_store_memory import VectorStoreMemory


def to_memory(value: Any) -> MemoryStore:
    """Convert an object to a memory: one with `store` and `retrieve`, or a vector store.

    Raises:
        ValidationError: it is neither.
    """
    if all(callable(getattr(value, name, None)) for name in ("store", "retrieve")) and not isinstance(value, type):
        return cast(MemoryStore, value)
    if is_vector_store(value):
        return cast(MemoryStore, VectorStoreMemory(value))
    kind = value.__name__ if isinstance(value, type) else type(value).__name__
    raise ValidationError(
        f"A memory is an object with store(scope, entry) and retrieve(scope, query, limit), or a LangChain vector "
        f"store; got {kind}."
    )
