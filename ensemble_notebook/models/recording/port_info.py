"""What a recording keeps of a model: its name, and what its port says of itself (E42)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import ChatPort
from ensemble_notebook.models.langchain.langchain_model import find_core_model, find_model_name
from ensemble_notebook.models.model_parameters import read_parameters
from ensemble_notebook.models.model_spec import LocalSpec, ModelSpec, OpenAISpec, ScriptedSpec, parse_spec

# What does not change from day to day: its key in a recording, the attribute, and what it must be. The keys are those
# of the first version, in which two attributes had other names.
_RECORDED_KEYS: Final[Mapping[str, tuple[str, Any]]] = {
    "name": ("name", str),
    "provider": ("provider", str | None),
    "is_scripted": ("is_scripted", bool),
    "calls_tools": ("has_tool_support", bool),
    "takes_schema": ("has_schema_support", bool),
    "max_tokens": ("max_tokens", int | None),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortInfo:
    """The attributes of a `ChatPort`, without the port."""

    name: str
    provider: str | None
    is_scripted: bool
    has_tool_support: bool
    has_schema_support: bool
    max_tokens: int | None
    warning: str | None = None

    @classmethod
    def from_port(cls, port: ChatPort) -> PortInfo:
        """Read the attributes that the port has now."""
        return PortInfo(**{each.name: getattr(port, each.name) for each in fields(PortInfo)})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PortInfo:
        """Read what `to_document` has written."""
        attributes: dict[str, Any] = {}
        for key, (name, expected) in _RECORDED_KEYS.items():
            if not isinstance(document[key], expected):
                raise TypeError(f"{key} can't be {document[key]!r}")
            attributes[name] = document[key]
        return PortInfo(**attributes)

    def to_document(self) -> dict[str, Any]:
        """Convert all but the warning, which is about requests that nobody makes in a replay."""
        return {key: getattr(self, name) for key, (name, _) in _RECORDED_KEYS.items()}

    def to_attributes(self) -> dict[str, Any]:
        """List all of them, by name."""
        return {each.name: getattr(self, each.name) for each in fields(PortInfo)}


def to_recorded_name(llm: Any) -> str:
    """Convert a model object or spec to its name in a recording: the same on each machine, without keys."""
    if not isinstance(llm, str | Mapping):
        core = find_core_model(llm)
        return mask(f"{type(core).__name__} {find_model_name(core)}")
    name = _name_spec(parse_spec(llm))
    parameters = read_parameters(llm)
    # Its replies are others with other parameters, also to the same prompt. How a schema is given is in the request.
    return mask(f"{name} {json.dumps(dict(parameters.settings), default=str)}") if parameters.settings else name


def _name_spec(spec: ModelSpec) -> str:
    match spec:
        case OpenAISpec(name, base_url):
            return f"openai:{name}" if base_url is None else f"openai:{name}@{base_url}"
        case LocalSpec(path):
            return "local" if path is None else f"local:{path}"
        case ScriptedSpec():
            return "scripted"
