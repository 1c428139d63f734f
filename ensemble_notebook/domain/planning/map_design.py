"""The design of a map: which rows it has, under which variants, how often, and what each was given (V10).

And which row of one map is which row of another one (V12): by an id, else by what its runs read, never by its place.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import Record, mask
from ensemble_notebook.domain.outputs.task_output import TaskOutput

MOST_REPEATS: Final = 1_000
"""How often a row may run."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowSpending(Record):
    """What a row took: in one map, or in others before it, in the currency of that one.

    Attributes:
        input_tokens, output_tokens, cost: the known part; None where nothing is known.
        cost_complete: whether that is all of the cost; true in older maps.
        duration_ms: the time that was its run's own; None for what never ran.
        active_ms, human_wait_ms, idle_ms: its parts, as in `OwnTime`; None where it has no run, and in older maps.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None
    cost_complete: bool = True
    duration_ms: float | None = None
    active_ms: float | None = None
    human_wait_ms: float | None = None
    idle_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EarlierRow(RowSpending):
    """What an earlier map has done of a row, and the present one took over.

    Attributes:
        own_run_id: of the row's own run.
        map_run_id: of the map that ran it.
        status: how that ended.
        output: of its final task.
    """

    own_run_id: str | None
    map_run_id: str | None
    status: str
    output: TaskOutput | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlannedRow(Record):
    """One run of a row.

    Attributes:
        name: of its task in the map.
        row: the part of that name which all runs of the row have in common; empty where there is but one row.
        label: its label in the index, a tuple where that has several levels.
        variant: None where there are no variants.
        repeat: from 1; None where there are no repeats.
        inputs: what it was given.
        earlier: set where the map took it over, and so has no task for it.
        before: what it took in the maps that this one goes on with; None where there are none.
        id_digest: of what tells it apart, where no values are kept; None where they are, or it has no id.
    """

    name: str
    row: str
    label: Any = None
    variant: str | None = None
    repeat: int | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    earlier: EarlierRow | None = None
    before: RowSpending | None = None
    id_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IndexLevel(Record):
    """A level of the index that the rows came with: its name, and the dtype of its labels."""

    name: str | None
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UntilClear(Record):
    """When a map ends early: where the verdict on its variants is clear.

    Attributes:
        level: how often a difference may be claimed of sides that are alike, over all variants and scores together.
        score_count: how many scores there are; each has its share of the level.
        score: that is compared; None: the only one.
        is_: the label that counts, of a score that gives labels.
        seed: of the order in which rows run.
    """

    level: float
    score_count: int = 1
    score: str | None = None
    is_: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check what a file may have got wrong.

        Raises:
            ValueError: a number is none of these.
        """
        if not (0 < self.level < 1 and self.score_count >= 1 and self.seed >= 0):
            raise ValueError("there is no such level, number of scores or seed")

    def share_level(self, count: int) -> float:
        """The level of each of so many variants, or comparisons of two, under each score."""
        return self.level / (count * self.score_count)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MapDesign(Record):
    """All runs of a map, whether they have begun or not.

    Attributes:
        rows: in the order of the result.
        index: the levels of the index of the rows; none where they came as a list.
        fields: of the typed output of all of them, by name, each with its JSON schema; empty where there is none.
        inputs: names of what rows are given, in order.
        id, read: as in `RowIdentity`.
        until_clear: when it ends early; None: not before all rows have run.
    """

    rows: tuple[PlannedRow, ...]
    index: tuple[IndexLevel, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    id: str | None = None
    read: tuple[str, ...] | None = None
    until_clear: UntilClear | None = None


SETTLED: Final = "settled"
"""The status of a row that was not needed."""
NOT_NEEDED: Final = f"{SETTLED}: the verdict was clear before its turn"
"""The reason of such a row, in its trace as well."""
ID_COLUMN: Final = "id"
"""The column that tells rows apart, where nobody names another one."""
ONLY_ROW: Final = ""
"""The name of the row of a map that was given none."""
NOT_READ: Final = frozenset({"expected", "label"})
"""Columns that say what a row should come to: a handler could read them, and does not."""
_MOST_UNPAIRED: Final = 0.05
_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIdentity:
    """What tells the rows of a map apart.

    Attributes:
        id: the column that does; None where there is none.
        read: the columns that the runs read: those that texts name, or with handlers all but what a row should come
            to. None where a map of an older version does not say: all of these.
        digests: of the ids, by the name of the row, where nothing else is kept of the rows.
        keeps_values: whether the values of the rows are there.
    """

    id: str | None = None
    read: tuple[str, ...] | None = None
    digests: Mapping[str, str | None] = field(default_factory=dict)
    keeps_values: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRows:
    """The rows of a map, as far as those of another one can be told to be the same.

    Attributes:
        names: of the rows, in order.
        values: of each, by column, as `write_value` has them.
        columns: all names of values.
        identity: what tells them apart.
    """

    names: Sequence[str]
    values: Sequence[Mapping[str, str | None]]
    columns: Sequence[str]
    identity: RowIdentity

    @property
    def read(self) -> frozenset[str]:
        """The columns that the runs read."""
        read = self.identity.read
        return frozenset(self.columns) - NOT_READ if read is None else frozenset(read)

    def list_ids(self, column: str) -> list[str | None] | None:
        """Digests of the ids in a column, None for a row without; None where the column tells nothing apart."""
        if not self.identity.keeps_values:
            found = [self.identity.digests.get(name) for name in self.names] if column == self.identity.id else []
        else:
            found = [digest_id(each.get(column)) for each in self.values] if column in self.columns else []
        given = [each for each in found if each is not None]
        return found if given and len(set(given)) == len(given) else None

    def write_rows(self, columns: Sequence[str]) -> list[str]:
        """Each row as a text of these columns, all alike where no values are kept. Secrets are masked, as if stored."""
        if not self.identity.keeps_values:
            return [""] * len(self.names)
        return [mask(json.dumps({name: each.get(name) for name in columns})) for each in self.values]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPairs:
    """The rows of two maps, one with the other.

    Attributes:
        partners: the name of the earlier row, by that of the later one.
        changed: names of the later rows that have the same id as their partners, and other inputs.
        new, gone: names of the later and of the earlier rows without a partner.
        reason: why no row could be paired; empty where they could.
    """

    partners: Mapping[str, str]
    changed: tuple[str, ...] = ()
    new: tuple[str, ...]
    gone: tuple[str, ...]
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether so few rows of both sides are without a partner that the pairs stand for all of them."""
        return all(len(each) <= _MOST_UNPAIRED * (len(each) + len(self.partners)) for each in (self.new, self.gone))


def write_value(kept: Any) -> str | None:
    """A value as prompts have it, since a file of rows has the number 7 where a list had the text "7".

    Args:
        kept: as JSON has it.
    """
    if kept is None or isinstance(kept, str):
        return kept
    if isinstance(kept, float):  # a column of whole numbers with a gap is one of floats
        return None if kept != kept else f"{kept:.0f}" if kept.is_integer() else repr(kept)
    return json.dumps(kept, sort_keys=True, default=str)


def digest_id(written: str | None) -> str | None:
    """What is kept of an id where no text is; None where a row has none."""
    if not written:
        return None
    return blake2b(mask(written).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def pair_rows(earlier: KnownRows, later: KnownRows) -> RowPairs:
    """Find for each row of a map the same row of an earlier one.

    Rows are paired by their ids, where both maps have such a column; else by the values of the columns that the runs of
    both read. Rows that are equal in these are told apart by their other columns, and then by their order.
    """
    if [*earlier.names] == [*later.names] == [ONLY_ROW]:
        return RowPairs(partners={ONLY_ROW: ONLY_ROW}, new=(), gone=())
    ids = _find_ids(earlier, later)
    if ids is None and not (earlier.identity.keeps_values and later.identity.keeps_values):
        return _pair_none(earlier, later, "no values are kept of them, and no column tells both apart by an id")
    common = [each for each in later.columns if each in earlier.columns]
    if ids is None and not common and (earlier.columns or later.columns):
        return _pair_none(earlier, later, "they have no column in common")
    read = [each for each in common if each in earlier.read & later.read]
    read = read or [each for each in common if each not in NOT_READ]
    sides = [(earlier, None if ids is None else ids[0]), (later, None if ids is None else ids[1])]
    keys = [_make_keys(rows, own, read) for rows, own in sides]
    partners: dict[str, str] = {}
    whole = [[*zip(each, rows.write_rows(common), strict=True)] for each, (rows, _) in zip(keys, sides, strict=True)]
    for equal in (whole, keys):  # each time those that have no partner yet, in order
        taken, waiting = set(partners.values()), defaultdict[Hashable, deque[str]](deque)
        for name, key in zip(earlier.names, equal[0], strict=True):
            if name not in taken:
                waiting[key].append(name)
        for name, key in zip(later.names, equal[1], strict=True):
            if name not in partners and waiting[key]:
                partners[name] = waiting[key].popleft()
    changed: tuple[str, ...] = ()
    if earlier.identity.keeps_values and later.identity.keeps_values:
        before, now = (dict(zip(rows.names, rows.write_rows(read), strict=True)) for rows in (earlier, later))
        changed = tuple(mine for mine, theirs in partners.items() if before[theirs] != now[mine])
    taken = set(partners.values())
    return RowPairs(
        partners=partners,
        changed=changed,
        new=tuple(each for each in later.names if each not in partners),
        gone=tuple(each for each in earlier.names if each not in taken),
    )


def make_row_keys(rows: KnownRows) -> dict[str, str | None]:
    """What is the same for a row of this map and its partner in another one of the same columns, by the row's name.

    None where nothing is known of a row.
    """
    ids = next((found for name in (rows.identity.id, ID_COLUMN) if name and (found := rows.list_ids(name))), None)
    if ids is None and not (rows.identity.keeps_values and rows.columns):
        return dict.fromkeys(rows.names)
    read = sorted(rows.read & {*rows.columns} or {*rows.columns} - NOT_READ)
    own = ids or [None] * len(rows.names)
    counts: Counter[str | None] = Counter()
    made: dict[str, str | None] = {}
    for name, given, text in zip(rows.names, own, rows.write_rows(read), strict=True):
        key = given if given is not None or not rows.identity.keeps_values else digest_id(text)
        counts[key] += 1
        made[name] = key if counts[key] == 1 or key is None else f"{key}#{counts[key]}"
    return made


def _pair_none(earlier: KnownRows, later: KnownRows, reason: str) -> RowPairs:
    return RowPairs(partners={}, new=tuple(later.names), gone=tuple(earlier.names), reason=reason)


def _find_ids(earlier: KnownRows, later: KnownRows) -> tuple[list[str | None], list[str | None]] | None:
    """The ids of both, by the first column that tells the rows of both apart; None where there is none."""
    for column in dict.fromkeys((later.identity.id, earlier.identity.id, ID_COLUMN)):
        if column is None:
            continue
        first, second = earlier.list_ids(column), later.list_ids(column)
        if first is not None and second is not None:
            return first, second
    return None


def _make_keys(rows: KnownRows, ids: Sequence[str | None] | None, read: Sequence[str]) -> list[Hashable]:
    """What is equal for two rows that may be the same: their ids, else what is read of them."""
    if ids is None:
        return [*rows.write_rows(read)]
    kept = rows.write_rows(read) if rows.identity.keeps_values else rows.names  # the latter are nobody's values
    return [("id", own) if own is not None else ("read", text) for own, text in zip(ids, kept, strict=True)]
