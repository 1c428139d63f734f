"""Models behind the OpenAI protocol: made from a spec, or a user's object without the retries that nobody sees (E30).

Either way langchain-openai speaks the protocol, over connections that belong to one event loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ensemble_notebook.domain.outputs.secrets import protect
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.models.model_spec import OpenAISpec
from ensemble_notebook.models.openai.chat_completions import Completions
from ensemble_notebook.models.openai.chat_transport import Wire
from ensemble_notebook.models.openai.connections import Connections
from ensemble_notebook.models.openai.response_schema import response_format

if TYPE_CHECKING:
    from langchain_openai.chat_models.base import BaseChatOpenAI

KEY_VARIABLE: Final = "OPENAI_API_KEY"

_OPENAI_URL: Final = "https://api.openai.com/v1"
_URL_VARIABLES: Final = ("OPENAI_API_BASE", "OPENAI_BASE_URL")
# Servers without keys still want the header.
_NO_KEY: Final = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What an `OpenAISpec` stands for in this environment.

    Attributes:
        name: of the model.
        base_url: None for OpenAI's own.
        key_variable: where the key came from; None where there was none.
        api_key: never shown.
    """

    name: str
    base_url: str | None
    key_variable: str | None
    api_key: str = field(repr=False)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.base_url or _OPENAI_URL


def resolve(spec: OpenAISpec) -> Endpoint:
    """Address and key, from the spec and the standard environment variables.

    Raises:
        ValidationError: the key's variable is not set.
    """
    base_url = spec.base_url or next(filter(None, map(os.environ.get, _URL_VARIABLES)), None)
    variable = spec.api_key_env or KEY_VARIABLE
    key = os.environ.get(variable, "").strip()
    if key:
        protect(key)
        return Endpoint(spec.name, base_url, variable, key)
    if base_url is not None and spec.api_key_env is None:
        return Endpoint(spec.name, base_url, None, _NO_KEY)
    message = (
        f"The model 'openai:{spec.name}' needs a key in the environment variable {variable}, which is not set. Set it "
        f"before you start Jupyter, or run: import os, getpass; os.environ['{variable}'] = getpass.getpass(). "
        f"The model 'local' needs no key."
    )
    raise ValidationError(Problem(message, field="llm"))


def provider_of(endpoint: Endpoint) -> str:
    """Who serves it: OpenAI, or the host of another server, whose prices nobody knows (T3)."""
    return "openai" if is_of_openai(endpoint.url) else urlsplit(endpoint.url).hostname or ""


def is_of_openai(url: str) -> bool:
    """Whether OpenAI itself is there, in any of its regions."""
    return f".{urlsplit(url).hostname}".endswith(".openai.com")


def make_chat_model(endpoint: Endpoint, connections: Connections, **settings: Any) -> BaseChatOpenAI:
    """A chat model for an endpoint, which sends and receives over `connections`."""
    from langchain_openai import ChatOpenAI

    async def key() -> str:
        # With a plain key LangChain would make a second client, for synchronous calls.
        return endpoint.api_key

    model = ChatOpenAI(
        model=endpoint.name,
        base_url=endpoint.base_url,
        api_key=key,
        http_async_client=connections.http,
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
    model.async_client = Wire(connections, model.root_async_client, endpoint.api_key)
    return model


def takes_schema(model: Any) -> bool:
    """True for a model of OpenAI's own, at its own address, that is known to hold its replies to a schema (E16)."""
    if not is_openai_model(model) or not is_of_openai(str(model.root_async_client.base_url)):
        return False
    return bool((model.profile or {}).get("structured_output"))


def held_to_schema(model: BaseChatOpenAI, schema: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """`model`, bound to reply with JSON that fits `schema`; `options` is what else it is bound to."""
    given = response_format(schema)
    if model._use_responses_api({**options}):
        return model.bind(response_format=given)
    # Said as one of its parameters, it would have the openai package refuse tools that are not strict as well.
    return model.bind(extra_body={**(model.extra_body or {}), "response_format": given})


def load_client() -> None:
    """Import all that a first request needs. Takes seconds, so that a running loop leaves it to a thread."""

    async def make() -> None:
        here = Endpoint("", "http://localhost", None, _NO_KEY)
        connections = Connections("http://localhost")
        make_chat_model(here, connections)
        await connections.aclose()

    asyncio.run(make())


def is_client_loaded() -> bool:
    """Whether `load_client` was called."""
    return {"aiohttp", "openai.resources.chat.completions"} <= sys.modules.keys()


def is_openai_model(model: object) -> bool:
    """True for a ``ChatOpenAI`` or a relative, made with clients that can be copied; imports nothing."""
    module = sys.modules.get("langchain_openai.chat_models.base")
    base = getattr(module, "BaseChatOpenAI", None)
    return base is not None and isinstance(model, base) and getattr(model, "root_async_client", None) is not None


def own_http_client(model: BaseChatOpenAI) -> Any | None:
    """The HTTP client that a user gave to a model, which may be bound to one loop; None when it was left out."""
    # A proxy makes langchain-openai fill in the field.
    return None if model.openai_proxy else model.http_async_client


def without_hidden_retries(model: BaseChatOpenAI, client: Any) -> BaseChatOpenAI:
    """A copy of a model that talks over `client`, asks for usage with streams, and fails at the first failure.

    It sets no limit to the pauses of a stream. Everything else is the model's: callbacks, tags, parameters, headers.
    The model itself is not changed.
    """
    root = model.root_async_client.copy(max_retries=0, http_client=client)
    return model.model_copy(
        update={
            "max_retries": 0,
            "http_async_client": client,
            "root_async_client": root,
            "async_client": Completions(root.chat.completions),
            "stream_usage": model.stream_usage is not False,
            # It waits with asyncio.wait_for, which on Python 3.11 may swallow a cancellation; the engine has a timeout.
            "stream_chunk_timeout": None,
        }
    )
