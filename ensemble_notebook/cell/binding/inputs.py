"""Values for the template variables of a cell (C7): the options first, then ``inputs:``, then the notebook.

Knows no definitions: it gets texts with their places, and gives values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ensemble_notebook.cell.binding.name_resolver import is_value, list_fitting
from ensemble_notebook.cell.reading.mistakes import MistakeReport, find_nearest_name, join_names, quote, suggest_name
from ensemble_notebook.cell.reading.options import is_run_id
from ensemble_notebook.cell.reading.sections import KeyValue, Section
from ensemble_notebook.cell.reading.source_text import OPTIONS, Place, SourceText
from ensemble_notebook.cell.reading.yaml_nodes import ScalarNode
from ensemble_notebook.cell.vocabulary import AGENT, TASK, TEXTS
from ensemble_notebook.domain.definitions.nested_ensemble import list_input_texts
from ensemble_notebook.domain.definitions.templates import (
    CONTEXT,
    ITEM,
    find_input_name,
    find_variables,
    hide_places,
    is_variable_name,
)
from ensemble_notebook.domain.definitions.tool import SourcedInput
from ensemble_notebook.domain.value_text import find_text_fault

_FOR_HANDLERS: Final = "Handlers get inputs as they are; for texts, make a text of it in a cell above."
_FOR_EACH: Final = (
    "Add `for_each: ...` to the task: a task of the cell, a list or a DataFrame, and it runs for each item."
)
_INPUT_READERS: Final = frozenset({"handler", "input_guardrails", "manager_prompt"})
_WITH_FIELD: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_.]*)\}(?!\})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A text of the cell that may hold variables, and where it is written.

    `places` are names that stand for something else in it: for the item, where it belongs to a task that runs for each
    of a list, or for what its prompt is filled with. `tasks` are those whose outputs it may have a place
    for. `is_source` where it names the input that has the items, which is never written into a text.
    """

    text: str
    key_value: KeyValue
    places: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    is_source: bool = False

    @property
    def variables(self) -> Iterator[str]:
        """The names of its variables, in order, with repetitions."""
        return find_variables(hide_places(self.text, self.places))


def collect_templates(top: Section) -> list[TemplateText]:
    """Collect every text of a cell that may hold variables: of agents, of tasks and their ensembles, and the texts."""
    sections = list(top.walk())
    agents, tasks, texts = ([each for each in sections if each.schema is one] for one in (AGENT, TASK, TEXTS))
    sources = ((section, section.values.get("for_each")) for section in tasks)
    return [
        *_collect_texts(agents),
        *_collect_texts(tasks),
        *(
            TemplateText(source.text, section.key_values["for_each"], is_source=True)
            for section, source in sources
            if isinstance(source, ScalarNode) and find_input_name(source.text) is not None
        ),
        *(
            TemplateText(text, section.key_values[name])
            for section in tasks
            for name in TASK.filled_keys
            if isinstance(section.values.get(name), Mapping)
            for text in list_input_texts(section.values[name])
        ),
        *_collect_texts(texts),
    ]


def _collect_texts(sections: Sequence[Section]) -> Iterator[TemplateText]:
    named = tuple(each.name for each in sections if each.name is not None)
    for section in sections:
        item = (ITEM,) if "for_each" in section.key_values else ()
        for name in section.schema.template_keys:
            if name in section.key_values and isinstance(text := section.values.get(name), str):
                places = (*section.schema.keys[name].word.places, *item)
                yield TemplateText(text, section.key_values[name], places, named if CONTEXT in places else ())


