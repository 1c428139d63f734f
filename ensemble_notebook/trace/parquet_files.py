"""Tables as Parquet (T123): a column's type there is what its table says, whatever is in it, also if nothing is."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ensemble_notebook.errors import MissingPackageError, ValidationError
from ensemble_notebook.trace.tables.arrow_tables import frame_to_arrow
from ensemble_notebook.trace.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd


def check_parquet() -> None:
    """See whether Parquet can be written here.

    Raises:
        MissingPackageError: pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise MissingPackageError("Parquet files need pyarrow", extra="parquet")


def write_parquet(frame: pd.DataFrame, table: Table, path: Path) -> None:
    """Write a frame as a file of Parquet: instants in microseconds, lists of names as lists, records as JSON text.

    Args:
        frame: the columns of the table, and perhaps more, which have the type of their dtype; a mixed one is text.
        table: what the frame is of.
        path: of the file.
    """
    from pyarrow import parquet

    with path.open("wb") as file:  # pyarrow would read a colon in a path as the end of a protocol
        parquet.write_table(frame_to_arrow(frame, table), file)


def write_parquet_folder(tables: Iterable[tuple[str, pd.DataFrame, Table]], folder: Path, *, overwrite: bool) -> None:
    """Write each table as a file in a folder. None is put there before all are written.

    Args:
        tables: with their names, made one by one.
        folder: is made where there is none.
        overwrite: it may have files, and those of the tables are replaced; others stay.

    Raises:
        ValidationError: there is a file in its place, or it has files and may not.
        OSError: it can't be written; what was there before is still there.
    """
    there = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    if there.exists() and not there.is_dir():
        raise ValidationError(f"{str(there)!r} is a file. The tables of a run are written to a folder.")
    is_new = not folder.exists()
    if not is_new and not overwrite and any(folder.iterdir()):
        raise ValidationError(
            f"The folder {str(folder)!r} has files in it. Name another one, or write overwrite=True: that replaces "
            "the files of these tables, and leaves all others."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # What is written to is renamed where that does: a folder that is there may be one in which somebody works.
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent if is_new else folder) as made:
            draft = Path(made)
            for name, frame, table in tables:
                write_parquet(frame, table, draft / f"{name}.parquet")
            if is_new:
                draft.rename(folder)
            else:
                for file in draft.iterdir():
                    file.replace(folder / file.name)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
