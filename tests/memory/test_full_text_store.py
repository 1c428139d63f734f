"""What holds for the memory in the process and for the one in a file."""

import copy
import pickle
import threading
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook import InMemoryStore, MemoryEntry, ValidationError
from ensemble_notebook.domain.outputs.secrets import MASK
from tests.memory.conftest import remembered

KEY = "sk-" + "a1B2" * 8


def texts(store, query, limit=5, scope="kitchen"):
    return [entry.text for entry in store.retrieve(scope, query, limit)]


def fill(store, *lines, scope="kitchen"):
    for line in lines:
        store.store(scope, remembered(line))


def test_entries_come_back_whole(store):
    made = remembered("Rest the steak.\n\n  Then slice it. ", task="cook", agent="Cook")
    store.store("kitchen", made)
    assert store.retrieve("kitchen", "steak", 5) == [made]


def test_entries_that_fit_the_query_come_best_first(store):
    fill(store, "Salt the pasta water.", "Rest a steak, then slice the steak.", "Rest the dough.", "Buy a steak.")
    assert texts(store, "How long does a steak rest?")[0] == "Rest a steak, then slice the steak."
    assert "Salt the pasta water." not in texts(store, "resting steak")


def test_newer_of_two_equals_comes_first(store):
    old, new = remembered("Rest it.", age_s=60, run_id="1"), remembered("Rest it.", run_id="2")
    store.store("kitchen", new)
    store.store("kitchen", old)
    assert store.retrieve("kitchen", "rest", 5) == [new, old]


@pytest.mark.parametrize("query", ["", "  \n", "?!", "\N{CUT OF MEAT}", "zebra"])
def test_query_that_nothing_fits_finds_the_newest(store, query):
    fill(store, "first", "second", "third")
    assert texts(store, query, limit=2) == ["third", "second"]


def test_limit_is_kept_and_none_is_none(store):
    fill(store, *(f"steak {number}" for number in range(10)))
    assert len(texts(store, "steak", limit=3)) == 3
    assert texts(store, "steak", limit=0) == texts(store, "", limit=-1) == []


def test_scopes_see_nothing_of_each_other(store):
    fill(store, "steak", scope="kitchen")
    fill(store, "steak tartare", scope="cellar")
    assert texts(store, "steak", scope="cellar") == ["steak tartare"]
    assert texts(store, "steak", scope="attic") == []
    assert store.scopes() == {"cellar": 1, "kitchen": 1}


def test_forgotten_scope_is_empty_and_can_be_filled_again(store):
    fill(store, "steak", scope="kitchen")
    fill(store, "wine", scope="cellar")
    store.forget("kitchen")
    assert store.scopes() == {"cellar": 1}
    fill(store, "dough")
    assert texts(store, "steak") == ["dough"]


@pytest.mark.parametrize(
    "line, query",
    [("Crème brûlée", "creme BRULEE"), ("Steaks rested", "resting a steak"), ("肉を五分休ませる", "休ませる時間")],
)
def test_words_are_found_in_other_forms(store, line, query):
    fill(store, "something else", line, "another thing")
    assert texts(store, query) == [line]


@pytest.mark.parametrize(
    "query",
    ['"', "'; DROP TABLE memory_entry; --", 'a" OR "b', "NEAR(a b, 2)", "a AND NOT b", "words: a*", "^a + b", "{a}:b"],
)
def test_operators_of_the_index_are_plain_words(store, query):
    fill(store, "zebra")
    assert texts(store, query) == ["zebra"]


WILD = st.text(st.characters(exclude_categories=()))


@given(text=WILD, query=WILD, scope=WILD)
def test_any_text_can_be_kept_and_asked_for(text, query, scope):
    store = InMemoryStore()
    store.store(scope, remembered(text))
    assert texts(store, query, scope=scope) == [text.encode(errors="replace").decode()]


def test_query_of_many_thousand_words_is_answered(store):
    fill(store, "steak")
    assert texts(store, "steak " + " ".join(f"word{number}" for number in range(20_000))) == ["steak"]


def test_newest_entries_of_each_scope_are_kept_by_count(make_store):
    store = make_store(max_entries=2)
    fill(store, "one", "two", "three")
    fill(store, "four", scope="cellar")
    assert texts(store, "") == ["three", "two"]
    assert texts(store, "one") == ["three", "two"]
    assert store.scopes() == {"cellar": 1, "kitchen": 2}


@pytest.mark.parametrize("limit", [100, timedelta(seconds=100)])
def test_entries_are_forgotten_by_age(make_store, limit):
    store = make_store(max_age=limit)
    store.store("kitchen", remembered("old steak", age_s=101))
    store.store("kitchen", remembered("fresh steak", age_s=99))
    assert texts(store, "steak") == texts(store, "") == ["fresh steak"]
    assert store.scopes() == {"kitchen": 1}


def test_age_is_counted_across_time_zones(make_store):
    store = make_store(max_age=3600)
    eastern = timezone(timedelta(hours=9))
    when = datetime.now(eastern) - timedelta(minutes=30)
    store.store("kitchen", MemoryEntry(text="steak", created_at=when))
    store.store("kitchen", remembered("old", age_s=3700))
    (entry,) = store.retrieve("kitchen", "", 5)
    assert (entry.text, entry.created_at, entry.created_at.utcoffset()) == ("steak", when, timedelta())


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_entries": True}, {"max_entries": 1.5}])
def test_count_that_is_none_is_refused(make_store, limits):
    with pytest.raises(ValidationError, match="max_entries must be a whole number >= 1 or None"):
        make_store(**limits)


@pytest.mark.parametrize("age", [0, -1, timedelta(0), "1h", True])
def test_age_that_is_none_is_refused(make_store, age):
    with pytest.raises(ValidationError, match="max_age must be seconds > 0, a timedelta or None"):
        make_store(max_age=age)


def test_secrets_are_masked(store):
    store.store("kitchen", remembered(f"The key is {KEY}.", source=f"Bearer {KEY}"))
    (entry,) = store.retrieve("kitchen", "key", 5)
    assert entry.text == f"The key is {MASK}."
    assert KEY not in str(entry.metadata)


def test_threads_share_a_store(store):
    def work(number):
        for turn in range(10):
            fill(store, f"thread {number} turn {turn}")
            assert texts(store, f"thread {number}", limit=1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.scopes() == {"kitchen": 80}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_copied_store_has_the_entries_and_the_limits(make_store, copied):
    store = make_store(max_entries=2)
    fill(store, "one", "two")
    twin = copied(store)
    assert texts(twin, "") == ["two", "one"]
    fill(twin, "three")
    assert texts(twin, "") == ["three", "two"]
