"""What a span of another tracing library tells (T101), by the names that it uses.

Four sets of names are known: the GenAI semantic conventions of OpenTelemetry, from their first attributes to those of
0.1.0; OpenInference; OpenLLMetry; and Langfuse's. Each fact has one row below with all of its names, the most exact
first.
"""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final, Literal

from ensemble_notebook.domain.outputs.conversation import ChatMessage, ChatRole, ToolCall
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.importers.foreign_span import Attributes, ForeignSpan

ForeignKind = Literal["agent", "llm", "tool", "step"]

PREFIXES: Final = ("gen_ai.", "openinference.", "llm.", "traceloop.", "langfuse.observation.", "langsmith.span.")
_LATE_SCOPES: Final = (
    "openinference.",
    "opentelemetry.instrumentation.genai",
    "opentelemetry.instrumentation.langchain",
)
"""Libraries that name the kind of a span only when it ends."""

_OPERATIONS: Final[Mapping[str, ForeignKind]] = {
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "embeddings": "llm",
    "invoke_agent": "agent",
    "execute_tool": "tool",
}
_INFERENCE: Final[Mapping[str, ForeignKind]] = {"LLM": "llm", "EMBEDDING": "llm", "AGENT": "agent", "TOOL": "tool"}
_TRACELOOP: Final[Mapping[str, ForeignKind]] = {"agent": "agent", "tool": "tool"}
_LANGFUSE: Final[Mapping[str, ForeignKind]] = {
    "generation": "llm",
    "embedding": "llm",
    "agent": "agent",
    "tool": "tool",
}

_AGENT: Final = ("gen_ai.agent.name", "agent.name", "agent_name")
_AGENT_ENDINGS: Final = ("._execute_core", ".run")
"""crewAI, agno and smolagents call the span of an agent by its role or name, and by the function that is called."""
_BESIDE_NAMES: Final = re.compile(
    r"^(?:invoke_agent|invoke_workflow|execute_tool) (?=.)|"
    r"_[0-9a-f-]{36}(?=\.kickoff$)|\.(?:kickoff|_execute_core|run)$"
)
_CONTROL: Final = ("ParentCommand", "GraphInterrupt", "GraphBubbleUp")
"""What LangGraph raises to hand over or to wait for a person: nothing has failed."""
_MODEL: Final = (
    "gen_ai.request.model",
    "llm.request.model_name",
    "llm.model_name",
    "embedding.model_name",
    "langfuse.observation.model.name",
)
_SERVED: Final = ("gen_ai.response.model", "llm.response.model_name", "llm.model_name", "embedding.model_name")
_PROVIDER: Final = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_INPUT_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_READ_TOKENS: Final = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_WRITE_TOKENS: Final = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_REASONING_TOKENS: Final = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)
_COST: Final = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total")
_TOOL: Final = ("gen_ai.tool.name", "tool.name", "tool_name", "traceloop.entity.name")
_TOOL_ID: Final = ("gen_ai.tool.call.id", "tool.id", "tool_call.id")
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "traceloop.entity.input",
    "input.value",
    "langfuse.observation.input",
)
_RESULT: Final = (
    "gen_ai.tool.call.result",
    "tool_response",
    "traceloop.entity.output",
    "output.value",
    "langfuse.observation.output",
)
_INPUT: Final = ("traceloop.entity.input", "input.value", "langfuse.observation.input")
_OUTPUT: Final = ("final_result", "traceloop.entity.output", "output.value", "langfuse.observation.output")
_TOO_MANY: Final = 2**63
_DETAILS: Final[Mapping[str, re.Pattern[str]]] = {
    "input_tokens": re.compile("input|prompt|cache_"),
    "output_tokens": re.compile("output|completion"),
    "cache_read_tokens": re.compile(".*cache(?!_creation|_write)"),
    "cache_write_tokens": re.compile(".*cache_(creation|write)"),
    "reasoning_tokens": re.compile(".*reasoning"),
}
"""Langfuse counts each token under one key: ``input`` is what is beside ``input_cached_tokens``."""
_DESCRIPTION: Final = ("gen_ai.agent.description", "agent.description")
_INPUT_MESSAGES: Final = ("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events")
_OUTPUT_MESSAGES: Final = ("gen_ai.output.messages",)
_CALL_PLACES: Final = re.compile(r"tool_calls\.(\d+)\.(.+)$")
_ROLES: Final[Mapping[str, ChatRole]] = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "model": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "tool-response": "tool",
    "tool-call": "assistant",
    "function": "tool",
}


