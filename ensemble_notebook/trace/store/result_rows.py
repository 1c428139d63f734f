"""The results of finished tasks as the store holds them; what may have a secret in it is masked text by text (T7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.codec.record_writer import write_plain, write_record
from ensemble_notebook.trace.codec.secret_search import make_secret_search
from ensemble_notebook.trace.store.batch import encode_document, fold
from ensemble_notebook.trace.store.run_writer import FinishedTask

MASKED: Final = "its output holds what looks like a secret, which is never kept"

Row = tuple[Mapping[str, str], bytes]
"""Parts of the key, and the piece."""


def encode_results(tasks: Sequence[FinishedTask]) -> tuple[str, bytes]:
    """Results as `ADD_BATCH` takes them: the array, and the pieces.

    Raises:
        ValueError, RecursionError: one of them can't be written.
    """
    search = make_secret_search()
    quick = _encode_quickly(tasks, search)
    if quick is not None:
        return quick
    # One of them holds something; the others are as quick as before.
    alone = [(task, _encode_quickly([task], search)) for task in tasks]
    return _lay_out(tasks, [_mask(task) if each is None else (task.parts, each[1]) for task, each in alone])


def _encode_quickly(tasks: Sequence[FinishedTask], search: Callable[[bytes], bool]) -> tuple[str, bytes] | None:
    """The same, searched for secrets at once; None where something has to be left out, or may have to be."""
    try:
        written = list(map(_write, tasks))
        rows, pieces = _lay_out(tasks, [(task.parts, fold(each)) for task, each in zip(tasks, written, strict=True)])
    except ValueError:  # half a character somewhere, or a value of a user's
        return None
    return None if search(b",".join([rows.encode(), *written])) else (rows, pieces)


def _lay_out(tasks: Sequence[FinishedTask], made: Sequence[Row]) -> tuple[str, bytes]:
    """The array and the pieces, one after the other."""
    rows, start = [], 1
    for task, (parts, piece) in zip(tasks, made, strict=True):
        rows.append((task.path, task.key, parts, start, len(piece)))
        start += len(piece)
    return write_plain(rows).decode(), b"".join([piece for _, piece in made])


def _write(task: FinishedTask) -> bytes:
    """The document, quickly, and as it is.

    Raises:
        ValueError: something has to be left out, or may have to be. A value of a user's is one of these: what is in it
            is masked on its way, so that nobody could see that it was. And so is half a character.
    """
    outputs = (task.output, *task.delegated)
    if task.obstacle is not None or any(each.parsed_output is not None for each in outputs):
        raise ValueError("a result that is written text by text")
    output, *delegated = map(write_record, outputs)
    return b'[{"facts":%b,"output":%b,"delegated":[%b]}]' % (write_plain(task.facts), output, b",".join(delegated))


def _mask(task: FinishedTask) -> Row:
    """The same, text by text."""
    outputs = (task.output, *task.delegated)
    plain = [to_plain(output) for output in outputs]
    obstacle = task.obstacle or (MASKED if any(map(_is_changed, outputs, plain)) else None)
    document: dict[str, Any] = {"obstacle": obstacle, "facts": to_plain(task.facts)}
    if obstacle is None:
        document |= {"output": plain[0], "delegated": plain[1:]}
        document["hasLostValue"] = not _is_json(task.output.parsed_output)
    return to_plain(task.parts), encode_document(document)


def _is_changed(output: TaskOutput, plain: dict[str, Any]) -> bool:
    """Whether a secret was masked in what the task gave, so that it would be another output."""
    if plain.get("raw", "") != output.raw:
        return True
    return _is_json(output.parsed_output) and plain.get("parsedOutput") != output.parsed_output


def _is_json(value: Any) -> bool:
    """Whether a value is exactly what JSON has, so that it comes back as it was."""
    if isinstance(value, list):
        return type(value) is list and all(map(_is_json, value))
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and _is_json(each) for key, each in value.items())
    return value is None or type(value) in (str, int, float, bool)
