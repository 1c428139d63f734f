"""The HTTP connections to one server, for one event loop: as many as there are places (E76), and no patience limit.

Knows addresses, certificates and proxies; nothing of models or what is said over a connection.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import ssl
import threading
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary, WeakSet

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.models.connection_places import connection_places

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection


_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Of those that an `httpx` client keeps for one user's model, which nobody else can use: there may be many models.
_MOST_IDLE: Final = 32
# Those of the clients that models are asked by, ours or a user's, which tell the addresses that they ask.
_TALKATIVE: Final = ("anthropic._base_client", "httpx", "httpx2", "openai._base_client", "urllib3.connectionpool")


class Connections:
    """Open as long as it is used; made on the loop that it belongs to.

    Args:
        base_url: of the server.
        watch_socket: is told of each socket before it is connected; raises where there may be no more.

    Attributes:
        session: an ``aiohttp.ClientSession``, which costs a fraction of ``httpx`` for each request.
    """

    def __init__(self, base_url: str, watch_socket: Callable[[Any], None] | None = None) -> None:
        import aiohttp

        def make_watched_socket(address: Any) -> socket.socket:
            assert watch_socket is not None
            made = socket.socket(*address[:3])
            try:
                watch_socket(made)
            except BaseException:
                made.close()
                raise
            return made

        is_near = _is_loopback_url(base_url)
        self.session = aiohttp.ClientSession(
            connector=_get_connector_class()(
                limit=0,  # the places are the limit
                ssl=True if is_near else load_certificates(),
                socket_factory=None if watch_socket is None else make_watched_socket,
            ),
            timeout=aiohttp.ClientTimeout(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Not `trust_env`: it looks for a password of the server in ~/.netrc, on every request, and falls over one.
            proxy=find_proxy(base_url),
        )

    async def aclose(self) -> None:
        """Close them."""
        await self.session.close()


@functools.cache
def _get_connector_class() -> Any:
    """Make the class at first use: to import ``aiohttp`` takes a tenth of a second, and not every run connects."""
    import aiohttp

    class KeptConnector(aiohttp.TCPConnector):
        """A pool that knows which of its connections are idle, and closes some where others are to be opened (E76)."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self._home = asyncio.get_running_loop()
            self._idle: WeakSet[ResponseHandler] = WeakSet()
            connection_places.add_kept(self)

        async def connect(self, *args: Any, **named: Any) -> Connection:
            """Get a connection: one that is idle, or a new one for which there is room."""
            if not self.count_idle():
                connection_places.make_room()
            connection = await super().connect(*args, **named)
            if (protocol := connection.protocol) is not None:
                self._idle.discard(protocol)
                connection.add_callback(functools.partial(self._idle.add, protocol))
            return connection

        def count_idle(self) -> int:
            """Count the connections that no request is on."""
            return 0 if self._home.is_closed() else sum(each.is_connected() for each in [*self._idle])

        def close_one(self) -> None:
            """Close one of those, if there is any; on any thread."""

            def close() -> None:
                for each in [each for each in self._idle if each.is_connected()][:1]:
                    each.close()

            with suppress(RuntimeError):  # its loop was closed just now, and its connections with it
                self._home.call_soon_threadsafe(close)

    return KeptConnector


def make_http_client(
    base_url: str | None, proxy: str | None = None, watch_socket: Callable[[Any], None] | None = None
) -> Any:
    """Make an ``httpx.AsyncClient`` for one event loop, as the openai package takes one; arguments as of `Connections`.

    It has no timeout: the engine has. A server on this machine is reached without a proxy, and without loading the
    certificates of the world, which takes a tenth of a second.
    """
    import openai

    settings: dict[str, Any] = {"proxy": proxy}
    settings |= (
        {"trust_env": False, "verify": False} if _is_loopback_url(base_url or "") else {"verify": load_certificates()}
    )
    if watch_socket is not None:

        async def watch_connecting(event: str, facts: Any) -> None:
            if event == "connection.connect_tcp.complete":
                watch_socket(facts["return_value"].get_extra_info("socket"))

        async def watch_request(request: Any) -> None:
            request.extensions["trace"] = watch_connecting

        settings["event_hooks"] = {"request": [watch_request]}
    # Few idle ones, also since each call asks every idle connection whether it is still there.
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=None, max_keepalive_connections=_MOST_IDLE)
    # And no redirects: nobody is contacted but the address that was named (E43).
    return openai.DefaultAsyncHttpxClient(timeout=None, follow_redirects=False, limits=limits, **settings)


class _LogMask(logging.Filter):
    """Masks what clients log, as long as somebody is in it. Thread-safe.

    A logger's filters are replaced and never changed: another thread may be going through them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if (masked := mask(said)) != said:
            record.msg, record.args = masked, ()
        return True

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                for logger in map(logging.getLogger, _TALKATIVE):
                    logger.filters = [*logger.filters, self]

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                for logger in map(logging.getLogger, _TALKATIVE):
                    logger.filters = [each for each in logger.filters if each is not self]


masked_logs: Final = _LogMask()
"""A context in which the log lines of HTTP clients show no secrets, such as the password in an address."""


@functools.cache
def load_certificates() -> ssl.SSLContext:
    """Load what servers elsewhere are known by: the environment's certificates, else certifi's; and the system's."""
    import httpx

    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context


