"""Who a model is, told without opening anything: for prices and estimates (E36)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_notebook.models.langchain import langchain_model as adoption
from ensemble_notebook.models.local.local_server import MAX_TOKENS
from ensemble_notebook.models.local.weights import SMOLLM2
from ensemble_notebook.models.model_spec import OpenAISpec, ScriptedSpec, parse_spec
from ensemble_notebook.models.openai.client import provider_of, resolve


@dataclass(frozen=True, slots=True)
class Identity:
    """What the model's `ChatPort` will say of it: name, who serves it, and the limit of an output, where it has one."""

    name: str
    provider: str | None
    max_tokens: int | None = None


def identify(llm: Any) -> Identity:
    """The identity of a model object or spec.

    Raises:
        ValidationError: the spec names no model, or the variable with its key is not set.
    """
    if not isinstance(llm, str | Mapping):
        core = adoption.core_of(llm)
        return Identity(adoption.name_of(core), adoption.provider_of(core), adoption.limit_of(llm))
    spec = parse_spec(llm)
    if isinstance(spec, OpenAISpec):
        endpoint = resolve(spec)
        return Identity(endpoint.name, provider_of(endpoint))
    if isinstance(spec, ScriptedSpec):
        return Identity("scripted", "scripted")
    if spec.path is None:
        return Identity(SMOLLM2.model, "local", MAX_TOKENS)
    return Identity(Path(spec.path).stem, "local")
