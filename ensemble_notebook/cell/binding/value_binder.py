"""Values of a section: looks up the names of the notebook, and makes parts into definitions (C4).

`ensemble_builder` adds the binders of those kinds of values that refer to members of the cell.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any, Final, TypeVar

from ensemble_notebook.cell.binding.name_resolver import (
    ENSEMBLES,
    EXPORTERS,
    FUNCTIONS,
    LIMITS,
    OBJECTS,
    PROMPTS,
    STORES,
    TOOLS,
    NameResolver,
    ObjectKind,
    Unimported,
)
from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, quote, to_cell_words
from ensemble_notebook.cell.reading.sections import Section
from ensemble_notebook.cell.reading.source_text import Place
from ensemble_notebook.cell.reading.yaml_nodes import ScalarNode
from ensemble_notebook.cell.vocabulary import Key, ValueKind
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.delegation import normalize_role
from ensemble_notebook.domain.definitions.limits import COST, Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.memory import is_path
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import RetrieverTool, is_retriever, list_tool_names
from ensemble_notebook.errors import Problem, ValidationError

_STAND_IN: Final = "?"
_SUBSTITUTES: Final[Mapping[type, Mapping[str, Any]]] = {Condition: {"matches": "."}, Budget: {"max_llm_calls": 1}}
"""What stands for the one test or limit that was refused, since there must be one."""

D = TypeVar("D", bound=Definition)


class DefinitionBuilder:
    """Makes definitions, and remembers which section each was made from."""

    def __init__(self, top: Section, report: MistakeReport) -> None:
        self._top, self._report = top, report
        self._made: dict[int, tuple[Any, Section]] = {}
        self._places: dict[tuple[int, str], Mapping[int | str, Place]] = {}

    def make(self, cls: type[D], section: Section, fields: dict[str, Any]) -> D:
        """Make the definition; report every field that it refuses, and replace the field until it is made.

        Raises:
            MisreadError: it can't be made even so; everything has been reported.
        """
        kind: Any = cls
        for name in _find_required_fields(kind):
            if name not in fields:
                fields[name] = _make_placeholder(cls, name)
        replaced: set[str | None] = set()
        while True:
            try:
                made = cls(**fields)
            except ValidationError as error:
                for problem in error.problems:
                    self._report_in(section, problem)
                    if problem.field not in fields or problem.field in replaced:
                        raise MisreadError(section.place) from error
                    replaced.add(problem.field)
                    _replace(cls, fields, problem.field)
            else:
                self._made[id(made)] = (made, section)
                return made

    def note_item_places(self, section: Section, name: str, places: Mapping[int | str, Place]) -> None:
        """Remember where the items of a field stand, by their index or key in the definition."""
        self._places[id(section), name] = places

    def report_problem(self, problem: Problem) -> None:
        """Report what a rule between definitions found, where its subject is written."""
        self._report_in(self.find_section(problem.subject) or self._top, problem)

    def find_section(self, made: object) -> Section | None:
        """Find the section that a definition was made from; None if it was not written in the cell."""
        return self._made.get(id(made), (None, None))[1]

    def _report_in(self, section: Section, problem: Problem) -> None:
        key = section.schema.keys.get(problem.field or "")
        hint = f"{key.name}: {key.meaning}." if key is not None else ""
        item, places = problem.item, self._places.get((id(section), problem.field or ""), {})
        place = places[item] if item is not None and item in places else section.find_place(problem.field, item)
        self._report.add_mistake(place, to_cell_words(problem.message), hint)


def _replace(cls: type, fields: dict[str, Any], name: str) -> None:
    """Take a field away that was refused, and put in its place what its definition can't do without."""
    del fields[name]
    if name in _find_required_fields(cls):
        fields[name] = _make_placeholder(cls, name)
    if name != "field":  # the path of a condition, beside which its test stays
        fields |= _SUBSTITUTES.get(cls, {})
    if cls is Phase:
        complete_rounds(fields, name)


def complete_rounds(fields: dict[str, Any], lacking: str) -> None:
    """Let the fields of a phase do without one that was refused, so that its absence is no second mistake."""
    if lacking == "until":
        for name in ("max_rounds", "on_exhausted"):
            fields.pop(name, None)
    elif lacking == "max_rounds" and fields.get("until"):
        fields["max_rounds"] = 1


def make_placeholder_task() -> Task:
    """Make a task that stands for one that could not be read."""
    return Task(description=_STAND_IN, expected_output=_STAND_IN)


@functools.cache
def _find_required_fields(cls: type[Any]) -> list[str]:
    return [each.name for each in fields_of(cls) if each.default is MISSING and each.default_factory is MISSING]


def _make_placeholder(cls: type, name: str) -> Any:
    if name == "tasks":
        return (make_placeholder_task(),)
    if cls is PhaseReview:
        return make_placeholder_task()
    return {CostConfiguration: 0, RateLimit: 1}.get(cls, _STAND_IN)


