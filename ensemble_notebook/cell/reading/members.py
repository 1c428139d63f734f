"""The members of a cell as drafts: agents, tasks and phases, in every form they may be written in (C1, C5).

Resolves no name and makes no definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ensemble_notebook.cell.language import cell_schema as schema
from ensemble_notebook.cell.language.cell_schema import Scope
from ensemble_notebook.cell.language.vocabulary import Kind
from ensemble_notebook.cell.reading import values as value
from ensemble_notebook.cell.reading.drafts import Draft, Group, Written
from ensemble_notebook.cell.reading.parts import PartReader
from ensemble_notebook.cell.text.mistakes import MisreadError, Report, quoted
from ensemble_notebook.cell.text.source import Place
from ensemble_notebook.cell.text.yaml_nodes import BrokenNode, ListNode, MappingNode, Node, ScalarNode

_SMALLEST: Final = "The smallest cell is a list of tasks: `- Research {topic}`, then `- Write a haiku from it`."
_TOP: Final = Place(1, 1, 2)


def read_draft(root: Node | None, report: Report) -> Draft | None:
    """The draft of a whole cell, or None where there is nothing to read; everything wrong is reported."""
    if root is None or isinstance(root, BrokenNode):
        if not report.has_mistakes:
            report.mistake(_TOP, "this cell is empty.", _SMALLEST)
        return None
    reader = _CellReader(report)
    top = Draft(schema.CELL, "the cell", _TOP)
    if isinstance(root, ListNode):
        top.written["tasks"] = Written(root.place, root)
        top.values["tasks"] = reader.group(root, "the cell")
    elif isinstance(root, MappingNode):
        reader.fields(root, top)
        reader.notice_order(top)
    elif isinstance(root, ScalarNode):
        empty = root.is_empty
        hint = "Write a space after each '-'." if root.text.startswith("-") else _SMALLEST
        report.mistake(root.place, "this cell is empty." if empty else "this cell is one text, not tasks.", hint)
        return None
    return top


class _CellReader(PartReader):
    """Reads the members of a cell."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.forms = {
            **self.forms,
            Kind.AGENTS: self._agents,
            Kind.WORKER: self._worker,
            Kind.TASKS: self.group,
            Kind.PHASES: self._phases,
        }

    # agents

    def _agents(self, node: Node, label: str) -> list[Draft]:
        if isinstance(node, ListNode):
            members: list[tuple[ScalarNode | None, Node]] = [(None, item) for item in node.items]
        else:
            members = list(
                self.mapping(node, label, "Write `Name:` below it, and the keys of the agent below that.").pairs
            )
        return [self._agent(name, each, number) for number, (name, each) in enumerate(members, start=1)]

    def _agent(self, key: ScalarNode | None, node: Node, number: int) -> Draft:
        draft = self._member(schema.AGENT, key, node, number)
        if not isinstance(node, MappingNode):
            if isinstance(node, ScalarNode):
                _refuse_glued_key(node)
            self._refuse_member(draft, key, node, "a mapping with a goal", "Write `goal: ...` below it, indented.")
            return draft
        self._agent_fields(node, draft)
        if key is None and "role" in draft.values:
            draft.name = draft.values["role"].strip()
        return draft

    def _agent_fields(self, node: MappingNode, draft: Draft) -> None:
        self.fields(node, draft)
        if "role" not in draft.written and draft.name is not None:
            draft.values["role"] = draft.name
        elif "role" not in draft.written:
            self.report.mistake(draft.place, f"{draft.label} needs the key 'role'.", "Add `role: ...`, who this is.")

    def _worker(self, node: Node, label: str) -> Draft | ScalarNode:
        """An agent by its name, or one that is written where it is used."""
        if not isinstance(node, MappingNode):
            return self.name(node, label, wanted=Kind.WORKER.value)
        draft = Draft(schema.AGENT, label, _first_place(node))
        self._agent_fields(node, draft)
        return draft

    # tasks

    def group(self, node: Node, label: str) -> Group:
        """Tasks as a list or as a mapping."""
        value.expect_written(node, label)
        if isinstance(node, ListNode):
            drafts = [self._task(None, item, number) for number, item in enumerate(node.items, start=1)]
            return Group(drafts, is_list=True)
        if not isinstance(node, MappingNode):
            hint = "Write one task a line below it: `- Research {topic}` or `gather: Research {topic}`."
            raise MisreadError(
                node.place, f"{label} takes a list or a mapping of tasks, and this is {value.describe(node)}.", hint
            )
        drafts = [self._task(name, each, number) for number, (name, each) in enumerate(node.pairs, start=1)]
        return Group(drafts, is_list=False)

    def _task(self, key: ScalarNode | None, node: Node, number: int) -> Draft:
        draft = self._member(schema.TASK, key, node, number)
        if isinstance(node, MappingNode):
            self.fields(node, draft)
            self._name_task(draft, key)
        elif isinstance(node, ScalarNode) and not node.is_empty:
            draft.written["description"] = Written(draft.place, node)
            try:
                _refuse_stray_key(key, node)
                _refuse_glued_key(node)
                draft.values["description"] = value.text(node, draft.label, report=self.report)
            except MisreadError as misread:
                self.report.misread(misread)
        else:
            hint = "Write what is to be done, or `description: ...` and other keys below it, indented."
            self._refuse_member(draft, key, node, "a text or a mapping", hint)
        return draft

    def _name_task(self, draft: Draft, key: ScalarNode | None) -> None:
        name = draft.values.pop("name", None)
        if key is None and name is not None:
            draft.name = name.strip()
            draft.label = f"task {quoted(draft.name)}"
        elif key is not None and name is not None and name != key.text:
            message = f"{draft.label} is named by its key already, and here again {quoted(name)}."
            self.report.mistake(draft.written["name"].value.place, message, "Remove this line, or change the key.")

    # phases

    def _phases(self, node: Node, label: str) -> list[Draft]:
        mapping = self.mapping(node, label, "Write `name:` below it, and the tasks of the phase below that.")
        return [self._phase(name, each, number) for number, (name, each) in enumerate(mapping.pairs, start=1)]

    def _phase(self, key: ScalarNode, node: Node, number: int) -> Draft:
        draft = self._member(schema.PHASE, key, node, number)
        draft.values["name"] = key.text
        if isinstance(node, MappingNode) and any(_is_phase_key(name, each) for name, each in node.pairs):
            self.fields(node, draft)
            if draft.values["name"] != key.text:
                message = f"{draft.label} is named by its key already, and here again."
                self.report.mistake(draft.written["name"].value.place, message, "Remove this line, or change the key.")
            self._take_out_reviewer(draft)
        elif isinstance(node, ListNode | MappingNode):
            draft.written["tasks"] = Written(key.place, node)
            draft.values["tasks"] = self.group(node, draft.label)
        else:
            hint = "Write its tasks below it: `- Research {topic}`, or `tasks:` and `after:`."
            self._refuse_member(draft, key, node, "a list or a mapping of tasks", hint)
        return draft

    def _take_out_reviewer(self, draft: Draft) -> None:
        """A task of the phase that is named as its reviewer stands behind the phase, not in it (E28)."""
        review, group = draft.values.get("review"), draft.values.get("tasks")
        if not isinstance(review, Draft) or not isinstance(group, Group):
            return
        by = review.values.get("by")
        if not isinstance(by, ScalarNode):
            return
        for each in group.drafts:
            if each.name == by.text:
                group.drafts.remove(each)
                review.values["by"] = each
                return

    # all members

    def _member(self, scope: Scope, key: ScalarNode | None, node: Node, number: int) -> Draft:
        if key is None:
            return Draft(scope, f"{scope.name} {number}", _first_place(node))
        return Draft(scope, f"{scope.name} {quoted(key.text)}", key.place, key.text)

    def _refuse_member(self, draft: Draft, key: ScalarNode | None, node: Node, wanted: str, hint: str) -> None:
        """Report a member of the wrong form; its required fields count as written, so that nothing more is said."""
        for name in draft.scope.keys:
            draft.written.setdefault(name, Written(draft.place, BrokenNode(node.start, node.end, node.place)))
        try:
            value.expect_written(node, draft.label)
        except MisreadError as misread:
            self.report.misread(MisreadError(key.place if key else misread.place, misread.message, hint))
        else:
            self.report.mistake(node.place, f"{draft.label} takes {wanted}, and this is {value.describe(node)}.", hint)

    def notice_order(self, top: Draft) -> None:
        """Where a cell speaks another tool's words, say that a mapping does not run in its order (C1, C3)."""
        group = top.values.get("tasks")
        if not self.has_familiar_key or not isinstance(group, Group) or group.is_list or "workflow" in top.written:
            return
        if len(group.drafts) > 1 and not any(_is_linked(draft) for draft in group.drafts):
            message = (
                "a mapping of tasks is a graph: these run at the same time, and none reads another. "
                "For one after the other write them as a list, or give them `context:`."
            )
            self.report.notice(top.written["tasks"].key, message, is_warning=True)


