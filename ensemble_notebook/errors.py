"""Every error of the package, in one tree. Imports nothing of ours.

::

    EnsembleError
    ├── ValidationError (ValueError)            a definition can't run; nothing was called
    │   └── CircularDependencyError             tasks or phases wait for each other
    ├── PromptTemplateError (ValueError)        a {variable} has no value
    ├── TaskExecutionError (RuntimeError)       a task failed
    │   ├── ParallelExecutionError              several may have failed; the rest ran
    │   └── PhaseExecutionError                 at least one phase failed; unrelated ones ran
    ├── AgentExecutionError (RuntimeError)      an agent's model could not answer
    ├── ToolExecutionError (RuntimeError)       a handler, or a tool as handler, reported a failure
    ├── MaxIterationsExceededError (RuntimeError)  an agent kept calling tools
    └── DeadlineExceededError (TimeoutError)    a model request, a task or a run took too long

    RunInterrupted (KeyboardInterrupt)          a person stopped the run

Whatever fails inside a task leaves ``run`` as a `TaskExecutionError` whose causes lead to the origin:
task -> agent -> the foreign error. Each error that leaves ``run`` carries ``output``: what was finished by then.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AgentExecutionError",
    "CircularDependencyError",
    "DeadlineExceededError",
    "EnsembleError",
    "MaxIterationsExceededError",
    "ParallelExecutionError",
    "PhaseExecutionError",
    "Problem",
    "PromptTemplateError",
    "RunInterrupted",
    "TaskExecutionError",
    "ToolExecutionError",
    "ValidationError",
    "did_you_mean",
    "mask_with",
    "message_of",
    "nearest",
    "one_line",
]

_LINE_LIMIT = 300
_masks: list[Callable[[str], str]] = []


def mask_with(mask: Callable[[str], str]) -> None:
    """Have what errors say to people go through `mask` first (T7): what a secret is, is known above this module."""
    _masks.append(mask)


def _masked(text: str) -> str:
    for mask in _masks:
        text = mask(text)
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, ignoring case, or None when nothing is close."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known word, else the known words (at most eight), else nothing."""
    names = list(known)
    close = nearest(word, names)
    if close is not None:
        return f" Did you mean {close!r}?"
    if not names:
        return ""
    shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
    return f" Known: {shown}."


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def message_of(error: BaseException) -> str:
    """What an error says; the name of its type where it says nothing, or can't."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error with a broken text must not become two errors
        return type(error).__name__


def one_line(error: BaseException) -> str:
    """An error in words, without secrets: ours as it is; a foreign one with its type, on one line, cut if too long."""
    if isinstance(error, EnsembleError):
        return _masked(str(error))
    kind, text = type(error).__name__, _masked(" ".join(message_of(error).split()))
    if len(text) > _LINE_LIMIT:
        text = text[:_LINE_LIMIT] + " ..."
    return kind if text == kind else f"{kind}: {text}"


def _root_cause(error: BaseException) -> BaseException:
    """The last link of the chain of causes. ``raise error from error`` makes a ring, which is left where it closes."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


