"""Describes in words what differs between the parts of two keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ensemble_notebook.domain.fingerprints.parts import ITS_CODE, READS, read_lines
from ensemble_notebook.domain.wording import pluralize

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
    told = {name: each for name in (*new_parts, *old_parts) if (each := _tell(name, old_parts, new_parts)) is not None}
    told.pop(READS, None)
    for name, each in told.items():
        if _find_text(name) not in told:  # of an output of which the text says it, the value is not told as well
            yield f"{_name_part(name, new_parts if name in new_parts else old_parts)} {each}"


def _tell(name: str, old_parts: Mapping[str, str], new_parts: Mapping[str, str]) -> str | None:
    """What to say of a part after its name; None where it is the same."""
    if name not in old_parts or name not in new_parts:
        return "is gone" if name in old_parts else "is new"
    return _tell_change(old_parts[name], new_parts[name])


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


def _tell_change(old: str, new: str) -> str | None:
    """The text that follows the name of a changed part; None if it has not changed."""
    (before, old_details), (after, new_details) = read_lines(old), read_lines(new)
    if before == after:
        return None
    if before.startswith(_VALUE_MARK) and after.startswith(_VALUE_MARK):
        return f"changed {_show_change(before, after)}"
    inside = list(_list_inside(old_details, new_details))
    return f"changed: {', '.join(inside[:_MOST_TOLD])}" if inside else "changed"


def _list_inside(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """What changed inside a part: its code, what that reaches by name; last what is new or gone, often a follower."""
    for name in (*(each for each in new if each != ITS_CODE), *(each for each in new if each == ITS_CODE)):
        if name in old and old[name] != new[name] and name != "of":
            is_shown = old[name].startswith(_VALUE_MARK) and new[name].startswith(_VALUE_MARK)
            yield f"{name} {_show_change(old[name], new[name])}" if is_shown else name
    yield from (f"{name} is new" for name in new if name not in old)
    yield from (f"{name} is gone" for name in old if name not in new)


def _show_change(before: str, after: str) -> str:
    return f"{_unquote(before)} -> {_unquote(after)}"


def _unquote(shown: str) -> str:
    return re.sub(r"^=", "", shown)
