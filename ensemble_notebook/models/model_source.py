"""Where the engine gets its models from (a `ChatSource`): spec texts and model objects become ports.

What a spec may be is told by its kind. Knows what all kinds need to be opened: connections that are kept, and the port
of a LangChain model. Imports of providers happen on a thread, at first use.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.seams.chat_port import ChatPort
from ensemble_notebook.models.connection_places import PlacesOfModel, connection_places
from ensemble_notebook.models.langchain.langchain_model import (
    describe_hidden_retries,
    find_context_window,
    find_core_model,
    find_model_name,
    find_provider,
    find_refused_kinds,
    has_tool_support,
    is_scripted,
    protect_secrets,
    replace_core_model,
)
from ensemble_notebook.models.langchain.langchain_port import LangChainPort, has_listeners_here, keeps_replies
from ensemble_notebook.models.langchain.provider_clients import ProviderClients, has_known_clients
from ensemble_notebook.models.model_kinds import check_allowed, parse_spec
from ensemble_notebook.models.model_spec import (
    MadeModel,
    ModelParameters,
    Notice,
    ServedModel,
    read_parameters,
)
from ensemble_notebook.models.openai.connections import (
    ConnectionHandle,
    Connections,
    ConnectionsByLoop,
    make_http_client,
)


class ModelSource:
    """Ports for specs and objects.

    One client and connection pool per model and event loop, for as long as runs go on (`connections_held`).
    """

    def __init__(self) -> None:
        self._connections: ConnectionsByLoop = ConnectionsByLoop()
        self._watched: dict[Hashable, weakref.finalize[..., Any]] = {}

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
            ValidationError: the spec is none, its key variable is not set, or its file is not there; or it is none of
                those that are allowed in this kernel.
        """
        check_allowed(llm)
        if isinstance(llm, str | Mapping):
            parse_spec(llm).check()
        else:
            protect_secrets(find_core_model(llm))

    async def prepare(self, llm: Any, notice: Notice) -> ChatPort:
        """Make the port of a model object or spec for the running loop; see `ChatSource.prepare`."""
        if not isinstance(llm, str | Mapping):
            return await self._open_object(llm)
        parameters = read_parameters(llm)
        match await parse_spec(llm).open(parameters, notice):
            case ServedModel() as served:
                return await self._open_served(served, parameters, notice)
            case MadeModel() as made:
                return await self._open_made(made)
            case model:
                return await self._open_object(model)

    @asynccontextmanager
    async def connections_held(self) -> AsyncIterator[None]:
        """Keep connections open from request to request; when the last run of the process leaves, they close."""
        try:
            async with self._connections.held():
                yield
        finally:
            connection_places.forget_limit()

    def close(self) -> None:
        """Close the connections that are still open on loops that nobody runs any more."""
        self._connections.close()

    async def _open_served(self, model: ServedModel, parameters: ModelParameters, notice: Notice) -> ChatPort:
        from ensemble_notebook.models import chat_completions
        from ensemble_notebook.models.openai import chat_openai

        endpoint = model.endpoint
        settings = {**model.settings, **parameters.settings}
        has_schema_support = model.has_schema_support
        if parameters.schema_mode != "auto":
            has_schema_support = parameters.schema_mode == "native"
        elif has_schema_support is None:
            has_schema_support = chat_openai.serves_schemas(endpoint)
        facts: dict[str, Any] = {
            "provider": model.provider or endpoint.provider,
            "has_tool_support": model.has_tool_support,
            "has_schema_support": has_schema_support,
            "refused_kinds": model.refused_kinds or find_refused_kinds(chat_openai.find_profile(endpoint)),
            "context_window": model.context_window,
            "places": PlacesOfModel(connection_places, model.place_count),
            "key_variable": model.key_variable,
            "advice": model.advice,
        }
        if chat_openai.needs_responses_api(endpoint) or has_listeners_here() or keeps_replies():
            made = MadeModel(
                key=("langchain", endpoint, repr(settings)),
                make=lambda: chat_openai.make_chat_model(endpoint, settings),
                watch_socket=model.watch_socket,
            )
            return replace(await self._open_made(made), **facts)
        if not chat_completions.is_client_loaded():
            notice(f"Loading the client of {endpoint.name} ...")
            await asyncio.to_thread(chat_completions.load_client)
        handle = await self._connections.get(endpoint, lambda: Connections(endpoint.url, model.watch_socket))
        return chat_completions.ChatCompletionsPort(
            transport=chat_completions.ChatTransport(handle.connections, endpoint),
            name=endpoint.name,
            is_streamed_inside=settings.pop("streaming", False),
            max_tokens=settings.get("max_tokens"),
            settings=chat_completions.make_settings(settings, endpoint.name),
            connection_handle=handle,
            **facts,
        )

    async def _open_object(self, llm: Any) -> LangChainPort:
        """Take in a model object as it is, but for the retries that nobody would see, and the loop of its clients."""
        core = find_core_model(llm)
        handle = None
        if has_known_clients(core):
            handle = await self._open_for(core, lambda: ProviderClients(core, is_ours=False))
            llm = replace_core_model(llm, lambda _: handle.connections.runnable)
        return await self._make_port(llm, core, handle)

    async def _open_made(self, made: MadeModel) -> LangChainPort:
        """Make a model and its port; runs on one loop share it for as long as there are any."""
        handle = self._connections.find(made.key)
        if handle is None:
            model = await asyncio.to_thread(made.make)
            handle = await self._connections.get(made.key, lambda: ProviderClients(model, is_ours=True))
        llm = handle.connections.runnable
        port = await self._make_port(llm, find_core_model(llm), handle, made.watch_socket)
        return replace(port, key_variable=made.key_variable, provider=made.provider or port.provider)

    async def _make_port(
        self,
        llm: Any,
        core: Any,
        handle: ConnectionHandle | None,
        watch_socket: Callable[[Any], None] | None = None,
    ) -> LangChainPort:
        """Make the port of a model.

        Args:
            llm: the model that is asked.
            core: the one that it was made from, whose client is replaced where it speaks OpenAI's protocol.
            handle: what keeps its clients open, where they are known.
            watch_socket: as of `ServedModel`.
        """
        protect_secrets(core)
        has_schema_support, is_script = False, is_scripted(core)
        if not is_script:
            from ensemble_notebook.models.openai import chat_openai

            has_schema_support = chat_openai.has_schema_support(core)
            if chat_openai.has_replaceable_completions(core):
                http_client = chat_openai.find_own_http_client(core)
                if http_client is None:
                    base_url, proxy = core.openai_api_base, core.openai_proxy
                    handle = await self._open_for(core, lambda: make_http_client(base_url, proxy, watch_socket))
                    http_client = handle.connections
                llm = replace_core_model(llm, lambda model: chat_openai.copy_without_retries(model, http_client))
        return LangChainPort(
            model=llm,
            name=find_model_name(core),
            provider=find_provider(core),
            is_scripted=is_script,
            has_tool_support=has_tool_support(core),
            has_schema_support=has_schema_support,
            refused_kinds=find_refused_kinds(getattr(core, "profile", None)),
            context_window=find_context_window(core),
            warning=describe_hidden_retries(llm),
            connection_handle=handle,
            places=None if is_script else PlacesOfModel(connection_places),
        )

    async def _open_for(self, model: Any, make_connections: Callable[[], Any]) -> ConnectionHandle:
        """Open connections for a model object, for as long as the object lives."""
        key = ("object", id(model))

        def make() -> Any:
            # Dropped with the model, before its `id` can come again for another object.
            if key not in self._watched:
                self._watched[key] = weakref.finalize(model, self._forget_object, key)
                self._watched[key].atexit = False
            return make_connections()

        return await self._connections.get(key, make)

    def _forget_object(self, key: Hashable) -> None:
        self._watched.pop(key, None)
        self._connections.drop(key)


@functools.cache
def get_default_source() -> ModelSource:
    """Get the source of this process."""
    source = ModelSource()
    atexit.register(source.close)
    return source