@dataclass(slots=True, kw_only=True)
class InputFinder:
    """Finds a value for every variable of the texts of a cell.

    Attributes:
        top: the section of the cell.
        options: what its first line gives.
        namespace: the notebook's variables; empty where they are not known.
        report: is told, all together, which have none, and what is wrong.
        columns: variables that are called like one get their values from each row, before all else.
        is_strict: a variable without a value is a mistake.
        is_dry_run: it is told, and a mistake where another name was surely meant.
        continued: the output or prompt whose messages are gone on with; None: none.
        values: found, of what the options and ``inputs:`` give, and of the notebook what the texts use.
        variables: the template variables of the cell, in order of appearance, once each.
        missing: those without a value.
    """

    top: Section
    options: Mapping[str, Any]
    namespace: Mapping[str, Any]
    report: MistakeReport
    columns: Collection[str]
    is_strict: bool
    is_dry_run: bool
    continued: Any = None
    values: dict[str, Any] = field(init=False)
    variables: tuple[str, ...] = field(init=False)
    missing: tuple[str, ...] = field(init=False)

    def find(self) -> Self:
        """Find the values, and the variables that have none."""
        declared: dict[str, Any] = self.top.values.get("inputs", {})
        self.values = {**declared, **self.options}
        for name in [name for name in self.values if not is_variable_name(name)]:
            place = self.top.find_place("inputs", name) if name in declared else OPTIONS
            message = f"the input {quote(name)} can't be a variable."
            self.report.add_mistake(place, message, "Use ASCII letters, digits and _.")
            del self.values[name]
        first: dict[str, TemplateText] = {}
        texts = collect_templates(self.top)
        for template in texts:
            for name in template.variables:
                first.setdefault(name, template)
        self.variables = tuple(first)
        for name in self.variables:
            if name not in {*self.values, *self.columns} and _is_value(self.namespace, name):
                self.values[name] = self.namespace[name]
        self._find_parts(first)
        self._report_fields(texts)
        unreadable = self.top.find_key_places("inputs").keys() - declared.keys()
        written = {name for template in texts if not template.is_source for name in template.variables}
        for name in [name for name in self.variables if name in written]:
            if (fault := find_text_fault(self.values.get(name))) is not None:
                place = find_variable_place(first[name], name, self.report.source)
                self.report.add_mistake(place, f"the value of {{{name}}} can't be written: {fault}", _FOR_HANDLERS)
                self.values[name] = None
        known = {*self.values, *unreadable, *self.columns}
        self.missing = tuple(name for name in self.variables if name not in known)
        self._report_unused()
        if (self.is_strict or self.is_dry_run) and ("inputs" in self.top.values or "inputs" not in self.top.key_values):
            for name in self.missing:
                self._report_missing(name, first[name])
        return self

    def _find_parts(self, first: Mapping[str, TemplateText]) -> None:
        """Find what fills the inputs that are read when the run starts, as the variables of texts are found.

        Args:
            first: by name of each variable, the first text that has it.
        """
        for source_name, source in [*self.values.items()]:
            if not isinstance(source, SourcedInput):
                continue
            for name in source.variables or ():
                if name not in {*self.values, *self.columns} and _is_value(self.namespace, name):
                    self.values[name] = self.namespace[name]
            known = {*self.values, *self.columns}
            for name in source.list_lacking(known) if self.is_strict or self.is_dry_run else ():
                place = self.top.place
                if source_name in first:
                    place = find_variable_place(first[source_name], source_name, self.report.source)
                message = f"{{{source_name}}} is {source}, and {name!r} has no value"
                hint = f"Pass `-i {name}=...`, or set {name} in a cell above."
                if self.is_strict:
                    self.report.add_mistake(place, f"{message}.{suggest_name(name, known - {source_name})}", hint)
                else:
                    self.report.add_notice(place, f"{message}, which a run needs.")

    def _report_fields(self, texts: Sequence[TemplateText]) -> None:
        """Report ``{row.text}``: variables have no fields, and it would go to the model as it is written.

        A mistake where there is such a variable; else it may be a piece of code, and is only noticed.
        """
        for template in texts:
            node = template.key_value.value
            for match in _WITH_FIELD.finditer(self.report.source.text, node.start, node.end):
                name, path = match[1], match[2]
                if name in template.places:
                    continue
                place = self.report.source.locate(match.start(), match.end())
                flat = f"{name}_{path.replace('.', '_')}"
                message = f"{match[0]} stays as it is: variables have no fields."
                given = f"`inputs: {{{flat}: ...}}` or -i {flat}=..."
                hint = f"Give the value a name of its own, {given}, and write {{{flat}}}."
                if name == ITEM and name not in self.values:
                    message = f"{match[0]} is a field of an item, and this task has none."
                    self.report.add_mistake(place, message, _FOR_EACH)
                elif name in self.values or _is_value(self.namespace, name):
                    self.report.add_mistake(place, message, hint)
                else:
                    self.report.add_notice(place, f"{message} {hint}", is_warning=True)

    def _report_missing(self, name: str, template: TemplateText) -> None:
        """Report a variable without a value, which is a mistake in a run, or where another name was surely meant."""
        place = find_variable_place(template, name, self.report.source)
        names = self.namespace
        meant = {each: each for each in (*self.columns, *template.places, *self.values) if each not in self.variables}
        meant = {**{each: f"{CONTEXT}.{each}" for each in template.tasks}, **meant}
        near = find_nearest_name(name, meant)
        if near is not None:
            close = f" Did you mean {meant[near]!r}?"
        elif name in names:
            close = f" The notebook's {name!r} is a function, a class or a module."
        else:
            shown = (each for each in names if not each.startswith("_") and is_value(names[each]))
            close = suggest_name(name, [*self.values, *shown])
        if name == ITEM:
            self.report.add_mistake(place, "{item} stands for an item, and this task has none.", _FOR_EACH)
            return
        hint = (
            f"Pass `-i {name}=...`, add it to `inputs:`, or set {name} in a cell above; {{{{{name}}}}} stays as it is."
        )
        if self.columns:
            hint = f"Rows and variants provide: {join_names(self.columns)}. {hint}"
        if near is None and not self.is_strict:
            self.report.add_notice(place, f"{{{name}}} has no value, which a run needs.{close}")
        else:
            self.report.add_mistake(place, f"{{{name}}} has no value.{close}", hint)

    def _report_unused(self) -> None:
        """Report a value that no text uses: it may be for a handler, or is the misspelt one of a variable."""
        # where code gets all inputs, one that no text uses is no sign of anything
        is_read_whole = any(not _INPUT_READERS.isdisjoint(section.key_values) for section in self.top.walk())
        used = set(self.variables)
        for each in (*self.values.values(), self.continued):
            if isinstance(each, SourcedInput):
                used.update(self.values if each.variables is None else each.variables)
        places = self.top.find_key_places("inputs")
        for name in self.values:
            if name in used:
                if name in self.options and name in self.columns:
                    message = f"rows or variants provide {quote(name)}, and come before this input."
                    self.report.add_notice(OPTIONS, message)
                continue
            place = OPTIONS if name in self.options else places.get(name, self.top.place)
            if close := suggest_name(name, self.missing):
                hint = f"The texts use: {join_names(self.variables)}."
                self.report.add_mistake(place, f"no text uses the input {name!r}.{close}", hint)
            elif not is_read_whole:
                self.report.add_notice(place, f"no text uses the input {name!r}.")


