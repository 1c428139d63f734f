"""Writes an ensemble as Python source that makes an equal one (C32).

It goes by the types of values, so that a new field needs no code here.
"""

from __future__ import annotations

import builtins
import itertools
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from keyword import iskeyword
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.object_names import ObjectNames, split_module
from ensemble_notebook.cell.writing.cell_writer import list_written
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.condition import Condition, write_pattern
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.definitions.tool import BEFORE, Tool
from ensemble_notebook.domain.outputs.secrets import has_secret
from ensemble_notebook.domain.planning.delegation import list_agents
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.execution_plan import list_task_predecessors, sort_topologically
from ensemble_notebook.domain.planning.graph import build_graph, make_role_slug
from ensemble_notebook.errors import Problem, ValidationError

_PACKAGE: Final = "ensemble_notebook"
_MEMBERS: Final = (Agent, Task, Phase)
_PLACED: Final = {RateLimit: ("requests", "period"), Review: ("timing",), PhaseReview: ("by",)}
"""The fields that stand without their names."""
_SCHEMAS: Final = {schema.definition: schema for schema in vocabulary.SCHEMAS if schema.definition is not None}


def write_python(ensemble: EnsembleDefinition, namespace: Mapping[str, Any], name: str) -> str:
    """Write the source that makes an equal ensemble where the variables of `namespace` are.

    Args:
        ensemble: a valid one.
        namespace: the notebook's variables.
        name: of the variable that gets the ensemble.

    Raises:
        ValidationError: it can't run, or holds an object without a name, or a key. Names the place.
    """
    draft = _PythonWriter(ensemble, namespace, name)
    draft.write()  # which tells the modules, so that no variable is called like one of them
    text = _PythonWriter(ensemble, namespace, name, draft.modules).write()
    if has_secret(text):
        message = "This ensemble holds what looks like a key, and keys never stand in code that is shared."
        raise ValidationError(f"{message} Put it into an environment variable.")
    return text


