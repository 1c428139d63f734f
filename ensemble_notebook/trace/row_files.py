"""Rows for a map from a file, as pandas reads them: CSV, JSON Lines or Parquet."""

from __future__ import annotations

import csv
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.errors import MissingPackageError, ValidationError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

ROW_FILES: Final = (".csv", ".jsonl", ".parquet")
"""How the names of such files end."""
_CODE: Final = re.compile(r"^[+-]?0\d|^\+\d|^(?i:true|false)$")
"""What looks like a number or a truth value, and would not be written so again."""


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
    import pandas as pd

    name = path.name.lower()
    if not is_row_file(name):
        raise ValidationError(f"{path} is no file of rows: the end of its name is none of {', '.join(ROW_FILES)}.")
    if path.is_dir():
        raise ValidationError(f"{str(path)!r} is a folder.")
    if not path.is_file():
        near = [each.name for each in path.parent.glob("*") if is_row_file(each.name)] if path.parent.is_dir() else []
        raise ValidationError(f"There is no file {str(path)!r}.{did_you_mean(path.name, near)}")
    if name.endswith(".parquet") and find_spec("pyarrow") is None:
        raise MissingPackageError("Parquet files need pyarrow", extra="parquet")
    try:
        if name.endswith(".csv"):
            return _read_csv(path)
        if name.endswith(".jsonl"):
            return pd.read_json(path, lines=True, dtype=False)
        return pd.read_parquet(path, engine="pyarrow")
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
        return read(dict.fromkeys(coded, str))
    except pd.errors.ParserWarning:
        raise ValueError(
            f"rows have more values than the {len(head)} columns; put a text with a comma in it between double quotes"
        ) from None
