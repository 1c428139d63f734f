"""Reads the members of a cell as sections: agents, tasks and phases, in every form they may be written in (C1, C5).

Resolves no name and makes no definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, quote
from ensemble_notebook.cell.reading.part_reader import PartReader
from ensemble_notebook.cell.reading.sections import KeyValue, Section, TaskGroup
from ensemble_notebook.cell.reading.source_text import Place
from ensemble_notebook.cell.reading.values import describe_node, expect_value, read_text
from ensemble_notebook.cell.reading.yaml_nodes import BrokenNode, ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.cell.spellings import find_misnamed, read_spelling
from ensemble_notebook.cell.vocabulary import SectionSchema, ValueKind
from ensemble_notebook.domain.definitions.enums import Workflow

_MEMBERS: Final = frozenset({"tasks", "phases"})
_NAMED_TASK: Final = (
    "Write `- name: {name}`, and `description: ...` below it. Or leave out each '-': then keys name the tasks, and "
    "those that read no other run at the same time."
)
_KEY_NAMES_IT: Final = "Remove this line, or change the key."
_SMALLEST: Final = "The smallest cell is a list of tasks: `- Research {topic}`, then `- Write a haiku from it`."


def read_section(root: Node | None, report: MistakeReport) -> Section | None:
    """Read a whole cell as a section, or None if there is nothing to read; everything wrong is reported."""
    if root is None or isinstance(root, BrokenNode):
        if not report.has_mistakes:
            report.add_mistake(report.source.top, "this cell is empty.", _SMALLEST)
        return None
    reader = _CellReader(report)
    top = Section(vocabulary.CELL, "the cell", report.source.top)
    if isinstance(root, ListNode):
        top.key_values["tasks"] = KeyValue(root.place, root)
        top.values["tasks"] = reader.read_group(root, "the cell")
    elif isinstance(root, MappingNode):
        reader.read_fields(root, top)
        reader.notice_order(top)
    elif isinstance(root, ScalarNode):
        empty = root.is_empty
        hint = "Write a space after each '-'." if root.text.startswith("-") else _SMALLEST
        report.add_mistake(root.place, "this cell is empty." if empty else "this cell is one text, not tasks.", hint)
        return None
    return top


def lay_over(above: Section, below: Section) -> Section:
    """Lay a cell over another one: each of its keys stands in place of the same one there."""
    replaced = set(above.key_values)
    if replaced & _MEMBERS:  # tasks in place of phases, and the other way round
        replaced |= _MEMBERS
    above.values = {name: value for name, value in below.values.items() if name not in replaced} | above.values
    kept = {name: value for name, value in below.key_values.items() if name not in replaced}
    above.key_values = kept | above.key_values
    above.has_unknown = above.has_unknown or below.has_unknown
    return above


class _CellReader(PartReader):
    """Reads the members of a cell."""

    def __init__(self, report: MistakeReport) -> None:
        super().__init__(report)
        self.readers = {
            **self.readers,
            ValueKind.AGENTS: self._read_agents,
            ValueKind.WORKER: self._read_named_agent,
            ValueKind.TASKS: self.read_group,
            ValueKind.PHASES: self._read_phases,
        }

    # agents

    def _read_agents(self, node: Node, label: str) -> list[Section]:
        if isinstance(node, ListNode):
            members: list[tuple[ScalarNode | None, Node]] = [(None, item) for item in node.items]
        else:
            members = list(
                self.expect_mapping(node, label, "Write `Name:` below it, and the keys of the agent below that.").pairs
            )
        return [self._read_agent(name, each, number) for number, (name, each) in enumerate(members, start=1)]

    def _read_agent(self, key: ScalarNode | None, node: Node, number: int) -> Section:
        section = self._read_member(vocabulary.AGENT, key, node, number)
        if not isinstance(node, MappingNode):
            if isinstance(node, ScalarNode):
                _refuse_glued_key(node)
            self._refuse_member(section, key, node, "a mapping with a goal", "Write `goal: ...` below it, indented.")
            return section
        self._read_agent_fields(node, section)
        if key is None and "role" in section.values:
            section.name = section.values["role"].strip()
        return section

    def _read_agent_fields(self, node: MappingNode, section: Section) -> None:
        self.read_fields(node, section)
        if "role" not in section.key_values and section.name is not None:
            section.values["role"] = section.name
            return
        # where a role is written under another word, that has been reported
        is_misnamed = any(find_misnamed(vocabulary.AGENT, key.text) for key, _ in node.pairs)
        if "role" not in section.key_values and not is_misnamed:
            self.report.add_mistake(
                section.place, f"{section.label} needs the key 'role'.", "Add `role: ...`, who this is."
            )

    def _read_named_agent(self, node: Node, label: str) -> Section | ScalarNode:
        """Read the name of an agent, or an agent that is written where it is used."""
        if not isinstance(node, MappingNode):
            return self.read_name(node, label, wanted=ValueKind.WORKER.value)
        section = Section(vocabulary.AGENT, label, _find_first_place(node))
        self._read_agent_fields(node, section)
        return section

    # tasks

    def read_group(self, node: Node, label: str) -> TaskGroup:
        """Read tasks, which are a list or a mapping."""
        expect_value(node, label)
        if isinstance(node, ListNode):
            sections = [self._read_task(None, item, number) for number, item in enumerate(node.items, start=1)]
            return TaskGroup(sections, is_list=True)
        if not isinstance(node, MappingNode):
            hint = "Write one task a line below it: `- Research {topic}` or `gather: Research {topic}`."
            raise MisreadError(
                node.place, f"{label} takes a list or a mapping of tasks, and this is {describe_node(node)}.", hint
            )
        sections = [self._read_task(name, each, number) for number, (name, each) in enumerate(node.pairs, start=1)]
        return TaskGroup(sections, is_list=False)

    def _read_task(self, key: ScalarNode | None, node: Node, number: int) -> Section:
        section = self._read_member(vocabulary.TASK, key, node, number)
        if isinstance(node, MappingNode):
            if key is None and (name := self._find_misplaced_name(node)) is not None:
                message = f"{section.label} stands in a list, where {quote(name.text)} can't name it."
                self.report.add_mistake(name.place, message, _NAMED_TASK.format(name=name.text))
                return self._read_task(name, node.pairs[0][1], number)
            self.read_fields(node, section)
            name = section.values.pop("name", None)
            if key is None and name is not None:
                section.name = name.strip()
                section.label = f"task {quote(section.name)}"
            elif key is not None and name is not None and name != key.text:
                message = f"{section.label} is named by its key already, and here again {quote(name)}."
                self.report.add_mistake(section.find_place("name"), message, _KEY_NAMES_IT)
        elif isinstance(node, ScalarNode) and not node.is_empty:
            section.key_values["description"] = KeyValue(section.place, node)
            try:
                _refuse_stray_key(key, node)
                _refuse_glued_key(node)
                section.values["description"] = read_text(node, section.label, report=self.report)
            except MisreadError as misread:
                self.report.add_misread(misread)
        else:
            hint = "Write what is to be done, or `description: ...` and other keys below it, indented."
            self._refuse_member(section, key, node, "a text or a mapping", hint)
        return section

    def _find_misplaced_name(self, node: MappingNode) -> ScalarNode | None:
        """Find the name of an item like ``- gather: Find sources``, which is written as one of a mapping is."""
        if not node.pairs:
            return None
        first, text = node.pairs[0]
        is_told = {"description", "ensemble"} & {read_spelling(vocabulary.TASK, key.text).name for key, _ in node.pairs}
        is_name = isinstance(text, ScalarNode | MappingNode) and " " not in first.text.strip()
        return first if is_name and not is_told and self.is_unlike_any_key(vocabulary.TASK, first.text) else None

    # phases

    def _read_phases(self, node: Node, label: str) -> list[Section]:
        mapping = self.expect_mapping(node, label, "Write `name:` below it, and the tasks of the phase below that.")
        return [self._read_phase(name, each, number) for number, (name, each) in enumerate(mapping.pairs, start=1)]

    def _read_phase(self, key: ScalarNode, node: Node, number: int) -> Section:
        section = self._read_member(vocabulary.PHASE, key, node, number)
        section.values["name"] = key.text
        if isinstance(node, MappingNode) and any(_is_phase_key(name, each) for name, each in node.pairs):
            self.read_fields(node, section)
            if section.values["name"] != key.text:
                message = f"{section.label} is named by its key already, and here again."
                self.report.add_mistake(section.find_place("name"), message, _KEY_NAMES_IT)
            self._take_out_reviewer(section)
        elif isinstance(node, ListNode | MappingNode):
            section.key_values["tasks"] = KeyValue(key.place, node)
            section.values["tasks"] = self.read_group(node, section.label)
        else:
            hint = "Write its tasks below it: `- Research {topic}`, or `tasks:` and `after:`."
            self._refuse_member(section, key, node, "a list or a mapping of tasks", hint)
        return section

    def _take_out_reviewer(self, section: Section) -> None:
        """Take the task that reviews the phase out of its tasks: it runs behind the phase, not in it."""
        review, group = section.values.get("review"), section.values.get("tasks")
        if not isinstance(review, Section) or not isinstance(group, TaskGroup):
            return
        by = review.values.get("by")
        if not isinstance(by, ScalarNode):
            return
        for each in group.sections:
            if each.name == by.text:
                group.sections.remove(each)
                review.values["by"] = each
                return

    # all members

    def _read_member(self, schema: SectionSchema, key: ScalarNode | None, node: Node, number: int) -> Section:
        if key is None:
            return Section(schema, f"{schema.name} {number}", _find_first_place(node))
        return Section(schema, f"{schema.name} {quote(key.text)}", key.place, key.text)

    def _refuse_member(self, section: Section, key: ScalarNode | None, node: Node, wanted: str, hint: str) -> None:
        """Report a member of the wrong form; its required fields count as written, so that nothing more is said."""
        for name in section.schema.keys:
            section.key_values.setdefault(name, KeyValue(section.place, BrokenNode(node.start, node.end, node.place)))
        try:
            expect_value(node, section.label)
        except MisreadError as misread:
            self.report.add_misread(MisreadError(key.place if key else misread.place, misread.message, hint))
        else:
            self.report.add_mistake(
                node.place, f"{section.label} takes {wanted}, and this is {describe_node(node)}.", hint
            )

    def notice_order(self, top: Section) -> None:
        """Say how a mapping runs, if the cell has another tool's words, where it is a chain."""
        group = top.values.get("tasks")
        if not self.has_familiar_key or not isinstance(group, TaskGroup) or group.is_list or len(group.sections) < 2:
            return
        if any("context" in section.key_values for section in group.sections):
            return
        here = "here a mapping of tasks is a graph: these run at the same time, and none reads another"
        if "workflow" in top.key_values:
            if str(top.values.get("workflow")).lower() != Workflow.SEQUENTIAL:
                return
            here = "here `workflow: sequential` only orders the tasks of a mapping: none reads another"
        first, second = (section.name for section in group.sections[:2])
        message = (
            f"in crewAI these tasks run one after the other, and each reads the one before; {here}. Write them as a "
            f"list (`- name: {first}`), or give each the one before, such as `context: {first}` for {second!r}."
        )
        self.report.add_notice(top.key_values["tasks"].key, message, is_warning=True)


