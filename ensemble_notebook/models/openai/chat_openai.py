"""Chat models of langchain-openai: made from an endpoint, or a user's object without hidden retries (E30).

Either way langchain-openai speaks the protocol, over connections that belong to one event loop.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.models.openai.chat_transport import (
    TolerantCompletions,
    find_base_url,
    find_client,
    is_openai_model,
    is_responses_api_used,
    replace_client,
    replace_completions,
)
from ensemble_notebook.models.openai.endpoint import Endpoint, is_openai_url, split_credentials
from ensemble_notebook.models.openai.response_schema import make_response_format

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI
    from langchain_openai.chat_models.base import BaseChatOpenAI


def make_chat_model(endpoint: Endpoint, settings: Mapping[str, Any]) -> ChatOpenAI:
    """Make a chat model for an endpoint, where LangChain is to ask it. Takes seconds, the first time.

    Args:
        endpoint: where it is.
        settings: further fields of the class.
    """
    from langchain_openai import ChatOpenAI

    async def get_key() -> str:
        # With a plain key LangChain would make a second client, for synchronous calls.
        return endpoint.api_key

    url, basic = split_credentials(endpoint.url)
    return ChatOpenAI(
        model=endpoint.name,
        base_url=url,
        api_key=get_key,
        default_headers=None if basic is None else {"Authorization": basic},
        max_retries=0,
        timeout=None,
        stream_usage=True,
        stream_chunk_timeout=None,
        # Other servers speak chat completions only, whatever their models are called.
        use_responses_api=None if endpoint.base_url is None else False,
        **settings,
    )


@functools.cache
def _read_profiles() -> Mapping[str, Mapping[str, Any]]:
    """Read what langchain-openai knows of models, without loading it; empty where it has that no more."""
    package = importlib.util.find_spec("langchain_openai")
    places = () if package is None else package.submodule_search_locations or ()
    files = [Path(place) / "data" / "_profiles.py" for place in places]
    profiles: Mapping[str, Mapping[str, Any]] = {}
    for file in filter(Path.is_file, files):
        profiles = runpy.run_path(str(file)).get("_PROFILES", profiles)
    return profiles


def serves_schemas(endpoint: Endpoint) -> bool:
    """Whether a model is known to hold its replies to a schema: its profile says so, or OpenAI itself serves it."""
    said = _read_profiles().get(endpoint.name, {}).get("structured_output")
    return is_openai_url(endpoint.url) if said is None else bool(said)


# Models of OpenAI that are asked by its Responses API, as langchain-openai knows them.
_RESPONSES_ONLY: Final = re.compile(r"gpt-5(?:\.\d+)?-pro|gpt-5\.6-sol|gpt-6|.*codex", re.IGNORECASE)


def needs_responses_api(endpoint: Endpoint) -> bool:
    """Whether an endpoint is asked by OpenAI's newer interface, which LangChain speaks and we don't."""
    return endpoint.base_url is None and _RESPONSES_ONLY.match(endpoint.name) is not None


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
