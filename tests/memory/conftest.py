"""Entries, and both of our own stores by turns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import InMemoryStore, MemoryEntry, SqliteMemory


def remembered(text: str, *, age_s: float = 0.0, **metadata: str) -> MemoryEntry:
    """An entry, made some seconds ago."""
    return MemoryEntry(text=text, created_at=datetime.now(UTC) - timedelta(seconds=age_s), metadata=metadata)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a memory that is not there yet."""
    return tmp_path / "memory.db"


@pytest.fixture(params=["in memory", "file"])
def make_store(request: pytest.FixtureRequest, path: Path) -> Callable[..., Any]:
    """Makes a store with the given limits."""
    if request.param == "in memory":
        return InMemoryStore
    return lambda **limits: SqliteMemory(path, **limits)


@pytest.fixture
def store(make_store: Callable[..., Any]) -> Any:
    """A store without limits."""
    return make_store()
