"""What the crew.py of a crewAI project says, read from its syntax tree (C32). Nothing of it is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.cell.text.text_file import read_text_file
from ensemble_notebook.errors import ValidationError

_PARTS: Final = ("agent", "task", "crew")
_KNOWN: Final = frozenset({*_PARTS, "CrewBase"})
_OWN: Final = frozenset({"self.agents", "self.tasks"})  # all that the decorators have collected

Fields = dict[str, Any]


class _Member(str):
    """A method of the class that makes an agent or a task: ``self.research_task()``."""

    __slots__ = ()


@dataclass
class ProjectCode:
    """What the code says beside the files.

    Attributes:
        agents, tasks: the keywords of each by its name in the files, else that of its method; in order of the code.
        ensemble: the keywords of the crew, by field.
        others: methods with other decorators: ``prepare (@before_kickoff)``.
    """

    agents: dict[str, Fields] = field(default_factory=dict)
    tasks: dict[str, Fields] = field(default_factory=dict)
    ensemble: Fields = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def read_crewai_code(file: Path) -> ProjectCode:
    """Read what crew.py says. Texts, numbers and the like are values, all other expressions their source.

    Raises:
        ValidationError: it is no Python.
    """
    try:
        tree = ast.parse(read_text_file(file))
        code, names = ProjectCode(), dict[str, str]()
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        for function in sorted(functions, key=lambda each: each.lineno):
            _read_function(function, code, names)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValidationError(f"{file} can't be read as Python: {error}.") from None
    for fields in (*code.agents.values(), *code.tasks.values(), code.ensemble):
        for key, value in fields.items():
            fields[key] = _name_members(value, names)
    return code


def _read_function(function: ast.FunctionDef | ast.AsyncFunctionDef, code: ProjectCode, names: dict[str, str]) -> None:
    """The agents, tasks or crew that a method makes."""
    decorators = [ast.unparse(each).rpartition(".")[2] for each in function.decorator_list]
    code.others += [f"{function.name} (@{each})" for each in decorators if each.partition("(")[0] not in _KNOWN]
    for kind, call in _find_calls(function):
        fields = {each.arg: _read_value(each.value) for each in call.keywords if each.arg is not None}
        config = next((each.value for each in call.keywords if each.arg == "config"), None)
        fields.pop("config", None)
        if kind == "crew":
            code.ensemble |= {
                key: value for key, value in fields.items() if not (isinstance(value, str) and value in _OWN)
            }
            continue
        name = function.name
        if isinstance(config, ast.Subscript) and isinstance(config.slice, ast.Constant):
            name = str(config.slice.value)
        names[function.name] = name
        (code.agents if kind == "agent" else code.tasks)[name] = fields


def _find_calls(function: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            kind = ast.unparse(node.func).rpartition(".")[2]
            if kind in ("Agent", "Task", "Crew"):
                yield kind.lower(), node


def _read_value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return [_read_value(each) for each in node.elts]
    called = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else None
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self":
        return _Member(called.attr)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Process":
        return node.attr
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "LLM" and node.keywords and not node.args:
        if len(node.keywords) > 1 and all(isinstance(each.value, ast.Constant) for each in node.keywords):
            return {str(each.arg): _read_value(each.value) for each in node.keywords}
        if len(node.keywords) == 1:
            node = node.keywords[0].value  # a model by its name alone
    try:
        return ast.literal_eval(node)
    except (TypeError, ValueError):
        return ast.unparse(node)


def _name_members(value: Any, names: dict[str, str]) -> Any:
    """The same with agents and tasks by their names."""
    if isinstance(value, list):
        return [_name_members(each, names) for each in value]
    return names.get(value, str(value)) if isinstance(value, _Member) else value
