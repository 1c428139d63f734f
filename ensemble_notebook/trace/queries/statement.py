"""What a statement of SQL says, by DuckDB's own parse of it: that it only reads, and which tables and columns (T121).

What is not known to be harmless is refused. That DuckDB calls a statement a SELECT tells too little: one may insert on
the way, read files, or run another that it has as a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.errors import ValidationError, did_you_mean

Node = Mapping[str, Any]
"""A part of what was parsed, as DuckDB writes it."""

_EXPRESSIONS: Final = {
    *(
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
    ),
    *("OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW"),
}
_PARTS: Final = {
    *("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"),
    *("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "TABLE_FUNCTION"),
    *("DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"),
    *("ASCENDING", "DESCENDING", "ORDER_DEFAULT"),
}
_SOURCES: Final = ("generate_series", "json_each", "json_tree", "range", "unnest")
"""Functions that make rows of what they are given."""
_QUOTED: Final = re.compile(r"""\"(\w+)\"|name (\w+) does|'([^'(]+)\(""")
"""Names of columns and functions in a message of DuckDB."""
_UNKNOWN: Final = re.compile(r'(?:Referenced column|a column named|^Column) "(.+?)"(?: not found| does not exist|$)')
_REFUSED: Final = {
    "SHOW_REF": "DESCRIBE, SHOW and SUMMARIZE: SELECT * FROM spans LIMIT 0 has the columns of a table",
    "PARAMETER": "a value that is given later: write it into the text",
    "INSERT_QUERY_NODE": "INSERT",
    "UPDATE_QUERY_NODE": "UPDATE",
    "DELETE_QUERY_NODE": "DELETE",
}


class Statement:
    """One SELECT that does nothing but read.

    Args:
        text: that was typed.
        document: JSON text, which DuckDB has made of it.

    Raises:
        ValidationError: it is something else; says what, and where.
    """

    def __init__(self, text: str, document: str) -> None:
        self.text = text
        try:
            told = json.loads(document)
        except RecursionError:
            raise ValidationError("SQL: it is too deep in itself to be read. Give its parts names by WITH.") from None
        if told["error"]:
            if told["error_type"] == "not implemented":
                raise self._refuse(text.split()[0].upper())
            place = f" {self._describe_place(int(told['position']))}" if "position" in told else ""
            raise ValidationError(f"SQL: {told['error_message'].rstrip('.')}{place}.")
        if len(told["statements"]) != 1:
            raise self._refuse("a second statement" if told["statements"] else "an empty text")
        self._nodes = [*_list_nodes(told["statements"][0])]
        for node in self._nodes:
            self._check(node)

    def _check(self, node: Node) -> None:
        """Refuse what is not known to be harmless."""
        kind = str(node.get("class") or node["type"])
        if kind not in (_EXPRESSIONS if "class" in node else _PARTS) and not kind.endswith("_TYPE_INFO"):
            raise self._refuse(_REFUSED.get(kind, kind), node)
        if kind == "TABLE_FUNCTION" and (name := node["function"]["function_name"].lower()) not in _SOURCES:
            raise self._refuse(f"{name}() as a table, as which {', '.join(_SOURCES)} do", node)
        if kind == "BASE_TABLE" and (node["schema_name"] or node["catalog_name"]):
            raise self._refuse(f"a schema: write {node['table_name']} alone", node)

    def _refuse(self, what: str, node: Node | None = None) -> ValidationError:
        place = "" if node is None else self.locate(node)
        return ValidationError(
            f"SQL refuses {what}{place}. It takes one SELECT, which reads the tables of the remembered runs."
        )

    def locate(self, node: Node) -> str:
        """`` (line 1, column 8)``; nothing where DuckDB does not tell."""
        at = node.get("query_location", -1)
        return f" {self._describe_place(at)}" if 0 <= at < len(self.text.encode()) else ""

    def _describe_place(self, at: int) -> str:
        before = self.text.encode()[:at].decode(errors="ignore")
        return f"(line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))})"

    def list_columns(self, tables: Mapping[str, Collection[str]]) -> dict[str, Collection[str]]:
        """The tables that are named, each with those of its columns that may be: rather too many than too few.

        Args:
            tables: those that there are, with their columns, all in small letters, as SQL compares names.

        Raises:
            ValidationError: one of them is not there; names the nearest.
        """
        given = {each["key"].lower() for node in self._nodes for each in node.get("cte_map", {}).get("map", ())}
        named: list[str] = []
        for node in self._nodes:
            if node["type"] == "BASE_TABLE" and (name := node["table_name"].lower()) in tables:
                named.append(name)
            elif node["type"] == "BASE_TABLE" and name not in given:
                place, hint = self.locate(node), did_you_mean(name, tables)
                raise ValidationError(f"SQL: there is no table {node['table_name']!r}{place}.{hint}")
        words = {each.lower() for node in self._nodes for each in _list_texts(node)}
        return {name: tables[name] if self._wants_all else words.intersection(tables[name]) for name in named}

    @property
    def _wants_all(self) -> bool:
        """Whether it means columns that it does not name: by a star, by their places, or as a whole row."""
        sources = {
            node[name].lower()
            for node in self._nodes
            for name in ("alias", "table_name")
            if "class" not in node and node.get(name)
        }
        return any(
            node["type"] in ("STAR", "POSITIONAL_REFERENCE", "PIVOT")
            or node.get("ref_type") == "NATURAL"
            or (node["type"] == "BASE_TABLE" and node["column_name_alias"])
            or (node["type"] == "COLUMN_REF" and len(path := node["column_names"]) == 1 and path[0].lower() in sources)
            for node in self._nodes
        )

    def explain(self, message: str, columns: Collection[str]) -> str:
        """What DuckDB finds wrong, with the place and the nearest of these columns where it tells of one."""
        unknown = _UNKNOWN.search(message)
        quoted = _QUOTED.findall(message) if unknown is None else [unknown.groups()]
        names = {word.lower() for words in quoted for word in words if word}
        place = next((self.locate(node) for node in self._nodes if _get_name(node) in names), "")
        if unknown is None:
            return f"SQL: {message.rstrip('.!')}{place}."
        return f"SQL: there is no column {unknown[1]!r}{place}.{did_you_mean(unknown[1], columns)}"


def _get_name(node: Node) -> str:
    """What a column or a function is called there; no name where it is neither."""
    return str((node.get("column_names") or [node.get("function_name", "")])[-1]).lower()


def _list_nodes(tree: Any) -> Iterator[Node]:
    """All parts that have a type, outer ones first, in the order of the text."""
    left = [tree]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if isinstance(each.get("type"), str):
                yield each
            left += [*each.values()][::-1]
        elif isinstance(each, list):
            left += each[::-1]


def _list_texts(node: Node) -> Iterator[str]:
    """The texts in a part that are in no other one."""
    left: list[Any] = [*node.values()]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict) and not isinstance(each.get("type"), str):
            left += each.values()
        elif isinstance(each, list):
            left += each
