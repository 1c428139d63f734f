"""Puts what a fork or a rerun has changed into the cell that the run came from (F5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

from ensemble_notebook.cell.cell_reader import Cell, CellFile, read_cell, read_cell_file
from ensemble_notebook.cell.object_names import ObjectNames, find_names
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.reading.options import parse_options
from ensemble_notebook.cell.reading.sections import Section
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.yaml_nodes import ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.cell.writing.cell_writer import write_cell
from ensemble_notebook.cell.writing.changed_prompts import (
    Part,
    change_texts,
    frame_agent,
    frame_task,
    match_parts,
    split_text,
    write_own_prompt,
)
from ensemble_notebook.cell.writing.text_edit import Path, TextEdit
from ensemble_notebook.cell.writing.yaml_text import Block
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.templates import (
    ITEM,
    ITEM_PROMPT_PLACES,
    PROMPT_PLACES,
    SYSTEM_PLACES,
    render,
)
from ensemble_notebook.domain.outputs.secrets import MASK, has_secret
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall, ChangedSource
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.store.run_facts import RunOrigin

_AGENT_TEXTS: Final = ("role", "background", "goal", "response_format")
_NO_PLACE: Final = {
    "reply": "what a model has said",
    "tool_result": "what a tool has given",
    "output": "the output of a task",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEdit:
    """A cell before and after.

    Attributes:
        before: its body.
        after: with the change.
        where: the values that change, in words.
        notes: what a person should know of it.
        is_new: it can't stand in place of the one that ran: that is in a file, or there is none.
    """

    before: str
    after: str
    where: tuple[str, ...]
    notes: tuple[str, ...] = ()
    is_new: bool = False


def write_changed_cell(source: ChangedSource, namespace: Mapping[str, Any] | None = None) -> str:
    """The body of the cell of a run, with what a fork or a rerun of it has changed. Errors as of `edit_cell`."""
    return edit_cell(source, namespace).after


def edit_cell(source: ChangedSource, namespace: Mapping[str, Any] | None = None) -> CellEdit:
    """Change the cell of a run as a fork or a rerun of it has changed that run.

    Args:
        source: what was changed, and the cell.
        namespace: the notebook's variables, by which a model that is an object is named; None for those that the cell
            was read with.

    Raises:
        ValidationError: nothing was changed, there is no place for it in a cell, or it can't be told; names it.
    """
    editor = _Editor(source, namespace)
    for change in source.changes:
        lost = next((each for each in change.names if each in _NO_PLACE), None)
        if lost is None:
            editor.put(change)
            continue
        told = f"{lost}= is {_NO_PLACE[lost]}, and has no place in a cell, which says what is asked."
        if len(source.changes) == 1:
            raise ValidationError(told)
        editor.note(f"{told} It is left out.")
    return editor.finish()


def write_improved_cell(
    ensemble: Any, cell: RunOrigin | None, texts: Mapping[str, str], namespace: Mapping[str, Any] | None = None
) -> str:
    """The body of a cell with other texts.

    Args:
        ensemble: that the cell declares.
        cell: None where there is none, so that its whole ensemble is written.
        texts: by their places, as `Ensemble.variants` names them.
        namespace: as of `edit_cell`.

    Raises:
        ValidationError: a text has no place in the cell.
    """
    editor = _Editor(ChangedSource(changes=(), cell=cell, ensemble=ensemble, inputs={}), namespace)
    for place, text in texts.items():
        editor.put_text(place, text)
    return editor.finish().after


class _Editor:
    """The cell, change by change."""

    def __init__(self, source: ChangedSource, namespace: Mapping[str, Any] | None) -> None:
        names = find_names(source.ensemble) if namespace is None else namespace
        self._names = ObjectNames(names)
        self._inputs = source.inputs
        self._options: dict[str, Any] = {}
        self._file: CellFile | None = None
        self._is_new = source.cell is None
        self._where: list[str] = []
        self._notes: list[str] = []
        cell = source.cell
        if cell is None:
            self._before = write_cell(source.ensemble, names)
        else:
            options = parse_options(cell.options)
            self._options = dict(options.overrides)
            self._before = cell.text
            if options.file is not None:
                self._read_file(options.file)
        self._edit = TextEdit(self._before)
        self._known: tuple[str, Cell] | None = None
        # Other words may give a task another name.
        graph = self._read().graph
        self._numbers = {
            make_task_path(node.name, graph.get_phase_name(node)): number for number, node in enumerate(graph.all_tasks)
        }

    def _read_file(self, path: FilePath) -> None:
        file = read_cell_file(path)
        if self._before.strip():
            self._file = file
            return
        self._before, self._is_new = file.body, True
        self._options = {**file.options.overrides, **self._options}
        self._notes.append(f"The cell ran from {path}, which stays as it is.")

    def _read(self) -> Cell:
        text, cell = self._edit.text, self._known
        if cell is None or cell[0] != text:  # a large cell takes a while
            self._known = cell = (
                text,
                read_cell(text, overrides=self._options, needs_inputs=False, file=self._file, tree=self._edit.root),
            )
        return cell[1]

    def finish(self) -> CellEdit:
        """The cell as it is by now.

        Raises:
            ValidationError: nothing has changed, or it can't be read any more.
        """
        before, after = self._before, self._edit.text
        if after == SourceText(before).text:
            raise ValidationError("Nothing was changed that stands in a cell.")
        if (MASK in after and MASK not in before) or has_secret(after):
            raise ValidationError("The change has a secret in it, and secrets never stand in a cell.")
        try:
            self._read()
        except CellError as error:
            raise ValidationError(f"The change can't stand in the cell: {error.mistakes[0].message}") from None
        if "\r\n" in before:
            after = after.replace("\n", "\r\n")
        return CellEdit(
            before=before, after=after, where=tuple(self._where), notes=tuple(self._notes), is_new=self._is_new
        )

    def note(self, text: str) -> None:
        """Tell a person something of it."""
        self._notes.append(text)

    def put(self, change: ChangedCall) -> None:
        """Put one change into the cell."""
        if change.is_conversation:
            raise ValidationError(
                "messages= is a whole conversation, and has no place in a cell. Change its prompts alone."
            )
        if change.lost:
            raise ValidationError(f"{change.lost[0]}= of a fork of an earlier process is not kept: change it by hand.")
        path = change.task
        number = None if path is None else self._numbers.get(path, self._numbers.get(path.partition("[")[0]))
        if change.is_nested or number is None:
            what = "a run inside the run, whose ensemble has a cell of its own" if change.is_nested else "no task of it"
            raise ValidationError(f"The call of {change.agent!r} is of {what}: change that by hand.")
        if change.system is not None or change.llm is not None or change.parameters:
            self._put_agent(number, change)
        if change.user is not None:
            self._put_prompt(number, change)

    def put_text(self, place: str, text: str) -> None:
        """Put a text in place of another one: ``task.NAME.FIELD`` or ``agent.ROLE.FIELD``."""
        kind, _, rest = place.partition(".")
        name, _, field = rest.rpartition(".")
        cell = self._read()
        for number, node in enumerate(cell.graph.all_tasks):
            agents = (node.task.agent, node.task.fallback)
            if kind == "task" and node.name == name:
                _, section = self._find_task(cell, number)
            elif kind == "agent" and any(each is not None and each.role == name for each in agents):
                _, owner, _ = _find_agent(cell, node, self._find_task(cell, number)[1], name)
                if owner is None:
                    break
                section = owner
            else:
                continue
            self._set(section, self._find_path(section), field, text, place)
            return
        raise ValidationError(f"{place!r} has no place in the cell.")

    # the task's own prompt

    def _put_prompt(self, number: int, change: ChangedCall) -> None:
        if change.is_delegated:
            raise ValidationError(
                f"What {change.agent!r} was asked was written by who delegated it: it stands in no cell."
            )
        assert change.user is not None
        cell = self._read()
        node, section = self._find_task(cell, number)
        task = node.name
        path = self._find_path(section)
        values = self._write_values(cell)
        has_items = node.task.for_each is not None
        places = ITEM_PROMPT_PLACES if has_items else PROMPT_PLACES
        own = section.values.get("prompt")
        if own is not None:
            parts = [*split_text("prompt", own, values, places), Part("")]
        else:
            item = (ITEM,) if has_items else ()
            texts = (node.task.description, node.task.expected_output)
            parts = frame_task(
                *(
                    split_text(name, text, values, item)
                    for name, text in zip(("description", "expected_output"), texts, strict=True)
                )
            )
        matched = match_parts(parts, change.user.before)
        if matched is None:
            raise ValidationError(
                f"The prompt of task {task!r} is another one in the cell than in the run: change it by hand."
            )
        changed = change_texts(matched, change.user.after)
        if changed is not None and all(text.strip() for text in changed.values()):
            for name, text in changed.items():
                self._set(section, path, name, text, f"{name} of task {task!r}")
            self._note_other_agent(node, cell.graph.all_tasks.index(node))
            return
        text = write_own_prompt(matched, change.user.after, places)
        self._set(section, path, "prompt", text, f"prompt of task {task!r}")
        if own is None:
            self._notes.append("The whole prompt stands in the task now, in place of ours; {context} is what it reads.")

    def _note_other_agent(self, before: TaskNode, index: int) -> None:
        """A task without an agent has one by its first verb."""
        after = self._read().graph.all_tasks[index]
        if before.task.agent is None and before.role != after.role:
            self._notes.append(
                f"Task {before.name!r} names no agent, and has one by its words: that is {after.role!r} now, not "
                f"{before.role!r}."
            )

    # the agent, and its model

    def _put_agent(self, number: int, change: ChangedCall) -> None:
        cell = self._read()
        node, section = self._find_task(cell, number)
        task = node.name
        agent, owner, field = _find_agent(cell, node, section, change.agent)
        values: dict[str, Any] = {}
        if change.system is not None:
            values = self._change_system(cell, agent, owner, change)
        if change.llm is not None or change.parameters:
            llm = self._write_model(node, owner, change)
            if ("llm" in section.key_values and field == "agent") or (owner is None and not values):
                self._set(section, self._find_path(section), "llm", llm, f"llm of task {task!r}")
            else:
                values["llm"] = llm
        if not values:
            return
        if owner is None:
            self._add_agent({"role": agent.role, "goal": agent.goal, **values}, section, field, task, None)
        elif _is_shared(cell, agent, node):
            self._copy_agent(owner, values, section, field, task)
        else:
            path = self._find_path(owner)
            for name, value in values.items():
                self._set(owner, path, name, value, f"{name} of {owner.label}")

    def _change_system(self, cell: Cell, agent: Agent, owner: Section | None, change: ChangedCall) -> dict[str, Any]:
        """The texts of the agent that are others."""
        assert change.system is not None
        values = self._write_values(cell)
        if agent.system_prompt is not None:
            own = {name: render(getattr(agent, name) or "", self._values(cell)).strip() for name in SYSTEM_PLACES}
            parts = split_text("system_prompt", agent.system_prompt, {**values, **own}, ())
        else:
            told = {name: getattr(agent, name).strip() for name in _AGENT_TEXTS if (getattr(agent, name) or "").strip()}
            parts = frame_agent(agent, {name: split_text(name, text, values, ()) for name, text in told.items()})
        matched = match_parts(parts, change.system.before)
        changed = None if matched is None or owner is None else change_texts(matched, change.system.after)
        if changed is not None and all(text.strip() for text in changed.values()):
            return dict(changed)
        return {
            "system_prompt": write_own_prompt(
                [each for each in matched or () if each.is_variable], change.system.after, SYSTEM_PLACES
            )
        }

    def _write_model(self, node: TaskNode, owner: Section | None, change: ChangedCall) -> Any:
        """The model as the cell has it."""
        llm = change.llm
        if llm is None:
            is_fallback = node.fallback is not None and node.fallback.role == change.agent
            llm = node.fallback_llm if is_fallback else node.llm
            written = None if owner is None else owner.key_values.get("llm")
            if owner is not None and node.agent is not None and node.agent.role != change.agent and not is_fallback:
                llm = owner.values.get("llm", llm)
            if written is not None and isinstance(written.value, MappingNode):
                llm = self._edit.get_data(self._path_of(written.value))
        if isinstance(llm, ScalarNode):
            llm = llm.text
        if isinstance(llm, str):
            return {"model": llm, **change.parameters} if change.parameters else llm
        if isinstance(llm, Mapping):
            return {**llm, **change.parameters}
        name = self._names.look_up(llm)
        if name is None:
            raise ValidationError(
                f"llm= is an object of type {type(llm).__name__}, which no variable of the notebook holds: cells name "
                f"models by variables. Bind it to one."
            )
        if change.parameters:
            raise ValidationError(
                f"The model is the object {name}, which has its parameters by itself: change "
                f"{', '.join(change.parameters)} where it is made."
            )
        return name

    def _copy_agent(self, owner: Section, values: Mapping[str, Any], section: Section, field: str, task: str) -> None:
        """Give a task an agent of its own, where others share the one that it has."""
        data = self._edit.get_data(self._find_path(owner))
        if not isinstance(data, dict):
            raise ValidationError(
                f"{owner.label} is shared, and can't be copied: give task {task!r} an agent of its own by hand."
            )
        role = {} if "role" in owner.key_values else {"role": owner.name}
        self._add_agent({**role, **data, **values}, section, field, task, owner.name)
        self._notes.append(f"Other tasks share {owner.label}, so task {task!r} gets one of its own.")

    def _add_agent(self, data: Mapping[str, Any], section: Section, field: str, task: str, like: str | None) -> None:
        agents = self._edit.find(("agents",))
        base = like or str(data["role"])
        if not isinstance(self._edit.root, MappingNode) or isinstance(agents, ListNode):
            raise ValidationError(
                f"Task {task!r} needs an agent of its own, and this cell has no place for one with a name: write "
                f"`agents:` with `{base}: ...` below it, and `tasks:`."
            )
        taken = {key.text for key, _ in agents.pairs} if isinstance(agents, MappingNode) else set()
        name = next(each for each in (base, *(f"{base} {number}" for number in range(2, 100))) if each not in taken)
        path = self._find_path(section)
        if agents is None:
            self._edit.set(("agents",), {name: Block(data)})
        else:
            self._edit.set(("agents", name), data, after=like)
        self._where.append(f"agent {name!r}")
        self._set(section, path, field, name, f"{field} of task {task!r}")

    # values and their places

    def _find_task(self, cell: Cell, number: int) -> tuple[TaskNode, Section]:
        """A task of the cell, and where it is written.

        Raises:
            ValidationError: it reviews a phase.
        """
        node, definition, top = cell.graph.all_tasks[number], cell.definition, cell._section
        groups = [(definition.tasks, top)]
        if not definition.tasks:
            phases = top.values["phases"]
            groups = [(phase.tasks, each) for phase, each in zip(definition.phases, phases, strict=True)]
        for tasks, section in groups:
            for task, each in zip(tasks, section.values["tasks"].sections, strict=True):
                if node.task is task:
                    return node, each
        raise ValidationError(f"Task {node.name!r} reviews a phase: change it by hand.")

    def _set(self, section: Section, path: Path, name: str, value: Any, where: str) -> None:
        """Write a field of a section; a task that is a text becomes a mapping."""
        node = self._edit.find(path)
        if isinstance(node, ScalarNode):
            if name == "description":
                self._edit.set(path, value)
            else:
                self._edit.set(path, {"description": self._edit.get_data(path), name: value})
        else:
            key = _find_key(section, name, node)
            self._edit.set((*path, key), value)
        self._where.append(where)

    def _find_path(self, section: Section) -> Path:
        """The path of what a section was read from.

        Raises:
            ValidationError: it stands in the file that the cell builds on.
        """
        if section.place.file:
            raise ValidationError(
                f"{section.label} stands in {section.place.file}, line {section.place.line}: change it there."
            )
        if not section.key_values:
            raise ValidationError(f"{section.label} has no place in the cell.")
        path = self._path_of(next(iter(section.key_values.values())).value)
        is_text = [*section.key_values] == ["description"] and (isinstance(path[-1], int) or path[-1] == section.name)
        return path if is_text else path[:-1]

    def _path_of(self, node: Node) -> Path:
        path = self._edit.find_path(node.start, node.end)
        assert path is not None  # the same text is read
        return path

    def _values(self, cell: Cell) -> dict[str, Any]:
        return {**cell.inputs, **self._inputs}

    def _write_values(self, cell: Cell) -> dict[str, str]:
        """What the variables are filled in with, by name."""
        values = self._values(cell)
        return {name: render(f"{{{name}}}", values) for name in values}


def _find_agent(cell: Cell, node: TaskNode, section: Section, role: str | None) -> tuple[Agent, Section | None, str]:
    """The agent of a call, where it is written, and the key by which the task has it.

    Raises:
        ValidationError: it is in no cell: the manager, say.
    """
    listed = {
        id(agent): each
        for agent, each in zip(cell.definition.agents, cell._section.values.get("agents", ()), strict=True)
    }
    for field, agent in (("agent", node.task.agent), ("fallback", node.task.fallback)):
        if agent is not None and agent.role == role:
            written = section.values.get(field)
            return agent, written if isinstance(written, Section) else listed.get(id(agent)), field
    if node.task.agent is None and node.agent is not None and node.agent.role == role and not cell.graph.managed:
        return node.agent, None, "agent"
    for agent in cell.definition.agents:
        if agent.role == role:
            return agent, listed[id(agent)], "agent"
    raise ValidationError(f"{role!r} is no agent of the cell: who it is, and what it is told, stands in none.")


def _is_shared(cell: Cell, agent: Agent, node: TaskNode) -> bool:
    """Whether an agent works on another task of the cell, too."""
    return any(
        agent is each.task.agent or agent is each.task.fallback for each in cell.graph.all_tasks if each is not node
    )


def _find_key(section: Section, name: str, node: Any) -> str:
    """How a field is spelled where it is written; else by its name."""
    written = section.key_values.get(name)
    pairs = node.pairs if isinstance(node, MappingNode) and written is not None else ()
    return next((key.text for key, value in pairs if written is not None and value.start == written.value.start), name)
