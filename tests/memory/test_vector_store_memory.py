"""A real LangChain vector store as a memory, and stores that speak other dialects."""

import asyncio

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from ensemble_notebook import Ensemble, InMemoryStore, ValidationError, VectorStoreMemory
from ensemble_notebook.domain.outputs.secrets import MASK
from ensemble_notebook.memory.vector_store_memory import to_memory
from tests.memory.conftest import remembered

KEY = "sk-" + "a1B2" * 8


class MappingsOnly(InMemoryVectorStore):
    """A store that takes filters as mappings, as most services do, and sends them as JSON."""

    filters = 0

    async def asimilarity_search(self, query, k=4, **settings):
        wanted = settings.pop("filter", {})
        assert isinstance(wanted, dict)
        self.filters += bool(wanted)
        return await super().asimilarity_search(
            query, k, filter=lambda each: wanted.items() <= each.metadata.items(), **settings
        )


class WithoutFilters(InMemoryVectorStore):
    """A store that refuses the filter."""

    async def asimilarity_search(self, query, k=4):
        return await super().asimilarity_search(query, k)


class Heedless(InMemoryVectorStore):
    """A store that takes no notice of the filter."""

    async def asimilarity_search(self, query, k=4, **settings):
        return await super().asimilarity_search(query, k)


class Plain:
    """No more than the two methods; not LangChain's class."""

    def __init__(self, embedding):
        self._store = InMemoryVectorStore(embedding)

    def add_texts(self, texts, metadatas=None):
        return self._store.add_texts(texts, metadatas)

    def similarity_search(self, query, k=4, **settings):
        return self._store.similarity_search(query, k, **settings)


@pytest.fixture(params=[InMemoryVectorStore, MappingsOnly, WithoutFilters, Heedless, Plain])
def vectors(request):
    return request.param(DeterministicFakeEmbedding(size=16))


def run(*steps):
    async def in_order():
        return [await step for step in steps]

    return asyncio.run(in_order())[-1]


def test_entries_come_back_whole_and_the_same_text_is_the_nearest(vectors):
    memory = VectorStoreMemory(vectors, read_only=False)
    made = [remembered(text, task="cook") for text in ("Rest the steak.", "Salt the water.", "Buy beans.")]
    stored = [memory.store("kitchen", each) for each in made]
    found = run(*stored, memory.retrieve("kitchen", "Salt the water.", 2))
    assert found[0] == made[1]
    assert len(found) == 2


def test_few_entries_of_a_scope_are_found_among_many_of_another(vectors):
    memory = VectorStoreMemory(vectors, read_only=False)
    crowd = [memory.store("cellar", remembered(f"wine {number}")) for number in range(300)]
    ours = [memory.store("kitchen", remembered(f"steak {number}")) for number in range(3)]
    found = run(*crowd, *ours, memory.retrieve("kitchen", "wine", 5))
    assert sorted(each.text for each in found) == ["steak 0", "steak 1", "steak 2"]


def test_documents_of_others_belong_to_every_scope(vectors):
    vectors.add_texts(["a page of a book"], [{"page": 7, "scope": "public", "created_at": 1999}])
    memory = VectorStoreMemory(vectors, read_only=False)
    stored = [memory.store(scope, remembered(f"{scope} steak")) for scope in ("kitchen", "cellar")]
    found = run(*stored, memory.retrieve("kitchen", "a page of a book", 5))
    assert [each.text for each in found] == ["a page of a book", "kitchen steak"]
    assert found[0].created_at is None
    assert found[0].metadata == {"page": "7", "scope": "public", "created_at": "1999"}


def test_documents_of_the_first_version_are_in_their_scope(vectors):
    old = {"scope": "cellar", "created_at": "2026-11-01T10:00:00+00:00", "task": "store", "run_id": "1"}
    vectors.add_texts(["an old wine"], [old])
    memory = VectorStoreMemory(vectors)
    assert run(memory.retrieve("kitchen", "wine", 5)) == []
    (entry,) = run(memory.retrieve("cellar", "wine", 5))
    assert (entry.text, entry.created_at.day, entry.metadata) == ("an old wine", 1, {"task": "store", "run_id": "1"})


