"""A user's model object, taken in as it is: what it is called, what it can do, and where its secrets are.

Knows LangChain's shapes by name and attribute; imports nothing of any provider, and changes no object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from ensemble_notebook.domain.outputs.secrets import is_secret_name, protect
from ensemble_notebook.models.langchain.provider_clients import find_package, find_single_try
from ensemble_notebook.models.openai.endpoint import name_provider

# How deep settings of a model are looked through, and what of its headers is no secret.
_DEEPEST: Final = 4
_PUBLIC_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "content-type", "user-agent", "http-referer", "referer", "x-title", "openai-beta"}
)
_FAKES: Final = ("langchain_core.language_models.fake", "langchain_community.chat_models.fake")
# What chat models of several providers call the limit of one reply.
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")


def replace_core_model(runnable: Any, change: Callable[[Any], Any]) -> Any:
    """Copy `runnable`, with `change` done to the model at its core.

    ``model.bind(...)`` and ``model.with_config(...)`` wrap a model; the wrapping is kept.
    """
    if not _is_wrapper(runnable):
        return change(runnable)
    return runnable.model_copy(update={"bound": replace_core_model(runnable.bound, change)})


def find_core_model(runnable: Any) -> Any:
    """Find the model at the core of its wrappings."""
    return list(iterate_layers(runnable))[-1]


def iterate_layers(runnable: Any) -> Iterator[Any]:
    """Iterate over the wrappings of a model, the outermost first, and at last the model."""
    while _is_wrapper(runnable):
        yield runnable
        runnable = runnable.bound
    yield runnable


def _is_wrapper(runnable: Any) -> bool:
    return "bound" in getattr(type(runnable), "model_fields", ())


def collect_bound_options(runnable: Any) -> list[dict[str, Any]]:
    """Collect what ``bind`` and ``bind_tools`` add to each request, the outermost first, which counts."""
    return [layer.kwargs for layer in iterate_layers(runnable) if _is_wrapper(layer)]


def find_max_tokens(runnable: Any) -> int | None:
    """Find the most tokens that one reply may have; None where nothing limits it, as far as is known."""
    bound = (options.get(name) for options in collect_bound_options(runnable) for name in _LIMITS)
    own = (getattr(find_core_model(runnable), name, None) for name in _LIMITS)
    return next((limit for limit in (*bound, *own) if isinstance(limit, int) and limit > 0), None)


def limit_max_tokens(runnable: Any, max_tokens: int) -> Any:
    """Copy a model so that its replies have at most so many tokens; the same where it has no higher limit.

    A model without a limit that is known by name is given LangChain's own name for it, which it may ignore.
    """
    limit = find_max_tokens(runnable)
    return runnable if limit is not None and limit <= max_tokens else _lower_max_tokens(runnable, max_tokens)


def _lower_max_tokens(runnable: Any, max_tokens: int) -> Any:
    if _is_wrapper(runnable):
        lower = dict.fromkeys(runnable.kwargs.keys() & set(_LIMITS), max_tokens)
        return runnable.model_copy(
            update={"bound": _lower_max_tokens(runnable.bound, max_tokens), "kwargs": runnable.kwargs | lower}
        )
    known = [name for name in _LIMITS if name in getattr(type(runnable), "model_fields", ())]
    if not known:
        return runnable.bind(max_tokens=max_tokens)
    used = [name for name in known if getattr(runnable, name) is not None]
    return runnable.model_copy(update=dict.fromkeys(used or known[:1], max_tokens))


def find_model_name(model: Any) -> str:
    """Find what the provider calls the model, else its class."""
    for attribute in ("model_name", "model", "model_id", "deployment_name"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def find_provider(model: Any) -> str | None:
    """Find who serves it, in LangChain's words; what speaks OpenAI's protocol elsewhere is served by its host."""
    if is_scripted(model):
        return "scripted"
    try:
        provider = model._get_ls_params().get("ls_provider")
    except Exception:  # noqa: BLE001 - a foreign object that can't say is one whose provider is unknown
        return None
    if provider == "openai":  # of langchain-openai's, OpenAI's own have no address
        client_url = getattr(getattr(model, "root_client", None), "base_url", None)
        if (url := client_url or getattr(model, "openai_api_base", None)) is not None:
            return name_provider(str(url))
    return provider if isinstance(provider, str) else None


def is_scripted(model: Any) -> bool:
    """Whether it is our scripted model, or one of the fakes that LangChain has for tests."""
    return bool(getattr(model, "is_scripted", False)) or type(model).__module__.startswith(_FAKES)


def has_tool_support(model: Any) -> bool:
    """Whether a model can call tools: False when its class says nothing of tools of its own."""
    bind = getattr(type(model), "bind_tools", None)
    if bind is None:
        return hasattr(model, "bind_tools")
    return not bind.__module__.startswith("langchain_core.language_models")


def find_context_window(model: Any) -> int | None:
    """Tokens that a model can be told, by the profile that its package has of it; None where that does not say."""
    profile = getattr(model, "profile", None)
    known = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return known if type(known) is int else None


def find_refused_kinds(profile: Any) -> frozenset[str]:
    """Which of pictures and PDFs a model does not take, by the profile that its package has of it."""
    known = profile if isinstance(profile, Mapping) else {}
    return frozenset(kind for name, kind in _KINDS.items() if known.get(name) is False)


_KINDS: Final = {"image_inputs": "picture", "pdf_inputs": "PDF"}


# Whose models give the reason with the last piece of every stream; without it, the package has kept to itself that the
# stream broke. (Relatives of ``ChatOpenAI`` are looked at where they receive.)
_PACKAGES_WITH_REASONS: Final = (
    "langchain_anthropic",
    "langchain_google_genai",
    "langchain_groq",
    "langchain_mistralai",
)


def streams_reasons(runnable: Any) -> bool:
    """Whether the model at the core says with each whole stream why it ended."""
    classes = type(find_core_model(runnable)).__mro__
    return any(cls.__module__.partition(".")[0] in _PACKAGES_WITH_REASONS for cls in classes)


def describe_hidden_retries(runnable: Any) -> str | None:
    """Describe, as a warning, that a model tries again by itself, unseen by the trace; None where it does not."""
    for layer in iterate_layers(runnable):
        for attribute, single_try in (("max_retries", find_single_try(find_package(layer))), ("max_attempt_number", 1)):
            tries = getattr(layer, attribute, None)
            if isinstance(tries, int) and tries > single_try:
                return (
                    f"{type(layer).__name__} tries failed requests again by itself ({attribute}={tries}), unseen by "
                    f"the trace. Make it with {attribute}={single_try} to see each attempt."
                )
    return None


def protect_secrets(model: Any) -> None:
    """Have the keys that a model object holds masked everywhere: in its fields, headers and addresses."""
    for name, value in getattr(model, "__dict__", {}).items():
        _protect(name, value, is_header="header" in name)


def _protect(name: str, value: Any, *, is_header: bool, depth: int = 0) -> None:
    reveal = getattr(value, "get_secret_value", None)
    if callable(reveal):
        value, is_header = reveal(), True
    if isinstance(value, Mapping) and depth < _DEEPEST:
        for each, inner in value.items():
            is_told = is_header or "header" in str(each)
            _protect(str(each), inner, is_header=is_told and str(each).lower() not in _PUBLIC_HEADERS, depth=depth + 1)
    elif isinstance(value, str):
        if is_header or is_secret_name(name):
            protect(value)
            protect(value.partition(" ")[2])  # what stands behind `Bearer` or `Basic`
        if "@" in value and "://" in value:
            with suppress(ValueError):  # it is no address
                protect(urlsplit(value).password or "")
