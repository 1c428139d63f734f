"""The transcript of a run for the drawer (W120): who says what, by its place in the details of its task.

Texts come with the details of the tasks, which a page asks for as it shows them. What is said by no message is here.
"""

from __future__ import annotations

from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.messages.context_windows import SECTIONS, WindowUse, list_window_uses
from ensemble_notebook.trace.messages.utterances import NO_TEXTS, Utterance, read_utterances
from ensemble_notebook.trace.spans.clean_text import shorten

WHOLE_RUN: Final = "*"
"""What a page asks for the details of, to get the transcript. No span has this id."""
MOST_UTTERANCES: Final = 4_000
LONGEST_TEXT: Final = 2_000


def pack_transcript(fold: TraceFold, most: int = MOST_UTTERANCES) -> dict[str, Any]:
    """The first utterances of a run, how full the window was at each call, and how many were left out."""
    every = read_utterances(fold)
    said = every[:most]
    kept = {each.span.span_id for each in said}
    return {
        "said": [_pack(each) for each in said],
        "windows": [_pack_window(each) for each in list_window_uses(fold) if each.call.span_id in kept],
        "left_out": len(every) - len(said),
        "notes": [NO_TEXTS] if fold.capture_mode is CaptureMode.METADATA else [],
    }


def _pack(said: Utterance) -> dict[str, Any]:
    record: dict[str, Any] = {"span": said.span.span_id, "role": said.role}
    if said.task is not None:
        record["task"] = said.task.span_id
    known = {"depth": said.depth, "who": said.speaker, "remark": said.remark, "agent": said.agent}
    record |= {name: value for name, value in known.items() if value}
    if said.message is not None:
        return {**record, "field": f"message.{said.message}"}
    return {**record, "text": shorten(said.text, LONGEST_TEXT)} if said.text else record


def _pack_window(use: WindowUse) -> list[Any]:
    """The call, its tokens, whether they were counted, the limit, and the estimates in the order of the sections."""
    return [use.call.span_id, use.tokens, use.is_counted, use.limit, *(use.sections.get(name, 0) for name in SECTIONS)]