class _PythonWriter:
    """Writes one ensemble."""

    def __init__(
        self, ensemble: EnsembleDefinition, namespace: Mapping[str, Any], name: str, modules: Iterable[str] = ()
    ) -> None:
        check_ensemble(ensemble)
        self._ensemble, self._namespace, self._name = ensemble, namespace, name
        self._graph = build_graph(ensemble)
        self._names = ObjectNames(namespace)
        self._classes: set[str] = {"Ensemble"}
        self.modules: set[str] = set()
        self._variables: dict[int, str] = {}
        self._taken = {
            *(each.partition(".")[0] for each in modules),
            name,
            *dir(builtins),
            *(each for each in dir(sys.modules[_PACKAGE]) if each[:1] != "_"),
        }
        self._statements: list[str] = []
        self._task_names = {id(node.task): node.name for node in self._graph.tasks}
        self._tasks = {node.name: node.task for node in self._graph.tasks}
        tasks = [node.task for node in self._graph.all_tasks]
        agents = [*list_agents(ensemble, self._graph), *(task.fallback for task in tasks)]
        holders = [each for each in (ensemble, *tasks, *dict.fromkeys(agents)) if each is not None]
        self._limits = Counter(id(each.rate_limit) for each in holders)

    def write(self) -> str:
        """The whole source."""
        nodes = self._graph.tasks
        for agent in list_agents(self._ensemble, self._graph):
            self._refer(agent)
        # in the order of the ensemble, where none refers to a later one
        edges = [list_task_predecessors(node) for node in nodes]
        has_order = all(other < index for index, others in enumerate(edges) for other in others)
        for index in range(len(nodes)) if has_order else sort_topologically(edges):
            self._refer(nodes[index].task)
        made = self._write_definition(self._ensemble, "the ensemble")
        self._statements.append(write_statement(self._name, made))
        standard = {each for each in self.modules if each.partition(".")[0] in sys.stdlib_module_names}
        head: list[str] = []
        for group in (standard, self.modules - standard):
            if group:
                head += [*(f"import {each}" for each in sorted(group)), ""]
        classes = sorted(self._classes)
        line = f"from {_PACKAGE} import {', '.join(classes)}"
        long = [f"from {_PACKAGE} import (", *(f"{_INDENT}{each}," for each in classes), ")"]
        head += [line] if len(line) <= WIDTH else long
        return "\n".join([*head, "", *self._statements]) + "\n"

    # members, each in a variable

    def _refer(self, member: Agent | Task | Phase) -> Code:
        """Refer to a member by its variable, which is defined before it is used."""
        if id(member) not in self._variables:
            if isinstance(member, Task):
                label = f"task {self._task_names.get(id(member), member.name)!r}"
            else:
                label = f"agent {member.role!r}" if isinstance(member, Agent) else f"phase {member.name!r}"
            made = self._write_definition(member, label)
            self._define(member, self._list_stems(member), made)
        return Code(self._variables[id(member)])

    def _list_stems(self, member: Definition) -> list[str]:
        """The names that a variable may have, from role or name."""
        kind = type(member).__name__.lower()
        text = member.role if isinstance(member, Agent) else getattr(member, "name", None)
        text = text or self._task_names.get(id(member)) or ("review" if isinstance(member, Task) else kind)
        slug = make_role_slug(text) if isinstance(text, str) else kind
        slug = f"{kind}_{slug}" if not slug.isidentifier() or iskeyword(slug) else slug
        long = slug if slug.endswith(kind) else f"{slug}_{kind}"
        return [slug, long]

    def _define(self, value: Definition, stems: Sequence[str], made: Call) -> None:
        """Bind a variable, by a name that nothing else has, but for what an earlier run of such source has left."""
        numbered = (f"{stems[0]}_{number}" for number in itertools.count(2))
        free = (each for each in itertools.chain(stems, numbered) if each not in self._taken)
        found = next(each for each in free if type(self._namespace.get(each, value)) is type(value))
        self._taken.add(found)
        self._variables[id(value)] = found
        self._statements.append(write_statement(found, made))

    # definitions

    def _write_definition(self, definition: Definition, label: str) -> Call:
        """Write the call that makes a definition, with what differs from the defaults."""
        kind = next(each for each in _SCHEMAS if isinstance(definition, each))
        word = "Ensemble" if kind is EnsembleDefinition else kind.__name__
        self._classes.add(word)
        fields = {
            key.name: self._write(getattr(definition, key.name), definition, key.name, label)
            for key, _ in list_written(definition, _SCHEMAS[kind])
        }
        if isinstance(definition, Phase):
            fields = {"name": definition.name, **fields}
        if isinstance(definition, Agent):
            fields = {"role": definition.role, "goal": definition.goal, **fields}
        if isinstance(definition, Task):
            if definition.expected_output == STOCK_EXPECTED_OUTPUT and "description" in fields:
                description = fields.pop("description")
                return Call("Task.of", (description,), fields)
            return Call("Task", (), fields)
        if isinstance(definition, Tool):
            return Call(word, (fields.pop("tool"),), fields)
        if isinstance(definition, Condition):
            return Call(word, (self._refer(self._find_task(definition.source)),), fields)
        if isinstance(definition, RateLimit):
            fields = {name: int(each) if each == int(each) else each for name, each in fields.items()}
        if isinstance(definition, Budget) and definition.is_shared:
            message = f"The budget of {label} is shared with other runs. Bind it to a variable of this notebook."
            raise ValidationError(Problem(message, definition, "is_shared"))
        placed = tuple(fields.pop(name) for name in _PLACED.get(kind, ()) if name in fields)
        return Call(word, placed, fields)

    def _find_task(self, reference: Any) -> Task:
        return reference if isinstance(reference, Task) else self._tasks[reference]

    # values

    def _write(self, value: Any, owner: Definition, field: str, label: str) -> Any:
        if field == "context":
            return [self._refer(self._find_task(each)) for each in value]
        if field == "after":
            phases = {phase.name: phase for phase in self._ensemble.phases}
            return [self._refer(phases[each] if isinstance(each, str) else each) for each in value]
        if field == "for_each":
            return self._write_item_source(value, owner, label)
        if isinstance(value, _MEMBERS):
            return self._refer(value)
        if isinstance(value, RateLimit | Budget):
            return self._write_limit(value, f"{field} of {label}")
        if isinstance(value, Definition) and field != "ensemble":
            return self._write_definition(value, label)
        if isinstance(value, str | int | float | type(None) | Decimal | Enum | re.Pattern):
            return _write_scalar(value)
        if field == "tools":
            return [
                Code(f"*{name}") if name is not None else self._write_tool(tool, owner, label)
                for tool, name in self._names.list_tools(value)
            ]
        if type(value) in (list, tuple) or (isinstance(value, Mapping) and self._names.look_up(value) is None):
            return self._write_items(value, owner, field, label)
        return self._write_object(value, owner, field, label)

    def _write_tool(self, tool: Any, owner: Definition, label: str) -> Any:
        """Write a tool by its name; one that is reviewed by the call that makes it, where no variable holds it so."""
        if isinstance(tool, Tool) and tool.review == BEFORE and self._names.look_up(tool) is None:
            return self._write_definition(tool, f"tools of {label}")
        return self._write_object(tool, owner, "tools", label)

    def _write_items(self, value: Any, owner: Definition, field: str, label: str) -> Any:
        if isinstance(value, Mapping):
            return {name: self._write(each, owner, "", f"{field} of {label}") for name, each in value.items()}
        return [self._write(each, owner, field, label) for each in value]

    def _write_item_source(self, value: Any, owner: Definition, label: str) -> Any:
        """Write whose items a task runs for: a task, an input, a variable, or the items themselves."""
        if isinstance(value, Task) or (isinstance(value, str) and value in self._tasks):
            return self._refer(self._find_task(value))
        if isinstance(value, str):
            return value
        name = self._names.find_items(value)
        return self._write_items(list(value), owner, "", f"for_each of {label}") if name is None else Code(name)

    def _write_object(self, value: Any, owner: Definition, field: str, label: str) -> Any:
        """Write the name of an object; one of our own stores and exporters without a name is made anew."""
        from ensemble_notebook.memory.full_text_store import InMemoryStore, Retention, SqliteMemory
        from ensemble_notebook.trace.exporters import JsonTraceExporter

        if self._names.look_up(value) is None:
            is_plain = getattr(value, "retention", None) == Retention()
            if type(value) is JsonTraceExporter or (type(value) is SqliteMemory and is_plain):
                return self._make(type(value), str(value.path))
            if type(value) is InMemoryStore and is_plain:
                return self._make(InMemoryStore)
        name = self._names.find(value, f"{field} of {label}".removeprefix(" of "), owner, field or None)
        first = name.partition(".")[0]
        if first != name and first not in self._namespace and (module := split_module(name)) is not None:
            self.modules.add(module)
        elif name == "human_input" and name not in self._namespace:
            self._classes.add(name)
        return Code(name)

    def _make(self, kind: type, *arguments: Any) -> Call:
        self._classes.add(kind.__name__)
        return Call(kind.__name__, arguments)

    # limits: what several hold is one object

    def _write_limit(self, limit: RateLimit | Budget, label: str) -> Any:
        if (name := self._names.look_up(limit)) is not None:
            return Code(name)
        made = self._write_definition(limit, label)
        if self._limits[id(limit)] < 2:
            return made
        if id(limit) not in self._variables:
            self._define(limit, ["rate_limit" if isinstance(limit, RateLimit) else "budget"], made)
        return Code(self._variables[id(limit)])


