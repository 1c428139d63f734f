"""A real HTTP server on loopback that speaks the OpenAI chat protocol, with its faults, and remembers every request.

::

    with OpenAIServer() as server:
        server.script(Answer.status(429, retry_after=1), Answer("Medium rare.", delay=0.2))
        model = ChatOpenAI(model="m", base_url=server.url, api_key="k", max_retries=0)
        ...
        assert [each.status for each in server.requests] == [429, 200]

It runs on a thread and a loop of its own. Replies are encoded once, so at zero latency it costs little beside the
client. ``python -m tests.support.openai_server [DELAY]`` serves one answer from a process of its own, for benchmarks:
it prints its URL and runs until its standard input closes.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

MODEL = "test-model"
WORD = re.compile(r"\s*\S+|\s+")
IS_STREAMED = re.compile(rb'"stream"\s*:\s*true')
WANTS_USAGE = re.compile(rb'"include_usage"\s*:\s*true')


_MOST_BYTES = 100_000_000  # requests hold pictures


def to_json(value: Any) -> bytes:
    """Compact, as providers send it."""
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True, eq=False)
class Answer:
    """What the server does with one request.

    Attributes:
        text: of the reply; None is a null content.
        calls: tool calls, as ``(name, arguments)`` or ``(id, name, arguments)``; arguments are a value for JSON, or
            the text itself, which need not be JSON; the id may be None.
        until: nothing is sent until this holds, or for half a minute.
        delay: seconds before anything is sent.
        pause: seconds between the pieces of a streamed reply.
        usage: prompt and completion tokens; None is a null usage.
        odd_usage: a text that is sent as JSON in place of the usage, whatever it is.
        cached, reasoning: the parts of the usage that were cached or reasoned.
        status: HTTP status; 400 and above is sent as an error with `code` and `message`.
        retry_after: the header's value: seconds or an HTTP date.
        location: the header's value, where a redirect sends to.
        cut: close the connection ``"before"`` or in the ``"middle"`` of the reply.
        raw: bytes that are sent in place of the JSON of the reply.
        stream: all bytes of a streamed reply; the server ends it behind them in good form.
        gives_reason: whether a reply says why it ended.
        ignores_stream: answer in one piece, also where a stream was asked for.
        content_type: of a reply in one piece.
    """

    text: str | None = "ok"
    calls: Sequence[tuple[Any, ...]] = ()
    until: Callable[[], object] | None = None
    delay: float = 0.0
    pause: float = 0.0
    usage: tuple[int, int] | None = (11, 7)
    odd_usage: str | None = None
    cached: int | None = None
    reasoning: int | None = None
    finish_reason: str | None = None
    model: str = MODEL
    status_code: int = 200
    code: str | None = None
    message: str = "scripted fault"
    retry_after: float | str | None = None
    location: str | None = None
    cut: str | None = None
    raw: bytes | None = None
    stream: bytes | None = None
    gives_reason: bool = True
    ignores_stream: bool = False
    content_type: str = "application/json"

    @classmethod
    def status(cls, status: int, **facts: Any) -> Answer:
        """A refusal."""
        return cls(status_code=status, text=None, **facts)

    @functools.cached_property
    def plain(self) -> bytes:
        """The body of an unstreamed reply."""
        if self.raw is not None:
            return self.raw
        if self.status_code >= 400:
            return to_json({"error": {"message": self.message, "type": self.code or "scripted", "code": self.code}})
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = self._calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason()}
        return self._put_usage(self._envelope("chat.completion", [choice]))

    @functools.cached_property
    def chunks(self) -> tuple[bytes, ...]:
        """The events of a streamed reply, without usage and end."""
        if self.raw is not None:
            return (b"data: " + self.raw + b"\n\n",)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in WORD.findall(self.text or "")]
        deltas += [{"tool_calls": [call | {"index": index}]} for index, call in enumerate(self._calls())]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": self._finish_reason()})
        return tuple(self._event([choice]) for choice in choices)

    @functools.cached_property
    def usage_chunk(self) -> bytes:
        """The event that carries the usage of a streamed reply."""
        return b"data: " + self._put_usage(self._envelope("chat.completion.chunk", [])) + b"\n\n"

    def _put_usage(self, envelope: dict[str, Any]) -> bytes:
        if self.odd_usage is None:
            return to_json(envelope | {"usage": self._usage()})
        return to_json(envelope)[:-1] + b',"usage":' + self.odd_usage.encode() + b"}"

    def _event(self, choices: list[Any]) -> bytes:
        return b"data: " + to_json(self._envelope("chat.completion.chunk", choices)) + b"\n\n"

    def _envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": self.model, "choices": choices}

    def _finish_reason(self) -> str | None:
        if not self.gives_reason:
            return None
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def _calls(self) -> list[dict[str, Any]]:
        made = []
        for number, call in enumerate(self.calls, start=1):
            identity, name, arguments = call if len(call) == 3 else (f"call_{number}", *call)
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            made.append({"id": identity, "type": "function", "function": {"name": name, "arguments": text}})
        return made

    def _usage(self) -> dict[str, Any] | None:
        if self.usage is None:
            return None
        prompt, completion = self.usage
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
        usage["total_tokens"] = prompt + completion
        if self.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        if self.reasoning is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning}
        return usage


@dataclass(eq=False)
class Request:
    """One request, as it came, and how it ended. Times are of ``time.monotonic``.

    Attributes:
        peer: the client's port: the same for requests over one connection.
        status: that was sent; None while it is open, and when the client left before.
        usage: prompt and completion tokens of a reply that was sent whole, else None.
        is_disconnected: the client closed the connection before the reply was whole.
    """

    raw: bytes
    headers: Mapping[str, str]
    path: str
    peer: int
    opened_at: float
    closed_at: float | None = None
    status: int | None = None
    usage: tuple[int, int] | None = None
    is_disconnected: bool = False

    @functools.cached_property
    def body(self) -> dict[str, Any]:
        """The JSON of the request."""
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that were sent."""
        sent: list[dict[str, Any]] = self.body["messages"]
        return sent

    @property
    def prompt(self) -> str:
        """Text of the last message."""
        return str(self.messages[-1]["content"])

    @property
    def is_streamed(self) -> bool:
        """Whether a stream was asked for."""
        return IS_STREAMED.search(self.raw) is not None


