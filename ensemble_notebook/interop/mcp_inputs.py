"""Resources and prompts of MCP servers: inputs of a run, which reads them when it starts, and tools of agents (E134).

Knows no connections: a `McpReader` is a session that is open. A URI with variables is one of RFC 6570.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, Protocol, TypeVar

from ensemble_notebook.domain.attachments import Attachment, find_media_type, held_by_run, read_attachment
from ensemble_notebook.domain.definitions.tool import (
    ReadInput,
    SourcedInput,
    SourcedTool,
    ToolResult,
    ToolReview,
    ToolSession,
    ToolSource,
)
from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.outputs.secrets import protect_named
from ensemble_notebook.errors import EnsembleError, ValidationError, did_you_mean, make_readable

T = TypeVar("T")

LONGEST_RESULT: Final = 100_000
"""So many characters of what a server says go to a model."""

METHOD_NOT_FOUND: Final = -32601
"""The code of an error of `mcp` for a request that a server knows nothing of."""

_LONGEST_NAME: Final = 60
_MOST_TOLD: Final = 10
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_PLAIN: Final = re.compile(r"\{\+?(\w+)\}")
_TEXT_TYPES: Final = ("text/", "application/json")
_OPTIONAL: Final = ("?", "&")


class McpReader(ToolSession, Protocol):
    """A session that is open, as far as resources and prompts need it."""

    async def ask(self, request: Callable[[Any], Awaitable[T]], what: str) -> T:
        """What the server answers to a request of the client.

        Args:
            request: made of the client of `mcp`.
            what: did not happen where it fails, for the message.

        Raises:
            EnsembleError: the server is gone, refuses it, or takes too long.
        """

    async def list_all(self, kind: str) -> list[Any]:
        """All that the server offers of ``"resources"``, ``"resource_templates"`` or ``"prompts"``."""

    def write(self, content: Sequence[Any]) -> str:
        """What a model should read of parts of a message, cut where it is too long."""


def get_code(error: BaseException | None) -> object:
    """The code of an error of the protocol; None of another one."""
    return getattr(getattr(error, "error", None), "code", None)


def to_tool_name(name: str) -> str:
    """A name that every provider takes: letters, digits and underscores."""
    return _NO_NAME.sub("_", name)


class _McpInput(SourcedInput):
    """Something that a server can be asked for by its name, with what was given for it.

    Args:
        toolbox: of the server.
        name: of the thing there.
        given: values of its variables or arguments.
        review: when somebody is asked about its calls as a tool; None: never.
    """

    def __init__(self, toolbox: ToolSource, name: str, given: Mapping[str, str], review: ToolReview | None) -> None:
        self.connection: object = toolbox.connection
        self.reuse: bool = toolbox.reuse
        self._toolbox, self._name, self._given, self._review = toolbox, name, dict(given), review

    @property
    def label(self) -> str:
        """What messages call its server."""
        return self._toolbox.label

    @property
    def is_reviewed(self) -> bool:
        """Whether calls of it as a tool are reviewed."""
        return self._review is not None

    @property
    def reviewed_names(self) -> tuple[str, ...]:
        """Its name as a tool, where its calls are reviewed."""
        return () if self._review is None else self.tool_names

    def make_session(self) -> ToolSession:
        """Make the session of a run, which is not open yet."""
        return self._toolbox.make_session()

    def __eq__(self, other: object) -> bool:
        """Equal where the same is asked of the same server."""
        return isinstance(other, _McpInput) and (type(self), self._key) == (type(other), other._key)

    def __hash__(self) -> int:
        """As equality."""
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return id(self.connection), self._name, tuple(sorted(self._given.items()))

    def _make_call(self, session: McpReader) -> Any:
        """What calls it as a tool; what goes wrong is told to the model."""

        async def call(arguments: dict[str, Any], _ask: object) -> ToolResult:
            try:
                found = await self.read(session, {name: str(each) for name, each in arguments.items()})
            except EnsembleError as error:
                return ToolResult.failure(str(error))
            for each in found.attachments:
                read_attachment(each)  # the run holds it from now on
            return ToolResult.ok(found.value.mark if isinstance(found.value, Attachment) else found.value)

        return call


class McpResource(_McpInput):
    """A resource of an MCP server, or a template of them; made by `McpToolbox.resource`.

    As an input it is read when a run starts; as a tool, an agent reads it.
    """

    @property
    def uri(self) -> str:
        """Of the resource; of a template with its variables."""
        return self._name

    @property
    def told(self) -> str:
        """What messages call it, with its server."""
        return f"{self} of {self.label}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a template that are not given, and are filled from the inputs of a run."""
        return tuple(name for name, _ in _list_variables(self._name) if name not in self._given)

    @property
    def has_messages(self) -> bool:
        """No: it is a text."""
        return False

    def list_lacking(self, inputs: Collection[str]) -> list[str]:
        """The variables that have no value; those of a query may go without.

        Args:
            inputs: the names of what there is.
        """
        known = {*inputs, *self._given}
        return [name for name, how in _list_variables(self._name) if how not in _OPTIONAL and name not in known]

    @property
    def tool_names(self) -> tuple[str, ...]:
        """As models see it: ``read_`` and its path."""
        path = _EXPRESSION.sub("", self._name.partition(":")[2]).strip("/")
        return (f"read_{to_tool_name(path or self._name.partition(':')[0])[-_LONGEST_NAME:].strip('_')}",)

    async def read(self, session: Any, inputs: Mapping[str, str]) -> ReadInput:
        """Read it: a text, cut where it is too long.

        Args:
            session: which is open.
            inputs: of the run, as texts.

        Raises:
            ValidationError: the server has no such resource, or it is no text; names the nearest.
            EnsembleError: it can't be read.
        """
        reader: McpReader = session
        uri = self._expand(inputs)
        try:
            answer = await reader.ask(
                lambda client: client.read_resource(uri, cache_mode="bypass"), f"did not give {uri!r}"
            )
        except EnsembleError as error:
            raise await self._explain(error, reader, uri) from error
        told, contents = f"{uri} of {self.label}", answer.contents
        if len(contents) == 1 and _find_text(contents[0]) is None:
            value = self._read_attachment(contents[0], told)
            return ReadInput(
                value=value, told=told, size=f"{value.media_type}, {len(value.data):,} bytes", attachments=(value,)
            )
        texts, attachments = _write_parts(reader, contents)
        text = texts[0] if len(texts) == 1 else ""
        if len(texts) > 1:
            text = "\n\n".join(f"### {each.uri}\n{text}" for each, text in zip(contents, texts, strict=True))
        return _make_input(reader, text, told, attachments=attachments)

    def _read_attachment(self, content: Any, told: str) -> Attachment:
        """A picture or PDF, whatever it is said to be.

        Raises:
            ValidationError: it is something else, or too large.
        """
        try:
            data = b64decode(content.blob, validate=True)
        except ValueError as error:
            raise ValidationError(f"{told} is not written as base64, which the protocol wants: {error}.") from error
        if (media_type := find_media_type(data)) is None:
            raise ValidationError(
                f"{told} is {content.mime_type or 'binary'} ({len(data):,} bytes), which is neither text nor a picture "
                f"or PDF that models take."
            )
        return Attachment(data, media_type, self._name.rpartition("/")[2])

    async def select(self, session: Any) -> tuple[SourcedTool, ...]:
        """The tool that reads it, with what the server says of it.

        Args:
            session: which is open.
        """
        reader: McpReader = session
        about = next((each for each in await self._list(reader) if _get_uri(each) == self._name), None)
        described = "" if about is None else about.description or about.title or ""
        parameters = dict.fromkeys(self.variables, "")
        return (
            SourcedTool(
                name=self.tool_names[0],
                source_name=self._name,
                description=f"Read {self._name}. {described}".strip(),
                parameters=_make_parameters(parameters, self.list_lacking(())),
                call=self._make_call(reader),
                review=self._review,
            ),
        )

    def _expand(self, inputs: Mapping[str, str]) -> str:
        """Its URI, with its variables filled in."""
        if "{" not in self._name:
            return self._name
        from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

        values = {**inputs, **self._given}
        if lacking := self.list_lacking(values):
            raise ValidationError(f"{self._name} has no value for {', '.join(lacking)}.")
        try:
            return UriTemplate.parse(self._name).expand(values)
        except InvalidUriTemplate as error:
            raise ValidationError(f"{self._name!r} is no template of a URI (RFC 6570): {error}.") from error

    async def _list(self, reader: McpReader) -> list[Any]:
        return [*await reader.list_all("resources"), *await reader.list_all("resource_templates")]

    async def _explain(self, error: EnsembleError, reader: McpReader, uri: str) -> EnsembleError:
        """The same error; of a URI that the server does not name, with the nearest that it does."""
        try:
            offered = [_get_uri(each) for each in await self._list(reader)]
        except EnsembleError:  # it is gone
            return error
        if uri in offered:
            return error
        if not offered and get_code(error.__cause__) == METHOD_NOT_FOUND:
            tools = ", ".join(each.name for each in reader.tools) or "none"
            return ValidationError(f"T{self.label[1:]} has no resources. Its tools: {tools}.")
        hint = did_you_mean(uri, offered)
        return ValidationError(f"{error}{hint} {_list_offered('resources', offered)}")

    def __str__(self) -> str:
        """Its URI, with the values that are given."""
        return _PLAIN.sub(lambda match: self._given.get(match[1], match[0]), self._name)

    def __repr__(self) -> str:
        """Its URI and its server."""
        return f"<McpResource {self} of {self.label}>"