def _write_scalar(value: Any) -> Any:
    """Write what is a text, a number, a flag or None to Python, as our constructors take it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return f"{value:f}"
    return write_pattern(value) if isinstance(value, re.Pattern) else value


# --- Lays out Python expressions as formatters do ---------------------------------------------------------------------
#
# Knows nothing of ensembles.


WIDTH: Final = 88
"""Columns of a line, as formatters have it by default."""

_INDENT: Final = "    "
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Code:
    """An expression that is written as it is: a name, as a rule."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call.

    Attributes:
        function: as it is written.
        arguments: those without a name, in order.
        keywords: those with one.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] | None = None


def write_statement(name: str, value: Any) -> str:
    """Write ``name = value``.

    Args:
        name: of the variable.
        value: `Code`, `Call`, or data: texts, numbers, flags, None, lists and mappings, of such values.
    """
    return "\n".join(_lay_out(f"{name} = ", value, "", ""))


def _lay_out(start: str, value: Any, end: str, indent: str) -> Iterator[str]:
    """Write a value between what stands before and behind it on its first and its last line."""
    flat = f"{indent}{start}{_write_flat(value)}{end}"
    parts = _split(value)
    if parts is None or len(flat) <= WIDTH:
        yield flat
        return
    opening, items, closing, comma = parts
    yield f"{indent}{start}{opening}"
    for before, item in items:
        if comma:
            yield from _lay_out(before, item, ",", f"{indent}{_INDENT}")
        else:
            yield f"{indent}{_INDENT}{_write_text(item)}"
    yield f"{indent}{closing}{end}"


def _split(value: Any) -> tuple[str, list[tuple[str, Any]], str, bool] | None:
    """Split a value into parts that may stand on lines of their own; None where it has none."""
    if isinstance(value, Call):
        keywords = [(f"{name}=", each) for name, each in (value.keywords or {}).items()]
        items = [("", each) for each in value.arguments] + keywords
        return (f"{value.function}(", items, ")", True) if items else None
    if isinstance(value, Mapping):
        pairs = [(f"{_write_flat(key)}: ", each) for key, each in value.items()]
        return ("{", pairs, "}", True) if pairs else None
    if isinstance(value, list | tuple):
        return ("[", [("", each) for each in value], "]", True) if value else None
    if isinstance(value, str):
        pieces = []
        for line in value.splitlines(keepends=True):
            body = line.rstrip("\n")
            wrapped = [""]
            for word in textwrap.TextWrapper(break_long_words=False, break_on_hyphens=False)._split(body):
                if wrapped[-1] and len(wrapped[-1]) + len(word) > WIDTH - 3 * len(_INDENT):
                    wrapped.append("")
                wrapped[-1] += word
            wrapped[-1] += line[len(body) :]
            pieces += wrapped
        return ("(", [("", piece) for piece in pieces], ")", False) if len(pieces) > 1 else None
    return None


def _write_flat(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, float) and repr(value).lstrip("-") in ("inf", "nan"):
        return f'float("{value!r}")'
    parts = _split(value)
    if parts is None:
        if isinstance(value, Call):
            return f"{value.function}()"
        is_empty = isinstance(value, Mapping | list | tuple)
        return ("{}" if isinstance(value, Mapping) else "[]") if is_empty else repr(value).replace("e+", "e")
    opening, items, closing, _ = parts
    return f"{opening}{', '.join(f'{before}{_write_flat(item)}' for before, item in items)}{closing}"


def _write_text(text: str) -> str:
    """Write a text in double quotes, or in single ones where that escapes less."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return f"{mark}{''.join(_escape(each, mark) for each in text)}{mark}"


def _escape(character: str, mark: str) -> str:
    if character == mark:
        return f"\\{mark}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else repr(character)[1:-1]
