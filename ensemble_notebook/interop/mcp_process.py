"""The process of an MCP server that is started here: its lines, and its end, which comes with the run's (E83).

Why not the `stdio_client` of `mcp`: it gives a server up to 6.5 s to end, tasks of its own are in the way where a loop
ends, and a server whose tool is busy outlives a process that is killed. And it logs a traceback for each line that a
server prints.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self, TextIO

from ensemble_notebook.domain.outputs.secrets import mask_start
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import remove_control_characters

LONGEST_WORDS: Final = 300
END_LIMIT_S: Final = 1.0
"""How long a server may take to end by itself once its input is closed, where nobody hurries."""

_HURRIED_END_LIMIT_S: Final = 0.3
_SIGNAL_LIMIT_S: Final = 0.4
_INTERVAL_S: Final = 0.01
_CHUNK: Final = 1 << 16
# It reads until this process is gone, however it goes: killed, too. Then it does what we would have done.
_GUARD: Final = 'read -r _; sleep 0.5; kill -s TERM -- "-$1"; sleep 0.4; kill -s KILL -- "-$1"'


class Messages:
    """What a server says and is told, as the two streams that `mcp` wants: both are open as long as the process.

    Args:
        output: of the server.
        input: of the server.

    Attributes:
        printed: the first line that is no message, as it may be shown; empty where there is none.
        printed_count: how many such lines there are.
    """

    def __init__(self, output: asyncio.StreamReader, input: asyncio.WriteTransport) -> None:  # noqa: A002 - its name
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        self._output, self._input = output, input
        self._session_message, self._adapter = SessionMessage, jsonrpc_message_adapter
        self._begun: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self.printed = ""
        self.printed_count = 0

    async def send(self, item: Any) -> None:
        """Write a message to the server, which reads it when it can."""
        text: str = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._input.write(text.encode() + b"\n")

    async def __anext__(self) -> Any:
        """The next message of the server, until its output ends."""
        while True:
            while self._lines:
                line = self._lines.popleft().decode(errors="replace").strip()
                if not line:
                    continue
                try:
                    return self._session_message(self._adapter.validate_json(line, by_name=False))
                except ValueError:
                    self.printed = self.printed or quote_line(line)
                    self.printed_count += 1
            chunk = await self._output.read(_CHUNK)
            if not chunk:
                raise StopAsyncIteration
            end, *begun = chunk.split(b"\n")
            self._begun.append(end)
            for each in begun:
                self._lines.append(b"".join(self._begun))
                self._begun = [each]

    receive = __anext__

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing: it is closed with the process."""

    async def aclose(self) -> None:
        """Nothing: it is closed with the process."""


class ServerProcess:
    """A server that is started, in a process group of its own, when this is entered, and has ended when it is left.

    Args:
        command: that starts it.
        env: its whole environment.
        cwd: its folder; None: that of this process.
        errors: takes what it writes to its standard error.

    Attributes:
        end_limit_s: seconds that it has to end by itself; few, since who does not set it is cancelled or fails.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str | None, errors: TextIO) -> None:
        self.end_limit_s = _HURRIED_END_LIMIT_S
        self._command = list(command)
        self._settings: dict[str, Any] = {"env": dict(env), "cwd": cwd, "stderr": errors}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._transports: list[asyncio.ReadTransport | asyncio.WriteTransport] = []
        self._messages: Messages | None = None

    async def __aenter__(self) -> tuple[Messages, Messages]:
        """Start it.

        Raises:
            OSError: there is no such command or folder.
        """
        process, loop, output = self._start(), asyncio.get_running_loop(), asyncio.StreamReader()
        try:
            reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(output), process.stdout)
            self._transports.append(reading)
            writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            self._transports.append(writing)
        except BaseException:
            self._kill()
            raise
        self._messages = Messages(output, writing)
        return self._messages, self._messages

    def _start(self) -> subprocess.Popen[bytes]:
        """Start it and its guard: not by asyncio, since a process is waited for where a loop has ended, too."""
        ours: dict[str, Any] = {"stdin": subprocess.PIPE, "bufsize": 0, "start_new_session": True}
        process = self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, **ours, **self._settings)
        guard = ["/bin/sh", "-c", _GUARD, "sh", str(process.pid)]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        try:
            self._guard = subprocess.Popen(guard, **ours, **quiet)
        except BaseException:
            self._kill()
            raise
        return process

    async def __aexit__(self, *_: object) -> None:
        """Close its input, and end it and all that it has started by signals where that is not enough.

        A cancellation makes it quicker, and is not passed on.
        """
        try:
            self._close(self._transports[-1])
            if not await self._ends_within(self.end_limit_s):
                self._signal(signal.SIGTERM)
                await self._ends_within(_SIGNAL_LIMIT_S)
        finally:
            self._kill()

    def describe_printed(self) -> str:
        """What it printed where only messages may stand, for a sentence; empty where it did not."""
        if self._messages is None or not self._messages.printed_count:
            return ""
        more = self._messages.printed_count - 1
        return repr(self._messages.printed) + (f" and {pluralize(more, 'more line')}" if more else "")

    def _close(self, *transports: asyncio.ReadTransport | asyncio.WriteTransport) -> None:
        for each in transports:
            if not each.is_closing():  # by itself, too, where the server has ended
                each.abort() if isinstance(each, asyncio.WriteTransport) else each.close()

    async def _ends_within(self, limit_s: float) -> bool:
        """Whether nothing is left of its process group after so many seconds; a cancellation ends the waiting alone."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        with suppress(asyncio.CancelledError):
            while self._signal(0) and loop.time() < until:  # noqa: ASYNC110 - nothing tells that a group is empty
                await asyncio.sleep(_INTERVAL_S)
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        """Send a signal to all of its process group; False where nobody is left in it."""
        assert self._process is not None
        self._process.poll()  # else one that has ended would stay in the group
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # by macOS for those that have ended, too
            return self._process.returncode is None
        return True

    def _kill(self) -> None:
        """End what is left, at once; with no need of a loop that goes on."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        for each in filter(None, (self._guard, self._process)):
            each.kill()
            with suppress(subprocess.TimeoutExpired):
                each.wait(_SIGNAL_LIMIT_S)
        self._close(*self._transports)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
        self._process = None


def quote_line(line: str) -> str:
    """A line that a server wrote, as it may be shown: its beginning, masked."""
    return remove_control_characters(mask_start(line, LONGEST_WORDS))
