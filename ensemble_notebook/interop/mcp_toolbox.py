"""Tools, resources and prompts of MCP servers: a toolbox for the notebook, and its one session in a run (E83, E134).

By the official `mcp` package, which is imported when a session is opened.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import logging
import re
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any, Final, TextIO

from ensemble_notebook.domain.attachments import mark_encoded
from ensemble_notebook.domain.definitions.definition import is_seconds
from ensemble_notebook.domain.definitions.tool import (
    BEFORE,
    Ask,
    SourcedTool,
    ToolResult,
    ToolReview,
    ToolSession,
    ToolSource,
    find_review_fault,
)
from ensemble_notebook.domain.outputs.secrets import MASK, is_secret_name, mask, protect, protect_named
from ensemble_notebook.errors import EnsembleError, MissingPackageError, ValidationError, did_you_mean, summarize_error
from ensemble_notebook.interop.mcp_inputs import (
    LONGEST_RESULT,
    METHOD_NOT_FOUND,
    McpPrompt,
    McpResource,
    T,
    get_code,
    make_prompt,
    make_resource,
    to_tool_name,
)
from ensemble_notebook.interop.mcp_process import END_LIMIT_S, ServerProcess, quote_line

_PYTHONS: Final = ("python", "python3")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+")
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
# A value that has a name: ``--token=X``, ``API_KEY=X``, ``Authorization: X``.
_NAMED: Final = re.compile(r"(-*[\w-]+(?:=|:\s*))(\S.*)", re.DOTALL)
# The same inside an argument that is a command itself: ``sh -c 'serve --token X'``.
_NAMED_INSIDE: Final = re.compile(r"""(?<![\w-])((?:[\w-]+\s*[=:]|--?[\w-]+\s)\s*["']?)([^\s"']+)""")
_TASK_ONLY: Final = "is run as a task of MCP alone (taskSupport), which nothing here does"
_CONNECTION_CLOSED: Final = -32000
"""The code of an error of `mcp` for a server that is gone."""


def mcp_tools(
    server: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    cwd: str | None = None,
    timeout: float = 60.0,
    reuse: bool = False,
) -> McpToolbox:
    """Make a toolbox of the tools of an MCP server, for the `tools` of an agent or task.

    ::

        calculator = mcp_tools("python calculator.py")
        Agent(role="Clerk", goal="Count", tools=[calculator.only("add", "mul")])

    The server is started, or connected to, once for a run: when the first agent that holds it begins. Nothing is
    started here.

    Args:
        server: the command that starts it, as a text or a list of arguments, or its address, ``http://.../mcp``.
            ``python`` is the Python of this process.
        env: more variables for its environment, which has few of this process's own (the path and the home folder).
        headers: of each request to an address, such as ``{"Authorization": f"Bearer {token}"}``. Those that are called
            as secrets are, are masked wherever they appear.
        cwd: the folder to start it in; None: that of this process.
        timeout: seconds that it has to start, and for each call.
        reuse: whether `run(reuse=True)` may take over what a task has come to with these tools.

    Raises:
        MissingPackageError: `mcp` is not installed, or too old; says which line installs it.
        ValidationError: there is no command and no address, or the headers are none.
    """
    command = _read_command(server)
    try:
        number = version("mcp")
    except PackageNotFoundError:
        raise MissingPackageError("Tools of MCP servers need mcp", extra="mcp") from None
    if int(number.partition(".")[0]) < 2:
        raise MissingPackageError(f"Tools of MCP servers need mcp 2.3 or later, and {number} is here", extra="mcp")
    if not is_seconds(timeout):
        raise ValidationError(f"The timeout of mcp_tools must be seconds > 0, got {timeout!r}.")
    connection = McpConnection(command, dict(env or {}), dict(headers or {}), cwd, float(timeout))
    connection.check()
    return McpToolbox(connection, (), reuse=reuse)


@dataclass(frozen=True, slots=True, eq=False)
class McpConnection:
    """How a server is reached, and how long it may take.

    Attributes:
        command: that starts it; of one that runs already, its address alone.
        env: more variables for its environment.
        headers: of each request to an address.
        cwd: the folder that it is started in.
        timeout_s: for its start and each call.
    """

    command: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    cwd: str | None
    timeout_s: float

    @property
    def is_remote(self) -> bool:
        """Whether it is an address, and nothing is started."""
        return bool(re.match(r"https?://", self.command[0]))

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the MCP server {self.told_command!r}"

    @property
    def name(self) -> str:
        """The same, at the beginning of a sentence."""
        return f"T{self.label[1:]}"

    @property
    def told_command(self) -> str:
        """The command or address, without its secrets."""
        return mask(shlex.join(text for text, _ in _find_secrets(self.command)))

    def check(self) -> None:
        """Check the headers, and have the secrets among them, in the environment and the command masked from now on.

        Raises:
            ValidationError: a header is no text, or there is nothing that it could be sent to.
        """
        if self.headers and not self.is_remote:
            raise ValidationError("headers are sent to an address; a server that is started is given env={...}.")
        protect_named(self.env)
        for secret in chain.from_iterable(secrets for _, secrets in _find_secrets(self.command)):
            protect(secret)
        given: Mapping[Any, Any] = self.headers
        for name, value in given.items():
            if not isinstance(name, str) or not _HEADER.fullmatch(name):
                raise ValidationError(f"The name of a header is letters, digits and '-', got {name!r}.")
            if not isinstance(value, str) or not value.isprintable():
                kind = "one line of text" if isinstance(value, str) else f"text, got {type(value).__name__}"
                raise ValidationError(f"The header {name!r} must be {kind}.")
            if _SECRET_HEADER.search(name):
                protect(value.strip())
                protect(value.rpartition(" ")[2])  # ``Bearer TOKEN`` may come back without its first word


class McpToolbox(ToolSource):
    """The tools of an MCP server, or some of them; made by `mcp_tools`.

    Attributes:
        connection: how the server is reached. Toolboxes of one connection share a session.
        names: of the tools that it takes, as the server calls them; empty for all.
        reuse: whether what a task has come to with them may be taken over.
        reviews: when somebody is asked about the calls of a tool, by its name as the server calls it.
        others: the same for tools of which `reviews` says nothing; None: never.
    """

    def __init__(
        self,
        connection: McpConnection,
        names: tuple[str, ...],
        *,
        reuse: bool,
        reviews: Mapping[str, ToolReview] | None = None,
        others: ToolReview | None = None,
    ) -> None:
        self.connection: McpConnection = connection
        self.names = names
        self.reuse = reuse
        self.reviews: Mapping[str, ToolReview] = reviews or {}
        self.others = others

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.connection.label

    @property
    def tool_names(self) -> tuple[str, ...]:
        """As models see them; empty where only the server knows them."""
        return tuple(map(to_tool_name, self.names))

    def only(self, *names: str) -> McpToolbox:
        """Take some of its tools alone; whether the server has them is known once it runs.

        Args:
            *names: of the tools, as the server calls them.
        """
        given: tuple[object, ...] = names
        if not given or not all(isinstance(each, str) and each for each in given):
            raise ValidationError("only() takes the names of tools: calculator.only('add', 'mul').")
        kept = tuple(dict.fromkeys(names))
        return McpToolbox(self.connection, kept, reuse=self.reuse, reviews=self.reviews, others=self.others)

    def reviewed(self, *names: str, review: ToolReview = BEFORE) -> McpToolbox:
        """Have a person, or the `review_handler`, asked about each call of some of its tools before it is made.

        Whether the server has them is known once it runs; one that it has not fails the task.

        Args:
            *names: of the tools, as the server calls them; none: all of them.
            review: as of a `Tool`.

        Raises:
            ValidationError: a name is none, or not among those that were taken; or `review` is none.
        """
        given: tuple[object, ...] = names
        if not all(isinstance(each, str) and each for each in given):
            raise ValidationError("reviewed() takes the names of tools: files.reviewed('write_file').")
        if fault := find_review_fault(review):
            raise ValidationError(f"The review of reviewed() {fault}")
        if self.names and (unknown := next((each for each in names if each not in self.names), None)):
            hint = did_you_mean(unknown, self.names)
            raise ValidationError(f"The tool {unknown!r} is not among those that only() takes.{hint}")
        reviews = {**self.reviews, **dict.fromkeys(names, review)}
        others = self.others if names else review
        return McpToolbox(self.connection, self.names, reuse=self.reuse, reviews=reviews, others=others)

    @property
    def is_reviewed(self) -> bool:
        """Whether calls of some of its tools are reviewed."""
        return bool(self.reviews) or self.others is not None

    @property
    def reviewed_names(self) -> tuple[str, ...]:
        """The names of the tools of which calls are reviewed, as models see them and as far as they are known."""
        return tuple(
            map(to_tool_name, self.reviews if self.others is None else {**self.reviews, **dict.fromkeys(self.names)})
        )

    def resource(self, uri: str, /, **variables: str | float) -> McpResource:
        """Take a resource of the server: as an input, which a run reads when it starts, or as a tool of an agent.

        ::

            notes = library.resource("file:///notes.md")
            ensemble.run(notes=notes)  # fills {notes}
            Agent(role="Clerk", goal="Answer", tools=[notes, library.resource("orders://{order}")])

        Nothing is read here; whether the server has it is known once it runs.

        Args:
            uri: of the resource, or a template with variables (RFC 6570), as the server lists it.
            **variables: of a template. Those that are left open are filled from the inputs of the run that are called
                so; of a tool, by the model.

        Raises:
            ValidationError: it is no URI, or has no such variable; names the nearest.
        """
        return make_resource(self, uri, variables, self.others)

    def prompt(self, name: str, /, **arguments: str | float) -> McpPrompt:
        """Take a prompt of the server: as an input, which a run gets when it starts, or as a tool of an agent.

        ``run(continue_from=toolbox.prompt(...))`` goes on with its messages, each with its role; the one of the user
        that they end with is the prompt of the task.

        Args:
            name: of the prompt, as the server calls it.
            **arguments: of the prompt. Those that are left open are filled from the inputs of the run that are called
                so; of a tool, by the model.

        Raises:
            ValidationError: it has no name, or an argument is neither text nor number.
        """
        return make_prompt(self, name, arguments, self.others)

    def make_session(self) -> McpSession:
        """Make the session of a run, which is not open yet."""
        return McpSession(self.connection)

    async def select(self, session: ToolSession) -> tuple[SourcedTool, ...]:
        """Select its tools among all that the server has.

        Args:
            session: which is open.

        Raises:
            EnsembleError: the server has no tool of one of its names, or one that can't be called.
        """
        tools = session.tools
        by_name = {each.source_name: each for each in tools}
        for name in (*self.names, *self.reviews):
            if name not in by_name:
                there = ", ".join(by_name) or "none"
                hint = did_you_mean(name, by_name)
                raise EnsembleError(f"{self.connection.name} has no tool {name!r}.{hint} Its tools: {there}.")
            if fault := by_name[name].fault:
                raise EnsembleError(f"The tool {name!r} of {self.label} {fault}.")
        found = [by_name[name] for name in self.names] if self.names else tools
        return tuple(replace(each, review=self.reviews.get(each.source_name, self.others)) for each in found)

    def __repr__(self) -> str:
        """The command or address, and the tools."""
        some = f".only({', '.join(map(repr, self.names))})" if self.names else ""
        return f"<McpToolbox {self.connection.told_command}{some}>"


class McpSession:
    """One session with a server, on the loop on which it was opened. It lives in a task of its own.

    Args:
        connection: how the server is reached.

    Attributes:
        tools: all that the server has, once it is open.
    """

    def __init__(self, connection: McpConnection) -> None:
        self.tools: tuple[SourcedTool, ...] = ()
        self._connection = connection
        self._client: Any = None
        self._life: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._asks: list[Ask] = []  # of the calls under way: a server does not say for which one it asks
        self._errors: TextIO | None = None
        self._process: ServerProcess | None = None
        self._has_checked_results = False

    @property
    def notice(self) -> str:
        """What is being done while it is opened."""
        verb = "Connecting to" if self._connection.is_remote else "Starting"
        return f"{verb} {self._connection.label} ..."

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be said of the server once the run ends."""
        printed = "" if self._process is None else self._process.describe_printed()
        if not printed:
            return ()
        why = "which only messages of the protocol may do; have it print to its standard error"
        return (f"{self._connection.name} printed to its standard output, {why}: {printed}.",)

    async def open(self) -> None:
        """Start or reach the server, and list its tools.

        Raises:
            EnsembleError: it does not start, does not answer in time, or its tools can't be told apart.
        """
        await _import("mcp")  # before the time of the server begins
        if not (log := logging.getLogger("mcp")).handlers:  # its tracebacks are for those who have set up logging
            log.addHandler(logging.NullHandler())
        ready: asyncio.Future[tuple[SourcedTool, ...]] = asyncio.get_running_loop().create_future()
        self._life = asyncio.ensure_future(self._live(ready))
        try:
            async with asyncio.timeout(self._connection.timeout_s):
                self.tools = await asyncio.shield(ready)
        except TimeoutError:
            self._life.cancel()
            limit = f"within {self._connection.timeout_s:g} s"
            raise EnsembleError(f"{self._connection.name} did not answer {limit}.{self._quote_errors()}") from None
        except asyncio.CancelledError:
            self._life.cancel()
            raise
        if self._has_checked_results:  # `mcp` would import them in the first call
            await _import("jsonschema.validators", "referencing.exceptions")

    async def ask(self, request: Callable[[Any], Awaitable[T]], what: str) -> T:
        """What the server answers to a request of its client, in the time that it has for each.

        Args:
            request: made of the client.
            what: did not happen where it fails, for the message.

        Raises:
            EnsembleError: the server is gone, refuses it, or takes too long.
        """
        if self._client is None:
            raise EnsembleError(f"{self._connection.name} has ended.{self._quote_errors()}")
        try:
            async with asyncio.timeout(self._connection.timeout_s):
                return await request(self._client)
        except TimeoutError:
            raise EnsembleError(f"{self._connection.name} {what} within {self._connection.timeout_s:g} s.") from None
        except Exception as error:
            is_gone = get_code(error) == _CONNECTION_CLOSED
            raise EnsembleError(self._explain(error, "has ended" if is_gone else what, quotes=is_gone)) from error

    async def list_all(self, kind: str) -> list[Any]:
        """All ``"resources"``, ``"resource_templates"`` or ``"prompts"`` of the server; none where it knows of none."""
        return await self.ask(lambda client: _list_all(client, kind), f"did not list its {kind.replace('_', ' ')}")

    def write(self, content: Sequence[Any]) -> str:
        """What a model should read of parts of a message: text is text, other parts are named."""
        return _write_content(content, None)

    async def close(self) -> None:
        """End the session, and the server if it was started for it."""
        self._closing.set()
        if self._life is not None:
            await asyncio.wait([self._life])

    def request_close(self) -> None:
        """The same, without waiting for it; on its own loop."""
        self._closing.set()

    async def _live(self, ready: asyncio.Future[tuple[SourcedTool, ...]]) -> None:
        """The whole life of the connection, which must end in the task in which it began."""
        try:
            async with self._connect() as client:
                self._client = client
                tools = await self._list_tools(client)
                if not ready.done():
                    ready.set_result(tools)
                await self._closing.wait()
                if self._process is not None:
                    self._process.end_limit_s = END_LIMIT_S  # nobody hurries, as whoever ends the loop does
        except Exception as error:  # noqa: BLE001 - whatever ends the connection is told to whoever waits for it
            if not ready.done():
                ready.set_exception(EnsembleError(self._explain(error, "could not be opened")))
        finally:
            self._client = None
            if not ready.done():
                ready.cancel()
            if self._errors is not None:
                self._errors.close()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        from mcp import Client, MCPError

        answer: Any = self._answer_question
        async with AsyncExitStack() as stack:
            # First the handshake that most servers know: in the newer one a server has no way to ask while a tool runs.
            try:
                client = Client(self._reach(), mode="legacy", elicitation_callback=answer)
                opened = await stack.enter_async_context(client)
            except Exception as error:
                refusal = _find_first(error)
                if not isinstance(refusal, MCPError) or refusal.code == _CONNECTION_CLOSED:
                    raise
                client = Client(self._reach(), mode="auto", elicitation_callback=answer)
                opened = await stack.enter_async_context(client)
            yield opened

    def _reach(self) -> Any:
        """The way to the server, which is used once."""
        connection = self._connection
        if connection.is_remote:
            if not connection.headers:
                return connection.command[0]
            return _reach_with_headers(connection.command[0], connection.headers)
        command, *arguments = connection.command
        if self._errors is None:  # what it says of itself is kept apart, for the message when it ends
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        command = sys.executable if command in _PYTHONS else command
        if sys.platform == "win32":  # which has no process groups, and no pipes that asyncio takes
            from mcp import StdioServerParameters, stdio_client

            env, cwd = dict(connection.env), connection.cwd
            parameters = StdioServerParameters(
                command=command, args=arguments, env=env, cwd=cwd, encoding_error_handler="replace"
            )
            return stdio_client(parameters, errlog=self._errors)
        from mcp.client.stdio import get_default_environment

        env = get_default_environment() | dict(connection.env)
        self._process = ServerProcess([command, *arguments], env, connection.cwd, self._errors)
        return self._process

    async def _list_tools(self, client: Any) -> tuple[SourcedTool, ...]:
        listed = await _list_all(client, "tools")
        self._has_checked_results = any(each.output_schema for each in listed)
        by_name: dict[str, str] = {}
        for each in listed:
            name = to_tool_name(each.name)
            if name in by_name:
                twice = repr(each.name) if by_name[name] == each.name else f"{by_name[name]!r} and {each.name!r}"
                raise EnsembleError(f"{self._connection.name} offers two tools that are called alike: {twice}.")
            by_name[name] = each.name
        return tuple(
            SourcedTool(
                name=to_tool_name(each.name),
                source_name=each.name,
                description=each.description or each.title or "",
                parameters=each.input_schema or {"type": "object", "properties": {}},
                call=functools.partial(self._call, each.name),
                fault=_TASK_ONLY if each.execution and each.execution.task_support == "required" else "",
            )
            for each in listed
        )

    async def _call(self, name: str, arguments: dict[str, Any], ask: Ask) -> ToolResult:
        """One call of a tool; what goes wrong with the server is told to the model, too, with its name."""
        if self._client is None:
            return ToolResult.failure(f"{self._connection.name} has ended.{self._quote_errors()}")
        self._asks.append(ask)
        try:
            result = await self._client.call_tool(name, arguments, read_timeout_seconds=self._connection.timeout_s)
        except Exception as error:  # noqa: BLE001 - from the protocol or the transport, whatever they raise
            is_gone = get_code(error) == _CONNECTION_CLOSED
            what = f"has ended in a call of {name!r}" if is_gone else f"did not do the call of {name!r}"
            return ToolResult.failure(self._explain(error, what, quotes=is_gone))
        finally:
            self._asks.remove(ask)
        text = _write_content(result.content, result.structured_content)
        return ToolResult.failure(text) if result.is_error else ToolResult.ok(text, result.structured_content)

    async def _answer_question(self, _: Any, params: Any) -> Any:
        """Put a question of the server to the person; each field of the form that it wants is a question."""
        from mcp.types import ElicitResult

        if not self._asks:
            return ElicitResult(action="decline")
        ask, start = self._asks[-1], f"{self._connection.name} asks: {params.message}"
        if getattr(params, "requested_schema", None) is None:
            answer = await ask(f"{start}\n{getattr(params, 'url', '')}\nAnswer 'yes' once that is done.")
            return ElicitResult(action="accept" if _is_yes(answer) else "decline")
        content: dict[str, Any] = {}
        for name, schema in params.requested_schema.get("properties", {}).items():
            words = schema.get("description") or schema.get("title") or name
            choices = schema.get("enum") or ("yes, no" if schema.get("type") == "boolean" else "")
            told = ", ".join(map(str, choices)) if isinstance(choices, list) else choices
            answer = await ask(f"{start}\n{words} ({told})" if told else f"{start}\n{words}")
            value = None if answer is None else _read_field(answer, schema)
            if value is None:
                return ElicitResult(action="decline")
            content[name] = value
        return ElicitResult(action="accept", content=content)

    def _explain(self, error: BaseException, what: str, *, quotes: bool = True) -> str:
        """Say what went wrong with the server, whatever the depth that it comes from."""
        error = _find_first(error)
        if isinstance(error, EnsembleError):
            return str(error)
        said = self._quote_errors() if quotes else ""
        return f"{self._connection.name} {what}: {_cut(str(error) or summarize_error(error)).rstrip('.')}.{said}"

    def _quote_errors(self) -> str:
        """The last line that it has written to its standard error, which often says why it ended."""
        if self._errors is None or self._errors.closed:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f" It said last: {quote_line(lines[-1])}" if lines else ""


async def _list_all(client: Any, kind: str) -> list[Any]:
    """All of a kind that a server offers, whose pages are read; none where it knows nothing of that kind."""
    listed: list[Any] = []
    cursor = None
    while True:
        try:
            page = await getattr(client, f"list_{kind}")(cursor=cursor)
        except Exception as error:
            if get_code(error) == METHOD_NOT_FOUND:
                return []
            raise
        listed += getattr(page, kind)
        cursor = page.next_cursor
        if not cursor:
            return listed


def _find_first(error: BaseException) -> BaseException:
    """The first error in a group of them, at whatever depth."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def _reach_with_headers(address: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    """The way to a server over HTTP, with these headers in each request; time limits are those of `mcp` itself."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    limits = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=limits) as http,
        streamable_http_client(address, http_client=http) as streams,
    ):
        yield streams


def _read_command(server: object) -> tuple[str, ...]:
    """The command or address of a server, as arguments.

    Raises:
        ValidationError: it is none.
    """
    if isinstance(server, str):
        text = server.strip()
        try:
            found = [text] if re.match(r"https?://", text) else shlex.split(text)
        except ValueError as error:
            raise ValidationError(f"mcp_tools can't read the command {server!r}: {error}.") from error
    elif isinstance(server, list | tuple) and all(isinstance(each, str) for each in server):
        found = list(server)
    else:
        raise ValidationError(f"mcp_tools takes a command or an address, got {type(server).__name__}.")
    if not found or not found[0]:
        raise ValidationError("mcp_tools takes the command that starts a server, or its address, and got none.")
    return tuple(found)


def _find_secrets(command: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each argument of a command as it may be shown, with the secrets in it that their names give away."""
    before = ""
    for argument in command:
        if before.startswith("-") and is_secret_name(before) and not argument.startswith("-"):
            yield MASK, [argument]
        else:
            yield _hide_secrets(argument)
        before = argument


def _hide_secrets(text: str) -> tuple[str, list[str]]:
    """A text as it may be shown, and the secrets that were in it."""
    found = _NAMED.fullmatch(text)
    if found is not None and (text.startswith("-") or ":" in found[1] or " " not in text):
        start, value = found.groups()
        if not _names_secret(start):
            shown, secrets = _hide_secrets(value)  # as in ``--env=API_KEY=X``
            return start + shown, secrets
        return start + MASK, [value, value.rpartition(" ")[2]]  # ``Bearer X`` may come back without its first word
    secrets = [value for start, value in _NAMED_INSIDE.findall(text) if _names_secret(start)]
    return _NAMED_INSIDE.sub(lambda each: each[1] + MASK if _names_secret(each[1]) else each[0], text), secrets


def _names_secret(start: str) -> bool:
    return is_secret_name(start.strip("-=: \"'"))


async def _import(*modules: str) -> None:
    """Import on a thread, since it takes seconds in a fresh process: the loop goes on, and can be stopped."""
    for name in modules:
        await asyncio.to_thread(importlib.import_module, name)


def _write_content(content: Sequence[Any], structured: Any) -> str:
    """What a model should read of a result: text is text, other parts are named; without parts, the value as JSON."""
    parts: list[str] = []
    marks: list[str] = []
    for part in content:
        holder = part.resource if part.type == "resource" else part
        encoded = getattr(holder, "blob", None) or getattr(holder, "data", None)
        mark = mark_encoded(encoded, holder.mime_type) if isinstance(encoded, str) else None
        if mark is not None:  # a picture or PDF, which the model is shown
            marks.append(mark)
            parts.append(mark)
        elif part.type == "text":
            parts.append(str(part.text))
        elif part.type == "resource":
            named = f"[{holder.mime_type or 'data'} at {holder.uri}]"
            parts.append(str(getattr(holder, "text", None) or named))
        elif part.type == "resource_link":
            parts.append(f"[{part.name}: {part.uri}]")
        else:
            parts.append(f"[{part.mime_type}, {len(getattr(part, 'data', '')) * 3 // 4:,} bytes, not shown]")
    text = "\n".join(parts)
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    cut = _cut(text)
    return "\n".join([cut, *(each for each in marks if each not in cut)])


def _cut(text: str) -> str:
    """What a server said, as far as a model is told it."""
    if len(text) <= LONGEST_RESULT:
        return text
    left = f"\n... ({len(text):,} characters in all; the rest is left out. Ask for less at a time.)"
    return text[:LONGEST_RESULT] + left


def _is_yes(answer: str | None) -> bool:
    return answer is not None and answer.strip().casefold() in ("yes", "y", "true", "1", "ok")


def _read_field(answer: str, schema: Mapping[str, Any]) -> Any:
    """The value of a field in an answer; None where it is none of its type."""
    text, kind = answer.strip(), schema.get("type")
    if kind == "boolean":
        return _is_yes(text)
    if kind in ("integer", "number"):
        with suppress(ValueError):
            return int(text) if kind == "integer" else float(text)
        return None
    choices = schema.get("enum")
    if choices:
        return next((each for each in choices if str(each).casefold() == text.casefold()), None)
    return text
