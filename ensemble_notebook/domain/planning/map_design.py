"""The design of a map: which rows it has, under which variants, how often, and what each was given (V10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.outputs.task_output import TaskOutput

MOST_REPEATS: Final = 1_000
"""How often a row may run."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpentBefore(Record):
    """What other maps took for a row, in the currency of this one.

    Attributes:
        input_tokens, output_tokens, cost, duration_ms: None where nothing is known.
        cost_complete: whether that is all of the cost; true in older maps.
        active_ms, human_wait_ms, idle_ms: the parts of the duration; None in older maps.
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
class EarlierRow(SpentBefore):
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
    before: SpentBefore | None = None
    id_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IndexLevel(Record):
    """A level of the index that the rows came with: its name, and the dtype of its labels."""

    name: str | None
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MapDesign(Record):
    """All runs of a map, whether they have begun or not.

    Attributes:
        rows: in the order of the result.
        index: the levels of the index of the rows; none where they came as a list.
        fields: of the typed output of all of them, by name, each with its JSON schema; empty where there is none.
        inputs: names of what rows are given, in order.
        id, read: as in `RowIdentity`.
    """

    rows: tuple[PlannedRow, ...]
    index: tuple[IndexLevel, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    id: str | None = None
    read: tuple[str, ...] | None = None
