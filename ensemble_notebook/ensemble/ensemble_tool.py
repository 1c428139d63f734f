"""An ensemble as a tool of an agent (E54)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.nested_ensemble import NestedEnsemble, find_final_output
from ensemble_notebook.domain.definitions.tool import TOOL_NAME
from ensemble_notebook.errors import ValidationError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def make_ensemble_tool(ensemble: NestedEnsemble, name: str, description: str, lacking: Sequence[str]) -> BaseTool:
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
    return StructuredTool(
        name=name, description=description, args_schema=parameters, coroutine=_make_call(ensemble, name)
    )


def _make_call(ensemble: NestedEnsemble, name: str) -> Callable[..., Coroutine[Any, Any, str]]:
    async def call(**inputs: str) -> str:
        return find_final_output(await ensemble.arun(inputs), f"The tool {name!r}").raw

    return call
