"""The ensemble that does a task, as definitions see it (E54). Knows no ensemble class, since tasks are part of one."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.enums import ExitReason, RunStatus
from ensemble_notebook.domain.definitions.templates import (
    CONTEXT,
    ITEM,
    ItemTemplate,
    escape_name,
    find_input_name,
    find_variables,
    render,
)
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.errors import EnsembleError, summarize_error

MAX_DEPTH: Final = 20
"""How deep runs may be nested in each other."""
_COMPLETED: Final = (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS)


class NestedOutput(Protocol):
    """What a run of an ensemble gives back, as far as its task needs it."""

    @property
    def status(self) -> RunStatus: ...
    @property
    def exit_reason(self) -> ExitReason: ...
    @property
    def failures(self) -> tuple[Failure, ...]: ...
    @property
    def skipped(self) -> tuple[Skipped, ...]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...

    def get_final_output(self) -> TaskOutput | None:
        """The output of the final task."""


class NestedEnsemble(Protocol):
    """An ``Ensemble``, as its task knows it."""

    @property
    def name(self) -> str | None: ...
    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def tasks(self) -> Sequence[Any]: ...
    @property
    def phases(self) -> Sequence[Any]: ...

    def arun(self, inputs: Mapping[str, Any] | None = None, /) -> Coroutine[Any, Any, NestedOutput]:
        """Run on the caller's loop."""


def is_ensemble(value: object) -> bool:
    """True for an ensemble, told by its fields."""
    return isinstance(value, Definition) and hasattr(value, "phases") and hasattr(value, "tasks")


def describe_ensemble(ensemble: Any) -> str:
    """Name an ensemble for people: by its name, else by what is in it."""
    if ensemble.name:
        return str(ensemble.name)
    count = len(ensemble.tasks) or sum(len(phase.tasks) for phase in ensemble.phases)
    return f"{count} task{'s' * (count != 1)}"


def find_final_output(output: NestedOutput, owner: str) -> TaskOutput:
    """The output of the final task of a run that came to its end.

    Raises:
        EnsembleError: it did not; says that of its owner.
    """
    final = output.get_final_output()
    if final is not None and output.status in _COMPLETED:
        return final
    reasons = [summarize_error(each.error) for each in output.failures] + [each.reason for each in output.skipped]
    reason = f": {reasons[0]}" if reasons else "."
    raise EnsembleError(f"{owner} ended as {output.status.value} without a final output{reason}")


def list_input_texts(inputs: Mapping[str, Any]) -> Iterator[str]:
    """The texts among these inputs, in which what the task reads is no variable of the run around it."""
    return (escape_name(value, CONTEXT) for value in inputs.values() if isinstance(value, str))


def reads_context(inputs: Mapping[str, Any]) -> bool:
    """Whether any of these inputs holds what the task reads."""
    return any(isinstance(value, str) and CONTEXT in find_variables(value) for value in inputs.values())


def fill_inputs(
    inputs: Mapping[str, Any],
    values: Mapping[str, Any],
    context: Sequence[TaskOutput] | None = None,
    *,
    item: Any = None,
) -> dict[str, Any]:
    """The inputs of an ensemble, with the variables in their texts filled in.

    A text that is nothing but ``{name}`` becomes the value itself, so that handlers inside get tables as tables.

    Args:
        inputs: as the task declares them.
        values: of the run around it; variables without one are left as they are.
        context: what the task reads; None where that is not known yet.
        item: for which the task runs; None for none.
    """
    known = {name: value for name, value in values.items() if name != CONTEXT}
    if context is not None:
        # Of several outputs, each stands under the name of its task.
        parts = [f"### {output.name}\n\n{output.raw}" for output in context]
        known[CONTEXT] = context[0].raw if len(context) == 1 else "\n\n".join(parts)
    return {name: _fill(value, known, item) if isinstance(value, str) else value for name, value in inputs.items()}


def _fill(text: str, values: Mapping[str, Any], item: Any) -> Any:
    name = find_input_name(text)
    if item is not None:
        return item if name == ITEM else ItemTemplate(text, values).fill(item)
    return values[name] if name is not None and name in values else render(text, values)
