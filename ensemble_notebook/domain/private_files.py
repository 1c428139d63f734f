"""Files that hold prompts and replies are for their owner alone (E69). On Windows their folder decides that."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# What SQLite keeps beside a database; it makes each with the mode of that.
_BESIDE_DATABASE: Final = ("-journal", "-shm", "-wal")


def make_private(path: Path) -> None:
    """Make the file where there is none; one that is there, from earlier versions perhaps, is taken from all others.

    Never opens a file that is there: to close it would end the locks that SQLite has on it in this process.

    Raises:
        OSError: it can't be made.
    """
    file = os.path.realpath(path)  # where a link leads nowhere yet, there will be the file
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR))
    except FileExistsError:
        _narrow(path)


def make_private_database(path: Path) -> None:
    """The same for a database of SQLite, and for what lies beside it.

    Raises:
        OSError: it can't be made.
    """
    make_private(path)
    for ending in _BESIDE_DATABASE:
        _narrow(Path(f"{os.path.realpath(path)}{ending}"))


def _narrow(path: Path) -> None:
    """Take it from all but its owner. Not a pipe or a device; and whose it is not, can't."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
