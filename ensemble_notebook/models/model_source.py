"""Where the engine gets its models from (a `ChatSource`): spec texts and model objects become ports.

What a spec may be stands in docs/contract/engine.md#models. Knows all kinds of models and how each is opened. Imports
of providers happen on a thread, at first use.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.models.langchain.langchain_model import (
    describe_hidden_retries,
    find_core_model,
    find_model_name,
    find_provider,
    has_tool_support,
    is_scripted,
    protect_secrets,
    replace_core_model,
)
from ensemble_notebook.models.langchain.langchain_port import LangChainPort
from ensemble_notebook.models.local.local_server import (
    LocalServer,
    find_name_to_start,
    find_weights_file,
    get_local_server,
)
from ensemble_notebook.models.model_parameters import ModelParameters, read_parameters
from ensemble_notebook.models.model_spec import LocalSpec, OpenAISpec, ScriptedSpec, parse_spec
from ensemble_notebook.models.openai.chat_openai import (
    copy_without_retries,
    find_own_http_client,
    has_schema_support,
    is_client_loaded,
    load_client,
    make_chat_model,
)
from ensemble_notebook.models.openai.chat_openai_adapter import has_replaceable_completions
from ensemble_notebook.models.openai.connections import Connections, make_http_client
from ensemble_notebook.models.openai.connections_by_loop import ConnectionHandle, ConnectionsByLoop
from ensemble_notebook.models.openai.endpoint import KEY_VARIABLE, Endpoint, resolve_endpoint

Notice = Callable[[str], None]


class ModelSource:
    """Ports for specs and objects.

    One client and connection pool per model and event loop, kept over runs, closed with the loop or with the model.
    """

    def __init__(self) -> None:
        self._connections: ConnectionsByLoop[Any] = ConnectionsByLoop()

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: what is wrong with a model is told by its port."""
        return ()

    @property
    def has_reviews(self) -> bool:
        """No: reviewers answer themselves."""
        return False

    async def review(
        self,
        request: ReviewRequest,  # noqa: ARG002
        ask: Callable[[], Awaitable[ReviewAnswer]],
    ) -> ReviewAnswer:
        """Ask the reviewer: nothing is recorded here."""
        return await ask()

    def check(self, llm: Any) -> None:
        """Check whether a model can be used here, as far as that is known without opening anything.

        Raises:
            ValidationError: the spec is none, its key variable is not set, or its file is not there.
        """
        if not isinstance(llm, str | Mapping):
            protect_secrets(find_core_model(llm))
        else:
            match parse_spec(llm):
                case OpenAISpec() as spec:
                    resolve_endpoint(spec)
                case LocalSpec(path=str(path)):
                    find_weights_file(path)

    async def prepare(self, llm: Any, notice: Notice) -> LangChainPort:
        """Make the port of a model object or spec for the running loop; see `ChatSource.prepare`."""
        if not isinstance(llm, str | Mapping):
            return await self._prepare_object(llm)
        match parse_spec(llm):
            case OpenAISpec() as spec:
                return await self._prepare_openai(resolve_endpoint(spec), read_parameters(llm), notice)
            case LocalSpec() as spec:
                if (name := find_name_to_start(spec)) is not None:
                    # Here, since the loop hears nothing while llama.cpp's binding holds the interpreter's lock.
                    notice(f"Starting {name} ...")
                server = await asyncio.to_thread(get_local_server, spec, _call_on_this_loop(notice))
                return await self._prepare_local(server, read_parameters(llm), notice)
            case ScriptedSpec():
                return await self._prepare_object(await asyncio.to_thread(_make_echo_model))

    def close(self) -> None:
        """Close the connections that are still open on loops that nobody runs any more."""
        self._connections.close()

    async def _prepare_openai(self, endpoint: Endpoint, parameters: ModelParameters, notice: Notice) -> LangChainPort:
        await _ensure_client_loaded(endpoint.name, notice)
        handle = await self._connections.get(endpoint, lambda: Connections(endpoint.url))
        model = make_chat_model(endpoint, handle.connections, **parameters.settings)
        return LangChainPort(
            model=model,
            name=endpoint.name,
            provider=endpoint.provider,
            has_schema_support=parameters.choose_schema_support(is_known=has_schema_support(model)),
            connection_handle=handle,
            key_variable=endpoint.key_variable or KEY_VARIABLE,  # where a server without keys turns out to want one
        )

    async def _prepare_local(self, server: LocalServer, parameters: ModelParameters, notice: Notice) -> LangChainPort:
        await _ensure_client_loaded(server.name, notice)
        endpoint = Endpoint(server.name, server.url, None, server.api_key)
        handle = await self._connections.get(endpoint, server.connect)
        # Streamed inside in any case: the server notices that nobody waits any more only while it sends.
        settings = {"max_tokens": server.max_tokens, **parameters.settings}
        model = make_chat_model(endpoint, handle.connections, streaming=True, **settings)
        return LangChainPort(
            model=model,
            name=server.name,
            provider="local",
            has_tool_support=server.has_tool_support,
            has_schema_support=parameters.choose_schema_support(is_known=True),
            connection_handle=handle,
        )

    async def _prepare_object(self, llm: Any) -> LangChainPort:
        """Take in a user's object as it is, but for the retries that nobody would see."""
        core = find_core_model(llm)
        protect_secrets(core)
        handle = None
        if has_replaceable_completions(core):
            http_client = find_own_http_client(core)
            if http_client is None:
                handle = await self._open_http_client(core)
                http_client = handle.connections
            llm = replace_core_model(llm, lambda model: copy_without_retries(model, http_client))
        return LangChainPort(
            model=llm,
            name=find_model_name(core),
            provider=find_provider(core),
            is_scripted=is_scripted(core),
            has_tool_support=has_tool_support(core),
            has_schema_support=has_schema_support(core),
            warning=describe_hidden_retries(llm),
            connection_handle=handle,
        )

    async def _open_http_client(self, model: Any) -> ConnectionHandle[Any]:
        """Open an HTTP client for a model object, for as long as the object lives."""
        key = ("object", id(model))
        base_url, proxy = model.openai_api_base, model.openai_proxy

        def make() -> Any:
            # Dropped with the model, before its `id` can come again for another object.
            weakref.finalize(model, self._connections.drop, key).atexit = False
            return make_http_client(base_url, proxy)

        return await self._connections.get(key, make)


def _make_echo_model() -> Any:
    from ensemble_notebook.models.langchain.echo_model import make_echo_model

    return make_echo_model()


def _call_on_this_loop(notice: Notice) -> Notice:
    """Make a `notice` that another thread may call."""
    loop = asyncio.get_running_loop()

    def call(text: str) -> None:
        loop.call_soon_threadsafe(notice, text)

    return call


async def _ensure_client_loaded(name: str, notice: Notice) -> None:
    if not is_client_loaded():
        notice(f"Loading the client of {name} ...")
        await asyncio.to_thread(load_client)


@functools.cache
def get_default_source() -> ModelSource:
    """Get the source of this process."""
    source = ModelSource()
    atexit.register(source.close)
    return source