class EnsembleError(Exception):
    """Base of every error of this package.

    Attributes:
        output: the partial ``EnsembleOutput`` of the run that raised it; None where nothing had started (E32).
    """

    output: Any = None
    _is_rendered = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors pickle with their facts; constructors take more than ``args``."""
        return _rebuild, (type(self), self.args, self.__dict__)

    def _render_lines(self) -> list[str]:
        """The short form for a cell: this error and its root cause."""
        lines = [f"{type(self).__name__}: {one_line(self)}"]
        root = _root_cause(self)
        if one_line(root) not in lines[0]:
            lines.append(f"  caused by {one_line(root)}")
        return lines

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the short form in the cell; asked again (``%tb``), the whole traceback (C13)."""
        if self._is_rendered:
            return _masked("".join(traceback.format_exception(self))).splitlines()
        self._is_rendered = True
        return self._render_lines()


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One thing wrong with a definition.

    Attributes:
        message: what is wrong, with which value, and what to do.
        subject: the object it is about (an Agent, Task, Phase, Ensemble or the class that was to be made); a reader
            of text finds the place by it.
        field: the name of the field on the subject, or None for the object as a whole.
        item: index or key within the field, where the field holds several values.
    """

    message: str
    subject: Any = None
    field: str | None = None
    item: int | str | None = None


class ValidationError(EnsembleError, ValueError):
    """A definition can't run as written. Always found before any model is called (section 1).

    Attributes:
        problems: everything found, in the order of the definition; at least one.
    """

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        lines = [problem.message for problem in self.problems]
        super().__init__(
            lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} problems:", *map("- {}".format, lines)])
        )


class CircularDependencyError(ValidationError):
    """Tasks (by context) or phases (by after) wait for each other (E5).

    Attributes:
        nodes: the names on exactly one cycle, in order, the first one not repeated.
    """

    def __init__(
        self,
        kind: str,
        nodes: Sequence[str],
        subject: Any = None,
        field: str | None = None,
        others: Sequence[Problem] = (),
    ) -> None:
        self.nodes = tuple(nodes)
        circle = " -> ".join([*self.nodes, self.nodes[0]])
        message = f"Circular {kind} dependency: {circle}. Remove one of these links."
        super().__init__([Problem(message, subject, field), *others])


class PromptTemplateError(EnsembleError, ValueError):
    """``{variables}`` without a value (E6).

    Attributes:
        missing_variables: all missing names over the whole ensemble, in order of appearance, once each.
        template: the first text that misses one, whole.
    """

    def __init__(self, missing_variables: Sequence[str], template: str) -> None:
        self.missing_variables = tuple(missing_variables)
        self.template = template
        quoted = template if len(template) <= 100 else template[:97] + "..."
        names = ", ".join(f"{{{name}}}" for name in self.missing_variables)
        example = ", ".join(f"{name}=..." for name in self.missing_variables)
        super().__init__(
            f"No value for {names} (first in {quoted!r}). Pass {example}, or write {{{{name}}}} for a literal."
        )


class TaskExecutionError(EnsembleError, RuntimeError):
    """A task failed for good.

    Attributes:
        task_description: the resolved description of the failed task.
        agent_role: who was working on it.
        completed_task_outputs: what had been completed by then, in completion order.
    """

    def __init__(
        self, message: str, *, task_description: str, agent_role: str, completed_task_outputs: Sequence[Any] = ()
    ) -> None:
        super().__init__(message)
        self.task_description = task_description
        self.agent_role = agent_role
        self.completed_task_outputs = tuple(completed_task_outputs)


class ParallelExecutionError(TaskExecutionError):
    """Under CONTINUE_ON_ERROR at least one task failed; everything that could run did (E32).

    Attributes:
        failed_task_causes: task name -> its exception, in order of failure.
    """

    def __init__(self, message: str, *, failed_task_causes: dict[str, BaseException], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.failed_task_causes = dict(failed_task_causes)


class PhaseExecutionError(TaskExecutionError):
    """At least one phase failed; unrelated phases finished, dependents were skipped (E26).

    Attributes:
        failures: a tuple of ``Failure(name, agent_role, error)``, one per failed task, in order of failure.
    """

    def __init__(self, message: str, *, failures: Sequence[Any], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.failures = tuple(failures)


class AgentExecutionError(EnsembleError, RuntimeError):
    """The model of an agent could not answer, retries included (E14); the origin is the cause."""

    def __init__(self, message: str, *, agent_role: str, task_description: str) -> None:
        super().__init__(message)
        self.agent_role = agent_role
        self.task_description = task_description


class ToolExecutionError(EnsembleError, RuntimeError):
    """A tool failed. A model is told, and the run goes on (E13); only a handler that reports a failure raises it."""

    def __init__(self, message: str, *, tool_name: str, tool_input: str) -> None:
        super().__init__(message)
        self.tool_name = tool_name
        self.tool_input = tool_input


class MaxIterationsExceededError(EnsembleError, RuntimeError):
    """An agent went on calling tools after it had been told twice to stop (E12).

    Attributes:
        max_iterations: the budget of executed tool calls.
        tool_calls_made: how many were executed.
    """

    def __init__(self, *, agent_role: str, task_description: str, max_iterations: int, tool_calls_made: int) -> None:
        self.agent_role = agent_role
        self.task_description = task_description
        self.max_iterations = max_iterations
        self.tool_calls_made = tool_calls_made
        super().__init__(
            f"Agent {agent_role!r} kept asking for tools after its {max_iterations} tool calls were used up. "
            f"Raise max_iterations, or make the task or its tools simpler."
        )


class DeadlineExceededError(EnsembleError, TimeoutError):
    """A model request, a task or a run took longer than it was given (E4, E38). Never retried (E30).

    Attributes:
        scope: ``"model request"``, ``"task"`` or ``"run"``.
        timeout_s: the limit, in seconds.
        running: what was running when time was up, in words.
    """

    def __init__(self, scope: str, timeout_s: float, running: str, remedy: str) -> None:
        self.scope = scope
        self.timeout_s = timeout_s
        self.running = running
        super().__init__(f"The {scope} took longer than {timeout_s:g} s; running was: {running}. {remedy}")


class RunInterrupted(KeyboardInterrupt):
    """A person stopped the run (E35). A `KeyboardInterrupt`, so that "Run All" stops here too.

    Attributes:
        output: the partial ``EnsembleOutput``.
    """

    output: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with its output."""
        return _rebuild, (type(self), self.args, self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """One line: an interrupt is no mistake."""
        return [f"Stopped: {self}"]
