"""The arguments of a call of a reviewed tool as a form that a person fills in, and what that says (W165).

A view has texts alone: what each field takes is found here by the tool's schema, and only what was changed is read
again. So a number keeps all of its digits, and a value that nobody changed stays what it was, secrets in it included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.json_schema import find_kind, follow_reference
from ensemble_notebook.domain.outputs.secrets import MASK, mask, mask_named
from ensemble_notebook.domain.value_text import mend_text, read_json
from ensemble_notebook.engine.agent.tool_arguments import check_given_arguments
from ensemble_notebook.errors import show_hidden_characters

LONGEST_TEXT: Final = 20_000
LONGEST_TEXTS: Final = 200_000
LONGEST_LINE: Final = 80
LONGEST_ABOUT: Final = 300
MOST_FIELDS: Final = 100
_KINDS: Final = {"string": "text", "integer": "number", "number": "number"}
_SCALARS: Final = (str, int, float, bool)


def make_form(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields of a call: those of the tool's schema, then what else it has; secrets masked, nothing hidden.

    Args:
        arguments: of the call, by name.
        parameters: the JSON schema of the tool.

    Returns:
        Of each field its ``name``, the ``kind`` (``text``, ``number``, ``choice`` or ``json``), its ``text`` (None
        where the call does not have it), and where they say something, ``choices``, ``about``, ``is_required``, and
        ``left_out``: the characters that the text lacks, which can't be edited then.
    """
    return [*_list_fields(arguments, parameters)]


def _list_fields(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    named, room = parameters.get("properties") or {}, LONGEST_TEXTS
    for name in [*named, *(each for each in arguments if each not in named)][:MOST_FIELDS]:
        schema = named.get(name)
        kind, choices = _find_kind(schema, parameters, arguments.get(name))
        whole = _write(arguments[name], kind) if name in arguments else None
        text = None if whole is None else mask_named(name, show_hidden_characters(whole))
        most = min(LONGEST_TEXT, room)
        room -= min(most, len(text or ""))
        about = schema.get("description") if isinstance(schema, Mapping) else None
        field = {
            "name": name,
            "kind": kind,
            "text": text and text[:most],
            "left_out": max(0, len(text or "") - most),
            "choices": [*choices],
            "about": mask(about)[:LONGEST_ABOUT] if isinstance(about, str) else "",
            "is_required": name in (parameters.get("required") or ()),
        }
        yield {key: value for key, value in field.items() if value or key == "text"}


def _find_kind(schema: Any, root: Mapping[str, Any], value: Any) -> tuple[str, dict[str, Any]]:
    """What a field takes, and of an enumeration its values by how they are written."""
    found, schema = find_kind(schema, root), follow_reference(schema, root)
    members = [True, False] if found == "boolean" else schema.get("enum") if isinstance(schema, Mapping) else None
    if isinstance(members, list) and members and all(isinstance(each, _SCALARS) for each in members):
        choices = {_write(each, "choice"): each for each in members}
        if len(choices) == len(members):  # else two are written alike
            return "choice", choices
    if found is None and isinstance(value, str):
        return "text", {}
    if found is None and isinstance(value, int | float) and not isinstance(value, bool):
        return "number", {}
    return _KINDS.get(found or "", "json"), {}


def _write(value: Any, kind: str) -> str:
    if isinstance(value, str) and kind != "json":
        return mend_text(value)
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= LONGEST_LINE else json.dumps(value, ensure_ascii=False, default=str, indent=2)


def read_form(
    changes: Mapping[str, Any], arguments: Mapping[str, Any], parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments as somebody has changed them, and what is wrong with them.

    Args:
        changes: the texts of the fields that were changed, by name. An empty one leaves out what need not be there.
        arguments: of the call, by name.
        parameters: the JSON schema of the tool.

    Returns:
        The arguments, and the faults by field, as sentences; under an empty name what is wrong with all of them.
    """
    fields = {each["name"]: each for each in make_form(arguments, parameters)}
    edited, faults = dict(arguments), dict[str, str]()
    for name, text in changes.items():
        field = fields.get(name)
        if field is None or not isinstance(text, str) or "left_out" in field:
            faults[name if field else ""] = "This can't be edited here."
            continue
        if MASK in text and MASK in (field["text"] or ""):
            faults[name] = f"A secret is masked in it ({MASK}): write all of it, or leave it as it was."
            continue
        for each in set(str(arguments.get(name, ""))):  # a mark that was left stands for its character
            text = text.replace(show_hidden_characters(each), each)
        is_required = field.get("is_required", False)
        if not text.strip() and not is_required:
            edited.pop(name, None)
            continue
        try:
            schema = (parameters.get("properties") or {}).get(name)
            edited[name] = _read(text, *_find_kind(schema, parameters, arguments.get(name)))
        except ValueError as error:
            faults[name] = str(error)
    if faults:
        return edited, faults
    edited, found = check_given_arguments(edited, parameters)
    for path, fault in found:
        place = str(path[0]) if path and path[0] in fields else ""
        inner = ".".join(map(str, path[1:]))
        faults.setdefault(place, f"{inner}: {fault}" if inner else fault)
    return edited, faults


def _read(text: str, kind: str, choices: Mapping[str, Any]) -> Any:
    """The value that a text of a field stands for.

    Raises:
        ValueError: none; says what was expected.
    """
    if choices:
        if text not in choices:
            raise ValueError(f"One of {', '.join(choices)} is needed.")
        return choices[text]
    if kind == "text":
        return text
    try:
        value = read_json(text, parse_constant=_refuse_constant)
    except ValueError as error:
        if kind == "number":
            raise ValueError("A number is needed, such as 12 or 0.5.") from None
        raise ValueError(f"This is no JSON: {error}.") from None
    if kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("A number is needed, such as 12 or 0.5.")
    return value


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number that JSON has")
