"""A user's model object, taken in as it is: what it is called, what it can do, and where its secrets are.

Knows LangChain's shapes by name and attribute; imports nothing of any provider, and changes no object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import protect

_FAKES: Final = ("langchain_core.language_models.fake", "langchain_community.chat_models.fake")
# What chat models of several providers call the limit of one reply.
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")


def with_core(runnable: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of `runnable` in which `change` was done to the model at its core.

    ``model.bind(...)`` and ``model.with_config(...)`` wrap a model; the wrapping is kept.
    """
    if not _is_wrapping(runnable):
        return change(runnable)
    return runnable.model_copy(update={"bound": with_core(runnable.bound, change)})


def core_of(runnable: Any) -> Any:
    """The model at the core of its wrappings."""
    return list(_layers(runnable))[-1]


def _layers(runnable: Any) -> Iterator[Any]:
    while _is_wrapping(runnable):
        yield runnable
        runnable = runnable.bound
    yield runnable


def _is_wrapping(runnable: Any) -> bool:
    return "bound" in getattr(type(runnable), "model_fields", ())


def options_of(runnable: Any) -> list[dict[str, Any]]:
    """What ``bind`` and ``bind_tools`` add to each request, the outermost first, which counts."""
    return [layer.kwargs for layer in _layers(runnable) if _is_wrapping(layer)]


def limit_of(runnable: Any) -> int | None:
    """The most tokens that one reply may have; None where nothing limits it, as far as is known."""
    said = (options.get(name) for options in options_of(runnable) for name in _LIMITS)
    own = (getattr(core_of(runnable), name, None) for name in _LIMITS)
    return next((limit for limit in (*said, *own) if isinstance(limit, int) and limit > 0), None)


def limited(runnable: Any, most: int) -> Any:
    """A copy whose replies have at most so many tokens; the same where it has no higher limit.

    A model without a limit that is known by name is given LangChain's own name for it, which it may ignore.
    """
    limit = limit_of(runnable)
    return runnable if limit is not None and limit <= most else _lowered(runnable, most)


def _lowered(runnable: Any, most: int) -> Any:
    if _is_wrapping(runnable):
        lower = dict.fromkeys(runnable.kwargs.keys() & set(_LIMITS), most)
        return runnable.model_copy(update={"bound": _lowered(runnable.bound, most), "kwargs": runnable.kwargs | lower})
    known = [name for name in _LIMITS if name in getattr(type(runnable), "model_fields", ())]
    if not known:
        return runnable.bind(max_tokens=most)
    used = [name for name in known if getattr(runnable, name) is not None]
    return runnable.model_copy(update=dict.fromkeys(used or known[:1], most))


def name_of(model: Any) -> str:
    """What the provider calls the model, else its class."""
    for attribute in ("model_name", "model", "model_id", "deployment_name"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def provider_of(model: Any) -> str | None:
    """Who serves it, in LangChain's words."""
    if is_scripted(model):
        return "scripted"
    try:
        provider = model._get_ls_params().get("ls_provider")
    except Exception:  # noqa: BLE001 - a foreign object that can't say is one whose provider is unknown
        return None
    return provider if isinstance(provider, str) else None


def is_scripted(model: Any) -> bool:
    """True for our scripted model, and for the fakes that LangChain has for tests."""
    return bool(getattr(model, "is_scripted", False)) or type(model).__module__.startswith(_FAKES)


def calls_tools(model: Any) -> bool:
    """False when the class says nothing of tools of its own."""
    bind = getattr(type(model), "bind_tools", None)
    if bind is None:
        return hasattr(model, "bind_tools")
    return not bind.__module__.startswith("langchain_core.language_models")


def hidden_retries(runnable: Any) -> str | None:
    """The warning for a model that tries again by itself, so that attempts would not be seen (E30); None for others."""
    for layer in _layers(runnable):
        for attribute, quiet in (("max_retries", 0), ("max_attempt_number", 1)):
            tries = getattr(layer, attribute, None)
            if isinstance(tries, int) and tries > quiet:
                return (
                    f"{type(layer).__name__} tries failed requests again by itself ({attribute}={tries}), unseen by "
                    f"the trace. Make it with {attribute}={quiet} to see each attempt."
                )
    return None


def protect_secrets(model: Any) -> None:
    """Have the keys that a model object holds masked everywhere (T7)."""
    for value in getattr(model, "__dict__", {}).values():
        reveal = getattr(value, "get_secret_value", None)
        if callable(reveal) and isinstance(secret := reveal(), str):
            protect(secret)
