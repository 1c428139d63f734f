"""Vector stores as memories (E60)."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from ensemble_notebook import Ensemble, EnsembleOutput, Task, VectorStoreMemory
from tests.conformance.scene import done, prompts, run_cell, scripted

PAGE = "Tides come twice a day."
CELL = """
llm: model
memory: store
workflow: sequential
tasks:
  one: {description: Tell one, memory: tides}
  two: {description: Tell two, memory: tides}
"""


def make_library() -> InMemoryVectorStore:
    """A vector store of a person's own."""
    library = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    library.add_texts([PAGE], [{"page": 12, "source": "tides.pdf"}])
    return library


def ask(way: str, memory: Any) -> EnsembleOutput:
    """Run two tasks with a memory, from Python or from a cell."""
    if way == "python":
        tasks = [Task.of(f"Tell {each}", name=each, memory=("tides",)) for each in ("one", "two")]
        return Ensemble(tasks=tasks, llm=scripted("Said.", "Said again."), memory=memory).run()
    return run_cell(CELL, model=scripted("Said.", "Said again."), store=memory)


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e60_a_vector_store_is_searched_and_nothing_is_written_into_it(way: str) -> None:
    library = make_library()
    output = ask(way, library)
    assert all(PAGE in user for _, user in prompts(output))
    assert [each["text"] for each in library.store.values()] == [PAGE]
    (warning,) = output.warnings
    assert "the vector store is only read" in warning
    assert "VectorStoreMemory(store, read_only=False)" in warning


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e60_a_memory_that_was_built_to_be_read_warns_of_nothing(way: str) -> None:
    library = make_library()
    output = ask(way, VectorStoreMemory(library))
    assert output.warnings == ()
    assert all(PAGE in user for _, user in prompts(output))
    assert [each["text"] for each in library.store.values()] == [PAGE]


@pytest.mark.parametrize("way", ["python", "cell"])
def test_e60_tasks_write_where_it_is_said_under_names_of_their_own(way: str) -> None:
    library = make_library()
    output = ask(way, VectorStoreMemory(library, read_only=False))
    assert output.warnings == ()
    assert sorted(each["text"] for each in library.store.values()) == [
        "Asked: Tell one\nAnswered: Said.",
        "Asked: Tell two\nAnswered: Said again.",
        PAGE,
    ]
    written = [each["metadata"] for each in library.store.values() if each["text"] != PAGE]
    assert all(name.startswith("ensemble_") for metadata in written for name in metadata)
    assert "Said." in prompts(output)[1][1]


def test_e60_a_task_without_memory_is_not_warned_of() -> None:
    assert Ensemble(tasks=[done("x")], memory=make_library()).run().warnings == ()
