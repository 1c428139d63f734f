"""Who a model is, told without opening anything: for prices and estimates (E36).

Why not simply ask its port: that needs a running loop, a client, and perhaps a server that has to be started first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_notebook.models.langchain.langchain_model import (
    find_core_model,
    find_max_tokens,
    find_model_name,
    find_provider,
)
from ensemble_notebook.models.local.local_server import MAX_TOKENS
from ensemble_notebook.models.local.weights_download import SMOLLM2
from ensemble_notebook.models.model_parameters import read_parameters
from ensemble_notebook.models.model_spec import OpenAISpec, ScriptedSpec, parse_spec
from ensemble_notebook.models.openai.endpoint import resolve_endpoint


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What the model's `ChatPort` will say of it: name, who serves it, and the limit of an output, where it has one."""

    name: str
    provider: str | None
    max_tokens: int | None = None


def identify_model(llm: Any) -> ModelIdentity:
    """Tell the identity of a model object or spec.

    Raises:
        ValidationError: the spec names no model, or the variable with its key is not set.
    """
    if not isinstance(llm, str | Mapping):
        core = find_core_model(llm)
        return ModelIdentity(find_model_name(core), find_provider(core), find_max_tokens(llm))
    spec, limit = parse_spec(llm), read_parameters(llm).max_tokens
    if isinstance(spec, OpenAISpec):
        endpoint = resolve_endpoint(spec)
        return ModelIdentity(endpoint.name, endpoint.provider, limit)
    if isinstance(spec, ScriptedSpec):
        return ModelIdentity("scripted", "scripted")
    if spec.path is None:
        return ModelIdentity(SMOLLM2.model, "local", limit or MAX_TOKENS)
    return ModelIdentity(Path(spec.path).stem, "local", limit)
