"""Where the engine gets its models from (a `ChatSource`): spec texts and model objects become ports.

What a spec may be stands in docs/contract/engine.md#models. The one module of this layer that knows all the
others. Imports of providers happen on a thread, at first use.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ensemble_notebook.models.langchain import langchain_model as adoption
from ensemble_notebook.models.langchain.langchain_port import LangChainPort
from ensemble_notebook.models.local.local_server import LocalServer, local_server, weights_file
from ensemble_notebook.models.model_spec import LocalSpec, OpenAISpec, ScriptedSpec, parse_spec
from ensemble_notebook.models.openai.client import (
    KEY_VARIABLE,
    Endpoint,
    is_client_loaded,
    is_openai_model,
    load_client,
    make_chat_model,
    own_http_client,
    provider_of,
    resolve,
    takes_schema,
    without_hidden_retries,
)
from ensemble_notebook.models.openai.connection_leases import Lease, Leases
from ensemble_notebook.models.openai.connections import Connections, http_client


class ModelSource:
    """Ports for specs and objects.

    One client and connection pool per model and event loop, kept over runs, closed with the loop or with the model.
    """

    def __init__(self) -> None:
        self._clients: Leases[Any] = Leases()

    def check(self, llm: Any) -> None:
        """Whether a model can be used here, as far as that is known without opening anything.

        Raises:
            ValidationError: the spec is none, its key variable is not set, or its file is not there.
        """
        if isinstance(llm, str | Mapping):
            match parse_spec(llm):
                case OpenAISpec() as spec:
                    resolve(spec)
                case LocalSpec(path=str(path)):
                    weights_file(path)

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> LangChainPort:
        """The port of a model object or spec for the running loop; see `ChatSource.prepare`."""
        if not isinstance(llm, str | Mapping):
            return await self._adopted(llm)
        match parse_spec(llm):
            case OpenAISpec() as spec:
                return await self._remote(resolve(spec))
            case LocalSpec() as spec:
                tell = _on_this_loop(notice)
                return await self._local(await asyncio.to_thread(local_server, spec, tell))
            case ScriptedSpec():
                return await self._adopted(await asyncio.to_thread(_echo_model))

    def close(self) -> None:
        """Close the connections that are still open on loops that nobody runs any more."""
        self._clients.close()

    async def _remote(self, endpoint: Endpoint) -> LangChainPort:
        await _client_loaded()
        lease = await self._clients.get(endpoint, lambda: Connections(endpoint.url))
        model = make_chat_model(endpoint, lease.thing)
        return LangChainPort(
            model=model,
            name=endpoint.name,
            provider=provider_of(endpoint),
            takes_schema=takes_schema(model),
            lease=lease,
            key_variable=endpoint.key_variable or KEY_VARIABLE,  # where a server without keys turns out to want one
        )

    async def _local(self, server: LocalServer) -> LangChainPort:
        await _client_loaded()
        endpoint = Endpoint(server.name, server.url, None, server.api_key)
        lease = await self._clients.get(endpoint, server.connect)
        # Streamed inside in any case: the server notices that nobody waits any more only while it sends.
        model = make_chat_model(endpoint, lease.thing, streaming=True, max_tokens=server.max_tokens)
        return LangChainPort(
            model=model,
            name=server.name,
            provider="local",
            calls_tools=server.calls_tools,
            takes_schema=True,
            lease=lease,
        )

    async def _adopted(self, llm: Any) -> LangChainPort:
        """A user's object as it is, but for the retries that nobody would see."""
        core = adoption.core_of(llm)
        adoption.protect_secrets(core)
        lease = None
        if is_openai_model(core):
            client = own_http_client(core)
            if client is None:
                lease = await self._lease_for(core)
                client = lease.thing
            llm = adoption.with_core(llm, lambda model: without_hidden_retries(model, client))
        return LangChainPort(
            model=llm,
            name=adoption.name_of(core),
            provider=adoption.provider_of(core),
            is_scripted=adoption.is_scripted(core),
            calls_tools=adoption.calls_tools(core),
            takes_schema=takes_schema(core),
            warning=adoption.hidden_retries(llm),
            lease=lease,
        )

    async def _lease_for(self, model: Any) -> Lease[Any]:
        """A client for a model object, for as long as the object lives."""
        key = ("object", id(model))
        base_url, proxy = model.openai_api_base, model.openai_proxy

        def make() -> Any:
            weakref.finalize(model, self._clients.drop, key).atexit = False
            return http_client(base_url, proxy)

        return await self._clients.get(key, make)


def _echo_model() -> Any:
    from ensemble_notebook.models.langchain.scripted_model import echo_model

    return echo_model()


def _on_this_loop(notice: Callable[[str], None]) -> Callable[[str], None]:
    """`notice`, for calling on another thread."""
    loop = asyncio.get_running_loop()

    def tell(text: str) -> None:
        loop.call_soon_threadsafe(notice, text)

    return tell


async def _client_loaded() -> None:
    if not is_client_loaded():
        await asyncio.to_thread(load_client)


@functools.cache
def default_source() -> ModelSource:
    """The source of this process."""
    source = ModelSource()
    atexit.register(source.close)
    return source
