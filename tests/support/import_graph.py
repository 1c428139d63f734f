"""Which module of the package imports which, seen in the source: also inside functions and behind ``TYPE_CHECKING``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ensemble_notebook"


def read_import_graph(folder: Path = PACKAGE) -> dict[str, set[str]]:
    """Each module with those of the package that it imports, its own folder's ``__init__`` apart."""
    files = {_module_name(path, folder): path for path in sorted(folder.rglob("*.py"))}
    return {module: set(_find_imports(module, path, files)) for module, path in files.items() if module != folder.name}


def find_circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or through others."""
    reached = {module: _reach(module, graph) for module in graph}
    circles = {
        tuple(sorted(each for each in reached[module] if module in reached.get(each, ())))
        for module in graph
        if module in reached[module]
    }
    return [list(circle) for circle in sorted(circles)]


def _module_name(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _find_imports(module: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [each if each in files else node.module for each in inner]
        else:
            continue
        yield from (name for name in names if name in files and name != module)


def _reach(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """All modules that importing one leads to; itself only where that leads back."""
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting.extend(graph.get(module, ()))
    return reached
