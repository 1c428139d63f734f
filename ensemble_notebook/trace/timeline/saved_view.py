"""What a notebook's file keeps of a run (W14): as many rows and details as there is room for, the most telling first.

A view of a run that was too large says what it keeps, so everything that is left out is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.timeline.pictures import fit_pictures
from ensemble_notebook.trace.timeline.row_columns import pack_rows, to_texts
from ensemble_notebook.trace.timeline.span_details import has_details, index_handovers, to_details
from ensemble_notebook.trace.timeline.table_cells import list_pictured, make_cells

LONGEST_TEXTS: Final = (20_000, 4_000)
"""How much there is of each text: as much as live where all of it fits, else less."""

SHORTEST_SHARED: Final = 60
SHORTEST_PART: Final = 200
MOST_PARTS: Final = 100
"""From how many characters on a text is stored once, is looked for inside of others, and how many of those are."""

ROW_SHARE: Final = 0.6
CELL_SHARE: Final = 0.15
SHORT_CELL: Final = 0.4
"""How much of a saved view the cells of the table of a map may take, and of each text in them there is so much less."""
PICTURE_SHARE: Final = 0.3
MOST_ROWS: Final = 4_000
MOST_FRAMES: Final = 700
FIRST_TRY: Final = 1_700
MOST_TRIES: Final = 5
ENOUGH: Final = 0.75
MOST_MISSES: Final = 50

_FRAMES: Final = (SpanKind.PHASE, SpanKind.TASK)
_PARTS: Final = (SpanKind.TURN, SpanKind.ATTEMPT)


def add_rows_and_details(saved: dict[str, Any], fold: TraceFold, spans: Sequence[Span], max_bytes: int) -> None:
    """Fill in a saved view: the rows of these spans and their details, as far as it stays within `max_bytes` of JSON.

    A row whose parent is left out is inside the next one around it that is kept.
    """
    saved.update(
        count=0, columns=[], details={}, texts=[], rows_total=len(spans), rows_left_out=len(spans), details_left_out=0
    )
    all_kinds = Counter(span.kind for span in spans)
    saved["kept"] = {kind.value: [number, number] for kind, number in all_kinds.items()}
    room = max_bytes - measure_bytes(saved) - 100  # the counts grow, and the id of the feed is added
    kept, columns, size = _fit_rows(rank_spans(spans), min(len(spans), MOST_ROWS), int(room * ROW_SHARE))
    kinds = Counter(span.kind for span in kept)
    saved["kept"] = {kind.value: [kinds[kind], number] for kind, number in all_kinds.items()}
    saved.update(count=len(kept), columns=columns, rows_left_out=len(spans) - len(kept))
    if fold.task_noun.is_run:
        saved["cells"] = _fit_cells(fold, kept, int(max_bytes * CELL_SHARE))
        size += measure_bytes(saved["cells"])
    if fold.attachments:
        digests = chain(list_pictured(saved.get("cells", ())), fold.attachments)
        saved["pictures"] = fit_pictures(fold, digests, int(max_bytes * PICTURE_SHARE))
        size += measure_bytes(saved["pictures"]) + 14
    wanted = [span for span in kept if has_details(fold, span)]
    for longest in LONGEST_TEXTS:
        saved["details"], saved["texts"] = _fit_details(fold, wanted, room - size, longest)
        saved["details_left_out"] = len(wanted) - len(saved["details"])
        if not saved["details_left_out"]:
            break


def _fit_details(
    fold: TraceFold, spans: Sequence[Span], room: int, longest: int
) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    """The details of these spans as far as there is room, and their texts; what is too long makes way for the next."""
    found: dict[str, dict[str, Any]] = {}
    table = TextTable(span.output for span in spans if span.output and span.kind is not SpanKind.TURN)
    misses = 0
    handovers = index_handovers(fold)
    for span in spans:
        known = len(table.texts)
        details = table.share_texts_of(to_details(fold, span.span_id, longest, handovers))
        added = sum(measure_bytes(text) + 2 for text in table.texts[known:])
        size = measure_bytes(details) + measure_bytes(span.span_id) + 4 + added
        if size <= room:
            room -= size
            found[span.span_id] = details
        else:
            table.forget_from(known)
            misses += 1
            if misses > MOST_MISSES:
                break
    return found, table.texts


def _fit_cells(fold: TraceFold, spans: Sequence[Span], room: int) -> list[list[Any]]:
    """The cells of the rows of a map that are kept, as far as there is room."""
    found: list[list[Any]] = []
    for cell in make_cells(fold, (span.span_id for span in spans if span.is_own_task), SHORT_CELL):
        room -= measure_bytes(cell) + 2
        if room < 0:
            break
        found.append(cell)
    return found


class TextTable:
    """Texts that are stored once, however often a run repeats them: in each call of a conversation, in later prompts.

    A text stands in it as it is, or as a list of its parts: words, and the numbers of texts before it.

    Args:
        parts: texts that may be inside of others.

    Attributes:
        texts: what is stored, in the order of its numbers.
    """

    def __init__(self, parts: Iterable[str]) -> None:
        self.texts: list[Any] = []
        self._numbers: dict[str, int] = {}
        long = sorted({part for part in parts if len(part) >= SHORTEST_PART}, key=len, reverse=True)
        self._parts = long[:MOST_PARTS]

    def share_texts_of(self, details: dict[str, Any]) -> dict[str, Any]:
        """The details with numbers in place of their longer texts."""
        messages = [
            {name: self.share(value) if name in ("text", "reasoning") else value for name, value in each.items()}
            for each in details["messages"]
        ]
        shared = {name: self.share(details[name]) for name in ("input", "output")}
        return {**details, **shared, "messages": messages}

    def share(self, text: str | None) -> str | int | None:
        """The number of a text; a short one as it is."""
        if text is None or len(text) < SHORTEST_SHARED:
            return text
        number = self._numbers.get(text)
        if number is None:
            split = self._split(text)
            number = self._numbers[text] = len(self.texts)
            self.texts.append(split)
        return number

    def forget_from(self, number: int) -> None:
        """Forget the texts from this one on."""
        self._numbers = {text: known for text, known in self._numbers.items() if known < number}
        del self.texts[number:]

    def _split(self, text: str) -> Any:
        """The text, or its parts where others are inside of it."""
        for part in self._parts:
            before, found, after = text.partition(part) if len(part) < len(text) else (text, "", "")
            if found:
                return [*self._to_parts(before), self.share(part), *self._to_parts(after)]
        return text

    def _to_parts(self, text: str) -> list[Any]:
        """A text between others as parts; nothing of an empty one."""
        split = self._split(text) if len(text) >= SHORTEST_PART else text
        return split if isinstance(split, list) else [split] if split else []


def measure_bytes(value: Any) -> int:
    """How many bytes it takes as plain JSON. A packer that writes less has bytes to spare."""
    return len(json.dumps(value))


def rank_spans(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans in the order in which they are kept: any first part of it tells of the whole run.

    Of a large run only a small part is asked for, so that each is found when its turn comes.

    Phases and tasks come first, then errors, then what the run's length hung on; turns and attempts, which calls tell
    of, come last. Of each, the longest and such from all of the run take turns. Where there are very many tasks, some
    of them come with what is in them before the others.
    """
    groups: dict[int, list[Span]] = {}
    for span in spans:
        groups.setdefault(_find_group(span), []).append(span)
    frames = _put_rows_first(chain(_take_turns(groups.pop(0, [])), _take_turns(groups.pop(1, []))))
    first = list(islice(frames, MOST_FRAMES))
    other_frames = list(islice(frames, 1))
    others = [group for _, group in sorted(groups.items())]
    yield from first
    if not other_frames:
        yield from chain.from_iterable(map(_take_turns, others))
        return
    inside = {span.span_id for span in first}
    yield from (span for group in others for span in _take_turns(group) if span.task_id in inside)
    yield from chain(other_frames, frames)
    yield from (span for group in others for span in _take_turns(group) if span.task_id not in inside)


