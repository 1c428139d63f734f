"""The HTTP connections to one server, for one event loop: with room for many calls side by side, and no patience limit.

Knows addresses, certificates and proxies; nothing of models or what is said over a connection.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from socket import socket

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_CONNECTIONS: Final = 1000


class Connections:
    """Open as long as it is used; made on the loop that it belongs to.

    Attributes:
        session: an ``aiohttp.ClientSession``, which costs a fraction of ``httpx`` for each request.
        http_client: an ``httpx.AsyncClient``, for what the openai package sends by itself.
    """

    def __init__(self, base_url: str, make_socket: Callable[[Any], socket] | None = None) -> None:
        import aiohttp

        is_near = _is_loopback_url(base_url)
        proxy = None if is_near else _find_proxy(base_url)
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_MAX_CONNECTIONS, ssl=True if is_near else load_certificates(), socket_factory=make_socket
            ),
            timeout=aiohttp.ClientTimeout(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Not `trust_env`: it looks for a password of the server in ~/.netrc, on every request, and falls over one.
            proxy=proxy,
        )
        self.http_client = make_http_client(base_url, proxy)

    async def aclose(self) -> None:
        """Close them."""
        await self.session.close()
        await self.http_client.aclose()


def make_http_client(base_url: str | None, proxy: str | None = None) -> Any:
    """Make an ``httpx.AsyncClient`` for one event loop, as the openai package takes one.

    It has no timeout: the engine has. A server on this machine is reached without a proxy, and without loading the
    certificates of the world, which takes a tenth of a second.
    """
    import openai

    settings: dict[str, Any] = {"proxy": proxy}
    settings |= (
        {"trust_env": False, "verify": False} if _is_loopback_url(base_url or "") else {"verify": load_certificates()}
    )
    # The package's own limits: 1,000 connections, of which 100 may be idle. More idle ones would slow down every call,
    # since each call asks every idle connection whether it is still there.
    # And no redirects: nobody is contacted but the address that was named (E43).
    return openai.DefaultAsyncHttpxClient(timeout=None, follow_redirects=False, **settings)


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


def _find_proxy(base_url: str) -> str | None:
    """Find the proxy of the environment (``OPENAI_PROXY`` too), or of the system's settings, on the way to a server."""
    url = urlsplit(base_url)
    if proxy_bypass(url.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get("openai") or proxies.get(url.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