def _is_loopback_url(base_url: str) -> bool:
    """Whether an address is on this machine, and not encrypted."""
    url = urlsplit(base_url)
    return url.scheme == "http" and url.hostname in _LOOPBACK


def find_proxy(base_url: str) -> str | None:
    """Find the proxy of the environment (``OPENAI_PROXY`` too), or of the system's settings, on the way to a server."""
    url = urlsplit(base_url)
    if _is_loopback_url(base_url) or proxy_bypass(url.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get("openai") or proxies.get(url.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


# --- Where connections are kept: one for each key and event loop, closed when no run is left or the loop ends ---------
#
# A connection belongs to the loop that opened it, and a run may be on any loop: the one of our thread, or a user's own.
# Knows no clients: what is held has an ``aclose``.


_CLOSE_LIMIT_S: Final = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class ConnectionHandle:
    """Keeps `connections` open for as long as somebody holds this.

    An asynchronous generator, `closer`, does it: asyncio finishes one on its own loop when nobody holds it any more,
    and all of them when the loop shuts down. There is no other hook by which a loop tells that it is about to end.
    """

    connections: Any
    closer: AsyncGenerator[None, None]


_Handles: TypeAlias = Sequence[ConnectionHandle]


@dataclass(frozen=True, slots=True, eq=False)
class _ConnectionsOfLoop:
    """What is open on one loop.

    Attributes:
        handles: by key, on what may be handed out again.
        open: all that is not closed yet. A handle in a cycle of garbage takes nothing with it: the collector would
            close the sockets one by one, with a warning each, before the closer had its turn.
    """

    handles: dict[Hashable, ConnectionHandle] = field(default_factory=dict)
    open: set[Any] = field(default_factory=set)


class ConnectionsByLoop:
    """The connections that are open, by loop and key. Loops of several threads may share it."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[AbstractEventLoop, _ConnectionsOfLoop] = WeakKeyDictionary()
        self._lock = threading.RLock()  # a finalizer may call `drop` in the middle of anything
        self._users = 0

    def find(self, key: Hashable) -> ConnectionHandle | None:
        """Find the handle on what was made for this key on the running loop; None where nothing was."""
        return self._connections_of_running_loop().handles.get(key)

    async def get(self, key: Hashable, make: Callable[[], Any]) -> ConnectionHandle:
        """Get the handle on what `make` made for this key on the running loop, now or before."""
        kept = self._connections_of_running_loop()
        handle = kept.handles.get(key)
        if handle is None:
            closer = _close_at_end(made := make(), kept, key)
            handle = kept.handles[key] = ConnectionHandle(made, closer)
            await anext(closer)
        return handle

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep connections open for the next request; when the last one who does so leaves, all of them are closed.

        Those of the running loop are closed by then. Those of other loops are as soon as these get to it.
        """
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                left = [] if self._users else self._take_all(lambda _: True)
            for loop, handles in left:
                await _close_on(loop, handles)

    def drop(self, key: Hashable) -> None:
        """Let go of a key on every loop; its connections are closed where nobody else holds their handle."""
        with self._lock:
            for kept in self._by_loop.values():
                kept.handles.pop(key, None)

    def close(self) -> None:
        """Close what belongs to loops that nobody runs any more, when the process ends."""
        with self._lock:
            left = self._take_all(lambda loop: not loop.is_running())
        for loop, handles in left:
            loop.run_until_complete(_close_all(handles))

    def _take_all(self, is_wanted: Callable[[AbstractEventLoop], bool]) -> list[tuple[AbstractEventLoop, _Handles]]:
        """What is open on such loops; whoever comes next opens it again."""
        taken: list[tuple[AbstractEventLoop, _Handles]] = []
        for loop, kept in self._by_loop.items():
            if kept.handles and not loop.is_closed() and is_wanted(loop):
                taken.append((loop, [*kept.handles.values()]))
                kept.handles.clear()
        return taken

    def _connections_of_running_loop(self) -> _ConnectionsOfLoop:
        with self._lock:
            # A loop that was closed without being shut down: its connections would keep it in memory for ever.
            for loop in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[loop]
            return self._by_loop.setdefault(asyncio.get_running_loop(), _ConnectionsOfLoop())


async def _close_on(loop: AbstractEventLoop, handles: _Handles) -> None:
    """Close what belongs to a loop: now on the running one, else as soon as the other gets to it."""
    if loop is asyncio.get_running_loop():
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await _close_all(handles)
    else:
        with suppress(RuntimeError):  # it was closed just now, and they with it
            loop.call_soon_threadsafe(lambda: loop.create_task(_close_all(handles)))


async def _close_all(handles: _Handles) -> None:
    for handle in handles:
        await handle.closer.aclose()


async def _close_at_end(connections: Any, kept: _ConnectionsOfLoop, key: Hashable) -> AsyncGenerator[None, None]:
    """Wait for the end, of the loop or of all handles; then close."""
    kept.open.add(connections)
    try:
        yield
    finally:
        if key in kept.handles and kept.handles[key].connections is connections:
            del kept.handles[key]
        try:
            await connections.aclose()
        finally:
            kept.open.discard(connections)
