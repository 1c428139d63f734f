"""Names of a cell as objects of the notebook (C4).

A plain name is looked up in the namespace that the caller gives, a dotted one is imported; when reading, nothing is
imported, and an `Unimported` stands for it. Knows no keys.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.cell.reading.mistakes import MisreadError, join_names, quote, suggest_name
from ensemble_notebook.cell.reading.sections import Section
from ensemble_notebook.cell.reading.yaml_nodes import ScalarNode
from ensemble_notebook.cell.vocabulary import GUARDRAIL, OTEL, ValueKind
from ensemble_notebook.domain.definitions.agent import find_llm_fault, get_core_llm
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.item_list import Items
from ensemble_notebook.domain.definitions.limits import COST, Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.output_type import find_output_type_fault
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import Tool, ToolSource, human_input, is_langchain_tool, is_retriever
from ensemble_notebook.domain.outputs.secrets import has_secret
from ensemble_notebook.errors import MissingPackageError, ValidationError
from ensemble_notebook.models.model_kinds import (
    FIELDS,
    guess_spec,
    list_bare_words,
    list_forms,
    list_short_forms,
    parse_spec,
)
from ensemble_notebook.models.model_spec import make_spec_error

_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_MOST_ITEMS: Final = 20
_OF_IPYTHON: Final = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open", "display"})


class Unimported:
    """Stands for a function that is looked up when the cell is run."""

    def __init__(self, name: str) -> None:
        self.__name__ = re.sub(r"[^A-Za-z0-9_]", "_", name)
        self._name = name

    def __call__(self, *_: Any) -> Any:
        """Nothing calls it: a cell is built before it is run."""
        raise TypeError(f"{self._name} has not been imported yet: build the cell first.")

    def __repr__(self) -> str:
        return f"<{self._name}, not imported>"


class UnimportedObject(Unimported):
    """Stands for an object with methods."""

    store = retrieve = export = system = user = Unimported.__call__


def _make_unimported_ensemble(name: str) -> EnsembleDefinition:
    """Stands for an ensemble; nobody knows which inputs it wants. A name that is blank is a mistake elsewhere."""
    name = name.strip() or "?"
    return EnsembleDefinition(tasks=(Task.of(name, handler=Unimported(name)),), name=name)


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of objects that a cell may name.

    Attributes:
        label: one of them in messages, with its article, where the key does not say it.
        plural: how messages call them.
        fits: True for one of them, told by its class alone: no property of the user's object is run.
        make_placeholder: makes what stands for one that is not imported.
        alternative: how the same is written without a name, as a sentence.
        words: of the language, which may stand where a name does.
    """

    label: str
    plural: str
    fits: Callable[[Any], bool]
    make_placeholder: Callable[[str], Any]
    alternative: str = ""
    words: tuple[str, ...] = ()


def is_value(found: Any) -> bool:
    """True for a value, no function, class or module."""
    return not (inspect.isroutine(found) or inspect.isclass(found) or inspect.ismodule(found))


def list_fitting(names: Mapping[str, Any], fits: Callable[[Any], bool]) -> Iterator[str]:
    """List the variables of a notebook that hold what fits, but for those of IPython."""
    for name, found in list(names.items()):
        if not name.startswith("_") and name not in _OF_IPYTHON and fits(found):
            yield name


