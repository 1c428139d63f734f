"""Converts values to lists of items (E53): lists, tables by rows, and texts that are a list.

Imports no library of tables; they are recognised by their methods.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.domain.definitions.output_type import get_parts
from ensemble_notebook.domain.value_text import is_missing, is_table, read_json
from ensemble_notebook.errors import EnsembleError

_QUOTED: Final = 200
_LONGEST_NAME: Final = 200
_FENCED: Final = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*?)\n?```\s*", re.DOTALL)
_MARKED: Final = re.compile(r"([ \t]*)(?:[-*+\u2022]|[0-9]{1,4}[.)])[ \t]+(?=\S)")


class NoListError(EnsembleError, ValueError):
    """A value is no list of items. The message is half a sentence that follows the value's name: ``is a mapping``."""


class Items(tuple[Any, ...]):
    """Items that were given as an object: the items of a list or Series, the rows of a DataFrame."""

    __slots__ = ()

    def __repr__(self) -> str:
        """How many there are; a thousand rows would hide everything else."""
        return f"<{describe_count(len(self))}>"


def describe_count(count: int) -> str:
    """Say how many items there are."""
    return f"{count:,} item{'' if count == 1 else 's'}"


def list_items(value: Any) -> Items:
    """List the items of a value: of a list, tuple, Series or array, of a DataFrame its rows as mappings.

    What has fields and exactly one of them that holds a list stands for that list; a text is read as a JSON array, or
    as a list with a mark or number before each item. Values that are missing in a table become None.

    Raises:
        NoListError: it is nothing of that kind, or a table whose columns can't be told apart.
    """
    if isinstance(value, str):
        return Items(_read_text(value))
    if isinstance(value, list | tuple):
        return Items(value)
    if is_table(value) and hasattr(value, "columns"):
        return Items(_list_rows(value))
    if hasattr(value, "dtype") and callable(getattr(value, "tolist", None)):
        listed = value.tolist()
        if isinstance(listed, list):
            return Items(map(_replace_missing, listed))
    if callable(getattr(value, "to_list", None)):
        return Items(map(_replace_missing, value.to_list()))
    if not isinstance(value, Mapping) and not dataclasses.is_dataclass(value) and not hasattr(value, "model_dump"):
        raise NoListError(f"is no list, but a value of type {type(value).__name__}")
    fields = get_parts(value)
    lists = [str(name) for name, each in fields.items() if isinstance(each, list | tuple)]
    if len(lists) == 1:
        return Items(fields[lists[0]])
    found = f"has the lists {', '.join(lists)}, and needs" if lists else "has no field that holds a list, and needs"
    raise NoListError(f"{found} exactly one")


def name_item(item: Any) -> str:
    """What people call an item: its field ``label``, else its first text, of a plain value itself; empty if none."""
    if isinstance(item, str | int | float):
        return " ".join(str(item)[:_LONGEST_NAME].split())
    try:
        fields = get_parts(item)
        label = fields.get("label")
        found = (each for each in (label, *fields.values()) if isinstance(each, str) and each.strip())
        return name_item(label if isinstance(label, int | float) else next(found, ""))
    except Exception:  # noqa: BLE001 - the item is anybody's; the task goes by its number, and its texts tell what is wrong
        return ""


def _list_rows(table: Any) -> Iterator[dict[str, Any]]:
    """Rows by the names of their columns; levels of the index that have a name are columns, too."""
    if callable(getattr(table, "iter_rows", None)):
        names, rows = list(table.columns), table.iter_rows()
    else:
        columns = [(_to_name(label), table.iloc[:, at]) for at, label in enumerate(table.columns)]
        levels = [(at, _to_name(name)) for at, name in enumerate(table.index.names) if name is not None]
        known = {name for name, _ in columns}
        columns += [(name, table.index.get_level_values(at)) for at, name in levels if name not in known]
        names = [name for name, _ in columns]
        rows = zip(*(each.tolist() for _, each in columns), strict=True) if columns else iter(())
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise NoListError(f"has several columns called {twice[0]!r}; give each its own name")
    return ({name: _replace_missing(each) for name, each in zip(names, row, strict=True)} for row in rows)


def _to_name(label: Any) -> str:
    """The name of a column; the levels of one that has several are joined."""
    return "_".join(str(each) for each in label if each != "") if isinstance(label, tuple) else str(label)


def _replace_missing(value: Any) -> Any:
    """None for what tables have in place of a value."""
    return None if is_missing(value) else value


def _read_text(text: str) -> list[Any]:
    fenced = _FENCED.fullmatch(text)
    try:
        found = read_json(fenced[1] if fenced else text)
    except ValueError:
        found = None
    if isinstance(found, list):
        return found
    items = _read_marked_list(text)
    if items is None:
        quoted = text.strip()
        quoted = quoted if len(quoted) <= _QUOTED else quoted[: _QUOTED - 3] + "..."
        raise NoListError(f"is no list, neither a JSON array nor lines with a mark before each: {quoted!r}")
    return items


def _read_marked_list(text: str) -> list[str] | None:
    """The items of a text that is one list, as Markdown has it, or None.

    One line that ends in a colon may lead to it. What is indented, or follows an item directly, belongs to the item.
    """
    items: list[list[str]] = []
    indent, is_after_blank = 0, False
    for line in text.strip().splitlines():
        marked = _MARKED.match(line)
        if marked is not None and (not items or len(marked[1]) <= indent):
            indent = len(marked[1])
            items.append([line[marked.end() :].rstrip()])
        elif not line.strip():
            is_after_blank = True
            continue
        elif items and (line[:1].isspace() or not is_after_blank):
            items[-1].append(line.strip())
        elif items or not line.rstrip().endswith((":", ":**")):
            return None
        is_after_blank = False
    return ["\n".join(lines) for lines in items] or None
