"""The texts and mappings that name a model: read, and refused where they can't mean one.

What they may be stands in docs/contract/engine.md#models. Knows no environment, file or server: what a spec stands for
here is found out by whoever opens it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from ensemble_notebook.domain.outputs.secrets import has_secret, mask
from ensemble_notebook.errors import Problem, ValidationError, did_you_mean, find_nearest
from ensemble_notebook.models.model_parameters import PARAMETERS, check_parameter

SPEC_FORMS: Final = "openai:NAME, openai:NAME@URL, local, local:PATH.gguf, scripted"

_KINDS: Final = ("openai", "local", "scripted")
FIELDS: Final = ("model", "base_url", "api_key_env", *PARAMETERS)
"""What a spec mapping may have."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPENAI_NAME: Final = re.compile(r"(?:gpt|chatgpt|o\d)\b", re.IGNORECASE)
# Where well-known servers listen that speak the same protocol.
_KNOWN_SERVERS: Final = {
    "ollama": "http://localhost:11434/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
    "llamacpp": "http://localhost:8080/v1",
}
_PROVIDERS: Final = re.compile(
    "anthropic|azure|bedrock|cohere|deepseek|fireworks|gemini|google|groq|huggingface|mistral|nvidia|together|xai",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OpenAISpec:
    """A model behind the OpenAI protocol.

    Attributes:
        name: on the server.
        base_url: None for the address of the standard environment variables, else of OpenAI.
        api_key_env: the variable with the key; None for ``OPENAI_API_KEY``.
    """

    name: str
    base_url: str | None = None
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """The embedded model (E40): the weights at `path`, or the default ones."""

    path: str | None = None


@dataclass(frozen=True, slots=True)
class ScriptedSpec:
    """No model: an echo that says so (E41)."""


ModelSpec = OpenAISpec | LocalSpec | ScriptedSpec


def parse_spec(spec: str | Mapping[str, Any]) -> ModelSpec:
    """Read a spec text, or a mapping with ``model``, of which `model_parameters` reads the parameters.

    Raises:
        ValidationError: it names no model; says what was meant, where that can be guessed.
    """
    if isinstance(spec, Mapping):
        return _parse_mapping(spec)
    text = spec.strip()
    _refuse_key(text)
    kind, colon, rest = text.partition(":")
    match kind, colon, rest.strip():
        case "openai", ":", name:
            return _parse_openai(name)
        case "local", "", _:
            return LocalSpec()
        case "local", ":", path:
            return _parse_local(path)
        case "scripted", "", _:
            return ScriptedSpec()
    raise _make_error(f"{text!r} names no model.{_suggest_spec(kind, rest)}")


def _parse_openai(text: str) -> OpenAISpec:
    name, at, url = text.partition("@")
    if not name:
        raise _make_error("'openai:' needs the name of a model after the colon, as in 'openai:gpt-4o-mini'.")
    return OpenAISpec(name.strip(), _check_url(url.strip(), before=f"openai:{name}@") if at else None)


def _parse_local(path: str) -> LocalSpec:
    if not path.lower().endswith(".gguf"):
        raise _make_error(f"'local:{path}' must name a file with weights, local:PATH.gguf; 'local' has its own.")
    return LocalSpec(path)


def _parse_mapping(spec: Mapping[str, Any]) -> ModelSpec:
    for name, value in spec.items():
        _check_field(name, value)
    if "model" not in spec:
        raise _make_error("A model needs its name: model: NAME.", "model")
    name, url, variable = spec["model"].strip(), spec.get("base_url"), spec.get("api_key_env")
    if variable is not None and (has_secret(variable) or not _VARIABLE.fullmatch(variable)):
        raise _make_error(
            "api_key_env is the name of an environment variable, such as OPENAI_API_KEY; no key.", "api_key_env"
        )
    if url is not None:  # whatever the name is there
        return OpenAISpec(name, _check_url(url.strip(), item="base_url"), variable)
    return _add_details(_parse_name(name), variable, spec)


def _check_field(name: Any, value: Any) -> None:
    if name not in FIELDS:
        _refuse_field(str(name))
    if value is None and name != "model":
        return
    if name in PARAMETERS:
        _refuse_key(repr(value), name)
        check_parameter(name, value)
        return
    if not isinstance(value, str) or not value.strip():
        raise _make_error(f"The {name} of a model must be text, got {type(value).__name__}.", name)
    if name != "api_key_env":
        _refuse_key(value, name)


def _parse_name(name: str) -> ModelSpec:
    """Read what names a model without an address: a spec, or a bare name, which OpenAI's server knows (E56)."""
    if name.partition(":")[0].strip() not in _KINDS:
        return OpenAISpec(name)
    try:
        return parse_spec(name)
    except ValidationError as error:
        raise ValidationError([Problem(each.message, field="llm", item="model") for each in error.problems]) from None


def _add_details(spec: ModelSpec, variable: str | None, given: Mapping[str, Any]) -> ModelSpec:
    if isinstance(spec, OpenAISpec):
        return replace(spec, api_key_env=variable)
    if variable is not None:
        raise _make_error(f"The model {given['model']!r} takes no key: leave out api_key_env.", "api_key_env")
    useless = next((name for name in PARAMETERS if given.get(name) is not None), None)
    if isinstance(spec, ScriptedSpec) and useless is not None:
        raise _make_error(f"The model 'scripted' is none, and takes no {useless}.", useless)
    return spec


def _refuse_field(name: str) -> NoReturn:
    if re.search(r"key|token|secret|password", name, re.IGNORECASE) and find_nearest(name, ["api_key_env"]) != name:
        raise _make_error(
            f"A model has no {name!r}: keys come from the environment only. Put the key into a variable before you "
            f"start, and name the variable: api_key_env: NAME.",
            name,
        )
    raise _make_error(f"A model has no {name!r}.{did_you_mean(name, FIELDS)}", name)


def _make_error(message: str, item: str | None = None) -> ValidationError:
    return ValidationError(Problem(message, field="llm", item=item))


def _refuse_key(text: str, item: str | None = None) -> None:
    if has_secret(text):
        message = (
            f"{mask(text)!r} holds what looks like a key. Keys come from the environment only, since cells are saved "
            f"and shared: set OPENAI_API_KEY, or name another variable with api_key_env."
        )
        raise _make_error(message, item)


def _check_url(url: str, *, before: str = "", item: str | None = None) -> str:
    """Give back an address without the slash at its end.

    Raises:
        ValidationError: it is none.
    """
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not has_host:
        hint = f" Did you mean '{before}http://{url}'?" if re.match(r"[\w.-]+(:\d+)?(/|$)", url) else ""
        raise _make_error(f"{url!r} is no address of a server: it must begin with http:// or https://.{hint}", item)
    if parts.query or parts.fragment:
        raise _make_error(f"The address of a server ends with its path, as in http://host/v1; got {url!r}.", item)
    return url.rstrip("/")


def _suggest_spec(kind: str, rest: str) -> str:
    """Suggest what somebody who wrote this was probably after."""
    if server := _KNOWN_SERVERS.get(kind.lower().replace("-", "").replace(".", "").replace("_", "")):
        return f" For {kind} write 'openai:{rest or 'NAME'}@{server}'."
    if _PROVIDERS.match(kind):
        return f" For {kind} make a LangChain chat model in the notebook, and name its variable here."
    if _OPENAI_NAME.match(kind):
        return f" Did you mean 'openai:{kind}{':' if rest else ''}{rest}'?"
    if kind.lower().endswith(".gguf"):
        return f" Did you mean 'local:{kind}'?"
    if meant := find_nearest(kind, _KINDS):
        rest = {"openai": rest or "NAME", "local": rest, "scripted": ""}[meant]
        return f" Did you mean '{meant}{':' if rest else ''}{rest}'?"
    return f" Write one of {SPEC_FORMS}, or the name of a notebook variable that holds a chat model."
