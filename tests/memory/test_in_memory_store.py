"""The memory in the process, where it differs from the one in a file."""

from ensemble_notebook import InMemoryStore
from tests.memory.conftest import remembered


def test_two_stores_know_nothing_of_each_other():
    first, second = InMemoryStore(), InMemoryStore()
    first.store("kitchen", remembered("steak"))
    assert second.scopes() == {}
    assert repr(first) == "<InMemoryStore {'kitchen': 1}>"
