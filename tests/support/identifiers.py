"""The names that the package's source gives: of modules, classes, functions, arguments and attributes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_IMPOSED = {"add_done_callback"}  # asyncio calls it so, whatever we would
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def split_words(identifier: str) -> list[str]:
    """The words of a name in snake case or camel case, in lower case."""
    return [word.lower() for word in _WORD.findall(identifier)]


def find_identifiers(folder: Path) -> Iterator[tuple[str, str]]:
    """Every name that is given under a folder, each with where: ``("llm_calls", "frames.py:12")``."""
    for path in sorted(folder.rglob("*.py")):
        name = str(path.relative_to(folder))
        for part in path.relative_to(folder).with_suffix("").parts:
            yield part, name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for identifier in set(_names_given_by(node)) - _IMPOSED:
                yield identifier, f"{name}:{getattr(node, 'lineno', 1)}"


def _names_given_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield node.name
        yield from (each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and _is_name(each.target))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def _is_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name)