class NameResolver:
    """Looks up names of the notebook.

    Args:
        namespace: the notebook's variables; None where they are not known: then names are taken on trust.
        imports: True when a cell is built to be run; then everything must be there.

    Attributes:
        was_asked: whether anything was looked up, imported or opened, which may come to something else another time.
    """

    def __init__(self, namespace: Mapping[str, Any] | None, *, imports: bool = False) -> None:
        self._namespace: Mapping[str, Any] = {} if namespace is None else namespace
        self._is_trusting = namespace is None and not imports
        self._imports = imports
        self.was_asked = False

    def find(self, node: ScalarNode, kind: ObjectKind, label: str = "") -> Any:
        """Find an object of the notebook, or import a dotted name; its definition checks whether it fits.

        Args:
            node: the name.
            kind: what is looked for.
            label: how messages call one of the sort here, with its article; empty for the sort's own label.

        Raises:
            MisreadError: there is no such name, or it can't be imported.
        """
        self.was_asked = True
        name, what = node.text, label or kind.label
        first, _, method = name.partition(".")
        if first == "self" and method and first not in self._namespace:
            message = f"{quote(name)} is a method of a class of another tool, and a cell names what the notebook has."
            hint = f"Define {what} of the name {method!r} in a cell above, and write `{method}` here."
            if what == GUARDRAIL:  # which crewAI's decorated classes have as methods
                hint = (
                    f"Define `def {method}(output): ...` in a cell above, which gives True to let the output pass and "
                    f"a text to object, and write `{method}` here."
                )
            raise MisreadError(node.place, message, hint)
        if _DOTTED.fullmatch(name):
            return self._import_name(node) if self._imports else kind.make_placeholder(name)
        if not name.isidentifier():
            hint = "Write the name alone: no quotes inside, no brackets, no arguments."
            raise MisreadError(node.place, f"{quote(name)} can't be the name of {what}.", hint)
        if name in self._namespace:
            return self._namespace[name]
        if name == human_input.__name__:  # the one tool that is there without an import
            return human_input
        if self._is_trusting:
            return kind.make_placeholder(name)
        names = list(list_fitting(self._namespace, kind.fits))
        message = f"there is no {quote(node.text)} in this notebook.{suggest_name(node.text, [*names, *kind.words])}"
        there = (
            f"{kind.plural} here: {join_names(names)}." if names else f"This notebook has no {kind.plural.lower()} yet."
        )
        hint = f"Define or import {what} of this name in a cell above. {there} {kind.alternative}".rstrip()
        raise MisreadError(node.place, message, hint)

    def has(self, name: str) -> bool:
        """Whether the notebook has a value of this name, no function, class or module."""
        return name in self._namespace and is_value(self._namespace[name])

    def find_items(self, node: ScalarNode, tasks: Iterable[str]) -> Any:
        """Find the list or table of the notebook for whose items a task runs.

        Args:
            node: the name.
            tasks: of the cell, any of which may have been meant.

        Raises:
            MisreadError: there is none of this name, or it is something else.
        """
        name = node.text
        if name.isidentifier() and name not in self._namespace and not self._is_trusting:
            lists, tasks = list(list_fitting(self._namespace, is_listed)), list(tasks)
            message = f"{quote(name)} is no task of this cell, and no list or DataFrame of this notebook."
            here = f"Tasks here: {join_names(tasks)}." if tasks else "Tasks are called by their keys."
            here += f" Lists here: {join_names(lists)}." if lists else ""
            hint = f'{here} As an input of the run it is written "{{{name}}}".'
            raise MisreadError(node.place, message + suggest_name(name, [*tasks, *lists]), hint)
        found = self.find(node, OBJECT_KINDS[ValueKind.ITEM_SOURCE])
        if is_listed(found):
            return found
        hint = f'Make a list of it in a cell above. As an input of the run it is written "{{{node.text}}}".'
        message = f"{quote(node.text)} is no list of items but {_describe_object(found)}."
        raise MisreadError(node.place, message, hint)

    def make_store(self, path: ScalarNode | None) -> Any:
        """Make a store for this ensemble alone, or one in a file, which is opened when the cell is built.

        Raises:
            MisreadError: the file can't be used.
        """
        self.was_asked = True
        if not self._imports:
            return UnimportedObject("memory" if path is None else path.text)
        from ensemble_notebook.memory.full_text_store import InMemoryStore, SqliteMemory

        return InMemoryStore() if path is None else _open_path(SqliteMemory, path)

    def make_exporter(self, path: ScalarNode) -> Any:
        """Make what writes traces to a path, or sends them to ``otel``; nothing is touched before the cell is built.

        Raises:
            MisreadError: the path can't be used, or a package is missing.
        """
        self.was_asked = True
        if not self._imports:
            return UnimportedObject(path.text)
        if path.text == OTEL:
            from ensemble_notebook.interop.otel_exporter import OtelExporter

            try:
                return OtelExporter()
            except MissingPackageError as error:
                raise MisreadError(path.place, str(error)) from error
        from ensemble_notebook.trace.exporters import JsonTraceExporter

        return _open_path(JsonTraceExporter, path)

    def find_model(self, node: ScalarNode) -> Any:
        """Find a chat model of the notebook, or check the text of a spec (docs/contract/engine.md#models).

        Raises:
            MisreadError: it is neither.
        """
        name = node.text.strip()
        if has_secret(name):
            raise MisreadError(node.place)
        if ":" in name or name.strip() in list_bare_words():
            try:
                parse_spec(name)
            except ValidationError as error:
                hint = f"Models are {list_forms()}, or variables that hold a chat model."
                raise MisreadError(node.place, error.problems[0].message, hint) from None
            return name
        self.was_asked = True
        if name in self._namespace:
            found = self._namespace[name]
            if is_model(found) or (isinstance(found, Mapping) and find_llm_fault(found) is None):
                return found
            message = f"the variable {name!r} holds no chat model but {_describe_object(found)}."
            raise MisreadError(node.place, message, self._suggest_models(name))
        if _DOTTED.fullmatch(name):
            return self._import_name(node) if self._imports else name
        if self._is_trusting and name.isidentifier():
            return name
        known = [*list_fitting(self._namespace, is_model), *list_bare_words()]
        message = f"there is no model {quote(name)}.{suggest_name(name, known)}"
        raise MisreadError(node.place, message, self._suggest_models(name))

    def check_model(self, section: Section, cost: CostConfiguration | None) -> Mapping[str, Any]:
        """Check the mapping of a model (docs/contract/engine.md#models).

        Args:
            section: of the mapping.
            cost: what stands there as its price.

        Raises:
            MisreadError: it names no model or no address, or has a parameter that can't be meant.
        """
        values = section.values if cost is None else {**section.values, COST: cost}
        if section.key_values.keys() - values.keys() or "model" not in values or has_secret(repr(values)):
            raise MisreadError(section.place)
        name, node = values["model"].strip(), section.key_values["model"].value
        is_object = is_model(self._namespace.get(name)) or _DOTTED.fullmatch(name) is not None
        if "base_url" not in values and is_object and isinstance(node, ScalarNode):
            values = {**values, "model": self.find_model(node)}
        try:
            if (fault := find_llm_fault(values)) is not None:
                raise make_spec_error(f"The model {name!r} {fault}.", "model")
            if get_core_llm(values) is values:
                parse_spec(values)
        except ValidationError as error:
            problem = error.problems[0]
            hint = f"A model has: {', '.join(FIELDS)}."
            raise MisreadError(section.find_place(str(problem.item or "base_url")), problem.message, hint) from None
        return dict(values)

    def _suggest_models(self, name: str) -> str:
        models = list(list_fitting(self._namespace, is_model))
        own = f" Variables with a chat model: {join_names(models)}." if models else ""
        if guess := guess_spec(name):
            return f"{guess}{own}"
        sample = name if len(name) <= 40 else "NAME"
        forms = list_short_forms().replace("NAME", sample)
        return f"Write {forms}, or the name of a variable that holds a chat model.{own}"

    def _import_name(self, node: ScalarNode) -> Any:
        """Follow a dotted name from the notebook or, where its first part is not there, from a module."""
        first, *rest = node.text.split(".")
        path = first
        try:
            found = self._namespace[first] if first in self._namespace else importlib.import_module(first)
            for part in rest:
                path = f"{path}.{part}"
                if not hasattr(found, part) and first not in self._namespace:
                    importlib.import_module(path)
                found = getattr(found, part)
        except (
            Exception
        ) as error:  # C10: whatever a module raises while it is imported, its name in the cell is the place
            reason = f"{type(error).__name__}: {error}"
            hint = "Dotted names are imported when the cell is run: is the module installed and on the path?"
            raise MisreadError(node.place, f"{quote(node.text)} can't be imported ({reason}).", hint) from error
        remember_import(node.text)
        return found


