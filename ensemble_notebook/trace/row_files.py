"""Rows for a map from a file, as they are written there: CSV, JSON Lines or Parquet; and rows as a file of text.

Why not simply pandas' readers: a whole number beside a gap becomes a float with them, and loses its digits beyond 15.
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ensemble_notebook.domain.value_text import WrittenFloat, is_missing, read_float, read_json
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.parquet_files import check_parquet

if TYPE_CHECKING:
    import pandas as pd

Formulas = Literal["text", "keep"]
"""What becomes of texts in a CSV file that a spreadsheet would evaluate."""
ROW_FILES: Final = (".csv", ".jsonl", ".parquet")
"""How the names of such files end."""
_CODE: Final = re.compile(r"^[+-]?0\d|^\+\d|^(?i:true|false)$")
"""What looks like a number or a truth value, and would not be written so again."""
_DIGITS: Final = 15
"""So many digits of a number any float has."""
_NUMBER: Final = r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*"
_WHOLE: Final = r"\s*-?(?:0|[1-9]\d*)\s*"
_FORMULA: Final = re.compile(r"(?![+-]?[\d.]+(?:[eE][+-]?\d+)?$)'*[=+\-@\t\r]")
"""What a spreadsheet evaluates, a number left out; and what would be read as such a text that is written for one."""
_TEXT_FORMULA: Final = re.compile(r"'+[=+\-@\t\r]")


def is_row_file(name: str) -> bool:
    """Whether something is named like a file of rows."""
    return name.lower().endswith(ROW_FILES)


def read_row_file(path: Path) -> pd.DataFrame:
    """Read the rows of a file; its columns are their values.

    Args:
        path: of the file; the end of its name says what it is.

    Raises:
        ValidationError: there is no such file, or it does not hold rows; says why.
        MissingPackageError: a Parquet file needs pyarrow.
    """
    name = path.name.lower()
    if not is_row_file(name):
        raise ValidationError(f"{path} is no file of rows: the end of its name is none of {', '.join(ROW_FILES)}.")
    if path.is_dir():
        raise ValidationError(f"{str(path)!r} is a folder.")
    if not path.is_file():
        near = [each.name for each in path.parent.glob("*") if is_row_file(each.name)] if path.parent.is_dir() else []
        raise ValidationError(f"There is no file {str(path)!r}.{did_you_mean(path.name, near)}")
    if name.endswith(".parquet"):
        check_parquet()
    try:
        if name.endswith(".csv"):
            return _read_csv(path)
        if name.endswith(".jsonl"):
            return _read_jsonl(path)
        from pyarrow import parquet

        rows: pd.DataFrame = parquet.read_table(path).to_pandas(integer_object_nulls=True)
        return rows
    except (ValueError, OSError) as error:  # those of pandas and pyarrow are such
        reason = " ".join(str(error).split())
        raise ValidationError(f"The rows in {str(path)!r} can't be read: {reason}.") from error


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file as it is written: a word such as ``NA`` is a text, ``00123`` no number, only nothing is missing.

    Raises:
        ValueError: a column stands twice, or a row has more values than there are columns.
    """
    import pandas as pd

    def read(dtype: Any) -> pd.DataFrame:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path, dtype=dtype, index_col=False, keep_default_na=False, na_values=[""], encoding="utf-8-sig"
            )

    with path.open(encoding="utf-8-sig", newline="") as file:
        head = next(csv.reader(file), [])
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the column {twice!r} stands twice")
    try:
        texts = read(str)
        coded = [name for name in texts if texts[name].str.contains(_CODE, na=False).any()]
        some = [(name, texts[name].dropna()) for name in texts if texts[name].isna().any()]
        whole = [name for name, known in some if len(known) and known.str.fullmatch(_WHOLE).all()]
        long = [name for name in texts if name not in [*coded, *whole] and _has_long_numbers(texts[name])]
        rows = read(dict.fromkeys([*coded, *whole, *long], str))
        for name in long:
            numbers = [None if is_missing(each) else _read_number(each) for each in rows[name]]
            rows[name] = pd.Series(numbers, dtype=object)
        for name in whole:
            numbers = [None if is_missing(each) else int(each) for each in rows[name]]
            rows[name] = pd.Series(numbers, dtype=object)
        return _map_texts(rows, lambda text: text[1:] if isinstance(text, str) and _TEXT_FORMULA.match(text) else text)
    except pd.errors.ParserWarning:
        raise ValueError(
            f"rows have more values than the {len(head)} columns; put a text with a comma in it between double quotes"
        ) from None


def _has_long_numbers(texts: pd.Series[Any]) -> bool:
    """Whether all are numbers, and one has more digits than a float."""
    known = texts.dropna()
    if not len(known) or known.str.len().max() <= _DIGITS or not known.str.fullmatch(_NUMBER).all():
        return False
    return any(isinstance(_read_number(each), WrittenFloat) for each in known)


def _read_number(text: str) -> int | float:
    return int(text) if re.fullmatch(_WHOLE, text) else read_float(text.strip())


def _read_jsonl(path: Path) -> pd.DataFrame:
    """Read a file with a JSON object on each line; empty lines are none.

    Raises:
        ValueError: a line is something else.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = read_json(line.strip(), object_pairs_hook=_make_object, parse_float=read_float)
            except ValueError as error:
                raise ValueError(f"line {number}: {str(error).partition(': line 1')[0]}") from error
            if not isinstance(row, dict):
                raise ValueError(f'line {number} is no JSON object, such as {{"topic": "tides"}}')
            rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return made


def write_jsonl(rows: pd.DataFrame, path: Path) -> None:
    """Write rows as a file with a JSON object on each line; what is missing is null.

    Args:
        rows: without their index.
        path: of the file.
    """
    columns = [[None if is_missing(each) else to_plain(each) for each in rows[name].tolist()] for name in rows]
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for values in zip(*columns, strict=True):
            row = dict(zip(rows.columns, values, strict=True))
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_csv(rows: pd.DataFrame, path: Path, formulas: Formulas = "text") -> None:
    """Write rows as a CSV file.

    Args:
        rows: without their index.
        path: of the file.
        formulas: ``"text"``: an apostrophe before texts that a spreadsheet would evaluate, which `read_row_file` takes
            away again; numbers stay numbers. ``"keep"``: as they are.
    """

    def mark_formula(text: Any) -> Any:
        return f"'{text}" if isinstance(text, str) and _FORMULA.match(text) else text

    (rows if formulas == "keep" else _map_texts(rows, mark_formula)).to_csv(path, index=False)


def _map_texts(rows: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Change the texts of a table, and those that its columns are called by; all other columns are as they were."""
    import pandas as pd

    changed = rows.copy(deep=False)
    for name, column in rows.items():
        if column.dtype.kind in "OU":
            changed[name] = pd.Series([change(each) for each in column], column.index, column.dtype)
    return changed.rename(columns=change)