def has_names(span: ForeignSpan) -> bool:
    """Whether a span is one of those that tell of agents, models and tools."""
    return span.scope.startswith(_LATE_SCOPES) or any(name.startswith(PREFIXES) for name in span.attributes)


def find_kind(span: ForeignSpan) -> ForeignKind | None:
    """What a span is, as far as its attributes say; None where they do not say it, or not yet."""
    told = span.attributes
    if kind := told.get("openinference.span.kind"):
        found = _INFERENCE.get(str(kind).upper(), "step")
        if found == "agent":  # the trace of the OpenAI Agents SDK calls itself one
            return "agent" if Reading(span).agent else "step"
        return "agent" if kind == "CHAIN" and _read_metadata(span).get("lc_agent_name") == span.name else found
    if operation := told.get("gen_ai.operation.name"):
        return _OPERATIONS.get(str(operation), "step")
    if kind := told.get("traceloop.span.kind"):
        return _TRACELOOP.get(str(kind), "step")
    if kind := told.get("langfuse.observation.type"):
        return _LANGFUSE.get(str(kind).lower(), "step")
    if "gen_ai.tool.name" in told:
        return "tool"
    if told.get("llm.request.type") or any(name in told for name in ("gen_ai.request.model", "llm.model_name")):
        return "llm"
    return "agent" if any(name in told for name in ("gen_ai.agent.name", "agent_name")) else None