def _open_path(kind: Callable[[str], Any], path: ScalarNode) -> Any:
    try:
        return kind(path.text)
    except ValidationError as error:
        hint = "A path is relative to the working folder of the notebook."
        raise MisreadError(path.place, error.problems[0].message, hint) from error


def is_model(found: Any) -> bool:
    """True for a chat model, told by its class alone: no property of the user's object is run."""
    kind: Any = type(found)
    is_class = isinstance(found, type)
    is_other = is_class or is_langchain_tool(found) or is_retriever(found)
    return not is_other and callable(getattr(kind, "ainvoke", None))


def _is_function(found: Any) -> bool:
    """True for what may be called as a tool, handler, guardrail, policy or listener."""
    if isinstance(found, type) or is_model(found):
        return False
    return callable(found) or any(hasattr(type(found), name) for name in ("execute", "on_event", "evaluate", "ainvoke"))


def _is_tool_source(found: Any) -> bool:
    """True for what may stand in ``tools:``: a tool, a retriever, an object with ``@tool`` methods, a list of them."""
    if isinstance(found, list | tuple):
        return bool(found) and all(map(_is_tool_source, found[:_MOST_ITEMS]))
    has_tools = any(is_langchain_tool(each) for cls in type(found).__mro__ for each in vars(cls).values())
    return has_tools or is_retriever(found) or isinstance(found, ToolSource | Tool) or _is_function(found)


