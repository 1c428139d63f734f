"""The parts of a key that come from a model: its identity and parameters; no keys, no timeouts, no memory addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.code_origin import is_installed
from ensemble_notebook.domain.fingerprints.object_content import is_chat_model, list_model_fields
from ensemble_notebook.domain.fingerprints.parts import Parts
from ensemble_notebook.domain.outputs.secrets import mask

_UNCOUNTED: Final = ("api_key_env",)
_NAMES: Final = ("model", "model_name", "model_id", "deployment_name")


def add_model(parts: Parts, llm: Any, openai_url: str | None) -> None:
    """Add the parts of a model."""
    if isinstance(llm, str | Mapping):
        found = _read_spec(llm, openai_url)
    else:
        found = _read_object(parts, llm)
    for name, value in found.items():
        parts.add_value("model" if name == "model" else f"model {name}", value, f"the {name} of the model")


def _read_spec(llm: str | Mapping[str, Any], openai_url: str | None) -> dict[str, Any]:
    """The model of a spec and its parameters, independent of how the spec is written."""
    given = {"model": llm} if isinstance(llm, str) else {name: each for name, each in llm.items() if each is not None}
    found = {name: each for name, each in given.items() if name not in _UNCOUNTED}
    kind, colon, rest = str(found.pop("model")).strip().partition(":")
    if "base_url" in found or not (colon or kind in ("local", "scripted")):  # a name alone is one of OpenAI's
        kind, colon, rest = "openai", ":", kind + colon + rest
    elif kind == "openai":
        rest, at, url = rest.partition("@")
        found |= {"base_url": url} if at else {}
    if kind == "openai":
        found["base_url"] = mask(str(found.get("base_url") or openai_url or "").strip().rstrip("/"))
    if found.get("schema_mode") == "auto":
        del found["schema_mode"]
    return {"model": f"{kind}{colon}{rest.strip()}", **found}


def _read_object(parts: Parts, llm: Any) -> dict[str, Any]:
    """The class of a model object and what was set of it, with what `bind` adds to each request."""
    bound: dict[str, Any] = {}
    while not is_chat_model(llm) and hasattr(type(llm), "model_fields") and "bound" in type(llm).model_fields:
        bound = {**llm.kwargs, **bound}
        llm = llm.bound
    if not is_chat_model(llm) or not hasattr(type(llm), "model_fields"):
        return {"model": llm, **bound}
    fields = list_model_fields(llm) | bound
    names = [str(fields.pop(name)) for name in _NAMES if name in fields]
    cls = type(llm)
    if not is_installed(cls.__module__):
        parts.add_value("model class", cls, f"the class {cls.__name__} of the model")
    return {"model": " ".join((cls.__qualname__, *names)), **fields}
