"""What one run is told beside its inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.chat_message import Messages, strip_system
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.store.run_facts import RunOrigin

PathLike = str | os.PathLike[str]
Inputs = Mapping[str, Any] | None
ReplayTools = Literal["live"] | None
Pace = Literal["recorded"] | None


class RunResult(Protocol):
    """What is known of a run by its id: its output."""

    @property
    def run_id(self) -> str: ...


class ContinuedOutput(Protocol):
    """The output of a run, as far as another one goes on with its conversations."""

    @property
    def run_id(self) -> str: ...

    @property
    def capture_mode(self) -> CaptureMode: ...

    def get_conversations(self, *, before: bool = False) -> Mapping[str, Messages]:
        """The conversations of its tasks by their names."""


Resumable = str | RunResult | None
Continuable = ContinuedOutput | None

_CHOICES: Final = {"replay_tools": "live", "pace": "recorded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one run.

    Attributes:
        timeout: seconds; past them the run stops and raises. None for no limit.
        record: file that every model exchange is written to (E42).
        replay: file that every model exchange is answered from, instead of any model.
        replay_tools: ``"live"`` where a replay calls tools, whose recorded answers it gives else.
        pace: ``"recorded"`` where a replay takes the time that it took.
        reuse: whether what an earlier run has done serves in place of running it again (C34).
        only: the one task that the run is about, or its name; what it builds on is reused, or run; all else is skipped.
        resume: the run to go on with: an output of it, or its id, a beginning of that, its name, or -1 for the last.
        continue_from: the output of a run whose tasks' conversations those of the same names go on with (E55).
        listeners: of this one run, beside the ensemble's own.
        review_handler: asked where the ensemble has none of its own.
        streams: whether replies are streamed in any case.
        origin: the cell that it comes from; None for a run from Python.
        is_row: whether it is one of the runs of a map: that has the budget, and tells listeners and exporter.

    Raises:
        ValidationError: no duration, no path, or no such choice.
    """

    timeout: float | None = None
    record: PathLike | None = None
    replay: PathLike | None = None
    replay_tools: ReplayTools = None
    pace: Pace = None
    reuse: bool = False
    only: Task | str | None = None
    resume: Resumable = None
    continue_from: Continuable = None
    listeners: Sequence[Listener] = ()
    review_handler: ReviewHandler | None = None
    streams: bool = False
    origin: RunOrigin | None = None
    is_row: bool = False

    def __post_init__(self) -> None:
        """Check what a person may have got wrong."""
        if self.timeout is not None and not is_seconds(self.timeout):
            raise ValidationError(f"timeout must be seconds > 0 or None, got {self.timeout!r}.")
        for name in ("record", "replay"):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, str | os.PathLike):
                raise ValidationError(
                    f"{name} must be the path of a file, got {value!r}. "
                    f"A template variable of that name goes through inputs: run({{{name!r}: ...}})."
                )
        self._check_reuse()
        self._check_resume()
        self._check_continue()
        if self.record is not None and self.replay is not None:
            raise ValidationError("A run records or replays, not both: leave out record or replay.")
        for name, choice in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value != choice:
                raise ValidationError(
                    f"{name} must be {choice!r} or None, got {value!r}. "
                    f"A template variable of that name goes through inputs: run({{{name!r}: ...}})."
                )
            if value is not None and self.replay is None:
                raise ValidationError(f"{name} is about a replay: name a recording with replay=FILE, too.")

    @property
    def conversations(self) -> Mapping[str, Messages]:
        """What its tasks go on with, by their names: prompts and replies in turns.

        A run that goes on with the very run that it is to continue begins where that one began.
        """
        earlier = self.continue_from
        if earlier is None:
            return {}
        resumed_id = getattr(self.resume, "run_id", self.resume)
        found = earlier.get_conversations(before=resumed_id == earlier.run_id)
        return {name: strip_system(messages) for name, messages in found.items()}

    def _check_reuse(self) -> None:
        for name, is_right, wanted in (
            ("reuse", isinstance(self.reuse, bool), "True or False"),
            ("only", self.only is None or isinstance(self.only, str | Task), "a task or its name"),
        ):
            if not is_right:
                raise ValidationError(
                    f"{name} must be {wanted}, got {getattr(self, name)!r}. "
                    f"A template variable of that name goes through inputs: run({{{name!r}: ...}})."
                )
        if self.reuse and self.record is not None:
            raise ValidationError(
                "A recording holds what models answer, and a reused task asks none: leave out record or reuse."
            )
        if self.reuse and self.replay is not None:
            raise ValidationError("In a replay the recording answers, and nothing is spent: leave out replay or reuse.")

    def _check_continue(self) -> None:
        given: Any = self.continue_from
        if given is None or callable(getattr(type(given), "get_conversations", None)):
            if given is not None and given.capture_mode is CaptureMode.METADATA:
                raise ValidationError(
                    f"Run {given.run_id} can't be continued: capture_mode {CaptureMode.METADATA.value} keeps nothing "
                    f"of what was said."
                )
            return
        hint = "A template variable of that name goes through inputs: run({'continue_from': ...})."
        if isinstance(given, str) or hasattr(given, "run_id"):
            hint = "What is remembered or loaded of a run has no conversations: give the output itself, or its pickle."
        raise ValidationError(f"continue_from must be the output of a run, got {type(given).__name__}. {hint}")

    def _check_resume(self) -> None:
        word = self.resume if self.resume is None else getattr(self.resume, "run_id", self.resume)
        if not isinstance(word, str | None):
            raise ValidationError(
                f"resume must be the id of a run or its output, got {self.resume!r}. "
                f"A template variable of that name goes through inputs: run({{'resume': ...}})."
            )
        other = next((name for name in ("record", "replay") if getattr(self, name) is not None), None)
        if self.resume is not None and other is not None:
            raise ValidationError(f"What a resumed run has done is not asked again: leave out {other} or resume.")