Binder = Callable[[Section, Key, Any], Any]


class ValueBinder:
    """Binds the values of sections.

    Attributes:
        binders: how each kind of value is bound, from its section, its key and itself; None leaves it out. Kinds
            without one are taken as they are.
    """

    def __init__(self, resolver: NameResolver, definition_builder: DefinitionBuilder, report: MistakeReport) -> None:
        self._resolver, self._definition_builder, self._report = resolver, definition_builder, report
        self.binders: Mapping[ValueKind, Binder | None] = {
            ValueKind.MODEL: self._bind_model,
            ValueKind.OBJECT: lambda _, key, value: resolver.find(value, FUNCTIONS, key.word.label),
            ValueKind.PROMPT: lambda _, __, value: resolver.find(value, PROMPTS),
            ValueKind.DEPS: lambda _, __, value: resolver.find(value, OBJECTS),
            ValueKind.ENSEMBLE: self._bind_ensemble,
            ValueKind.OBJECTS: self._bind_functions,
            ValueKind.TOOLS: self._bind_tools,
            ValueKind.FUNCTIONS: self._bind_functions,
            ValueKind.OUTPUT_TYPE: lambda _, __, value: (
                resolver.find_output_type(value) if isinstance(value, ScalarNode) else value
            ),
            ValueKind.COST: self.make_part,
            ValueKind.PROMPT_TEXTS: self.make_part,
            ValueKind.RATE: self._bind_limit,
            ValueKind.BUDGET: self._bind_limit,
            ValueKind.REVIEW: self.make_parts,
            ValueKind.CONSTRAINTS: self.make_part,
            ValueKind.MEMORIES: lambda section, key, value: self.make_each(
                section, key, value, lambda node: node.text.strip()
            ),
            ValueKind.STORE: self._bind_store,
            ValueKind.EXPORTER: lambda _, __, value: (
                resolver.make_exporter(value) if is_path(value.text, (".json",)) else resolver.find(value, EXPORTERS)
            ),
        }

    def bind_fields(self, section: Section) -> dict[str, Any]:
        """Make the values of a section ready for its definition; report what can't be bound, and leave it out."""
        found = {}
        for name, value in section.values.items():
            key = section.schema.keys.get(name)
            binder = None if key is None else self.binders.get(key.kind)
            if key is None or (binder is None and key.kind in self.binders):
                continue
            try:
                found[name] = value if binder is None else binder(section, key, value)
            except MisreadError as misread:
                self._report.add_misread(misread)
        return found

    def make_part(self, _: Section, key: Key, value: Section) -> Definition:
        """Make a part of a section into its definition."""
        cls = value.schema.definition
        assert cls is not None, key.name
        return self._definition_builder.make(cls, value, self.bind_fields(value))

    def make_parts(self, section: Section, key: Key, value: Iterable[Section]) -> tuple[Definition, ...]:
        """Make parts into their definitions, and leave out those that can't be made."""
        return self.make_each(section, key, value, lambda part: self.make_part(section, key, part))

    def make_each(
        self, section: Section, key: Key, values: Iterable[Any], make: Callable[[Any], Any]
    ) -> tuple[Any, ...]:
        """Make something of every item, report and leave out mistakes, and remember the places of the others."""
        found, places = [], []
        for value in values:
            try:
                found.append(make(value))
                places.append(value.place)
            except MisreadError as misread:
                self._report.add_misread(misread)
        self._definition_builder.note_item_places(section, key.name, dict(enumerate(places)))
        return tuple(found)

    def _bind_model(self, _: Section, __: Key, value: Any) -> Any:
        if isinstance(value, ScalarNode):
            return self._resolver.find_model(value)
        if not isinstance(value, Section):
            return value
        cost: Any = value.values.get(COST)
        rates: Any = None if cost is None else self.make_part(value, value.schema.keys[COST], cost)
        return self._resolver.check_model(value, rates)

    def _bind_ensemble(self, _: Section, __: Key, value: ScalarNode) -> Any:
        """Find an ensemble, with a placeholder for one that is missing: what its task gives it has no fault by that."""
        try:
            found = self._resolver.find(value, ENSEMBLES)
            if not is_ensemble(found):
                message = f"{quote(value.text)} is no ensemble, but of type {type(found).__name__}."
                hint = f"{ENSEMBLES.alternative} That of an output is `{value.text}.ensemble`."
                raise MisreadError(value.place, message, hint)
        except MisreadError as misread:
            self._report.add_misread(misread)
            return ENSEMBLES.make_placeholder(value.text)
        return found

    def _bind_functions(self, section: Section, key: Key, value: Iterable[ScalarNode]) -> tuple[Any, ...]:
        """Find functions, with a placeholder for one that is missing, so that the others are checked, too."""
        return self.make_each(section, key, value, lambda node: self._bind_function(node, FUNCTIONS, key.word.label))

    def _bind_function(self, node: ScalarNode, kind: ObjectKind, label: str) -> Any:
        try:
            return self._resolver.find(node, kind, label)
        except MisreadError as misread:
            self._report.add_misread(misread)
            return Unimported(node.text)

    def _bind_tools(self, section: Section, key: Key, value: Iterable[ScalarNode]) -> tuple[Any, ...]:
        """Find tools; a variable may hold a list of them, and a retriever is called as its variable."""
        found = [(tool, node) for node in value for tool in self._find_tools(node, key.word.label)]
        places = enumerate(node.place for _, node in found)
        self._definition_builder.note_item_places(section, key.name, dict(places))
        return tuple(tool for tool, _ in found)

    def _find_tools(self, node: ScalarNode, label: str) -> list[Any]:
        found = self._bind_function(node, TOOLS, label)
        name = node.text.rpartition(".")[2]
        if not isinstance(found, list | tuple):
            return [RetrieverTool(name=name, retriever=found) if is_retriever(found) else found]
        if not found:
            self._report.add_notice(node.place, f"the list {node.text!r} holds no tools.", is_warning=True)
        tools = []
        for number, each in enumerate(found, start=1):
            tool = RetrieverTool(name=f"{name}_{number}", retriever=each) if is_retriever(each) else each
            if list_tool_names(tool) is None:
                message = f"item {number} of the list {node.text!r} is no tool, but of type {type(each).__name__}."
                hint = "A list of tools holds functions, LangChain tools, retrievers, and objects with @tool methods."
                self._report.add_mistake(node.place, message, hint)
            else:
                tools.append(tool)
        return tools

    def _bind_limit(self, section: Section, key: Key, value: Section | ScalarNode) -> Any:
        """Make a limit for this section alone, or find one of the notebook, which all who name it share."""
        if isinstance(value, Section):
            return self.make_part(section, key, value)
        found = self._resolver.find(value, LIMITS[key.kind])
        return None if isinstance(found, Unimported) else found

    def _bind_store(self, _: Section, __: Key, value: bool | ScalarNode) -> Any:
        if isinstance(value, bool):
            return self._resolver.make_store(None) if value else None
        if is_path(value.text):
            return self._resolver.make_store(value)
        return self._resolver.find(value, STORES)


