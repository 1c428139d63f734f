"""What stands in the cells of the table of a map (W153): the first words of each answer, and what its row was given.

A view asks for the cells that a person sees, since a map has more of them than any page could hold. Texts are cut and
masked; whether two answers are the same is told of all of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any, Final

from ensemble_notebook.domain.attachments import list_digests, name_marks
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.outputs.secrets import is_secret_name, mask_start
from ensemble_notebook.domain.planning.map_design import write_value
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text, clean_value

LONGEST_ANSWER: Final = 240
LONGEST_INPUT: Final = 120
"""So many characters of a text are sent: more has no room in a cell."""
MOST_CELLS: Final = 1_000
"""So many cells one message has."""
_LONGEST_TYPED: Final = 20_000
"""An answer that is longer is not read as JSON, since its first words would be all that is seen of it."""


def make_cells(fold: TraceFold, span_ids: Iterable[Any], share: float = 1.0) -> list[list[Any]]:
    """The cells of these spans; nothing of ids that the run does not have.

    Args:
        fold: of a map, or of any run with items.
        span_ids: of rows, and of tasks in them.
        share: how much of each text is wanted: less where all of it is kept.

    Returns:
        Of each the id, the first words of its answer or None, a number that is the same where answers are the same, and
        the values of the inputs, in the order of the run's ``row_inputs``; where pictures stand in these, their digests
        by place, that in the answer as ``"answer"``.
    """
    cells = []
    for span_id in span_ids:
        span = fold.find_span(span_id)
        if span is None:
            continue
        given = {} if span.planned_row is None else span.planned_row.inputs
        inputs = [_to_input(name, given.get(name), share) for name in fold.row_inputs] if given else []
        pictures: dict[str, str] = {}
        if fold.attachments:
            for place, name in enumerate(fold.row_inputs if given else ()):
                inputs[place] = _take_picture(fold, given.get(name), str(place), pictures) or inputs[place]
            _take_picture(fold, span.output, "answer", pictures)
        text = None if fold.capture_mode is CaptureMode.METADATA else span.output
        digest = None if text is None else zlib.crc32(text.encode(errors="surrogatepass"))
        answer = None if text is None else _cut(name_marks(_read_answer(text)), int(LONGEST_ANSWER * share))
        cells.append([span_id, answer, digest, inputs, *([pictures] if pictures else [])])
    return cells


def list_pictured(cells: Iterable[list[Any]]) -> Iterator[str]:
    """The digests of the pictures in cells."""
    for cell in cells:
        yield from cell[4].values() if len(cell) > 4 else ()


def _take_picture(fold: TraceFold, value: Any, place: str, pictures: dict[str, str]) -> str | None:
    """Note the first picture or PDF in a value, and give the words to read in place of its mark."""
    digests = list_digests(value) if isinstance(value, str) else []
    found = next((fold.attachments[each] for each in digests if each in fold.attachments), None)
    if found is None:
        return None
    pictures[place] = found.digest
    path = name_marks(value).removesuffix(f"[{found.kind}]").strip()  # of a file its name is enough
    return _cut(clean_text(PurePath(path).name or found.file_name), LONGEST_INPUT) or f"[{found.kind}]"


def _read_answer(text: str) -> str:
    """What a span gave: of a typed value its fields, else the text."""
    if not text.startswith("{") or len(text) > _LONGEST_TYPED:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    told = {name: "none" if each is None else write_value(each) or "" for name, each in value.items()}
    return " · ".join(told.values() if len(told) == 1 else (f"{name}: {each}" for name, each in told.items()))


def _to_input(name: str, value: Any, share: float) -> str | int | float | bool | None:
    """An input as JSON has it, so that numbers can be put in order; what is long or nested as its first words."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and not is_secret_name(name):
        return value if abs(value) < 2**53 else str(value)  # also where it is no number
    text = value if isinstance(value, str) else write_value(value) or ""
    cut = _cut(mend_text(mask_start(text, LONGEST_INPUT * 2)), int(LONGEST_INPUT * share))
    return clean_value(name, cut)


def _cut(text: str, length: int) -> str:
    """The first words of a text, in one line."""
    start = text[: 2 * length]
    words = " ".join(start.split())
    return f"{words[:length].rstrip()}…" if len(words) > length or len(start) < len(text) else words