class McpPrompt(_McpInput):
    """A prompt of an MCP server; made by `McpToolbox.prompt`.

    As an input it is got when a run starts; as a tool, an agent gets it. Its messages, with their roles, are what
    ``run(continue_from=...)`` goes on with.
    """

    @property
    def name(self) -> str:
        """As the server calls it."""
        return self._name

    @property
    def told(self) -> str:
        """What messages call it, with its server."""
        return f"the prompt {self._name!r} of {self.label}"

    @property
    def variables(self) -> None:
        """Only the server knows its arguments, each of which the input of its name fills where it is not given."""
        return None

    @property
    def has_messages(self) -> bool:
        """Yes, each with its role."""
        return True

    def list_lacking(self, inputs: Collection[str]) -> list[str]:  # noqa: ARG002 - as of a resource
        """None that is known before it is read.

        Args:
            inputs: the names of what there is.
        """
        return []

    @property
    def tool_names(self) -> tuple[str, ...]:
        """As models see it."""
        return (to_tool_name(self._name),)

    async def read(self, session: Any, inputs: Mapping[str, str]) -> ReadInput:
        """Get it: its text, and its messages.

        Args:
            session: which is open.
            inputs: of the run, as texts.

        Raises:
            ValidationError: the server has no such prompt, or it takes other arguments; names the nearest.
            EnsembleError: it can't be got.
        """
        reader: McpReader = session
        declared = {each.name: each for each in (await self._find(reader)).arguments or ()}
        arguments = {name: text for name, text in {**inputs, **self._given}.items() if name in declared}
        for name in self._given:
            if name not in declared:
                hint = f"{did_you_mean(name, declared)} {_list_offered('arguments', declared)}"
                raise ValidationError(f"{self._begin()} takes no {name!r}.{hint}")
        if lacking := [name for name, each in declared.items() if each.required and name not in arguments]:
            raise ValidationError(
                f"{self._begin()} lacks {', '.join(lacking)}. Give {'it' if len(lacking) == 1 else 'them'} as "
                f"prompt({self._name!r}, {', '.join(f'{each}=...' for each in lacking)}), or as inputs of the run."
            )
        answer = await reader.ask(
            lambda client: client.get_prompt(self._name, arguments), f"did not give the prompt {self._name!r}"
        )
        if not answer.messages:
            raise EnsembleError(f"{self._begin()} has no messages.")
        texts, attachments = _write_parts(reader, [each.content for each in answer.messages])
        said = list(zip((each.role for each in answer.messages), texts, strict=True))
        messages = tuple(ChatMessage(role=role, text=_write_text(reader, text)) for role, text in said)
        text = "\n\n".join(f"{role}: {text}" for role, text in said) if len(said) > 1 else texts[0]
        return _make_input(reader, text, self.told, messages, attachments)

    async def select(self, session: Any) -> tuple[SourcedTool, ...]:
        """The tool that gets it, whose arguments are those that are not given.

        Args:
            session: which is open.

        Raises:
            ValidationError: the server has no such prompt; names the nearest.
        """
        reader: McpReader = session
        about = await self._find(reader)
        arguments = [each for each in about.arguments or () if each.name not in self._given]
        return (
            SourcedTool(
                name=self.tool_names[0],
                source_name=self._name,
                description=about.description or about.title or f"Get the prompt {self._name}.",
                parameters=_make_parameters(
                    {each.name: each.description or "" for each in arguments},
                    [each.name for each in arguments if each.required],
                ),
                call=self._make_call(reader),
                review=self._review,
            ),
        )

    async def _find(self, reader: McpReader) -> Any:
        """What the server says of it.

        Raises:
            ValidationError: it has no such prompt.
        """
        offered = {each.name: each for each in await reader.list_all("prompts")}
        if self._name not in offered:
            raise ValidationError(
                f"T{self.label[1:]} has no prompt {self._name!r}.{did_you_mean(self._name, offered)} "
                f"{_list_offered('prompts', offered)}"
            )
        return offered[self._name]

    def _begin(self) -> str:
        return f"T{self.told[1:]}"

    def __str__(self) -> str:
        """Its name."""
        return f"prompt {self._name}"

    def __repr__(self) -> str:
        """Its name and its server."""
        return f"<McpPrompt {self._name} of {self.label}>"


