"""V12: which row of one map is which of another one, whatever was inserted, deleted, moved or added."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from ensemble_notebook.domain.planning.map_design import KnownRows, RowIdentity, digest_id, pair_rows

Rows = Sequence[Mapping[str, str | None]]


def know(rows: Rows, *, keeps_values: bool = True, id_column: str | None = None, read: str | None = None) -> KnownRows:
    names = [f"row {place}" for place in range(len(rows))]
    columns = list(dict.fromkeys(name for each in rows for name in each))
    digests = {name: digest_id(row.get(id_column or "")) for name, row in zip(names, rows, strict=True)}
    identity = RowIdentity(
        id=id_column, read=None if read is None else tuple(read), digests=digests, keeps_values=keeps_values
    )
    return KnownRows(names=names, values=rows, columns=columns, identity=identity)


def find_partners(earlier: Rows, later: Rows) -> list[tuple[int, int]]:
    """Places of the pairs, the later one first."""
    partners = pair_rows(know(earlier), know(later)).partners
    return sorted((int(mine[4:]), int(theirs[4:])) for mine, theirs in partners.items())


different = some.lists(some.text(max_size=3), min_size=1, max_size=12, unique=True)


@given(different, some.data())
def test_insertion_deletion_shuffle_and_another_column_never_change_who_is_whose_partner(
    values: list[str], data: some.DataObject
) -> None:
    rows = [{"q": each} for each in values]
    kept = data.draw(some.lists(some.sampled_from(range(len(rows))), unique=True))
    added = data.draw(some.lists(some.text(min_size=4, max_size=5), max_size=4, unique=True))
    places: list[int | None] = [*kept, *([None] * len(added))]
    data.draw(some.randoms()).shuffle(places)
    author = data.draw(some.booleans())
    new, fresh = [], iter(added)
    for place in places:
        row = {"q": next(fresh)} if place is None else dict(rows[place])
        new.append({**row, "author": str(len(new))} if author else row)
    assert find_partners(rows, new) == [(at, place) for at, place in enumerate(places) if place is not None]


@given(different, some.randoms())
def test_the_same_holds_of_ids_whatever_the_inputs_are(values: list[str], chance: random.Random) -> None:
    rows = [{"id": f"{place}", "q": "same"} for place in range(len(values))]
    new = [{**row, "q": value} for row, value in zip(rows, values, strict=True)]
    order = [*range(len(new))]
    chance.shuffle(order)
    shuffled = [new[place] for place in order]
    assert find_partners(rows, shuffled) == [*enumerate(order)]
    found = pair_rows(know(rows), know(shuffled))
    assert len(found.changed) == sum(each["q"] != "same" for each in new)
    bare = [know(each, keeps_values=False, id_column="id") for each in (rows, shuffled)]
    assert pair_rows(*bare).partners == found.partners


@given(some.lists(some.sampled_from("ab"), max_size=8), some.lists(some.sampled_from("ab"), max_size=8))
def test_equal_rows_are_paired_in_order_as_many_as_both_have(first: list[str], second: list[str]) -> None:
    pairs = find_partners([{"q": each} for each in first], [{"q": each} for each in second])
    for value in "ab":
        mine, theirs = ([at for at, each in enumerate(side) if each == value] for side in (second, first))
        assert [pair for pair in pairs if second[pair[0]] == value] == list(zip(mine, theirs, strict=False))


def test_rows_that_are_read_alike_are_told_apart_by_their_other_columns_before_their_order() -> None:
    rows = [{"q": "a", "expected": each} for each in "xyz"]
    assert find_partners(rows, rows[::-1]) == [(0, 2), (1, 1), (2, 0)]
    assert find_partners(rows, [{"q": "a", "expected": "new"}, *rows]) == [(1, 0), (2, 1), (3, 2)]


def test_only_columns_that_the_texts_of_both_name_make_a_row_another_one() -> None:
    earlier, later = [{"q": "a", "style": "old"}], [{"q": "a", "style": "new"}]
    assert len(pair_rows(know(earlier), know(later)).partners) == 0
    assert len(pair_rows(know(earlier, read="q"), know(later)).partners) == 1
    told = [{"q": "a", "expected": each, "label": each} for each in "xy"]
    assert len(pair_rows(know(told[:1]), know(told[1:])).partners) == 1


def test_an_id_column_counts_where_both_have_it_and_it_tells_rows_apart() -> None:
    named = [{"ticket": "7", "q": "a"}], [{"ticket": "7", "q": "b"}]
    assert pair_rows(know(named[0]), know(named[1], id_column="ticket")).changed == ("row 0",)
    alike = [{"id": "7", "q": "a"}, {"id": "7", "q": "b"}]  # a file of an older version, which refused nothing
    assert find_partners(alike, alike[::-1]) == [(0, 1), (1, 0)]
    without = [{"id": "7", "q": "a"}, {"id": None, "q": "b"}]
    assert find_partners(without, without[::-1]) == [(0, 1), (1, 0)]


def test_rows_without_values_and_without_ids_have_no_partner() -> None:
    rows = [{"q": "a"}] * 20
    found = pair_rows(know(rows, keeps_values=False), know(rows))
    assert (len(found.partners), len(found.new), len(found.gone)) == (0, 20, 20)
    assert "no values are kept" in found.reason
    assert not found.is_complete
    assert "no column in common" in pair_rows(know([{"q": "a"}]), know([{"p": "a"}])).reason
    assert find_partners([{}, {}], [{}, {}]) == [(0, 0), (1, 1)]


def test_more_than_5_percent_without_a_partner_on_either_side_are_too_many() -> None:
    rows = [{"q": f"{each}"} for each in range(100)]
    for cut in (rows[:95], [*rows, *({"q": f"n{each}"} for each in range(5))]):
        assert pair_rows(know(rows), know(cut)).is_complete
    for cut in (rows[:94], [*rows, *({"q": f"n{each}"} for each in range(6))]):
        assert not pair_rows(know(rows), know(cut)).is_complete


def test_secrets_in_values_pair_with_what_a_store_has_masked() -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    assert find_partners([{"q": "***", "id": "***"}], [{"q": key, "id": key}]) == [(0, 0)]
    assert digest_id(key) == digest_id("***")
    assert replace(RowIdentity(), digests={"row 0": digest_id("7")}).digests["row 0"] != "7"
