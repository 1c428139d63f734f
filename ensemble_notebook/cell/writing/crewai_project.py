"""Converts a crewAI project to a cell: its agents, its tasks and their order (C3, C32).

Reads three files as text. Nothing of the project is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.cell.reading.mistakes import MistakeReport
from ensemble_notebook.cell.reading.source_text import SourceText, read_text_file
from ensemble_notebook.cell.reading.values import read_data
from ensemble_notebook.cell.reading.yaml_nodes import MappingNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.cell.spellings import (
    ASYNC_EXECUTION,
    Spelling,
    find_foreign_hint,
    read_model_spelling,
    read_spelling,
)
from ensemble_notebook.cell.vocabulary import AGENT, CELL, GUARDRAIL, TASK, SectionSchema, ValueKind
from ensemble_notebook.cell.writing.yaml_text import Block, BlockList, Comment, write_yaml
from ensemble_notebook.domain.definitions.templates import find_variables
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.models.model_kinds import parse_spec

_FILES: Final = ("agents.yaml", "tasks.yaml")
_OPENAI: Final = re.compile(r"(?:chatgpt|gpt|o\d)[-.\w]*")
"""What a crew names without a provider is OpenAI's."""
_GUARDRAIL: Final = (
    "a guardrail here is a function of the notebook, which gets the output, and returns True to let it pass and a text "
    "to object, where crewAI returns (True, ...) and (False, text)."
)
_OBJECTS: Final = (
    *(ValueKind.TOOLS, ValueKind.OBJECT, ValueKind.OBJECTS, ValueKind.FUNCTIONS),
    *(ValueKind.OUTPUT_TYPE, ValueKind.PROMPT),
)