@dataclass(frozen=True)
class Reading:
    """What one span tells. Everything is read when it is asked for: most spans are asked for little."""

    span: ForeignSpan

    @property
    def title(self) -> str:
        """What the span is called, without what only says which function was called."""
        return _BESIDE_NAMES.sub("", self.span.name) or self.span.name or "run"

    @property
    def agent(self) -> str | None:
        """The agent that it names."""
        if named := self._text((*_AGENT, "traceloop.entity.name")):
            return named
        name = self.span.name
        if ending := next((each for each in _AGENT_ENDINGS if name.endswith(each)), None):
            return name.removesuffix(ending)
        return name if self.agent_around == name else None

    @property
    def agent_around(self) -> str | None:
        """The agent in whose work it was, which LangChain's spans tell when they end."""
        told = _read_metadata(self.span).get("lc_agent_name")
        return told if isinstance(told, str) else None

    @property
    def model(self) -> str | None:
        """The model that was asked for."""
        return self._text(_MODEL)

    @property
    def served_model(self) -> str | None:
        """The model that has answered."""
        return self._text(_SERVED)

    @property
    def provider(self) -> str | None:
        """Who serves the model, such as ``openai``."""
        told = self._text(_PROVIDER)
        return None if told is None else told.lower().removeprefix("az.ai.").replace("gcp.gemini", "google")

    @property
    def usage(self) -> TokenUsage:
        """The tokens; what is cached is a part of the input."""
        count = {"input_tokens": _INPUT_TOKENS, "output_tokens": _OUTPUT_TOKENS, "cache_read_tokens": _READ_TOKENS}
        count |= {"cache_write_tokens": _WRITE_TOKENS, "reasoning_tokens": _REASONING_TOKENS}
        told: dict[str, Any] = {name: self._count(names) for name, names in count.items()}
        if told["input_tokens"] is None and told["output_tokens"] is None:
            details = self._details("usage_details")
            told = {name: _sum_details(details, keys) for name, keys in _DETAILS.items()}
        if told["output_tokens"] is None and told["input_tokens"] is not None and self._is_embedding:
            told["output_tokens"] = 0
        parts = (("input_tokens", "cache_read_tokens"), ("input_tokens", "cache_write_tokens"))
        for whole, part in (*parts, ("output_tokens", "reasoning_tokens")):
            # Some count what is cached beside the input: then nobody knows what is a part of what.
            if (told[part] or 0) > (told[whole] or 0):
                told[part] = None
        return TokenUsage(**told)

    @property
    def cost(self) -> Decimal | None:
        """What it cost, in US dollars, where the span says so."""
        details = self._details("cost_details")
        parts = [each for key, each in details.items() if key != "total" and isinstance(each, int | float)]
        for given in (*map(self.span.attributes.get, _COST), details.get("total", sum(parts) if parts else None)):
            if isinstance(given, bool) or not isinstance(given, int | float | str):
                continue
            try:
                cost = Decimal(str(given))
            except InvalidOperation:
                continue
            if cost.is_finite() and cost >= 0:
                return cost
        return None

    @property
    def tool(self) -> str:
        """The name of the tool; where it is told at the end only, that of the span (crewAI's is ``weather.run``)."""
        return self._text(_TOOL) or self.span.name.removesuffix(".run")

    @property
    def tool_call_id(self) -> str | None:
        """The id that the model gave the call."""
        return self._text(_TOOL_ID)

    @property
    def arguments(self) -> str:
        """The arguments of the call, as JSON."""
        given = self._text(_ARGUMENTS) or ""
        if given.startswith('{"args"'):  # smolagents
            with suppress(ValueError):
                inside = json.loads(given)
                return json.dumps(inside.get("kwargs") or inside["args"], ensure_ascii=False)
        return given

    @property
    def result(self) -> str:
        """What the tool has given."""
        return _read_content(self._text(_RESULT))

    @property
    def description(self) -> str:
        """What it is about: what it was given, else what the agent is for."""
        return _read_content(self._text(_INPUT)) or self._text(_DESCRIPTION) or ""

    @property
    def output(self) -> str:
        """What came of it."""
        if given := _read_content(self._text(_OUTPUT)):
            return given
        replies = [each.text for each in self.said if each.role == "assistant" and each.text]
        return replies[-1] if replies else ""

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped."""
        given = self.span.attributes.get("gen_ai.response.finish_reasons")
        if isinstance(given, Sequence) and given and not isinstance(given, str):
            given = given[0]
        return str(given) if given else None

    @property
    def error(self) -> tuple[str, str] | None:
        """Type and message of what went wrong."""
        if self.span.status != "error":
            return None
        raised = next((each.attributes for each in self.span.events if each.name == "exception"), {})
        kind = self.span.attributes.get("error.type") or raised.get("exception.type") or "Error"
        if str(kind).endswith(_CONTROL):
            return None
        told = raised.get("exception.message") or self.span.status_message or ""
        return mend_text(str(kind).rpartition(".")[2]), mend_text(str(told))

    @cached_property
    def asked(self) -> Sequence[ChatMessage]:
        """The messages that a model was asked with, instructions first."""
        told = self.span.attributes
        instructions = list(_read_parts(told.get("gen_ai.system_instructions"), "system"))
        given = (
            self._messages(_INPUT_MESSAGES)
            or _read_flat(told, "llm.input_messages.")
            or [
                *_read_flat(told, "gen_ai.prompt."),
                *_read_events(self.span, "prompt"),
                *_read_spoken(told.get("langfuse.observation.input"), "user"),
            ]
            or [*_read_spoken(self._find_plain("input.value"), "user")]
        )
        return [*instructions, *given]

    @cached_property
    def said(self) -> Sequence[ChatMessage]:
        """The messages that a model has answered with."""
        told = self.span.attributes
        return (
            self._messages(_OUTPUT_MESSAGES)
            or _read_flat(told, "llm.output_messages.")
            or [
                *_read_flat(told, "gen_ai.completion."),
                *_read_events(self.span, "choice"),
                *_read_spoken(told.get("langfuse.observation.output"), "assistant"),
            ]
            or [*_read_spoken(self._find_plain("output.value"), "assistant")]
        )

    def _find_plain(self, name: str) -> Any:
        """What a model call of OpenInference has in place of messages; until its end these may still come."""
        is_over = self.span.end_ns is not None and self.span.attributes.get("openinference.span.kind") == "LLM"
        return self.span.attributes.get(name) if is_over else None

    @property
    def _is_embedding(self) -> bool:
        told = self.span.attributes
        return told.get("openinference.span.kind") == "EMBEDDING" or told.get("gen_ai.operation.name") == "embeddings"

    def _text(self, names: Iterable[str]) -> str | None:
        given = next((self.span.attributes[name] for name in names if self.span.attributes.get(name)), None)
        if given is None or isinstance(given, str):
            return given
        return json.dumps(given, ensure_ascii=False, default=str)

    def _count(self, names: Iterable[str]) -> int | None:
        for name in names:
            if (count := _to_count(self.span.attributes.get(name))) is not None:
                return count
        return None

    def _details(self, name: str) -> Mapping[str, Any]:
        """Numbers of Langfuse by their keys, which its SDK writes as JSON."""
        given = self.span.attributes.get(f"langfuse.observation.{name}")
        if isinstance(given, str):
            with suppress(ValueError):
                given = json.loads(given)
        return given if isinstance(given, Mapping) else {}

    def _messages(self, names: Iterable[str]) -> list[ChatMessage]:
        for name in names:
            given = self.span.attributes.get(name)
            if given is not None and (messages := list(_read_parts(given, None))):
                return messages
        return []


def _sum_details(details: Mapping[str, Any], keys: re.Pattern[str]) -> int | None:
    counted = [_to_count(each) for key, each in details.items() if keys.match(key)]
    known = [each for each in counted if each is not None]
    return sum(known) if known else None


def _to_count(given: Any) -> int | None:
    """A count, which databases also write as text."""
    if isinstance(given, str) and given.isdecimal() and len(given) < 20:
        return int(given)
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < _TOO_MANY
    return int(given) if is_number and given == int(given) else None


def _read_metadata(span: ForeignSpan) -> Mapping[str, Any]:
    """What LangChain's runs have as metadata, which OpenInference writes as JSON."""
    given = span.attributes.get("metadata")
    if isinstance(given, str):
        return _parse_metadata(given) if "lc_agent_name" in given else {}
    return given if isinstance(given, Mapping) else {}


