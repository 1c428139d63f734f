"""The rows of a map: the inputs of each run, and its name.

Imports no library of tables, since that would take longer than most runs; tables are recognised by their methods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.attachments import find_file_fault, find_mark
from ensemble_notebook.domain.definitions.tool import SourcedInput
from ensemble_notebook.domain.outputs.secrets import mask_named
from ensemble_notebook.domain.planning.ensemble_rules import make_visible
from ensemble_notebook.domain.planning.map_design import ID_COLUMN, ONLY_ROW, IndexLevel, write_value
from ensemble_notebook.domain.value_text import is_missing, is_table, mend_text
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.earlier_runs.reuse import name_repeat
from ensemble_notebook.errors import PromptTemplateError, ValidationError, did_you_mean, find_nearest
from ensemble_notebook.trace.codec.event_codec import to_plain

_LONGEST_NAME: Final = 60
_MOST_NAMED: Final = 5
_MOST_COLUMNS: Final = 12
_WANTED: Final = "map takes a DataFrame or a list of mappings, one for each run"


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        label: its label in the index; without an index, its number, from 0.
        name: of its run, unique in the map.
        values: by column name.
    """

    label: Any
    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows, in order.

    Attributes:
        rows: in order.
        index: of the table that they came from; None where they came from a list.
        columns: all names of values, in order of appearance.
    """

    rows: Sequence[Row]
    index: Any
    columns: tuple[str, ...]


def read_rows(given: Any, *, hides_labels: bool = False) -> Rows:
    """Read a table or a list as rows.

    Args:
        given: a DataFrame of pandas or polars, or mappings. Missing values (NaN, NA, NaT) become None.
        hides_labels: whether rows are named by position, because labels are texts that are not kept.

    Raises:
        ValidationError: it is neither, or a row or column can't be used; says which.
    """
    if isinstance(given, Mapping):
        kind = _describe_kind(given)
        raise ValidationError(f"{_WANTED}, got {kind}: of columns make a DataFrame, of a single row a list of it.")
    if isinstance(given, str | bytes | type) or not hasattr(given, "__iter__"):
        raise ValidationError(f"{_WANTED}, got {_describe_kind(given)}.")
    if hasattr(given, "to_frame") and not hasattr(given, "columns"):
        raise ValidationError(f"{_WANTED}, got a Series, which has no names of columns: give series.to_frame('name').")
    if hasattr(given, "columns") and hasattr(given, "__getitem__"):
        columns, values = _read_table(given)
        index = getattr(given, "index", None)
        labels: Sequence[Any] = range(len(values)) if index is None else list(index)
    else:
        values, index = _read_mappings(given), None
        columns, labels = tuple(dict.fromkeys(name for each in values for name in each)), range(len(values))
    taken: dict[str, int] = {}  # further rows of a name are called "name #2" and so on
    rows = []
    for place, (label, row) in enumerate(zip(labels, values, strict=True)):
        wanted = name = _name_row(place if hides_labels else label) or f"row {place}"
        while name in taken:
            taken[wanted] += 1
            name = f"{wanted} #{taken[wanted] + 1}"
        taken[name] = 0
        rows.append(Row(label, name, row))
    return Rows(rows, index, columns)


def make_only_row(values: Mapping[str, Any]) -> Rows:
    """A single row without a name, so that runs are named by their variant alone."""
    return Rows([Row(0, ONLY_ROW, values)], None, tuple(values))


def attach_files(rows: Rows, columns: Sequence[str]) -> Rows:
    """The same rows, in which the texts of these columns are paths of pictures and PDFs.

    Args:
        rows: all of them.
        columns: their names. A path is relative to the working folder; ``~`` is the home.

    Raises:
        ValidationError: there is no such column, or a row has no such file in it; names the first few.
    """
    for name in columns:
        if name not in rows.columns:
            raise ValidationError(
                f"attach names the column {name!r}, which is not there.{did_you_mean(name, rows.columns)} "
                f"{_describe_columns(rows.columns)}"
            )
    attached = []
    faults = []
    for row in rows.rows:
        values = dict(row.values)
        for name in columns:
            value = values.get(name)
            if isinstance(value, str):
                value = values[name] = Path(value).expanduser()
            fault = find_file_fault(value) if isinstance(value, Path) else None
            if value is None:
                fault = "is empty."
            if fault is not None:
                faults.append(f"{row.name}: the column {name!r}, whose files are attached, {fault}")
        attached.append(replace(row, values=values))
    if faults:
        more = f" So it is in {len(faults) - _MOST_NAMED} more." if len(faults) > _MOST_NAMED else ""
        raise ValidationError(f"{' '.join(faults[:_MOST_NAMED])}{more}")
    return replace(rows, rows=attached)


def _read_table(table: Any) -> tuple[tuple[str, ...], list[Mapping[str, Any]]]:
    columns = list(table.columns)
    if strange := [each for each in columns if isinstance(each, tuple)]:
        raise ValidationError(
            f"The table has columns of several levels, such as {strange[0]!r}, and a text can't name them. Give each "
            f"one name: df.columns = ['_'.join(map(str, each)) for each in df.columns]."
        )
    names = [mend_text(str(each)) for each in columns]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValidationError(f"The table has several columns called {', '.join(map(repr, repeated))}. Rename them.")
    if not columns:
        return (), [{} for _ in range(len(table))]
    values = []
    for each in columns:
        column = table[each]
        to_list = getattr(column, "tolist", None) or getattr(column, "to_list", None) or column.to_pylist
        values.append([None if is_missing(value) else value for value in to_list()])
    return tuple(names), [dict(zip(names, each, strict=True)) for each in zip(*values, strict=True)]


def _read_mappings(given: Iterable[Any]) -> list[Mapping[str, Any]]:
    rows = list(given)
    if wrong := [(place, each) for place, each in enumerate(rows) if not isinstance(each, Mapping)]:
        what = ", ".join(f"row {place} is {_describe_kind(each)}" for place, each in wrong[:_MOST_NAMED])
        more = f", and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        raise ValidationError(f"{_WANTED}, such as {{'topic': 'tides'}}: {what}{more}.")
    return [{mend_text(str(name)): None if is_missing(each) else each for name, each in row.items()} for row in rows]


def _describe_kind(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"


def _name_row(label: Any) -> str:
    if isinstance(label, tuple):
        text = "/".join(_write_label(each) for each in label)
    elif isinstance(label, str) or hasattr(label, "isoformat"):
        text = _write_label(label)
    else:
        return f"row {_write_label(label)}"
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."


def _write_label(label: Any) -> str:
    if hasattr(label, "isoformat"):
        return str(label).removesuffix(" 00:00:00")
    try:
        return make_visible(str(label))
    except Exception:  # noqa: BLE001 - it is anybody's `__str__`
        return f"<{type(label).__name__}>"


def check_columns(rows: Rows, variables: Mapping[str, str], known: Mapping[str, Any]) -> None:
    """Check that every variable has a value in every row. An empty value is a value.

    Args:
        rows: all of them.
        variables: of the ensemble, each with the first text that has it.
        known: inputs of all rows.

    Raises:
        PromptTemplateError: names every missing variable once, in order, and where it is missing.
    """
    missing = {
        name: text
        for name, text in variables.items()
        if name not in known and any(name not in row.values for row in rows.rows)
    }
    if missing:
        advice = " ".join([*(_advise(name, rows) for name in missing), _describe_columns(rows.columns)])
        raise PromptTemplateError(tuple(missing), next(iter(missing.values())), advice)


def find_id_column(rows: Rows, named: str | None) -> str | None:
    """The column that tells the rows apart; None where there is none.

    Args:
        rows: all of them.
        named: by a person; None: `ID_COLUMN`, where it is there.

    Raises:
        ValidationError: the column that was named is not there, or an id stands twice.
    """
    column = named if named is not None else ID_COLUMN if ID_COLUMN in rows.columns else None
    if column is None:
        return None
    if column not in rows.columns:
        raise ValidationError(
            f"The id column {column!r} is not there.{did_you_mean(column, rows.columns)} "
            f"{_describe_columns(rows.columns)}"
        )
    places: dict[str, list[str]] = {}
    for row in rows.rows:
        if text := write_value(to_kept_value(row.values.get(column))):
            places.setdefault(text, []).append(row.name)
    repeated = [(text, names) for text, names in places.items() if len(names) > 1]
    if repeated:
        text, names = repeated[0]
        more = f", as {pluralize(len(repeated) - 1, 'other id')}" if len(repeated) > 1 else ""
        raise ValidationError(
            f"The column {column!r} tells the rows apart, and {mask_named(column, _shorten(text))!r} stands "
            f"several times, in {', '.join(names[:_MOST_NAMED])}{more}. Give each row an id of its own, or name "
            f"another column (id=, in a cell and a command --id)."
        )
    return column


def _advise(name: str, rows: Rows) -> str:
    """Where a value is missing, and which column may have been meant."""
    lacking = [row.name for row in rows.rows if name not in row.values]
    if len(lacking) < len(rows.rows):
        more = f" and {len(lacking) - _MOST_NAMED} more rows" if len(lacking) > _MOST_NAMED else ""
        return f"{name!r} is missing in {', '.join(lacking[:_MOST_NAMED])}{more}."
    plain = _to_plain(name)
    same = next((each for each in rows.columns if _to_plain(each) == plain), None)
    if same is not None:  # only its spelling can't stand between braces, or is another one
        return f"Rename the column {same!r} to {name!r}."
    near = find_nearest(name, rows.columns)
    return f"No column is called {name!r}.{'' if near is None else f' Did you mean {near!r}?'}"


def _describe_columns(columns: Sequence[str]) -> str:
    shown = ", ".join(columns[:_MOST_COLUMNS])
    more = f" and {len(columns) - _MOST_COLUMNS} more" if len(columns) > _MOST_COLUMNS else ""
    return f"The columns are {shown}{more}." if columns else "The rows have no columns."


def _to_plain(name: str) -> str:
    return "".join(each for each in name.casefold() if each.isalnum())


# --- The names of the runs of a map, by which traces, results and a map that goes on know them ------------------------


_SHOWN_VALUE: Final = 60
_SHOWN_ROW: Final = 200


def name_runs(
    variants: Sequence[str | None], rows: Rows, repeats: int | None = None, *, hides_labels: bool = False
) -> Iterator[tuple[str, int, Row, int | None]]:
    """Name each row under each variant; all of them once, then all of them for the second time (V1).

    Args:
        variants: their names; None: of a map without variants.
        rows: all of them.
        repeats: how often each runs; None: once, without a number.
        hides_labels: whether variants are named by position, because their names are texts that are not kept.

    Returns:
        The name, which is unique in the map, the position of the variant, the row, and the number of the repeat.
    """
    taken = set()
    for repeat in range(1, repeats + 1) if repeats is not None else (None,):
        for place, variant in enumerate(variants):
            prefix = f"variant {place}" if hides_labels and variant is not None else variant
            for row in rows.rows:
                name = name_repeat("/".join(each for each in (prefix, row.name) if each), repeat)
                while name in taken:  # what is "a/b" and "c" together, may be "a" and "b/c"
                    name += "'"
                taken.add(name)
                yield name, place, row, repeat


def describe_row(row: Row) -> str:
    """The row in a few words, for views."""
    parts = (f"{name}: {mask_named(name, _shorten(value))}" for name, value in row.values.items())
    text = "; ".join(parts)
    return text if len(text) <= _SHOWN_ROW else f"{text[:_SHOWN_ROW]}..."


def describe_index(index: Any) -> tuple[IndexLevel, ...]:
    """The levels of the index of a table; none where there is no index."""
    if index is None:
        return ()
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    return tuple(
        IndexLevel(name=None if each.name is None else str(each.name), dtype=str(each.dtype)) for each in levels
    )


def to_kept_value(value: Any) -> Any:
    """A value or label as the trace keeps it: as JSON has it, else as text; a table by its size."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, tuple):
        return tuple(map(to_kept_value, value))
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if is_table(value):
        return f"a table of {len(value)} rows"
    if isinstance(value, SourcedInput):
        return str(value)
    if (mark := find_mark(value)) is not None:
        return f"{value} {mark}" if isinstance(value, Path) else mark
    try:
        return to_plain(value)
    except Exception:  # noqa: BLE001 - it is an object of anybody
        return f"<{type(value).__name__}>"


def _shorten(value: Any) -> str:
    if is_table(value):
        return f"a table of {len(value)} rows"
    try:
        text = "" if value is None else " ".join(str(value)[: 2 * _SHOWN_VALUE].split())
    except Exception:  # noqa: BLE001 - it is anybody's `__str__`
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}..."
