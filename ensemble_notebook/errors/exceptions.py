"""The classes of errors: first what is wrong before anything runs, then what can go wrong while a run goes on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.errors.base import EnsembleError, mask_text, summarize_error


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
    """A definition can't run as written. Always found before any model is called.

    Attributes:
        problems: everything found, in the order of the definition; at least one.
    """

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        lines = [problem.message for problem in self.problems]
        super().__init__(
            lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} problems:", *map("- {}".format, lines)])
        )


class CircularDependencyError(ValidationError):
    """Tasks (by context) or phases (by after) wait for each other.

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
        self.nodes: tuple[str, ...] = tuple(nodes)
        circle = " -> ".join([*self.nodes, self.nodes[0]])
        message = f"Circular {kind} dependency: {circle}. Remove one of these links."
        super().__init__([Problem(message, subject, field), *others])


_ITEM_HINT: Final = " A task with for_each runs for each item of a list, and fills {item} in by itself."


class PromptTemplateError(EnsembleError, ValueError):
    """``{variables}`` without a value.

    Attributes:
        missing_variables: all missing names over the whole ensemble, in order of appearance, once each.
        template: the first text that misses one, whole.
    """

    def __init__(self, missing_variables: Sequence[str], template: str, advice: str | None = None) -> None:
        self.missing_variables: tuple[str, ...] = tuple(missing_variables)
        self.template = template
        quoted = template if len(template) <= 100 else template[:97] + "..."
        names = ", ".join(f"{{{name}}}" for name in self.missing_variables)
        example = ", ".join(f"{name}=..." for name in self.missing_variables)
        advice = advice or f"Pass {example}, or write {{{{name}}}} for a literal."
        advice += _ITEM_HINT if "item" in self.missing_variables else ""
        super().__init__(f"No value for {names} (first in {quoted!r}). {advice}")


_SHOWN_ARGUMENTS = 200
_LONGEST_QUOTED = 200


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
        self.completed_task_outputs: tuple[Any, ...] = tuple(completed_task_outputs)


