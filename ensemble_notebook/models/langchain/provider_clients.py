"""The clients of other providers' models, as LangChain's packages make them: for one event loop, and without retries.

A package keeps an asynchronous client for as long as a model lives, Anthropic's for as long as the process, and some
try again unless each request, or the client, is told not to. A connection belongs to the loop that opened it: asked
for over another one's, a reply that was paid for is lost. Knows packages by their names; imports none that is not
loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

# With how many tries a request is sent once, where that is not 0: Google's packages count the first one.
_SINGLE_TRY: Final[Mapping[str, int]] = {"langchain_google_genai": 1, "langchain_google_vertexai": 1}
_BOUND_TO_LOOP: Final = frozenset(
    {
        "langchain_anthropic",
        "langchain_aws",
        "langchain_cohere",
        "langchain_fireworks",
        "langchain_google_vertexai",
        "langchain_groq",
        "langchain_mistralai",
        "langchain_openrouter",
        "langchain_perplexity",
    }
)
_FREE_OF_LOOPS: Final = frozenset({"langchain_google_genai", "langchain_litellm"})
# Where a model has what it sends through.
_CLIENTS: Final = ("client", "async_client")
# How deep in a model its HTTP clients are looked for.
_DEEPEST: Final = 6


def find_single_try(package: str) -> int:
    """Find the ``max_retries`` with which the models of a package, in either spelling, send a request once."""
    return _SINGLE_TRY.get(package.replace("-", "_"), 0)


def find_package(model: object) -> str:
    """Find the package that a model's class is of."""
    return type(model).__module__.partition(".")[0]


def has_known_clients(model: object) -> bool:
    """Whether a model is of a class whose clients are known here; a class that somebody derived from one is not."""
    package, fields = find_package(model), getattr(type(model), "model_fields", {})
    # Bedrock's own models send on threads, over a client of boto3 that somebody may have given them; what speaks
    # OpenAI's protocol is a relative of `ChatOpenAI`, which is known elsewhere.
    is_other = "bedrock_client" in fields or "root_async_client" in fields
    return package in _FREE_OF_LOOPS or (package in _BOUND_TO_LOOP and not is_other)


class ProviderClients:
    """A model with clients of its own for the running loop, which sends each request once.

    Args:
        model: of a class with known clients, or any other, which stays as it is.
        is_ours: whether it was made for this loop, and nobody else has it; else it is copied.

    Attributes:
        runnable: the model, with what has to go with each of its requests.
    """

    def __init__(self, model: Any, *, is_ours: bool) -> None:
        own = model if is_ours or not has_known_clients(model) else _copy(model)
        is_taken = is_ours or own is not model
        self._given = None if is_ours else model
        self._model = own if is_taken and has_known_clients(model) else None
        self.runnable = own
        with suppress(AttributeError):  # a version that has other names works as it does by itself
            self.runnable = _take_over(own) if is_taken else own

    async def aclose(self) -> None:
        """Close the clients."""
        given = {id(each) for each in _iterate_http_clients(self._given, set())}
        for each in _iterate_http_clients(self._model, set()):
            if id(each) not in given:
                with suppress(Exception):  # what a package can't close was never opened
                    await each.aclose()


def _copy(model: Any) -> Any:
    """Copy a model so that it fails at the first failure, and shares no client that is bound to a loop.

    Everything else is the model's: callbacks, tags, parameters, keys. It is given back itself where its class can't be
    made again from its fields, or where somebody gave it a client of another kind, which has to be used.
    """
    model_class, package = type(model), find_package(model)
    fields = model_class.model_fields
    tries = {"max_retries": find_single_try(package)} if "max_retries" in fields else {}
    if package in _FREE_OF_LOOPS:
        return model.model_copy(update=tries)
    given = {name: getattr(model, name) for name in model.model_fields_set if name in fields and name not in _CLIENTS}
    try:
        copy = model_class(**given | tries)
    except Exception:  # noqa: BLE001 - a foreign class that refuses what its object holds
        return model
    if any(_describe(getattr(copy, name, None)) != _describe(getattr(model, name, None)) for name in _CLIENTS):
        return model
    copy.__dict__.update({name: getattr(model, name) for name in fields if name not in (*_CLIENTS, *tries)})
    return copy


def _describe(client: Any) -> tuple[Any, ...]:
    return type(client), getattr(client, "base_url", None), getattr(client, "headers", None)


def _take_over(model: Any) -> Any:
    """Have a model that is ours alone send each request once, and share no client with others."""
    match find_package(model):
        case "langchain_anthropic":
            client = model._async_client  # its HTTP client is one for each address and process
            anthropic = import_module("anthropic")  # not by name: it comes with the model's package, not with ours
            http_client = anthropic.DefaultAsyncHttpxClient(
                base_url=client.base_url, timeout=client.timeout, proxy=model.anthropic_proxy, follow_redirects=False
            )
            model.__dict__["_async_client"] = client.copy(http_client=http_client)
        case "langchain_openrouter":
            # Without a word of the model, its package tries again for an hour.
            model.client.sdk_configuration.retry_config = None
        case "langchain_litellm":
            model.model_kwargs = {**model.model_kwargs, "max_retries": 0}
        case "langchain_ibm":
            # Tries again in two places, each with others than those that a model can be told of.
            model.watsonx_model._inference._retry_decorator.max_retries = 0
            model.watsonx_model._client.async_httpx_client._transport.retries = 0
        case "langchain_cohere":
            return model.bind(request_options={"max_retries": 0})
    return model


def _iterate_http_clients(value: Any, seen: set[int], depth: int = 0) -> Iterator[Any]:
    """Iterate over what a model sends through: its packages nest it in many ways, and all of it can be closed."""
    if value is None or depth > _DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    if inspect.iscoroutinefunction(getattr(type(value), "aclose", None)):
        yield value
        return
    held = (getattr(value, "__dict__", None), getattr(value, "__pydantic_private__", None))
    for each in [each for names in held for each in (names or {}).values()]:
        if type(each).__module__ != "builtins" and not isinstance(each, type):
            yield from _iterate_http_clients(each, seen, depth + 1)