def make_resource(
    toolbox: ToolSource, uri: object, given: Mapping[str, object], review: ToolReview | None
) -> McpResource:
    """Make a resource of a server. Errors as of `McpToolbox.resource`."""
    if not isinstance(uri, str) or not _URI.fullmatch(uri):
        hint = " A space in it is %20." if " " in str(uri) else ""
        raise ValidationError(f"resource() takes a URI such as 'file:///notes.md', got {uri!r}.{hint}")
    known = [name for name, _ in _list_variables(uri)]
    for name in given:
        if name not in known:
            there = f" Its variables: {', '.join(known)}." if known else " There are no variables in it."
            raise ValidationError(f"{uri} has no variable {name!r}.{did_you_mean(name, known)}{there}")
    return McpResource(toolbox, uri, _read_given("resource", given), review)


def make_prompt(toolbox: ToolSource, name: object, given: Mapping[str, object], review: ToolReview | None) -> McpPrompt:
    """Make a prompt of a server. Errors as of `McpToolbox.prompt`."""
    if not isinstance(name, str) or not name:
        raise ValidationError(f"prompt() takes the name of a prompt, got {name!r}.")
    return McpPrompt(toolbox, name, _read_given("prompt", given), review)


def _read_given(door: str, given: Mapping[str, object]) -> dict[str, str]:
    """Values as texts, which is all that the protocol has; secrets among them are masked from now on."""
    for name, value in given.items():
        if not isinstance(value, str | int | float):
            raise ValidationError(f"{door}() takes texts and numbers, and {name} is {type(value).__name__}.")
    protect_named(given)
    return {name: str(value) for name, value in given.items()}


