"""Facts about entities."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from ensemble_notebook import EntityMemory, SqliteMemory, ValidationError
from tests.memory.conftest import remembered


@pytest.fixture
def memory(store):
    """Facts about two people, in either of our own stores."""
    entities = EntityMemory(store)
    entities.put("Ada Lovelace", "wrote the first program")
    entities.put("Grace Hopper", "wrote the first compiler")
    entities.put("Ada Lovelace", "lived in London")
    return entities


def found(memory, query, limit=5):
    return [entry.text for entry in memory.retrieve("entities", query, limit)]


def test_facts_are_had_by_name_in_the_order_in_which_they_were_put(memory):
    assert memory.get("ada lovelace") == ("wrote the first program", "lived in London")
    assert memory.get("Ada") == memory.get("nobody") == ()


def test_facts_about_what_is_mentioned_are_found_and_no_others(memory):
    assert found(memory, "Write about GRACE HOPPER's work.") == ["Grace Hopper: wrote the first compiler"]
    assert len(found(memory, "Compare Ada Lovelace and Grace Hopper.")) == 3
    assert found(memory, "Who wrote the first program?") == []
    assert found(memory, "Adalovelace, or Ada, Countess of Lovelace") == []
    assert found(memory, "") == []


def test_limit_is_kept(memory):
    assert len(found(memory, "Ada Lovelace", limit=1)) == 1
    assert found(memory, "Ada Lovelace", limit=0) == []


def test_fact_is_kept_once(memory, store):
    memory.put(" ada lovelace", "lived in London ")
    assert store.scopes() == {"entities": 3}


def test_what_tasks_store_in_the_scope_is_found_beside_the_facts(memory):
    memory.store("entities", remembered("A draft about programs.", task="write"))
    assert found(memory, "A draft about Ada Lovelace's programs")[0] == "A draft about programs."


def test_other_scopes_are_passed_on(memory):
    memory.store("notes", remembered("Hopper found a moth."))
    assert [entry.text for entry in memory.retrieve("notes", "anything", 5)] == ["Hopper found a moth."]


def test_facts_last_as_long_as_the_store(path):
    EntityMemory(SqliteMemory(path), scope="people").put("Ada Lovelace", "lived in London")
    assert EntityMemory(SqliteMemory(path), scope="people").get("Ada Lovelace") == ("lived in London",)


@pytest.mark.parametrize("name, fact", [("", "x"), ("?!", "x"), ("Ada", "  ")])
def test_fact_without_name_or_text_is_refused(memory, name, fact):
    with pytest.raises(ValidationError, match="A fact has a name and a text"):
        memory.put(name, fact)


def test_store_with_async_methods_is_refused():
    with pytest.raises(ValidationError, match="EntityMemory needs a store with plain methods"):
        EntityMemory(InMemoryVectorStore(DeterministicFakeEmbedding(size=4)))
