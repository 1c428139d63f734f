"""The parts of a key, with those of models and agents: the name and digest of each, and why one can't be compared."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import MAX_RETRY_WAIT, Agent, split_model_name
from ensemble_notebook.domain.definitions.limits import COST
from ensemble_notebook.domain.definitions.tool import Tool, ToolSource, get_core_tool, list_tool_names
from ensemble_notebook.domain.fingerprints.code_content import is_installed
from ensemble_notebook.domain.fingerprints.content import (
    SCALARS,
    ContentGraph,
    ContentNode,
    digest,
    digest_framed,
    encode_scalar,
    frame,
)
from ensemble_notebook.domain.fingerprints.value_content import describe_value, is_chat_model, list_model_fields
from ensemble_notebook.domain.outputs.secrets import mask, mask_named
from ensemble_notebook.domain.planning.graph import TeamMember
from ensemble_notebook.domain.seams.kept_tasks import InputRead, Reads, TaskKey
from ensemble_notebook.domain.wording import pluralize

READS: Final = "reads"
"""The name under which it is shown beside the parts what code has read of the inputs. It is no part itself."""


def make_content_graph() -> ContentGraph:
    """Make the graph of one run: what it has looked at once stays as it was then."""
    return ContentGraph(describe_value, write_details)


@dataclass(slots=True)
class Parts:
    """Parts of a key, by name.

    Attributes:
        graph: compares what is no text.
        shown: what is kept of each part, to say later what has changed. The first line stands for the part: a short
            text (``=0.2``) or a digest (``#9f3a...``). The others tell what is in it, a name and a value each.
        pieces: name and whole digest of each part, as they are hashed in the end: most parts are those of an agent, and
            a run has thousands of tasks of one agent. Names of tasks are in `shown` alone, since they do not count.
        obstacle: why the parts can't be compared, in words; None where they can.
    """

    graph: ContentGraph
    shown: dict[str, str] = field(default_factory=dict)
    pieces: dict[str, bytes] = field(default_factory=dict)
    obstacle: str | None = None

    def add_text(self, name: str, text: str, *details: tuple[str, str]) -> None:
        """Add a text; its digest is shown."""
        self._add(name, digest(text.encode("utf-8", "surrogatepass")), None, details)

    def add_value(self, name: str, value: Any, words: str = "", *, also: str = "") -> None:
        """Add any object, by its content.

        Args:
            name: of the part.
            value: what counts.
            words: what people call it, in an obstacle.
            also: more that counts, such as the name of a tool.
        """
        if type(value) in SCALARS:
            self._add(name, digest(encode_scalar(value), also.encode()), show_value(name, value))
            return
        found = self.graph.read(value)
        if found.obstacle is not None and self.obstacle is None:
            self.obstacle = f"{words or f'the {name}'} {found.obstacle}, which can't be compared by content"
        self._add(name, digest(bytes.fromhex(found.digest), also.encode()), None, found.details)

    def add_group(self, name: str, group: Parts) -> None:
        """Add all that another collection holds, as one part."""
        self.obstacle = self.obstacle or group.obstacle
        details = [(each, text.partition("\n")[0]) for each, text in group.shown.items()]
        self._add(name, group.digest(), None, details)

    def include(self, other: Parts) -> None:
        """Take over all parts of another collection."""
        self.shown.update(other.shown)
        self.pieces.update(other.pieces)
        self.obstacle = self.obstacle or other.obstacle

    def digest(self) -> bytes:
        """Make the digest of all parts, in whatever order they came."""
        return digest_framed(b"".join([piece for _, piece in sorted(self.pieces.items())]))

    def to_key(self) -> TaskKey:
        """Make the key of a task of the parts."""
        return TaskKey(key=self.digest().hex(), parts=self.shown, obstacle=self.obstacle)

    def _add(self, name: str, made: bytes, text: str | None, details: Sequence[tuple[str, str]] = ()) -> None:
        self.pieces[name] = frame(name.encode(), made)
        first = text or shorten(made)
        self.shown[name] = "\n".join([first, *(f"{each}\t{value}" for each, value in details)]) if details else first


def write_reads(reads: Reads) -> str:
    """Write what code has read of the inputs; the same reads, the same text."""
    return json.dumps(sorted(reads), ensure_ascii=False)


def read_reads(shown: Mapping[str, str]) -> Reads | None:
    """Read what code has read of the inputs; None where nobody noted it, or somebody has edited the file."""
    try:
        pairs = [(kind, name) for kind, name in json.loads(shown[READS])]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    is_whole = all(isinstance(kind, str) and isinstance(name, str) for kind, name in pairs)
    return frozenset(InputRead(kind, name) for kind, name in pairs) if is_whole else None


def read_lines(shown: str) -> tuple[str, Mapping[str, str]]:
    """Read what is kept of a part: what stands for it, and what is in it by name."""
    first, *others = shown.split("\n")
    return first, dict(line.split("\t", 1) for line in others if "\t" in line)


ITS_CODE: Final = "its code"
_MOST: Final = 40
_MOST_SEEN: Final = 10_000
_LONGEST: Final = 40


def shorten(digest: bytes) -> str:
    """Shorten a digest to a length that still distinguishes versions of one thing."""
    return f"#{digest.hex()[:12]}"


def show_value(name: str, value: object) -> str | None:
    """A short plain value as text, masked; None for all others."""
    if type(value) not in SCALARS:
        return None
    text = mask_named(name, repr(value))
    return f"={text}" if len(text) <= _LONGEST and text.isprintable() else None


def write_details(root: ContentNode) -> tuple[tuple[str, str], ...]:
    """Write what the code in an object reaches, by name: short values as text, all else as digests."""
    found: dict[str, str] = {}
    seen, waiting = {id(root)}, deque([("", root)])
    while waiting and len(found) < _MOST and len(seen) < _MOST_SEEN:
        label, node = waiting.popleft()
        is_code = node.content is not None and node.content.is_code
        if is_code:
            name = node.subject.__name__ if not label or label.startswith(".") else label
            helper = ITS_CODE if ITS_CODE not in found else f"its helper {name}"
            found.setdefault(f"its class {name}" if isinstance(node.subject, type) else helper, shorten(node.own))
        for name, child in node.children:
            # A wrapper of code, such as a decorated function or a bound method, is looked into.
            has_code = child.content is not None and (child.content.is_code or callable(child.subject))
            # Also if it was seen: Python has one object for each small number, so that two names may share a value.
            if is_code and name and not name.startswith(".") and not has_code:
                found.setdefault(name, show_value(name, child.subject) or shorten(child.digest or child.own))
                name = ""
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((name, child))
    return tuple(found.items())


_UNCOUNTED: Final = ("api_key_env", COST, MAX_RETRY_WAIT)
_NAMES: Final = ("model", "model_name", "model_id", "deployment_name")


def add_model(parts: Parts, llm: Any, openai_url: str | None) -> None:
    """Add the parts of a model."""
    found = _read_spec(llm, openai_url) if isinstance(llm, str | Mapping) else _read_object(parts, llm)
    for name, value in found.items():
        parts.add_value("model" if name == "model" else f"model {name}", value, f"the {name} of the model")


def _read_spec(llm: str | Mapping[str, Any], openai_url: str | None) -> dict[str, Any]:
    """The model of a spec and its parameters, independent of how the spec is written."""
    given = {"model": llm} if isinstance(llm, str) else {name: each for name, each in llm.items() if each is not None}
    found = {name: each for name, each in given.items() if name not in _UNCOUNTED}
    kind, colon, rest = str(found.pop("model")).strip().partition(":")
    if "base_url" in found or not (colon or kind in ("local", "scripted")):  # a name alone is one of OpenAI's
        kind, colon, rest = "openai", ":", kind + colon + rest
    elif kind == "openai":
        rest, url = split_model_name(rest)
        found |= {} if url is None else {"base_url": url}
    if kind == "openai":
        found["base_url"] = mask(str(found.get("base_url") or openai_url or "").strip().rstrip("/"))
    if found.get("schema_mode") == "auto":
        del found["schema_mode"]
    return {"model": f"{kind}{colon}{rest.strip()}", **found}


def _read_object(parts: Parts, llm: Any) -> dict[str, Any]:
    """The class of a model object and what was set of it, with what `bind` adds to each request."""
    bound: dict[str, Any] = {}
    while not is_chat_model(llm) and hasattr(type(llm), "model_fields") and "bound" in type(llm).model_fields:
        bound = {**llm.kwargs, **bound}
        llm = llm.bound
    if not is_chat_model(llm) or not hasattr(type(llm), "model_fields"):
        return {"model": llm, **bound}
    fields = list_model_fields(llm) | bound
    names = [str(fields.pop(name)) for name in _NAMES if name in fields]
    cls = type(llm)
    if not is_installed(cls.__module__):
        parts.add_value("model class", cls, f"the class {cls.__name__} of the model")
    return {"model": " ".join((cls.__qualname__, *names)), **fields}


_TEXTS: Final = ("role", "goal", "background", "response_format")


def add_agent(parts: Parts, agent: Agent, llm: Any, openai_url: str | None, tools: Sequence[object] = ()) -> None:
    """Add the parts of an agent."""
    for name in _TEXTS:
        if text := getattr(agent, name):
            parts.add_value(f"agent {name.replace('_', ' ')}", text)
    if agent.system_prompt is not None:
        parts.add_value("agent system prompt", agent.system_prompt)
    parts.add_value("agent max_iterations", agent.max_iterations)
    parts.add_value("agent allow_delegation", agent.allow_delegation)
    add_model(parts, llm, openai_url)
    for tool in (*agent.tools, *tools):
        names = ", ".join(list_tool_names(tool) or ())
        if isinstance(tool, ToolSource):
            parts.add_text(f"tools {names}", tool.label)
            if not tool.reuse:
                why = f"{tool.label} may answer otherwise by now; mcp_tools(..., reuse=True) says that it does not"
                parts.obstacle = parts.obstacle or why
            continue
        if isinstance(tool, Tool) and not tool.reuse:
            why = f"each call of the tool {names} is reviewed; Tool(..., reuse=True) says that it need not be made anew"
            parts.obstacle = parts.obstacle or why
        parts.add_value(f"tool {names}", get_core_tool(tool), f"the tool {names}", also=names)


def add_team(parts: Parts, team: Iterable[TeamMember], openai_url: str | None) -> None:
    """Add everybody who can be asked to work, one part each."""
    for member in team:
        worker = Parts(parts.graph)
        add_agent(worker, member.agent, member.llm, openai_url)
        parts.add_group(f"worker {member.agent.role}", worker)


_MOST_TOLD: Final = 3
_VALUE_MARK: Final = "="
# What a part is called in a sentence, by what its name begins with; the rest of the name is in the braces.
_OUTPUT: Final = "output "
_VALUE: Final = "value "
_NOUNS: Final = {
    "agent ": "the {} of agent {role}",
    "model ": "{}",
    "tool ": "the tool {}",
    "worker ": "the worker {}",
    "input guardrail ": "input guardrail {}",
    "output guardrail ": "output guardrail {}",
    "delegation policy ": "delegation policy {}",
    "managed task ": "task {}",
    "output type": "the output type",
    _OUTPUT: "the output of {of}",
    _VALUE: "the value of {of}",
    "memory scopes": "the list of memories",
    "memory ": "what was found in the memory {}",
    "missing ": "what is missing of the context",
    "condition ": "condition {}",
    "input ": "the input {}",
    "presence of input ": "whether there is an input {}",
    "previous": "the output before",
    "max_": "max_{}",
}


def explain_difference(old_parts: Mapping[str, str], new_parts: Mapping[str, str]) -> str:
    """Describe what changed: ``the goal of agent Writer changed``; at most three things, then how many more."""
    told = list(_list_differences(old_parts, new_parts))
    if not told:
        return "nothing that counts changed"
    shown, more = told[:_MOST_TOLD], len(told) - _MOST_TOLD
    return "; ".join(shown) + (f"; and {pluralize(more, 'more change')}" if more > 0 else "")


def is_same(old_parts: Mapping[str, str], new_parts: Mapping[str, str]) -> bool:
    """Whether nothing relevant has changed, as far as it can be compared."""
    return next(_list_differences(old_parts, new_parts), None) is None


def _list_differences(old_parts: Mapping[str, str], new_parts: Mapping[str, str]) -> Iterator[str]:
    told: dict[str, str] = {}
    for name in dict.fromkeys((*new_parts, *old_parts)):
        if name not in old_parts or name not in new_parts:
            told[name] = "is gone" if name in old_parts else "is new"
        elif (change := _describe_change(old_parts[name], new_parts[name])) is not None:
            told[name] = change
    told.pop(READS, None)
    for name, each in told.items():
        if _find_text(name) not in told:  # of an output of which the text says it, the value is not told as well
            yield f"{_name_part(name, new_parts if name in new_parts else old_parts)} {each}"


def _find_text(name: str) -> str | None:
    """The part with the text of the output of which this part is the value; None for others."""
    return _OUTPUT + name.removeprefix(_VALUE) if name.startswith(_VALUE) else None


def _name_part(name: str, parts: Mapping[str, str]) -> str:
    _, details = read_lines(parts.get(_find_text(name) or name, ""))
    start = next((each for each in _NOUNS if name.startswith(each)), None)
    if start is None:
        return f"the {name}"
    role = read_lines(parts.get("agent role", ""))[0].removeprefix(_VALUE_MARK).strip("'\"")
    return _NOUNS[start].format(name.removeprefix(start), role=role, of=details.get("of", "a task"))


def _describe_change(old: str, new: str) -> str | None:
    """The text that follows the name of a changed part; None if it has not changed."""
    (before, old_details), (after, new_details) = read_lines(old), read_lines(new)
    if before == after:
        return None
    if values := _show_values(before, after):
        return f"changed{values}"
    # What changed inside it: what its code reaches by name, the code; last what is new or gone, often a follower.
    inside = [
        f"{name}{_show_values(old_details[name], new_details[name])}"
        for name in sorted(new_details, key=lambda each: each == ITS_CODE)
        if name in old_details and old_details[name] != new_details[name] and name != "of"
    ]
    inside += [f"{name} is new" for name in new_details if name not in old_details]
    inside += [f"{name} is gone" for name in old_details if name not in new_details]
    return f"changed: {', '.join(inside[:_MOST_TOLD])}" if inside else "changed"


def _show_values(before: str, after: str) -> str:
    """From which value to which; empty where these are digests."""
    if not (before.startswith(_VALUE_MARK) and after.startswith(_VALUE_MARK)):
        return ""
    return f" {before.removeprefix(_VALUE_MARK)} -> {after.removeprefix(_VALUE_MARK)}"