def _put_rows_first(frames: Iterable[Span]) -> Iterator[Span]:
    """The same, each once, the row of a map before the first task in it, which would stand for a row without it."""
    given: set[str] = set()
    for span in frames:
        row: Span | None = span
        while span.row is not None and row is not None and not row.is_own_task:
            row = row.parent
        for each in (row, span):
            if each is not None and each.span_id not in given:
                given.add(each.span_id)
                yield each


def _find_group(span: Span) -> int:
    is_wrong = span.status in (SpanStatus.ERROR, SpanStatus.WAITING)
    if span.kind in _FRAMES:
        return 0 if is_wrong or span.kind is SpanKind.PHASE else 1
    if is_wrong:
        return 2
    if span.kind in _PARTS:
        return 6
    if span.critical:
        return 3
    return 5 if span.kind.traits.is_activity else 4


def _take_turns(spans: Sequence[Span]) -> Iterator[Span]:
    """The longest, one from anywhere, the next longest, one from elsewhere, and so on."""
    longest = sorted(spans, key=lambda span: -(span.duration_ms or 0.0))
    taken: set[int] = set()
    # The places so that any first part of them is spread over all: 0, a half, a quarter, ...
    bits = max(len(spans) - 1, 0).bit_length()
    turned = (int(format(number, f"0{bits}b")[::-1], 2) if bits else 0 for number in range(2**bits))
    for span, place in zip(longest, (number for number in turned if number < len(spans)), strict=True):
        for each in (span, spans[place]):
            if each.position not in taken:
                taken.add(each.position)
                yield each


def _fit_rows(ranked: Iterator[Span], most: int, room: int) -> tuple[Sequence[Span], list[dict[str, Any]], int]:
    """As many rows as there is room for, or nearly, and at most `most`: spans, their columns, the bytes of these."""
    best: tuple[Sequence[Span], list[dict[str, Any]], int] = ([], [], 0)
    number = min(most, FIRST_TRY)
    found: list[Span] = []
    for _ in range(MOST_TRIES):
        found.extend(islice(ranked, max(0, number - len(found))))
        kept = found[:number]
        ordered = sorted(kept, key=lambda span: span.position)
        kept_ids = {span.span_id for span in kept}
        columns = to_texts(pack_rows(ordered, [_find_parent(span, kept_ids) for span in ordered]))
        size = measure_bytes(columns)
        if size <= room:
            best = (kept, columns, size)
            if number == most or size > ENOUGH * room:
                break
        else:
            most = number - 1
        # Rows take about as much as those so far; the first ones, which have a place in every view, take more.
        number = max(0, min(most, int(number * room / size * (0.5 + ENOUGH / 2))))
        if number <= len(best[0]):
            break
    return best


def _find_parent(span: Span, kept: set[str]) -> str | None:
    """The next span around one that is kept, or the run."""
    if span.parent_id in kept:
        return span.parent_id
    around = span.parent
    while around is not None and around.span_id not in kept and around.parent is not None:
        around = around.parent
    return span.parent_id if around is None else around.span_id
