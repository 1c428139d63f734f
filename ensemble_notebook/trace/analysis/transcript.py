"""A run, a task or an agent as a conversation to read (E115): a sequence, a log, a chat and frames."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, overload

from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean, remove_control_characters
from ensemble_notebook.trace.analysis.text_changes import TextChange, TextChanges
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.messages.context_windows import CONTEXT_WINDOWS, WindowUse, list_window_uses
from ensemble_notebook.trace.messages.utterances import NO_TEXTS, Utterance, list_around, read_utterances
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.shared_columns import make_table
from ensemble_notebook.trace.tables.table import Column, make_known

if TYPE_CHECKING:
    import pandas as pd

UTTERANCES: Final = make_table(
    "utterance in a transcript: what an agent was told or said, and notes of what happened in between",
    Column("number", "Int64", "its place in the transcript, from 0"),
    (
        Column("task", "category", "name of the task", lambda said: said.task and said.task.name),
        Column("depth", "Int64", "how many tasks are around that one"),
        Column("speaker", "category", "who says it: the role of an agent, the name of a tool, System, Task, ..."),
        Column("agent", "category", "who says it, or is told it", lambda said: said.agent or None),
        make_known("role", "category", "system, user, assistant, tool, review or note"),
        make_known("text", "string", "secrets masked"),
        Column("remark", "string", "what is special about it, in a few words", lambda said: said.remark or None),
        Column(
            "tool_calls",
            "string",
            "what a reply asks for, as name(arguments)",
            lambda said: "; ".join(f"{each.name}({each.arguments})" for each in said.tool_calls) or None,
        ),
        Column("reasoning", "string", "what the model thought before a reply", lambda said: said.reasoning or None),
        make_known("characters", "Int64", "length of the text", lambda said: len(said.text)),
        make_known("seq", "Int64", "number of the event that brought it"),
        make_known("span_id", "string", "where it arose", "span.span_id"),
    ),
    first=("task", "depth", "speaker", "role", "text", "remark"),
)


class Transcript(Sequence[Utterance]):
    """What agents were told and said, in reading order. A notebook shows it as a chat, `print` as a log.

    Args:
        fold: of a run, finished or not; read as it is now.
        task: the name of a task: that one alone, with all that was handed on in it; None: all.
        agent: the role of an agent: what that one was told and said; None: all.
        title: what it is of; empty: found.
        notes: what else a reader has to know of it.
        has_rows: the run is a map, so that notes of the rows stay where a task or an agent is wanted.

    Attributes:
        title: what it is of, in words.
        notes: what a reader has to know of it, such as that no texts were kept.

    Raises:
        ValidationError: no task or agent has this name; suggests the nearest.
    """

    def __init__(
        self,
        fold: TraceFold,
        task: str | None = None,
        agent: str | None = None,
        *,
        title: str = "",
        notes: Sequence[str] = (),
        has_rows: bool = False,
    ) -> None:
        self._fold = fold
        with fold.lock:
            said = everything = read_utterances(fold)
            if task is not None:
                names = [span.name for span in fold.spans.values() if span.kind is SpanKind.TASK]
                if task not in names:
                    raise ValidationError(f"messages: this run has no task {task!r}.{did_you_mean(task, names)}")
                said = [each for each in said if any(one.name == task for one in list_around(each.task))]
            if agent is not None:
                roles = sorted({each.agent for each in said if each.agent})
                if agent not in roles:
                    raise ValidationError(f"messages: no agent {agent!r} said anything.{did_you_mean(agent, roles)}")
                said = [each for each in said if each.agent == agent]
            self._windows = list_window_uses(fold)
        if has_rows and said is not everything:
            kept = {each.number for each in said}
            rows = {one.span_id for each in said for one in [*list_around(each.task)][-1:]}
            said = [each for each in everything if each.number in kept or _is_note_of_row(each, rows)]
        if said is not everything:
            least = min((each.depth for each in said), default=0)
            said = [replace(each, number=number, depth=each.depth - least) for number, each in enumerate(said)]
        self._said = tuple(said)
        parts = [f"task {task!r}" if task else "", agent or ""]
        self.title: str = ", ".join(filter(None, [title, *parts])) or fold.name or "all messages"
        self.notes: tuple[str, ...] = (*([NO_TEXTS] if fold.capture_mode is CaptureMode.METADATA else []), *notes)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each utterance: see `Utterance`."""
        return UTTERANCES.to_frame(self._said)

    @cached_property
    def windows(self) -> tuple[WindowUse, ...]:
        """How full the model's window was at each of these calls, and of what; sections are estimates."""
        spans = {each.span.span_id for each in self._said}
        tasks = {each.task.span_id for each in self._said if each.task is not None}
        return tuple(
            each
            for each in self._windows
            if each.call.span_id in spans or (each.call.end_ms is None and each.call.task_id in tasks)
        )

    @cached_property
    def window_frame(self) -> pd.DataFrame:
        """The same with a row for each call."""
        return CONTEXT_WINDOWS.to_frame(self.windows)

    def diff(self, first: int | str, second: int | str) -> TextChanges:
        """What changed by words from one utterance to another.

        Args:
            first: its number, or the id of the span where it arose, which stands for the last that was said there.
            second: likewise.

        Raises:
            ValidationError: there is none.
        """
        before, after = self._find(first), self._find(second)
        where = f"{before.speaker} ({before.number}) -> {after.speaker} ({after.number})"
        return TextChanges([TextChange(where, before.text, after.text)] if before.text != after.text else [])

    def _find(self, wanted: int | str) -> Utterance:
        if isinstance(wanted, int):
            if not 0 <= wanted < len(self):
                raise ValidationError(f"messages: there is no utterance {wanted}: they are 0 to {len(self) - 1}.")
            return self._said[wanted]
        found = [each for each in self._said if each.span.span_id == wanted and each.role != "note"]
        if not found:
            raise ValidationError(f"messages: nothing was said in the span {wanted!r}: `.frame` has all of them.")
        return found[-1]

    @overload
    def __getitem__(self, place: int) -> Utterance: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Utterance, ...]: ...
    def __getitem__(self, place: int | slice) -> Utterance | tuple[Utterance, ...]:
        """The utterance at a place, or those of a slice."""
        return self._said[place]

    def __len__(self) -> int:
        """How many utterances there are, notes included."""
        return len(self._said)

    def __str__(self) -> str:
        """All of it as a log."""
        return self.write_log()

    def write_log(self, most: int | None = None) -> str:
        """The first `most` utterances as a log, and how many more there are; None: all."""
        lines = [*(f"! {note}" for note in self.notes), *map(str, self._said[:most])]
        if most is not None and len(self) > most:
            lines.append(f"-- and {pluralize(len(self) - most, 'utterance')} more --")
        return remove_control_characters("\n".join(lines))

    def __repr__(self) -> str:
        """What it is of, and how much there is."""
        return f"<Transcript of {self.title}: {pluralize(len(self), 'utterance')}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("transcript", self)


def _is_note_of_row(said: Utterance, rows: Container[str]) -> bool:
    """Whether it is a note of one of these rows of a map as a whole: where it begins, or why it failed."""
    return said.role == "note" and said.task is not None and said.span is said.task and said.task.span_id in rows
