"""What one run is told: its settings, how much of it is recorded, and its inputs as its texts have them (E6, E47)."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, NamedTuple, ParamSpec, Protocol, TypeVar

from ensemble_notebook.domain.attachments import check_path, ends_as_attachment
from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.amounts import AmountError, read_history
from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import SourcedInput
from ensemble_notebook.domain.outputs.conversation import Messages, strip_system
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.domain.value_text import (
    describe_limited_table,
    explain_unwritable,
    find_data_url_fault,
    write_value,
)
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.trace.store.run_facts import RunOrigin

PathLike = str | os.PathLike[str]
Inputs = Mapping[str, Any] | None
ReplayTools = Literal["live"] | None
Pace = Literal["recorded"] | None

SHARED_FIELDS: Final = frozenset(
    {"budget", "capture_mode", "listeners", "name", "rate_limit", "review_handler", "trace_exporter", "verbose"}
)
"""Fields that hold for all variants together, since these are one run."""


class RunResult(Protocol):
    """What is known of a run by its id: its output."""

    @property
    def run_id(self) -> str: ...


class ContinuedOutput(RunResult, Protocol):
    """The output of a run, as far as another one goes on with its conversations."""

    @property
    def capture_mode(self) -> CaptureMode: ...

    def get_conversations(self, *, before: bool = False) -> Mapping[str, Messages]:
        """The conversations of its tasks by their names."""


Resumable = str | RunResult | None
Continuable = ContinuedOutput | str | int | Sequence[Any] | SourcedInput | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConversations:
    """A `ContinuedOutput` of which nothing else is at hand: of a stored run, or messages that somebody has kept.

    Attributes:
        conversations: those that the run began with, or led to, by the names of its tasks.
        messages: that were given, for whichever task has an agent, without a system prompt; None: those of a run.
        prompt: whose messages they are to be, once it is read; None: they are known.
    """

    run_id: str = ""
    capture_mode: CaptureMode = CaptureMode.OFF
    conversations: Mapping[str, Messages] = field(default_factory=dict)
    messages: Messages | None = None
    prompt: SourcedInput | None = None

    def get_conversations(self, *, before: bool = False) -> Mapping[str, Messages]:  # noqa: ARG002 - as of an output
        """Get them, by the names of the tasks."""
        return self.conversations


def describe_continued(run_id: str) -> str:
    """Say whose conversations are gone on with: those of a run, or messages that were given."""
    return f"run {run_id}" if run_id else "the messages that were given"


Answers = Mapping[str, ReviewDecision | str | Mapping[str, Any]]
"""Answers by the ids of the calls: a decision, its word, or a mapping with ``decision``, as JSON has it."""

OF_RESUMED: Final = ("redo", "anyway", "answers")
_CHOICES: Final = {"replay_tools": "live", "pace": "recorded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one run.

    Attributes:
        timeout: seconds; past them the run stops and raises. None for no limit.
        record: file that every model exchange is written to.
        replay: file that every model exchange is answered from, instead of any model.
        replay_tools: ``"live"`` where a replay calls tools, whose recorded answers it gives else.
        pace: ``"recorded"`` where a replay takes the time that it took.
        reuse: whether what an earlier run has done serves in place of running it again.
        only: the one task that the run is about, or its name; what it builds on is reused, or run; all else is skipped.
        resume: the run to go on with: an output of it, or its id, a beginning of that, its name, or -1 for the last.
        redo: names of tools of which calls that the earlier run began, and whose end is not known, are made again
            without asking.
        anyway: whether to resume a run with which another one goes on now.
        answers: to calls of reviewed tools that wait in the run to resume, by their ids.
        continue_from: the output of a run whose tasks' conversations those of the same names go on with, its id, a
            list of messages, or a prompt that is read when the run starts.
        history: how much of these conversations is sent; None for all.
        deps: for functions that take a `RunContext`; None: those of the ensemble.
        listeners: of this one run, beside the ensemble's own.
        review_handler: asked where the ensemble has none of its own.
        streams: whether replies are streamed in any case.
        origin: the cell that it comes from; None for a run from Python.
        forked_from: the run that it forks, or a call of which it makes again; None where there is none.
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
    redo: Sequence[str] = ()
    anyway: bool = False
    answers: Answers | None = None
    continue_from: Continuable = None
    history: str | None = None
    deps: object = None
    listeners: Sequence[Listener] = ()
    review_handler: ReviewHandler | None = None
    streams: bool = False
    origin: RunOrigin | None = None
    forked_from: ForkPlace | None = None
    is_row: bool = False

    def __post_init__(self) -> None:
        """Check what a person may have got wrong."""
        if self.timeout is not None and not is_seconds(self.timeout):
            raise ValidationError(f"timeout must be seconds > 0 or None, got {self.timeout!r}.")
        resumed = self.resume if self.resume is None else getattr(self.resume, "run_id", self.resume)
        are_names = not isinstance(self.redo, str) and all(isinstance(each, str) for each in self.redo)
        for name, is_right, wanted in (
            ("record", isinstance(self.record, str | os.PathLike | None), "the path of a file"),
            ("replay", isinstance(self.replay, str | os.PathLike | None), "the path of a file"),
            ("reuse", isinstance(self.reuse, bool), "True or False"),
            ("only", isinstance(self.only, str | Task | None), "a task or its name"),
            ("resume", isinstance(resumed, str | None), "the id of a run or its output"),
            ("redo", are_names, "a list of names of tools"),
            ("anyway", isinstance(self.anyway, bool), "True or False"),
            ("answers", isinstance(self.answers, Mapping | None), "a mapping of the ids of calls to answers"),
            ("history", isinstance(self.history, str | None), "a text such as '20 turns'"),
            *(
                (name, getattr(self, name) in (None, choice), f"{choice!r} or None")
                for name, choice in _CHOICES.items()
            ),
        ):
            if not is_right:
                raise ValidationError(f"{name} must be {wanted}, got {getattr(self, name)!r}. {_name_variable(name)}")
        self._check_continue()
        try:
            if self.history is not None:
                read_history(self.history)
        except AmountError as error:
            raise ValidationError(f"history: {error} {error.hint} {_name_variable('history')}") from None
        self._check_combinations()

    def _check_combinations(self) -> None:
        given = [name for name in ("record", "replay", *_CHOICES) if getattr(self, name) is not None]
        given += [name for name in OF_RESUMED if getattr(self, name)]
        fault = ""
        if self.reuse and "record" in given:
            fault = "A recording holds what models answer, and a reused task asks none: leave out record or reuse."
        elif self.reuse and "replay" in given:
            fault = "In a replay the recording answers, and nothing is spent: leave out replay or reuse."
        elif self.resume is not None and given[:1] in (["record"], ["replay"]):
            fault = f"What a resumed run has done is not asked again: leave out {given[0]} or resume."
        elif given[:2] == ["record", "replay"]:
            fault = "A run records or replays, not both: leave out record or replay."
        elif "replay" not in given and (name := next((each for each in _CHOICES if each in given), None)):
            fault = f"{name} is about a replay: name a recording with replay=FILE, too."
        elif self.resume is None and (name := next((each for each in OF_RESUMED if each in given), None)):
            fault = f"{name} is about a run that is resumed: name it with resume=ID, too."
        if fault:
            raise ValidationError(fault)

    @property
    def conversations(self) -> Mapping[str, Messages]:
        """What its tasks go on with, by their names: prompts and replies in turns.

        A run that goes on with the very run that it is to continue begins where that one began.
        """
        earlier: Any = self.continue_from
        if earlier is None:
            return {}
        resumed_id = getattr(self.resume, "run_id", self.resume)
        found = earlier.get_conversations(before=resumed_id == earlier.run_id)
        return {name: strip_system(messages) for name, messages in found.items()}

    def _check_continue(self) -> None:
        given: Any = self.continue_from
        if isinstance(given, str | list | tuple) or (isinstance(given, int) and not isinstance(given, bool)):
            return
        if isinstance(given, SourcedInput) and given.has_messages:
            return
        if given is None or callable(getattr(type(given), "get_conversations", None)):
            if given is not None and given.capture_mode is CaptureMode.METADATA:
                raise ValidationError(
                    f"Run {given.run_id} can't be continued: capture_mode {CaptureMode.METADATA.value} keeps nothing "
                    f"of what was said."
                )
            return
        hint = _name_variable("continue_from")
        if hasattr(given, "run_id"):
            hint = f"What is loaded of a run has no conversations: give its output, or its id, {given.run_id!r}."
        message = "continue_from must be an output, the id of a run or -1, or a list of messages"
        raise ValidationError(f"{message}, got {type(given).__name__}. {hint}")


def _name_variable(name: str) -> str:
    """What somebody is told who may have meant a template variable."""
    return f"A template variable of that name goes through inputs: run({{{name!r}: ...}})."


# --- The doors of a run: those of an ensemble take the same arguments -------------------------------------------------


class RunArguments(NamedTuple):
    """What somebody has called a door of a run with.

    Attributes:
        inputs: values of template variables.
        variables: more of them, given as keywords.
        settings: of the run.
    """

    inputs: Inputs
    variables: dict[str, Any]
    settings: RunSettings


def read_run(
    inputs: Inputs = None,
    *,
    timeout: float | None = None,
    record: PathLike | None = None,
    replay: PathLike | None = None,
    replay_tools: ReplayTools = None,
    pace: Pace = None,
    reuse: bool = False,
    only: Task | str | None = None,
    resume: Resumable = None,
    redo: Sequence[str] = (),
    anyway: bool = False,
    answers: Answers | None = None,
    continue_from: Continuable = None,
    history: str | None = None,
    deps: object = None,
    listeners: Sequence[Listener] = (),
    review_handler: ReviewHandler | None = None,
    **variables: Any,
) -> RunArguments:
    """Read the arguments of a door. What they are, `RunSettings` says.

    Raises:
        ValidationError: a setting has a wrong value.
    """
    given = dict(locals())  # the parameters of a door are fields of `RunSettings`, under the same names
    del given["inputs"], given["variables"]
    return RunArguments(inputs, variables, RunSettings(**given))


P = ParamSpec("P")
R = TypeVar("R")


def takes(read: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Make a decorator of a method that hands its keywords on to `read`: people and type checkers see them as its own.

    A typed dictionary of keywords (``Unpack``) would not do: template variables are keywords of any name, too.
    """

    def decorate(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        own, given = inspect.signature(method).parameters.values(), inspect.signature(read).parameters
        is_more = {each.name: each.kind is each.KEYWORD_ONLY and each.name not in given for each in own}
        parameters = [
            next(iter(own)).replace(kind=inspect.Parameter.POSITIONAL_ONLY),
            *given.values(),
            *(each for each in own if is_more[each.name]),
        ]
        parameters.sort(key=lambda each: each.kind)
        signature = inspect.signature(method).replace(parameters=parameters)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return decorate


SETTING_NAMES: Final = (*[name for name in inspect.signature(read_run).parameters if name != "variables"], "repeat")
"""What the ways to run take as keywords of their own, so that no template variable can be given by such a keyword."""


# --- The inputs of a run as its texts have them -----------------------------------------------------------------------


def join_inputs(inputs: Inputs, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of template variables that a run is given: `inputs`, then keywords.

    Raises:
        ValidationError: `inputs` is no mapping.
    """
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValidationError(
            f"inputs must map names to values, got {type(inputs).__name__}. {_name_variable('inputs')}"
        )
    return {**(inputs or {}), **variables}


def merge_kept_inputs(
    run_id: str,
    kept: Mapping[str, Any],
    lost: Sequence[str],
    given: Mapping[str, Any] | None,
    variables: Mapping[str, Any],
    again: str,
) -> dict[str, Any]:
    """The inputs of an earlier run, unless others are given now.

    Args:
        run_id: of that run.
        kept: its inputs.
        lost: the names of those that could not be kept.
        given: now, as a mapping.
        variables: now, as keywords.
        again: how the lost ones are given again.

    Raises:
        ValidationError: one of them could not be kept, and is not given.
    """
    merged = {**kept, **(given or {})}
    if names := ", ".join(repr(name) for name in lost if name not in merged and name not in variables):
        raise ValidationError(
            f"Run {run_id} had inputs that are not kept, since they are no plain values, or secret: {names}. {again}"
        )
    return merged


def merge_inputs(ensemble: EnsembleDefinition, inputs: Inputs, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all template variables: own defaults, then those that the run is given."""
    return {**ensemble.inputs, **join_inputs(inputs, variables)}


def write_inputs(
    names: Iterable[str], values: Mapping[str, Any], *, reads_files: bool = True
) -> tuple[dict[str, str], list[str]]:
    """Write the values of the variables that texts use. Others are for handlers, and may be anything.

    Args:
        names: of the variables that texts use; those without a value are left out.
        values: name -> value.
        reads_files: False where pictures and PDFs are only checked, and left out.

    Returns:
        The written values by name, and warnings: of tables that are limited, of paths that only end as pictures.

    Raises:
        ValidationError: values that no prompt can hold, all of them.
    """
    written: dict[str, str] = {}
    warnings: list[str] = []
    problems: list[Problem] = []
    for name in names:
        if name not in values:
            continue
        given = values[name]
        if isinstance(given, str) and (fault := find_data_url_fault(given)):
            problems.append(Problem(f"The input {name!r} {fault}"))
            continue
        try:
            if not reads_files and isinstance(given, Path) and check_path(given):
                continue
            value = write_value(given, config.max_table_chars)
        except Exception as error:  # noqa: BLE001 - it is anybody's object
            fault = explain_unwritable(error)
            problems.append(Problem(f"The input {name!r} can't be written into a text: {fault}"))
            continue
        written[name] = value.text
        if isinstance(given, Path) and ends_as_attachment(given) and value.text == str(given):
            warnings.append(
                f"The input {name!r} is {value.text!r}, whose first bytes are those of no picture and no PDF: models "
                f"read the path."
            )
        if value.shown:
            warnings.append(describe_limited_table(f"The input {name!r}", value))
    if problems:
        raise ValidationError(problems)
    return written, warnings


# --- How much of a run is recorded (T6): whose word counts ------------------------------------------------------------


VARIABLES: Final = ("ENSEMBLE_NOTEBOOK_CAPTURE_MODE", "AGENTENSEMBLE_CAPTURE_MODE")
"""The first that is set counts; the second is AgentEnsemble's."""


def resolve_capture_mode(argument: CaptureMode | str | None = None) -> CaptureMode:
    """The mode of a run: the argument, else ``config.capture_mode``, else the environment variables, else OFF.

    Case and surrounding space don't matter. What is no mode is told in one warning, and the next source is used.
    """
    sources = (
        ("capture_mode", argument),
        ("ensemble_notebook.config.capture_mode", config.capture_mode),
        *((name, os.environ.get(name)) for name in VARIABLES),
    )
    wrong = []
    mode = CaptureMode.OFF
    for name, value in sources:
        text = "" if value is None else str(value).strip().casefold()
        if text in [each.value for each in CaptureMode]:
            mode = CaptureMode(text)
            break
        if text:
            wrong.append(f"{name}={mask(str(value))!r}")
    if wrong:
        message = f"No capture mode: {', '.join(wrong)}. Use metadata, off, standard or full; {mode.value} is used now."
        warnings.warn(message, UserWarning, stacklevel=2)
    return mode