Choose = Callable[[Request], Answer | None]


@dataclass(eq=False)
class OpenAIServer:
    """The server: scripted answers first, then what `choose` says of a request, then `default`.

    Attributes:
        default: the answer to everything else.
        choose: picks an answer by the request; None falls through to `default`.
        requests: the ledger, in order of arrival.
        max_in_flight: the most requests that were open at once.
    """

    default: Answer = field(default_factory=Answer)
    choose: Choose | None = None
    requests: list[Request] = field(default_factory=list)
    max_in_flight: int = 0
    port: int = 0
    _script: deque[Answer] = field(default_factory=deque)
    _in_flight: int = 0

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *answers: Answer | str) -> None:
        """Answer the next requests with these, in order of arrival."""
        self._script.extend(Answer(each) if isinstance(each, str) else each for each in answers)

    def clear(self) -> None:
        """Forget all requests and what is left of the script."""
        self.requests.clear()
        self._script.clear()
        self.max_in_flight = 0

    async def opened(self, count: int = 1) -> None:
        """Wait, on any loop, until so many requests have come."""
        await _until(lambda: len(self.requests) >= count)

    async def closed(self, index: int = 0) -> None:
        """Wait, on any loop, until a request is over."""
        await _until(lambda: len(self.requests) > index and self.requests[index].closed_at is not None)

    @property
    def used_tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of all replies sent whole, as a provider would bill them."""
        usages = [each.usage for each in self.requests if each.usage is not None]
        return sum(usage[0] for usage in usages), sum(usage[1] for usage in usages)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), name="openai-server", daemon=True)
        self._thread.start()
        assert started.wait(30), "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not stop"

    def _serve(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run(started))

    async def _run(self, started: threading.Event) -> None:
        self._stopped = asyncio.Event()
        server = web.Server(
            self._handle, request_factory=self._make_request, handler_cancellation=True, access_log=None
        )
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        self.port = runner.addresses[0][1]
        started.set()
        await self._stopped.wait()
        await asyncio.sleep(0)  # a connection that was just accepted is made with the loop's next step
        transports = [connection.transport for connection in server.connections]
        await runner.cleanup()
        for transport in transports:
            if transport is not None:
                transport.abort()  # one that still has something to send would outlive the loop
        await asyncio.sleep(0)

    def _make_request(self, *parts: Any) -> web.BaseRequest:
        return web.BaseRequest(*parts, self._loop, client_max_size=_MOST_BYTES)

    def _answer(self, request: Request) -> Answer:
        if self._script:
            return self._script.popleft()
        return (self.choose and self.choose(request)) or self.default

    async def _handle(self, asked: web.BaseRequest) -> web.StreamResponse:
        request = Request(await asked.read(), asked.headers, asked.path, _port(asked), time.monotonic())
        self.requests.append(request)
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            return await self._reply(asked, request, self._answer(request))
        except (asyncio.CancelledError, ConnectionResetError):
            request.is_disconnected = True
            raise
        finally:
            self._in_flight -= 1
            request.closed_at = time.monotonic()

    async def _reply(self, asked: web.BaseRequest, request: Request, answer: Answer) -> web.StreamResponse:
        if answer.until is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(_until(answer.until), 30)
        if answer.delay:
            await asyncio.sleep(answer.delay)
        if answer.cut == "before":
            return self._cut(asked)
        request.status = answer.status_code
        if answer.status_code < 300:
            request.usage = answer.usage
            if request.is_streamed and not answer.ignores_stream:
                return await self._stream(asked, request, answer)
        headers = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
        headers |= {} if answer.location is None else {"Location": answer.location}
        if answer.cut == "middle":
            broken = web.StreamResponse(status=answer.status_code)
            broken.content_length = len(answer.plain)
            broken.content_type = "application/json"
            await broken.prepare(asked)
            await broken.write(answer.plain[: len(answer.plain) // 2])
            return self._cut(asked, request)
        return web.Response(
            body=answer.plain, status=answer.status_code, headers=headers, content_type=answer.content_type
        )

    async def _stream(self, asked: web.BaseRequest, request: Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        if answer.stream is not None:
            await response.write(answer.stream)
            await response.write_eof()
            return response
        half = len(answer.chunks) // 2
        for number, chunk in enumerate(answer.chunks):
            if answer.cut == "middle" and number == half:
                return self._cut(asked, request)
            await response.write(chunk)
            if answer.pause and number:
                await asyncio.sleep(answer.pause)
        if WANTS_USAGE.search(request.raw):
            await response.write(answer.usage_chunk)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    @staticmethod
    def _cut(asked: web.BaseRequest, request: Request | None = None) -> web.Response:
        """Drop the connection; what is returned has nowhere to go."""
        if request is not None:
            request.usage = None
        if asked.transport is not None:
            asked.transport.abort()
        return web.Response()


def _port(asked: web.BaseRequest) -> int:
    transport = asked.transport
    return 0 if transport is None else int(transport.get_extra_info("peername")[1])


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens on another loop
        await asyncio.sleep(0.01)


def main() -> None:
    """Serve one answer until standard input closes."""
    delay = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    with OpenAIServer(default=Answer("ok", delay=delay)) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