class ParallelExecutionError(TaskExecutionError):
    """Under CONTINUE_ON_ERROR at least one task failed; everything that could run did.

    Attributes:
        failed_task_causes: task name -> its exception, in order of failure.
    """

    def __init__(self, message: str, *, failed_task_causes: dict[str, BaseException], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.failed_task_causes: dict[str, BaseException] = dict(failed_task_causes)


class PhaseExecutionError(TaskExecutionError):
    """At least one phase failed; unrelated phases finished, dependents were skipped.

    Attributes:
        failures: a tuple of ``Failure(name, agent_role, error)``, one per failed task, in order of failure.
    """

    def __init__(self, message: str, *, failures: Sequence[Any], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.failures: tuple[Any, ...] = tuple(failures)


class AgentExecutionError(EnsembleError, RuntimeError):
    """The model of an agent could not answer, retries included; the origin is the cause."""

    def __init__(self, message: str, *, agent_role: str, task_description: str) -> None:
        super().__init__(message)
        self.agent_role = agent_role
        self.task_description = task_description


class ModelRefusedError(AgentExecutionError):
    """The model of an agent refused to answer, and said so; its words are in the message."""


class FallbackFailedError(EnsembleError, RuntimeError):
    """A task's own worker failed, and then its fallback, too. The cause is the fallback's error.

    Attributes:
        first_error: what the task's own worker failed with, with its causes.
        fallback_error: what the fallback failed with.
    """

    def __init__(
        self, role: str, first_error: BaseException, fallback_role: str, fallback_error: BaseException
    ) -> None:
        self.first_error = first_error
        self.fallback_error = fallback_error
        first, second = (summarize_error(each).rstrip(".") for each in (first_error, fallback_error))
        super().__init__(f"{role} failed: {first}. Then the fallback {fallback_role} failed, too: {second}.")


class ItemsFailedError(EnsembleError, RuntimeError):
    """Items of a task failed that runs for each item of a list. The cause is what the first of them failed with.

    Attributes:
        failures: one for each item that failed, in the order of the items.
        item_outputs: outputs of the items that were completed, in the order of the items.
    """

    def __init__(self, message: str, *, failures: Sequence[Any], item_outputs: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.failures: tuple[Any, ...] = tuple(failures)
        self.item_outputs: tuple[Any, ...] = tuple(item_outputs)


class ScoringError(EnsembleError, RuntimeError):
    """The score function failed for each run of variants; the runs are kept. The cause is what it raised.

    Attributes:
        result: the whole `MapResult`; so is ``output``.
    """

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result: Any = result
        self.output = result


class CheckFailed(EnsembleError, AssertionError):  # noqa: N818 - it is no fault, and reads as what it says
    """Something that was expected of a run does not hold.

    Attributes:
        failed: what does not hold, as it is written.
        total: how many expectations there were.
    """

    def __init__(self, message: str, *, failed: Sequence[str], total: int) -> None:
        super().__init__(message)
        self.failed: tuple[str, ...] = tuple(failed)
        self.total = total

    def _render_lines(self) -> list[str]:
        """How many: the table above has the rest."""
        verb = "does" if len(self.failed) == 1 else "do"
        return [f"CheckFailed: {len(self.failed)} of {self.total} {verb} not hold, shown above"]


class ToolExecutionError(EnsembleError, RuntimeError):
    """A tool failed. A model is told, and the run goes on; only a handler that reports a failure raises it."""

    def __init__(self, message: str, *, tool_name: str, tool_input: str) -> None:
        super().__init__(message)
        self.tool_name = tool_name
        self.tool_input = tool_input


class MaxIterationsExceededError(EnsembleError, RuntimeError):
    """An agent went on calling tools after it had been told twice to stop.

    Attributes:
        max_iterations: the budget of executed tool calls.
        tool_calls_made: how many were executed.
        repeated: tool, arguments and number of the call that was made most often; None where none was made twice.
    """

    def __init__(
        self,
        *,
        agent_role: str,
        task_description: str,
        max_iterations: int,
        tool_calls_made: int,
        repeated: tuple[str, str, int] | None = None,
    ) -> None:
        self.agent_role = agent_role
        self.task_description = task_description
        self.max_iterations = max_iterations
        self.tool_calls_made = tool_calls_made
        self.repeated = repeated
        told, remedy = "", "Raise max_iterations, or make the task or its tools simpler."
        if repeated is not None:
            tool, arguments, count = repeated
            arguments = arguments if len(arguments) <= _SHOWN_ARGUMENTS else arguments[:_SHOWN_ARGUMENTS] + "..."
            told = f"{count} of them were the same: {tool}({arguments}). "
            if 2 * count > max_iterations:
                remedy = f"More calls would hardly help: let {tool} say what to do with its answer, or say in the task"
                remedy += " when it is enough."
        message = f"Agent {agent_role!r} kept asking for tools after its {max_iterations} tool calls were used up."
        super().__init__(f"{message} {told}{remedy}")


class DeadlineExceededError(EnsembleError, TimeoutError):
    """A model request, a task or a run took longer than it was given. Never retried.

    Attributes:
        scope: ``"model request"``, ``"task"``, ``"run"`` or ``"condition"``.
        timeout_s: the limit, in seconds.
        running: what was running when time was up, in words.
    """

    def __init__(self, scope: str, timeout_s: float, running: str, remedy: str) -> None:
        self.scope = scope
        self.timeout_s = timeout_s
        self.running = running
        super().__init__(f"The {scope} took longer than {timeout_s:g} s; running was: {running}. {remedy}")


class ConstraintViolationError(EnsembleError, RuntimeError):
    """The manager ended well, but a worker that was required never succeeded.

    Attributes:
        violations: one sentence each.
        completed_task_outputs: what the workers had completed, in completion order.
    """

    def __init__(self, violations: Sequence[str], completed_task_outputs: Sequence[Any] = ()) -> None:
        self.violations: tuple[str, ...] = tuple(violations)
        self.completed_task_outputs: tuple[Any, ...] = tuple(completed_task_outputs)
        count, text = len(self.violations), "; ".join(self.violations)
        head = "constraint violated" if count == 1 else f"constraints violated ({count})"
        super().__init__(f"Hierarchical {head}: {text}")


class OutputParsingError(EnsembleError, ValueError):
    """No reply could be read as the task's `output_type`, corrections included.

    Attributes:
        raw_output: the last reply.
        output_type: what it should have been.
        parse_errors: what was wrong with each reply, in order.
        attempt_count: replies that were read.
    """

    def __init__(
        self,
        *,
        raw_output: str,
        output_type: Any,
        parse_errors: Sequence[str],
        attempt_count: int,
        advice: str = "Raise max_output_retries, or make the type or the task simpler.",
    ) -> None:
        self.raw_output = raw_output
        self.output_type = output_type
        self.parse_errors: tuple[str, ...] = tuple(parse_errors)
        self.attempt_count = attempt_count
        name = getattr(output_type, "__name__", "the JSON schema")
        verdict = "The reply does not fit" if attempt_count == 1 else f"None of {attempt_count} replies fits"
        said = _quote_beginning(raw_output, "It" if attempt_count == 1 else "The last one")
        super().__init__(f"{verdict} {name}: {self.parse_errors[-1].rstrip('.')}. {said} {advice}".rstrip())


def _quote_beginning(text: str, who: str) -> str:
    """What a reply says, as far as a message has room for it; masked before it is cut, so that no half key is left."""
    shown = " ".join(mask_text(text[: 10 * _LONGEST_QUOTED]).split())
    if not shown:
        return f"{who} is empty."
    if len(shown) <= _LONGEST_QUOTED and len(text) <= 10 * _LONGEST_QUOTED:
        return f"{who} says: {shown!r}{'' if shown[-1] in '.!?' else '.'}"
    return f"{who} begins: {shown[:_LONGEST_QUOTED] + ' ...'!r}"


class GuardrailViolationError(EnsembleError, RuntimeError):
    """A guardrail stopped a task.

    Attributes:
        kind: ``"input"`` or ``"output"``.
        message: what the guardrail said.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(f"The {kind} guardrail stopped the task: {message}")


class RateLimitTimeoutError(EnsembleError, TimeoutError):
    """A model request would have to wait longer for its rate limit than the limit allows.

    Attributes:
        rate_limit: the `RateLimit`.
        wait_timeout: seconds.
    """

    def __init__(self, rate_limit: Any, wait_timeout: float) -> None:
        self.rate_limit = rate_limit
        self.wait_timeout = wait_timeout
        set_by = getattr(rate_limit, "set_by", "")
        super().__init__(
            f"No place within {wait_timeout:g} s under {rate_limit!r}. "
            + (f"It is set by {set_by}: run" if set_by else "Raise its wait_timeout or its requests, or run")
            + " fewer tasks side by side."
        )


class BudgetExceededError(EnsembleError, RuntimeError):
    """A model request does not fit into what the budget leaves. Ends the run with a status, not with a raise.

    Attributes:
        budget: the `Budget`.
        limit: name of the limit that it would pass, such as ``"max_tokens"``.
        shortfall: what is left of that, and what the request may need, in words; empty where nothing is left.
    """

    def __init__(self, message: str, *, budget: Any, limit: str, shortfall: str = "") -> None:
        self.budget = budget
        self.limit = limit
        self.shortfall = shortfall
        super().__init__(message)


class ReviewTimeoutError(EnsembleError, TimeoutError):
    """Nobody answered a review in time, and its `on_timeout` is ``fail``.

    Attributes:
        request: the `ReviewRequest`.
        timeout_s: how long was waited.
    """

    def __init__(self, message: str, *, request: Any, timeout_s: float) -> None:
        self.request = request
        self.timeout_s = timeout_s
        super().__init__(message)


class ReviewRejectedError(EnsembleError, RuntimeError):
    """A review rejected a task or a phase.

    Attributes:
        reason: what the reviewer said.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        self.reason = reason
        super().__init__(message)


class ReplayError(EnsembleError, LookupError):
    """A recording has no answer to a model request, or is none."""


class MissingPackageError(EnsembleError, ImportError):
    """Something needs an optional package that is not installed; says which line installs it.

    Args:
        what: who needs which package, such as "Plots need altair".
        extra: of this package, which brings the other one.
    """

    def __init__(self, what: str, *, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what}, which is not installed here: {say_install(extra)}")


def say_install(extra: str, *more: str) -> str:
    """The line that installs what an extra of this package brings, from wherever the package itself came.

    Args:
        extra: its name.
        more: packages beside it.
    """
    from importlib.metadata import requires  # nobody waits for it who misses nothing

    found = (each.partition(";") for each in requires("ensemble-notebook") or ())
    wanted = [name.strip() for name, _, marker in found if f"extra == '{extra}'" in marker.replace('"', "'")]
    return f"pip install {shlex.join([*wanted, *more])}"


class TraceFormatError(EnsembleError, ValueError):
    """A file is no execution trace, or not a whole one."""


class StoreError(EnsembleError, OSError):
    """What is asked of the run store is not there, or its file can't be read."""