@functools.lru_cache(maxsize=8)  # of one span it is asked for several times
def _parse_metadata(text: str) -> Mapping[str, Any]:
    with suppress(ValueError):
        given = json.loads(text)
        if isinstance(given, Mapping):
            return given
    return {}


def _read_content(text: str | None) -> str:
    """What stands in an input or output that is JSON of messages: the last one's words; any other as it is."""
    if not text or text[0] not in "[{":
        return text or ""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    listed = value.get("messages") if isinstance(value, Mapping) else value
    if isinstance(value, Mapping) and isinstance(value.get("data"), Mapping) and "type" in value:
        listed = [value]
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        said = [each for each in _read_parts(listed, None) if each.text]
        if said:
            return said[-1].text
    if isinstance(value, Mapping) and len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        return only
    return text


def _read_parts(given: Any, role: ChatRole | None) -> Iterator[ChatMessage]:
    """Messages with parts, as the conventions write them; plain texts and OpenAI's own form, too."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = [given]
    if isinstance(given, str | Mapping):
        given = [given]
    if not isinstance(given, Sequence):
        return
    if role is not None:  # instructions are parts without messages
        texts = [_read_text(each) for each in given]
        if text := "\n".join(filter(None, texts)):
            yield ChatMessage(role=role, text=text)
        return
    for each in given:
        if isinstance(each, Sequence) and not isinstance(each, str):
            yield from _read_parts(each, None)
        elif isinstance(each, Mapping):
            yield from _read_message(each)


def _read_spoken(given: Any, role: ChatRole) -> Iterator[ChatMessage]:
    """Messages of an input or output that may be anything: what is none is the text of one, by that role."""
    value = given
    if isinstance(given, str) and given[:1] in ("[", "{"):
        with suppress(ValueError):
            value = json.loads(given)
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
        value = value["messages"]
    listed = value if isinstance(value, list) else [value]
    if listed and all(isinstance(each, Mapping) and "role" in each for each in listed):
        yield from _read_parts(listed, None)
    elif given:
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
        yield ChatMessage(role=role, text=text)


def _read_message(given: Mapping[str, Any]) -> Iterator[ChatMessage]:
    # LangChain writes its messages in two ways.
    inner = next((given[name] for name in ("kwargs", "data") if isinstance(given.get(name), Mapping)), None)
    if inner is not None:
        given = {"role": given.get("type"), **inner}
    role = _ROLES.get(str(given.get("role") or given.get("type") or "user").lower(), "user")
    parts = given.get("parts")
    if parts is None:
        parts = given.get("content")
    listed = parts if isinstance(parts, Sequence) and not isinstance(parts, str) else [parts]
    texts: list[str] = []
    made = given.get("tool_calls")
    calls = [_read_call(each) for each in made if isinstance(each, Mapping)] if isinstance(made, Sequence) else []
    for part in listed:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(part, Mapping) and kind in ("tool_call", "tool-call", "tool_use"):
            calls.append(_read_call(part))
        elif isinstance(part, Mapping) and kind in ("tool_call_response", "tool-return", "tool_result"):
            result = next((part[name] for name in ("response", "result", "content") if name in part), "")
            answer = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
            call_id = _to_text(part.get("id") or part.get("tool_call_id"))
            yield ChatMessage(role="tool", text=answer, tool_call_id=call_id)
        elif text := _read_text(part):
            texts.append(text)
    if texts or calls or not listed:
        answered = _read_answered(role, given)
        yield ChatMessage(role=role, text="\n".join(texts), tool_calls=tuple(calls), **answered)


def _read_answered(role: ChatRole, given: Mapping[str, Any]) -> dict[str, str | None]:
    """Of the result of a tool: which call it answers."""
    return {name: _to_text(given.get(name)) for name in ("tool_call_id", "name")} if role == "tool" else {}


def _read_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return "" if part is None else str(part)
    for name in ("content", "text", "thinking"):
        if isinstance(part.get(name), str):
            return "" if part.get("type") in ("reasoning", "thinking") else str(part[name])
    kind = part.get("type")
    return f"[{part.get('modality') or kind}]" if kind else ""


def _read_call(given: Mapping[str, Any]) -> ToolCall:
    inner = given.get("function")
    inside: Mapping[str, Any] = inner if isinstance(inner, Mapping) else given
    arguments: Any = next((inside[name] for name in ("arguments", "args", "input") if name in inside), {})
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return ToolCall(id=_to_text(given.get("id")) or "", name=str(inside.get("name") or "tool"), arguments=arguments)


def _read_flat(told: Attributes, prefix: str) -> list[ChatMessage]:
    """Messages with a number and a path for each of their fields, as OpenInference and OpenLLMetry write them."""
    found: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for name, value in [each for each in told.items() if each[0].startswith(prefix)]:
        number, _, path = name[len(prefix) :].partition(".")
        if not number.isdigit():
            continue
        path = path.removeprefix("message.")
        if path in ("role", "content", "name", "tool_call_id"):
            found[int(number)][path] = value
        elif (call := _CALL_PLACES.match(path)) is not None:
            field = call[2].removeprefix("tool_call.").removeprefix("function.")
            found[int(number)].setdefault("calls", {}).setdefault(int(call[1]), {})[field] = value
        elif path.startswith("contents."):
            texts = found[int(number)].setdefault("texts", [])
            texts += [str(value)] if path.endswith("text") else []
    messages = []
    for _, message in sorted(found.items()):
        calls = [_read_call(each) for _, each in sorted(message.get("calls", {}).items())]
        content = message.get("content")
        texts = [*([_read_content_parts(content)] if content else []), *message.get("texts", ())]
        role = _ROLES.get(str(message.get("role") or "user").lower(), "user")
        answered = _read_answered(role, message)
        messages.append(ChatMessage(role=role, text="\n".join(texts), tool_calls=tuple(calls), **answered))
    return messages


def _read_content_parts(content: Any) -> str:
    """A content that is JSON of parts, as OpenLLMetry writes it: their texts."""
    if not isinstance(content, str):
        return str(content)
    if content.startswith("[{"):
        try:
            parts = json.loads(content)
        except ValueError:
            return content
        return "\n".join(filter(None, map(_read_text, parts))) or content
    return content


def _read_events(span: ForeignSpan, which: Literal["prompt", "choice"]) -> Iterator[ChatMessage]:
    """Messages that stand as events of the span, as the conventions had them until 1.36."""
    for event in span.events:
        if not event.name.startswith("gen_ai."):
            continue
        told = event.attributes
        if event.name == "gen_ai.client.inference.operation.details":
            yield from _read_parts(told.get(f"gen_ai.{'input' if which == 'prompt' else 'output'}.messages"), None)
        elif event.name == "gen_ai.choice" and which == "choice":
            message = told.get("message")
            yield from _read_parts(message if message is not None else {"role": "assistant", **told}, None)
        elif event.name.endswith(".message") and which == "prompt":
            yield from _read_parts({"role": event.name.split(".")[1], **told}, None)


def _to_text(given: Any) -> str | None:
    return None if given is None else str(given)
