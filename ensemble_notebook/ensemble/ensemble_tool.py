"""An ensemble as a tool of an agent: `as_tool`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.nested_ensemble import NestedEnsemble, find_final_output
from ensemble_notebook.domain.definitions.tool import TOOL_NAME, TaskInput, get_core_tool
from ensemble_notebook.engine.events.nested_events import find_calling_span
from ensemble_notebook.engine.task.handler_runner import leave_with, tell_warnings
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def make_tool(ensemble: NestedEnsemble, name: str, description: str, lacking: Sequence[str]) -> BaseTool:
    """A LangChain tool that runs an ensemble, and gives what its final task leaves.

    Args:
        ensemble: the ensemble.
        name: of the tool, as a model sees it.
        description: what a model is told about it.
        lacking: the inputs that have no value yet; each is a text parameter.

    Raises:
        ValidationError: no tool can be called so, or nothing is said about it.
    """
    if not TOOL_NAME.fullmatch(name):
        raise ValidationError(f"The name of a tool is made of letters, digits and underscores, got {name!r}.")
    if not description.strip():
        raise ValidationError(f"The tool {name!r} needs a description: it is all that a model knows about it.")
    from langchain_core.tools import StructuredTool

    parameters = {
        "type": "object",
        "properties": {each: {"type": "string", "description": f"The {each.replace('_', ' ')}."} for each in lacking},
        "required": list(lacking),
    }
    call = functools.partial(_run, ensemble, name)
    return StructuredTool(name=name, description=description, args_schema=parameters, coroutine=call)


async def _run(ensemble: NestedEnsemble, tool: str, /, **inputs: str) -> str:
    output = await ensemble.arun(inputs)
    leave_with(output)
    if (place := find_calling_span()) is not None:
        tell_warnings(output, f"The tool {tool!r}", place.span)
    return find_final_output(output, f"The tool {tool!r}").raw


def find_ensemble(tool: Any) -> Any:
    """The ensemble that a tool runs; None of any other tool."""
    call = getattr(get_core_tool(tool), "coroutine", None)
    return call.args[0] if isinstance(call, functools.partial) and call.func is _run else None


@dataclass(frozen=True, slots=True, eq=False)
class RowHandler:
    """The handler of the tasks of a map.

    Attributes:
        run: runs the row of a task.
        ensembles: what runs for each row, by the name of its task, so that a call in it can be made again.
    """

    run: Callable[[TaskInput], Coroutine[Any, Any, str]]
    ensembles: Mapping[str, EnsembleDefinition]

    def __call__(self, given: TaskInput) -> Coroutine[Any, Any, str]:
        """Run the row."""
        return self.run(given)
