"""Values for the template variables of a cell (C7): the options first, then ``inputs:``, then the notebook.

Knows no definitions: it gets texts with their places, and gives values.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ensemble_notebook.cell.reading.drafts import Draft, Written
from ensemble_notebook.cell.text.mistakes import Report, listed, meant, nearest_name, quoted
from ensemble_notebook.cell.text.source import OPTIONS, Place, Source
from ensemble_notebook.domain.definitions.templates import is_variable_name, variables


@dataclass(slots=True)
class Inputs:
    """The values of one cell.

    Attributes:
        values: what the options and ``inputs:`` give, and of the notebook what the texts use.
        variables: the template variables of the cell, in order of appearance, once each.
        missing: those without a value.
    """

    values: dict[str, Any] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """A text of the cell that may hold variables, and where it is written."""

    text: str
    written: Written


def templates(drafts: Iterable[Draft], fields: tuple[str, ...]) -> list[Template]:
    """The texts of these fields, in the order of the cell."""
    return [
        Template(draft.values[name], draft.written[name])
        for draft in drafts
        for name in fields
        if name in draft.written and isinstance(draft.values.get(name), str)
    ]


def find_inputs(
    texts: Iterable[Template],
    top: Draft,
    options: Mapping[str, Any],
    namespace: Mapping[str, Any] | None,
    report: Report,
    *,
    is_strict: bool,
) -> Inputs:
    """Find a value for every variable of the texts; report, all together, those that have none if `is_strict`."""
    written: dict[str, Any] = top.values.get("inputs", {})
    found = Inputs({**written, **options})
    for name in [name for name in found.values if not is_variable_name(name)]:
        place = top.place_of("inputs", name) if name in written else OPTIONS
        report.mistake(place, f"the input {quoted(name)} can't be a variable.", "Use ASCII letters, digits and _.")
        del found.values[name]
    first: dict[str, Template] = {}
    for template in texts:
        for name in variables(template.text):
            first.setdefault(name, template)
    found.variables = tuple(first)
    for name in found.variables:
        if name not in found.values and namespace is not None and _is_value(namespace, name):
            found.values[name] = namespace[name]
    unreadable = top.key_places("inputs").keys() - written.keys()
    found.missing = tuple(name for name in found.variables if name not in found.values and name not in unreadable)
    _report_unused(found, top, options, report)
    if is_strict and ("inputs" in top.values or "inputs" not in top.written):
        for name in found.missing:
            _report_missing(name, place_of_variable(first[name], name, report.source), found, namespace, report)
    return found


def place_of_variable(template: Template, name: str, source: Source) -> Place:
    """Where ``{name}`` stands; the whole value where it is written with escapes."""
    node = template.written.value
    pattern = re.compile(r"\{\{\w+\}\}|(\{" + re.escape(name) + r"\})", re.ASCII)
    for match in pattern.finditer(source.text, node.start, node.end):
        if match[1]:
            return source.place(match.start(), match.end())
    return node.place


def _is_value(namespace: Mapping[str, Any], name: str) -> bool:
    """True when the notebook has a value of this name, not a function, class or module."""
    found = namespace.get(name, inspect)
    return not (inspect.isroutine(found) or inspect.isclass(found) or inspect.ismodule(found))


def _report_missing(
    name: str, place: Place, found: Inputs, namespace: Mapping[str, Any] | None, report: Report
) -> None:
    close = meant(name, (each for each in found.values if each not in found.variables))
    if not close and namespace is not None and name in namespace:
        close = f" The notebook's {name!r} is a function, a class or a module."
    hint = f"Pass `-i {name}=...`, add it to `inputs:`, or set {name} in a cell above; {{{{{name}}}}} stays as it is."
    report.mistake(place, f"{{{name}}} has no value.{close}", hint)


def _report_unused(found: Inputs, top: Draft, options: Mapping[str, Any], report: Report) -> None:
    """A value that no text uses may be for a handler; where it nearly fits a variable without value, it is misspelt."""
    used = set(found.variables)
    places = top.key_places("inputs")
    for name in found.values:
        if name in used:
            continue
        place = OPTIONS if name in options else places.get(name, top.place)
        close = nearest_name(name, found.missing)
        if close is not None:
            hint = f"The texts use: {listed(found.variables)}."
            report.mistake(place, f"no text uses the input {name!r}. Did you mean {close!r}?", hint)
        else:
            report.notice(place, f"no text uses the input {name!r}.")