def test_what_is_written_has_names_of_its_own(vectors):
    run(VectorStoreMemory(vectors, read_only=False).store("kitchen", remembered("steak", task="cook")))
    (document,) = (
        vectors.similarity_search("steak") if isinstance(vectors, Plain) else run(vectors.asimilarity_search("steak"))
    )
    assert sorted(document.metadata) == ["ensemble_created_at", "ensemble_scope", "ensemble_task"]


ODD_METADATA = [
    None,
    {},
    {1: 2},
    {"scope": None},
    {"created_at": "soon"},
    {"ensemble_scope": 7},
    {"ensemble_created_at": []},
]


@pytest.mark.parametrize("metadata", ODD_METADATA, ids=range(len(ODD_METADATA)))
def test_no_metadata_of_others_fails(metadata):
    class Found:
        page_content = "a page"

    class Odd(InMemoryVectorStore):
        async def asimilarity_search(self, *args, **settings):
            document = Found()
            document.metadata = metadata
            return [document]

    (entry,) = run(VectorStoreMemory(Odd(DeterministicFakeEmbedding(size=16))).retrieve("kitchen", "page", 5))
    assert (entry.text, entry.created_at) == ("a page", None)


def test_store_is_only_read_unless_it_is_said(vectors):
    with pytest.raises(ValidationError, match=r"VectorStoreMemory\(store, read_only=False\)"):
        run(VectorStoreMemory(vectors).store("kitchen", remembered("steak")))
    with pytest.raises(ValidationError, match="read_only must be True or False"):
        VectorStoreMemory(vectors, read_only="no")


def test_blank_query_and_no_limit_are_answered(vectors):
    memory = VectorStoreMemory(vectors, read_only=False)
    found = run(memory.store("kitchen", remembered("steak")), memory.retrieve("kitchen", " ", 5))
    assert [each.text for each in found] == ["steak"]
    assert run(memory.retrieve("kitchen", "steak", 0)) == []


def test_filter_finds_an_entry_behind_thousands_of_other_scopes():
    vectors = MappingsOnly(DeterministicFakeEmbedding(size=4))
    crowd = [{"ensemble_scope": "cellar"}] * 4200
    vectors.add_texts(["wine"] * len(crowd), crowd)
    memory = VectorStoreMemory(vectors, read_only=False)
    found = run(memory.store("kitchen", remembered("steak")), memory.retrieve("kitchen", "wine", 5))
    assert [each.text for each in found] == ["steak"]
    assert vectors.filters == 2


def test_what_is_really_wrong_with_a_store_is_told():
    class Broken(InMemoryVectorStore):
        async def asimilarity_search(self, *args, **settings):
            raise ConnectionError("the store is away")

    memory = VectorStoreMemory(Broken(DeterministicFakeEmbedding(size=16)))
    with pytest.raises(ConnectionError, match="the store is away"):
        run(memory.retrieve("kitchen", "steak", 5))


def test_secrets_are_masked(vectors):
    memory = VectorStoreMemory(vectors, read_only=False)
    made = remembered(f"The key is {KEY}.", source=f"Bearer {KEY}")
    (entry,) = run(memory.store("kitchen", made), memory.retrieve("kitchen", "key", 5))
    assert entry.text == f"The key is {MASK}."
    assert KEY not in str(entry.metadata)


def test_vector_store_is_adopted_and_a_memory_is_taken_as_it_is(vectors):
    memory = InMemoryStore()
    assert isinstance(to_memory(vectors), VectorStoreMemory)
    assert to_memory(memory) is memory
    assert Ensemble(memory=vectors).memory is vectors
    assert repr(to_memory(vectors)) == f"VectorStoreMemory({type(vectors).__name__})"


@pytest.mark.parametrize("wrong", [{}, "memory", InMemoryStore, InMemoryVectorStore, object()])
def test_what_is_no_memory_is_refused(wrong):
    with pytest.raises(ValidationError, match="A memory is an object with store"):
        to_memory(wrong)
    with pytest.raises(ValidationError, match="VectorStoreMemory takes an object with add_texts"):
        VectorStoreMemory(wrong)
    with pytest.raises(ValidationError, match="Ensemble memory must be an object with store"):
        Ensemble(memory=wrong)