def _list_variables(uri: str) -> list[tuple[str, str]]:
    """The variables of a URI, each with the operator of its expression (RFC 6570, 2.2)."""
    return [
        (name.strip().rstrip("*"), operator)
        for operator, names in _EXPRESSION.findall(uri)
        for name in names.split(",")
        if name.strip()
    ]


def _make_parameters(names: Mapping[str, str], required: Sequence[str]) -> dict[str, Any]:
    properties = {
        name: {"type": "string", **({"description": about} if about else {})} for name, about in names.items()
    }
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _get_uri(offered: Any) -> str:
    return str(getattr(offered, "uri", None) or offered.uri_template)


def _list_offered(kind: str, names: Iterable[str]) -> str:
    told = list(names)
    more = f" and {len(told) - _MOST_TOLD:,} more" if len(told) > _MOST_TOLD else ""
    return f"Its {kind}: {', '.join(map(make_readable, told[:_MOST_TOLD])) or 'none'}{more}."


def _find_text(content: Any) -> str | None:
    """The text of a content, also of one that is sent as bytes; None of all else."""
    if isinstance(text := getattr(content, "text", None), str):
        return text
    if str(getattr(content, "mime_type", None)).startswith(_TEXT_TYPES):
        with suppress(ValueError):  # neither base64 nor UTF-8
            return b64decode(getattr(content, "blob", "?"), validate=True).decode()
    return None


def _write_parts(reader: McpReader, parts: Iterable[Any]) -> tuple[list[str], tuple[Attachment, ...]]:
    """Contents of a resource or message as texts, and the pictures and PDFs of which marks stand in them."""
    attachments: list[Attachment] = []
    with held_by_run() as held:
        held.hear(attachments.append)
        texts = []
        for each in parts:
            text = _find_text(getattr(each, "resource", each))
            part = each if hasattr(each, "type") else SimpleNamespace(type="resource", resource=each)
            texts.append(reader.write([part]) if text is None else text)
    return texts, tuple(attachments)


def _write_text(reader: McpReader, text: str) -> str:
    """A text as far as a model is told it."""
    return reader.write([SimpleNamespace(type="text", text=text)])


def _make_input(
    reader: McpReader,
    text: str,
    told: str,
    messages: tuple[ChatMessage, ...] = (),
    attachments: tuple[Attachment, ...] = (),
) -> ReadInput:
    """A text as it fills a variable: as long as a result may be."""
    return ReadInput(
        value=_write_text(reader, text),
        told=told,
        size=f"{len(text):,} characters",
        is_cut=len(text) > LONGEST_RESULT,
        messages=messages,
        attachments=attachments,
    )
