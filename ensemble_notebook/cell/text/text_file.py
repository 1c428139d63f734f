"""Reads text files named by the user, or refuses them with the reason. Knows nothing of their content."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ensemble_notebook.errors import ValidationError

MOST_BYTES: Final = 10_000_000


def read_text_file(path: Path) -> str:
    """Read a file as UTF-8, without a byte order mark. A path is relative to the working folder; ``~`` is the home.

    Raises:
        ValidationError: it is not there, a folder, too large, no text in UTF-8, or can't be opened.
    """
    try:
        return _read(path.expanduser())
    except FileNotFoundError:
        reason = "there is no such file" + ("" if path.is_absolute() else f" in {Path.cwd()}")
    except UnicodeDecodeError as error:
        reason = f"it is no text in UTF-8, from byte {error.start + 1:,} on; save it as UTF-8"
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
    raise ValidationError(f"{path} can't be read: {reason}.")


def _read(file: Path) -> str:
    if file.is_dir():
        raise ValueError("it is a folder; name a file in it")
    if (size := file.stat().st_size) > MOST_BYTES:
        raise ValueError(f"it has {size:,} bytes, and {MOST_BYTES:,} is the most; load it in Python")
    return file.read_text(encoding="utf-8-sig")
