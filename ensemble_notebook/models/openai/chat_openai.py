"""Chat models of langchain-openai: made from an endpoint, or a user's object without hidden retries (E30).

Either way langchain-openai speaks the protocol, over connections that belong to one event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.models.openai.chat_transport import (
    ChatTransport,
    TolerantCompletions,
    find_base_url,
    find_client,
    has_replaceable_completions,
    is_openai_model,
    is_responses_api_used,
    replace_client,
    replace_completions,
)
from ensemble_notebook.models.openai.connections import Connections
from ensemble_notebook.models.openai.endpoint import NO_KEY, Endpoint, is_openai_url
from ensemble_notebook.models.openai.response_schema import make_response_format

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI
    from langchain_openai.chat_models.base import BaseChatOpenAI


_loading: Final = threading.Lock()
_loaded: Final = threading.Event()


def make_chat_model(
    endpoint: Endpoint, connections: Connections, *, model_class: type[ChatOpenAI] | None = None, **settings: Any
) -> ChatOpenAI:
    """Make a chat model for an endpoint, which sends and receives over `connections`.

    Args:
        endpoint: where it is.
        connections: of the running loop.
        model_class: ``ChatOpenAI``, or one that derives from it.
        settings: further fields of the class.
    """
    from langchain_openai import ChatOpenAI

    async def get_key() -> str:
        # With a plain key LangChain would make a second client, for synchronous calls.
        return endpoint.api_key

    model = (model_class or ChatOpenAI)(
        model=endpoint.name,
        base_url=endpoint.base_url,
        api_key=get_key,
        http_async_client=connections.http_client,
        openai_proxy=None,  # the connections know it, and langchain-openai takes either
        http_socket_options=(),
        max_retries=0,
        timeout=None,
        stream_usage=True,
        stream_chunk_timeout=None,
        # Other servers speak chat completions only, whatever their models are called.
        use_responses_api=None if endpoint.base_url is None else False,
        **settings,
    )
    if has_replaceable_completions(model):
        replace_completions(model, ChatTransport(connections, find_client(model), endpoint.api_key))
    return model


def has_schema_support(model: Any) -> bool:
    """Whether a model is known to hold its replies to a schema: its profile says so, or OpenAI itself serves it."""
    if not is_openai_model(model):
        return False
    said = (model.profile or {}).get("structured_output")
    return is_openai_url(find_base_url(model)) if said is None else bool(said)


def bind_schema(model: BaseChatOpenAI, schema: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Bind `model` to reply with JSON that fits `schema`; `options` is what else it is bound to."""
    response_format = make_response_format(schema)
    if is_responses_api_used(model, options):
        return model.bind(response_format=response_format)
    # Said as one of its parameters, it would have the openai package refuse tools that are not strict as well.
    return model.bind(extra_body={**(model.extra_body or {}), "response_format": response_format})


def load_client() -> None:
    """Import all that a first request needs, once. Takes seconds, so that a running loop leaves it to a thread.

    Whoever comes meanwhile on another thread waits: a module that is half imported looks like one that is there.
    """

    async def make() -> None:
        endpoint = Endpoint("", "http://localhost", None, NO_KEY)
        connections = Connections("http://localhost")
        make_chat_model(endpoint, connections)
        await connections.aclose()

    with _loading:
        if not _loaded.is_set():
            asyncio.run(make())
            _loaded.set()


def is_client_loaded() -> bool:
    """Whether `load_client` has come to its end, on any thread."""
    return _loaded.is_set()


def find_own_http_client(model: BaseChatOpenAI) -> Any | None:
    """Find the HTTP client that a user gave to a model, which may be bound to one loop; None when it was left out."""
    # A proxy makes langchain-openai fill in the field.
    return None if model.openai_proxy else model.http_async_client


def copy_without_retries(model: BaseChatOpenAI, http_client: Any) -> BaseChatOpenAI:
    """Copy a model whose completions can be replaced: it talks over `http_client`, and fails at the first failure.

    The copy asks for usage with streams, and sets no limit to their pauses. Everything else is the model's: callbacks,
    tags, parameters, headers. The model itself is not changed.
    """
    client: Any = find_client(model)
    client = client.copy(max_retries=0, http_client=http_client)
    copy = model.model_copy(
        update={
            "max_retries": 0,
            "http_async_client": http_client,
            "stream_usage": model.stream_usage is not False,
            # It waits with asyncio.wait_for, which on Python 3.11 may swallow a cancellation; the engine has a timeout.
            "stream_chunk_timeout": None,
        }
    )
    replace_client(copy, client)
    replace_completions(copy, TolerantCompletions(client.chat.completions, str(client.base_url)))
    return copy