def find_variable_place(template: TemplateText, name: str, source: SourceText) -> Place:
    """Find where ``{name}`` stands; the whole value if it is written with escapes."""
    node = template.key_value.value
    pattern = re.compile(r"\{\{\w+\}\}|(\{" + re.escape(name) + r"\})", re.ASCII)
    for match in pattern.finditer(source.text, node.start, node.end):
        if match[1]:
            return source.locate(match.start(), match.end())
    return node.place


def _is_value(namespace: Mapping[str, Any], name: str) -> bool:
    """True when the notebook has a value of this name, not a function, class or module."""
    return name in namespace and is_value(namespace[name])


_HOW: Final = (
    "--continue takes the variable of an earlier cell, as `-o` has bound it, or that of a prompt of an MCP server, or "
    "the id of a run, or -1 for the last."
)


def find_continued(name: str, namespace: Mapping[str, Any] | None, report: MistakeReport) -> Any:
    """Find the output of an earlier run, also by the handle of one in the background, or a prompt of an MCP server.

    None after a mistake.
    """
    names = {} if namespace is None else namespace
    if name not in names and is_run_id(name):
        return name
    found: Any = names.get(name)
    if hasattr(type(found), "is_done"):
        if not found.is_done:
            report.add_mistake(OPTIONS, f"the run of {name!r} is still going on.", f"Wait for it: `{name}.result()`.")
            return None
        found = found.output
    if is_output(found) or (isinstance(found, SourcedInput) and found.has_messages):
        return found
    known = list(list_fitting(names, is_output))
    there = f" Outputs here: {join_names(known)}." if known else ""
    if name not in names:
        message = f"--continue {name}: there is no variable {name!r} in this notebook.{suggest_name(name, known)}"
    else:
        message = f"--continue {name}: {name!r} holds no output of a run, but a value of type {type(found).__name__}."
    report.add_mistake(OPTIONS, message, f"{_HOW}{there}")
    return None


def is_output(value: Any) -> bool:
    """True for the output of a run, told by its class alone."""
    return not isinstance(value, type) and callable(getattr(type(value), "get_conversations", None))
