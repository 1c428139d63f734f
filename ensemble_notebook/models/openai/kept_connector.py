"""The pool of an ``aiohttp`` session that keeps within the places of this process (E76).

Imports ``aiohttp``, which takes a tenth of a second: imported by whoever opens a connection, and not before.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp

from ensemble_notebook.models.connection_places import ConnectionPlaces

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection


class KeptConnector(aiohttp.TCPConnector):
    """Knows which of its connections are idle, and closes some where others are to be opened.

    Args:
        places: how many may be open.
        settings: of ``aiohttp.TCPConnector``, which has no limit of its own here.
    """

    def __init__(self, places: ConnectionPlaces, **settings: Any) -> None:
        super().__init__(limit=0, **settings)
        self._places = places
        self._home = asyncio.get_running_loop()
        self._idle: WeakSet[ResponseHandler] = WeakSet()
        places.add_kept(self)

    async def connect(self, *args: Any, **named: Any) -> Connection:
        """Get a connection: one that is idle, or a new one for which there is room."""
        if not self.count_idle():
            self._places.make_room()
        connection = await super().connect(*args, **named)
        if (protocol := connection.protocol) is not None:
            self._idle.discard(protocol)
            connection.add_callback(partial(self._idle.add, protocol))
        return connection

    def count_idle(self) -> int:
        """Count the connections that no request is on."""
        return 0 if self._home.is_closed() else sum(each.is_connected() for each in [*self._idle])

    def close_one(self) -> None:
        """Close one of those, if there is any; on any thread."""
        with suppress(RuntimeError):  # its loop was closed just now, and its connections with it
            self._home.call_soon_threadsafe(self._close_one)

    def _close_one(self) -> None:
        for each in [*self._idle]:
            if each.is_connected():
                each.close()
                return