def _refuse_stray_key(key: ScalarNode | None, node: ScalarNode) -> None:
    """A word of the language where the name of a task belongs is a line that has lost its indentation."""
    if key is None or key.text not in schema.WORDS or _names_task(key, node):
        return
    message = f"{key.text!r} is a word of the cell language and can't name a task that is just a text."
    hint = f"Look at its indentation; for a task of this name write `{key.text}: {{description: ...}}`."
    raise MisreadError(key.place, message, hint)


def _names_task(key: ScalarNode, node: ScalarNode) -> bool:
    """True for a key that names a task here: a description has a space, what such a key takes has none."""
    return key.text in schema.TASK_NAMES and " " in node.text.strip()


def _is_phase_key(key: ScalarNode, node: Node) -> bool:
    """True where a phase is written with its keys; else its tasks stand there."""
    if key.text != "review":
        return key.text in schema.PHASE_KEYS
    if isinstance(node, MappingNode):
        return any(name.text in schema.PHASE_REVIEW.keys for name, _ in node.pairs)
    return isinstance(node, ScalarNode) and not _names_task(key, node)


def _refuse_glued_key(node: ScalarNode) -> None:
    """`goal:Find` is a text for YAML, and was hardly meant as one."""
    word = node.text.partition(":")[0]
    if node.is_plain and word in schema.WORDS and ":" in node.text:
        place = Place(node.place.line, node.place.column + len(word), node.place.column + len(word) + 1)
        raise MisreadError(
            place, "a space is missing after ':'.", f"Write `{word}: ...`; put a text that starts so in quotes."
        )


def _is_linked(draft: Draft) -> bool:
    return "context" in draft.written


def _first_place(node: Node) -> Place:
    """Where a list item starts: a mapping's first key."""
    pairs: Sequence[tuple[ScalarNode, Node]] = node.pairs if isinstance(node, MappingNode) else ()
    return pairs[0][0].place if pairs else node.place