def write_crewai_cell(folder: Path, namespace: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Write the body of a cell that does what a project does, and what a person should know about it.

    Args:
        folder: with ``agents.yaml`` and ``tasks.yaml``, in itself, in ``config`` or in ``src/*/config``.
        namespace: the notebook's variables; tools and classes that are not there become comments.

    Raises:
        ValidationError: the files are not there, or can't be read; a `CellError` names the line.
    """
    config = _find_config(folder)
    source = next((each / "crew.py" for each in (config, config.parent) if (each / "crew.py").is_file()), None)
    notes: list[str] = []
    code = ProjectCode()
    if source is None:
        notes.append("There is no crew.py, so the tasks are taken to run one after the other.")
    else:
        code = read_crewai_code(source)
        notes += [f"crew.py: {each} is left out: do what it does in a cell of Python." for each in code.others]
    converter = _Converter(namespace, notes)
    agents = converter.read_members(config / _FILES[0], AGENT, code.agents)
    tasks = converter.read_members(config / _FILES[1], TASK, code.tasks)
    fields, is_managed = dict(code.ensemble), code.ensemble.get("process") == "hierarchical"
    order = fields.pop("tasks", None) or list(code.tasks)
    if isinstance(order, str):
        notes.append(f"crew.py: which tasks the crew has ({order}) can't be told: all are taken.")
        order = []
    tasks = _put_in_order(tasks, order, notes)
    fields.pop("agents", None)
    if is_managed:  # nobody else's work is the manager's
        agents.pop(str(fields.get("manager_agent")), None)
    memory = fields.pop("memory", False)
    if memory not in (True, False):
        notes.append(f"crew.py: 'memory' of the crew is left out: {memory}. A store is a variable, `memory: NAME`.")
    elif memory:
        tasks = {name: {**task, "memory": "crew"} for name, task in tasks.items()}
        notes.append(
            "crew.py: 'memory' of the crew is `memory: crew` on each task, which lasts for a run. To keep it, add "
            "`memory: FILE.db` at the top."
        )
    top: dict[str, Any] = {}
    for key, value in fields.items():
        converter.add_field(top, key, value, CELL, f"crew.py: {key!r} of the crew")
    if not is_managed:
        top.pop("workflow", None)
    body: dict[str, Any] = {}
    values = (value for fields in (*agents.values(), *tasks.values()) for value in fields.values())
    names = dict.fromkeys(name for value in values if isinstance(value, str) for name in find_variables(value))
    if names:
        body["# inputs"] = Comment(f"needs {' '.join(f'-i {name}=...' for name in names)}")
    if is_managed:
        body |= {"workflow": top.pop("workflow"), "agents": Block(agents), "tasks": Block(tasks)}
    else:
        body |= {"agents": Block(agents), "tasks": BlockList({"name": name, **task} for name, task in tasks.items())}
    return write_yaml(Block(body | top)), notes


def _put_in_order(tasks: Mapping[str, Any], order: list[Any], notes: list[str]) -> dict[str, Any]:
    """The tasks that the crew has, in its order; all of them as they are where crew.py names none."""
    if not order or not all(name in tasks for name in order):
        return dict(tasks)
    others = [name for name in tasks if name not in order]
    notes += [f"tasks.yaml: {name!r} is left out: the crew of crew.py does not have it." for name in others]
    return {name: tasks[name] for name in order}


def _find_config(folder: Path) -> Path:
    there = folder.expanduser()
    candidates = [there, there / "config", *sorted(there.glob("src/*/config"))]
    found = [each for each in candidates if all((each / name).is_file() for name in _FILES)]
    if not found:
        message = f"{folder} has no {' and '.join(_FILES)}, neither in itself nor in config or src/*/config."
        raise ValidationError(message)
    return found[0]


@dataclass(frozen=True)
class _Converter:
    """Makes sections of what files and code say; `notes` gets what a person should know about it."""

    namespace: Mapping[str, Any]
    notes: list[str]

    def read_members(self, file: Path, schema: SectionSchema, code: Mapping[str, Fields]) -> dict[str, Any]:
        """The agents or tasks of a file, with what crew.py says of each; what that says comes first."""
        report = MistakeReport(SourceText("", read_text_file(file), file.name))
        with report:
            root = read_tree(report, report.source.parts[1])
            if not isinstance(root, MappingNode):
                message = f"there are no {schema.name}s here."
                report.add_mistake(report.source.top, message, "Write `name:` and its keys.")
                return {}
            members = read_data(root, file.name)
        found = {}
        for name in (*members, *(each for each in code if each not in members)):
            fields = members.get(name, {})
            if not isinstance(fields, dict):
                raise ValidationError(f"{file.name}: {name!r} is no mapping of keys to values.")
            made: dict[str, Any] = {}
            said = code.get(name, {})
            for key, value in {**fields, **said}.items():
                where = "crew.py" if key in said else file.name
                self.add_field(made, key, value, schema, f"{where}: {key!r} of {name!r}")
            found[name] = made
        return found

    def add_field(self, made: dict[str, Any], word: str, value: Any, schema: SectionSchema, label: str) -> None:
        """Add one key in the words of a cell; what has none is noted, what names objects becomes a comment."""
        spelling = read_spelling(schema, word)
        key = schema.keys.get(spelling.name)
        if value is None or value == [] or (value is False and key is None):
            return  # it says what holds without it
        if (meant := _read_meant(spelling, value)) is not None:
            made |= meant
        elif key is None:
            self.notes.append(f"{label} is left out. {find_foreign_hint(word) or 'A cell has no such key.'}")
        elif key.kind in _OBJECTS:
            given = value if isinstance(value, list) else [value]
            names = [str(name).removeprefix("self.") for name in given]  # methods of the crew become functions
            if all(name in self.namespace for name in names):
                made[key.name] = names if isinstance(value, list) else names[0]
            else:
                shown = f"[{', '.join(names)}]" if isinstance(value, list) else names[0]
                made[f"# {key.name}"] = Comment(f"{key.name}: {shown}  (define it in a cell above)")
                if key.word.label == GUARDRAIL:
                    self.notes.append(f"{label}: {_GUARDRAIL}")
        elif key.kind is ValueKind.MODEL:
            model = _read_model(value, self.namespace)
            if model is None:
                shown = mask(str(value))
                made[f"# {key.name}"] = Comment(f"{key.name}: {shown}  (name a model of this notebook)")
                self.notes.append(f"{label} names no model here: '{shown}'.")
            else:
                made[key.name] = model
        else:
            made[key.name] = value.strip() if isinstance(value, str) else value


def _read_meant(spelling: Spelling, value: Any) -> dict[str, Any] | None:
    """What a word means whose value is another one in a cell; None for all other words."""
    if spelling.name == ASYNC_EXECUTION:
        return {ASYNC_EXECUTION: True} if value is True else {}
    if spelling.word == "human_input":
        return {"review": "after"} if value is True else {}
    return {"rate_limit": f"{value}/min"} if spelling.word == "max_rpm" else None


def _read_model(value: Any, namespace: Mapping[str, Any]) -> Any:
    """A model as a cell names it, with its parameters where it has some; None for one that a cell can't name."""
    if isinstance(value, Mapping):
        name = _read_model(value.get("model"), {})
        if name is not None and value.get("base_url"):
            name = name.removeprefix("openai:")  # an address takes names as they are
        return None if name is None else _check_model({**value, "model": name})
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text in namespace:
        return text
    return _check_model(f"openai:{text}" if _OPENAI.fullmatch(text) else read_model_spelling(text))


def _check_model(spec: Any) -> Any:
    try:
        parse_spec(spec)
    except ValidationError:
        return None
    return spec


# --- What the crew.py of a crewAI project says, read from its syntax tree. Nothing of it is imported or run -----------


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
    for call in ast.walk(function):
        kind = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or kind not in ("Agent", "Task", "Crew"):
            continue
        fields = {each.arg: _read_value(each.value) for each in call.keywords if each.arg is not None}
        config = next((each.value for each in call.keywords if each.arg == "config"), None)
        fields.pop("config", None)
        if kind == "Crew":
            code.ensemble |= {
                key: value for key, value in fields.items() if not (isinstance(value, str) and value in _OWN)
            }
            continue
        name = function.name
        if isinstance(config, ast.Subscript) and isinstance(config.slice, ast.Constant):
            name = str(config.slice.value)
        names[function.name] = name
        (code.agents if kind == "Agent" else code.tasks)[name] = fields


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