def _refuse_stray_key(key: ScalarNode | None, node: ScalarNode) -> None:
    """Refuse a word of the language as the name of a task: it is a line that has lost its indentation."""
    if key is None or key.text not in vocabulary.WORDS or _is_task_name(key, node):
        return
    message = f"{key.text!r} is a word of the cell language and can't name a task that is just a text."
    hint = f"Look at its indentation; for a task of this name write `{key.text}: {{description: ...}}`."
    raise MisreadError(key.place, message, hint)


def _is_task_name(key: ScalarNode, node: ScalarNode) -> bool:
    """True for a key that names a task here: a description has a space, what such a key takes has none."""
    return key.text in vocabulary.TASK_NAMES and " " in node.text.strip()


def _is_phase_key(key: ScalarNode, node: Node) -> bool:
    """True where a phase is written with its keys; else its tasks stand there."""
    if key.text != "review":
        return key.text in vocabulary.PHASE_KEYS
    if isinstance(node, MappingNode):
        return any(name.text in vocabulary.PHASE_REVIEW.keys for name, _ in node.pairs)
    return isinstance(node, ScalarNode) and not _is_task_name(key, node)


def _refuse_glued_key(node: ScalarNode) -> None:
    """Refuse `goal:Find`, which is a text for YAML, and was hardly meant as one."""
    word = node.text.partition(":")[0]
    if node.is_plain and word in vocabulary.WORDS and ":" in node.text:
        column = node.place.column + len(word)
        place = replace(node.place, column=column, end_column=column + 1)
        raise MisreadError(
            place, "a space is missing after ':'.", f"Write `{word}: ...`; put a text that starts so in quotes."
        )


def _find_first_place(node: Node) -> Place:
    """Find where a list item starts: at a mapping's first key."""
    pairs: Sequence[tuple[ScalarNode, Node]] = node.pairs if isinstance(node, MappingNode) else ()
    return pairs[0][0].place if pairs else node.place