def is_listed(found: Any) -> bool:
    """True for what items may be taken from: lists, arrays and tables, told by their class alone."""
    kind = type(found)
    is_table = hasattr(kind, "to_list") or (hasattr(kind, "columns") and hasattr(kind, "head"))
    return isinstance(found, list | tuple) or is_table or (hasattr(kind, "dtype") and hasattr(kind, "tolist"))


def _is_exporter(found: object) -> bool:
    """Whether it takes traces, or listens as the run goes."""
    return _make_method_test("export")(found) or hasattr(found, "on_event")


def _make_method_test(method: str) -> Callable[[Any], bool]:
    return lambda found: not isinstance(found, type) and callable(getattr(type(found), method, None))


FUNCTIONS: Final = ObjectKind("a function", "Functions", _is_function, Unimported)
ENSEMBLES: Final = ObjectKind(
    "an ensemble",
    "Ensembles",
    is_ensemble,
    _make_unimported_ensemble,
    "A cell with `--define -o NAME` makes one.",
)
OBJECT_KINDS: Final[Mapping[ValueKind, ObjectKind]] = {
    **dict.fromkeys((ValueKind.OBJECT, ValueKind.OBJECTS, ValueKind.FUNCTIONS), FUNCTIONS),
    **dict.fromkeys((ValueKind.REVIEWER, ValueKind.PHASE_REVIEW), FUNCTIONS),
    ValueKind.TOOLS: ObjectKind("a tool", "Tools", _is_tool_source, Unimported),
    ValueKind.ENSEMBLE: ENSEMBLES,
    ValueKind.STORE: ObjectKind(
        "a memory store", "Stores", _make_method_test("retrieve"), UnimportedObject, "A file ends in .db."
    ),
    ValueKind.EXPORTER: ObjectKind(
        "an exporter",
        "Exporters",
        _is_exporter,
        UnimportedObject,
        f"A folder ends in /, a file in .json, and `{OTEL}` sends spans to OpenTelemetry.",
        (OTEL,),
    ),
    ValueKind.PROMPT: ObjectKind(
        "an object with system and user", "Prompt strategies", _make_method_test("system"), UnimportedObject
    ),
    ValueKind.DEPS: ObjectKind("an object", "Objects", is_value, UnimportedObject),
    ValueKind.RATE: ObjectKind(
        "a RateLimit", "Rate limits", lambda found: isinstance(found, RateLimit), Unimported, "Or write e.g. 60/min."
    ),
    ValueKind.BUDGET: ObjectKind(
        "a Budget",
        "Budgets",
        lambda found: isinstance(found, Budget),
        Unimported,
        "Or write e.g. $0.50, 20k tokens or 50 calls.",
    ),
    ValueKind.ITEM_SOURCE: ObjectKind(
        "a list or DataFrame",
        "Lists and tables",
        is_listed,
        lambda _: Items(),
        'An input of the run is written "{name}".',
    ),
    ValueKind.OUTPUT_TYPE: ObjectKind(
        "a class",
        "Classes",
        lambda found: isinstance(found, type) and find_output_type_fault(found) is None,
        lambda name: type(name, (), {"model_validate": Unimported(name)}),
        "Or write e.g. {title: str, score: int}.",
    ),
}
"""What the objects are that a key of this kind names, for its binder and for completion."""


def _describe_object(found: Any) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"a value of type {type(found).__name__}"


_MOST: Final = 1_000
_imported: Final[dict[str, None]] = {}


def remember_import(name: str) -> None:
    """Remember a name that led to an object."""
    _imported.pop(name, None)
    _imported[name] = None
    if len(_imported) > _MOST:
        del _imported[next(iter(_imported))]


def list_imported() -> Iterator[str]:
    """List them, the latest first. What they lead to may have changed since."""
    return iter(list(reversed(_imported)))
