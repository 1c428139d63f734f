"""Files of a memory that somebody has edited: a warning of the run, and never a raw error (E71)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ensemble_notebook import Ensemble, EnsembleError, ScriptedChatModel, SqliteMemory, Task


@pytest.mark.parametrize(
    "column, value",
    [
        ("created_at", "9999-99-99"),
        ("metadata", "[" * 100_000),
        ("metadata", "{"),
        ("metadata", "[1]"),
        ("metadata", '{"a": 1}'),
        ("text", b"\xff\xfe"),
    ],
)
def test_an_entry_that_somebody_edited_is_a_warning_e71(tmp_path: Path, column: str, value: object) -> None:
    file = tmp_path / "memory.db"

    def cook() -> Ensemble:
        task = Task.of("Cook soup", name="soup", memory=["kitchen"])
        return Ensemble(tasks=[task], llm=ScriptedChatModel(default="Soup."), memory=SqliteMemory(file))

    cook().run()
    with sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE memory_entry SET {column} = ?", (value,))
    connection.close()
    with pytest.raises(EnsembleError, match="can't be read"):
        SqliteMemory(file).retrieve("kitchen", "soup", 5)
    output = cook().run()
    assert output.raw == "Soup."
    assert output.warnings[0].startswith("The memory 'kitchen' could not be read for task 'soup'")
