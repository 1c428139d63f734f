"""The file of a recording as it grows (E42, E70). Knows the form of documents and the place, not what they say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.errors import ValidationError, summarize_error
from ensemble_notebook.models.recording.exchange_documents import FOR_PEOPLE
from ensemble_notebook.models.recording.pending_exchange import PendingExchange
from ensemble_notebook.models.recording.recording_format import (
    COMPLETE,
    HEADER,
    INCOMPLETE,
    format_document,
    is_recording,
)


class RecordingFile:
    """A recording that grows. Whole after each document, whatever happens then: nothing is kept open or back.

    The first that is written replaces what the file held before, so that a run which never gets there leaves an older
    recording as it is.

    A file that can't be written costs a warning, never the run: what models answer is paid for (E70). Nothing more is
    written then, since later documents refer to earlier ones, and the file says that it is incomplete.

    Why not on a thread: an exchange takes less than a millisecond to write, and the next one may refer to its number.

    Args:
        path: of the file; ``~`` is the home folder.

    Attributes:
        warnings: at most one: that the file could not be written.

    Raises:
        ValidationError: there can be no file, or there is one which is no recording.
    """

    keeps_pieces: Final = True
    keeps_tasks: Final = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.warnings: list[str] = []
        self._path = _check_path(Path(path).expanduser().absolute())
        self._whole_size = 0
        self._has_begun = False

    def write(self, document: Mapping[str, Any]) -> None:
        """Append a document."""
        if self.warnings:
            return
        is_first, self._has_begun = not self._has_begun, True
        try:
            text = (HEADER if is_first else "") + format_document(document)
            with self._path.open("w" if is_first else "a", encoding="utf-8", newline="\n") as file:
                file.write(text)
            self._whole_size += len(text.encode())
        except Exception as error:  # noqa: BLE001 - a full disk, or values that the format has no words for
            reason = getattr(error, "strerror", None) or summarize_error(error)
            self.warnings.append(
                f"The recording {self._path} is incomplete, since it could not be written: {reason}. The run went on; "
                f"to replay it, record anew."
            )
            self._mark_incomplete()

    def write_exchange(self, exchange: PendingExchange) -> None:
        """Append the document of an exchange."""
        self.write(exchange.to_document(FOR_PEOPLE))

    def _mark_incomplete(self) -> None:
        """Cut off what is not whole, and say so in place, which needs no room; where that fails, leave no recording."""
        try:
            with self._path.open("r+b") as file:
                file.truncate(self._whole_size)
                file.seek(HEADER.encode().index(COMPLETE))
                file.write(INCOMPLETE)
            is_marked = self._whole_size > 0
        except OSError:
            is_marked = False
        if not is_marked and self._path.is_file():
            with suppress(OSError):
                self._path.unlink()


def _check_path(file: Path) -> Path:
    """Give back a path at which a recording can be made.

    Raises:
        ValidationError: it is none.
    """
    if file.is_dir():
        raise ValidationError(f"The recording {file} is a folder. Name a file in it.")
    if not file.parent.is_dir():
        raise ValidationError(f"The recording {file} has no place: there is no folder {file.parent}. Make it first.")
    try:
        if file.exists() and file.stat().st_size and not is_recording(file):
            raise ValidationError(f"{file} is no recording, and would be overwritten. Record to another file.")
    except OSError as error:
        raise ValidationError(f"The recording {file} can't be made: {error.strerror}.") from error
    return file