# Whether there is such a role, and whether the constraints can be met, is the definitions' to say.


class RoleBinder:
    """Binds the kinds of values that name agents as workers.

    Args:
        find_role: gives the role that a name in the cell means.
        builder: is told the places.
        report: gets the mistakes.
    """

    def __init__(
        self, find_role: Callable[[ScalarNode], str], definition_builder: DefinitionBuilder, report: MistakeReport
    ) -> None:
        self._find_role, self._definition_builder, self._report = find_role, definition_builder, report

    def bind_roles(self, section: Section, key: Key, value: list[ScalarNode]) -> tuple[str, ...]:
        """Bind a list of names as a list of roles."""
        found = list(self._drop_repeated(key.name, value))
        self._definition_builder.note_item_places(
            section, key.name, {item: node.place for item, (_, node) in enumerate(found)}
        )
        return tuple(role for role, _ in found)

    def bind_caps(self, section: Section, key: Key, value: list[tuple[ScalarNode, Any]]) -> dict[str, Any]:
        """Bind a mapping of names to numbers as one of roles to numbers."""
        numbers = {id(node): number for node, number in value}
        found = list(self._drop_repeated(key.name, [node for node, _ in value]))
        self._definition_builder.note_item_places(section, key.name, {role: node.place for role, node in found})
        return {role: numbers[id(node)] for role, node in found}

    def bind_stages(self, section: Section, key: Key, value: list[list[ScalarNode]]) -> tuple[tuple[str, ...], ...]:
        """Bind a list of lists of names as stages of roles."""
        found = [list(self._drop_repeated(key.name, stage)) for stage in value]
        self._definition_builder.note_item_places(
            section, key.name, {role: node.place for stage in found for role, node in stage}
        )
        return tuple(tuple(role for role, _ in stage) for stage in found)

    def _drop_repeated(self, name: str, nodes: Iterable[ScalarNode]) -> Iterator[tuple[str, ScalarNode]]:
        """Yield each role with its node; report an agent that is named twice, by its key and by its role."""
        seen: dict[str, ScalarNode] = {}
        for node in nodes:
            role = self._find_role(node)
            first = seen.setdefault(normalize_role(role), node)
            if first is node:
                yield role, node
                continue
            message = f"{quote(node.text)} and {quote(first.text)} in {name!r} are the same agent."
            self._report.add_mistake(node.place, message, "Remove one of them.")
