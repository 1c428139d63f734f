"""Two runs of rows beside each other, of one map or of two: which of them `MapResult.diff` means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ensemble_notebook.domain.planning.row_pairs import KnownRows, pair_rows
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.many_runs.verdicts import shorten_names
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.trace.comparison.run_diff import RunDiff

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput


class DiffedResult(Protocol):
    """What is asked of a `MapResult` here."""

    @property
    def rows(self) -> Sequence[Any]: ...
    @property
    def variants(self) -> tuple[str, ...] | None: ...
    @property
    def repeats(self) -> int | None: ...
    def list_known_rows(self) -> KnownRows: ...


def diff_rows(result: DiffedResult, a: Any, b: Any, row: int, repeat: int) -> RunDiff:
    """As `MapResult.diff`."""
    later = result if b is None else b
    if isinstance(a, str) and isinstance(later, str):
        (first, first_name), (second, second_name) = (_find_run(result, each, row, repeat) for each in (a, later))
    elif _is_place(a) and _is_place(later):
        (first, first_name), (second, second_name) = (_get_run(each, result.rows) for each in (a, later))
    elif hasattr(a, "list_known_rows") and hasattr(later, "list_known_rows"):
        second, second_name = _find_run(later, None, row, repeat)
        first, first_name = _find_run(a, None, _find_row_in(a, later, row), repeat)
    else:
        raise ValidationError(
            f"diff takes two names of variants, two places in this result, or results, got {a!r} and {b!r}."
        )
    return RunDiff(first.trace.fold, second.trace.fold, (first_name, second_name))


def find_variant(result: DiffedResult, name: str) -> str:
    """The whole name of a variant, which may be given as short as sentences have it.

    Raises:
        ValidationError: there is no such variant.
    """
    names = result.variants or ()
    found = name if name in names else dict(zip(shorten_names(names), names, strict=True)).get(name)
    if found is None:
        raise ValidationError(f"No variant is called {name!r}.{did_you_mean(name, names)}")
    return found


def _find_run(result: DiffedResult, variant: str | None, row: int, repeat: int) -> tuple[EnsembleOutput, str]:
    """The run of a variant, None where there are none, and what the timeline calls it."""
    if variant is None and result.variants:
        raise ValidationError(f"A result with variants ({', '.join(result.variants)}) has several runs of a row.")
    variant = None if variant is None else find_variant(result, variant)
    rows = [each for each in result.rows if each.variant == variant and each.repeat in (None, repeat)]
    if not rows or (repeat != 1 and result.repeats is None):
        raise ValidationError(f"There are {result.repeats or 1} repeats, so repeat must be 1 to {result.repeats or 1}.")
    return _get_run(row, rows)


def _get_run(row: Any, rows: Sequence[Any]) -> tuple[EnsembleOutput, str]:
    if not _is_place(row):
        raise ValidationError(f"row must be the place of a row, from 0, got {row!r}.")
    if not -len(rows) <= row < len(rows):
        raise ValidationError(f"There are {pluralize(len(rows), 'row')}, so row must be 0 to {len(rows) - 1}.")
    output: EnsembleOutput | None = rows[row].output
    if output is None:
        raise ValidationError(f"{rows[row].name} has no run: {rows[row].reason or rows[row].status}.")
    return output, rows[row].name


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _find_row_in(earlier: DiffedResult, later: DiffedResult, row: int) -> int:
    """The position of the same row in an earlier result.

    Raises:
        ValidationError: it has none.
    """
    before, now = earlier.list_known_rows(), later.list_known_rows()
    pairs = pair_rows(before, now)
    found = pairs.partners.get(now.names[row])
    if found is None:
        why = f", since {pairs.reason}" if pairs.reason else ""
        raise ValidationError(f"The other map has no row that is the same as {now.names[row]}{why}.")
    return list(before.names).index(found)
