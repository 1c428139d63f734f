"""Reads a cell as sections: agents, tasks, phases and their parts, in every form they may be written in (C1, C5).

What has keys of its own becomes a section, what names something of the notebook or the cell stays a node. Resolves no
name and makes no definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.reading.inline_types import read_inline_type
from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, find_nearest_name, join_names, quote
from ensemble_notebook.cell.reading.sections import KeyValue, Section, TaskGroup
from ensemble_notebook.cell.reading.source_text import Place
from ensemble_notebook.cell.reading.values import (
    describe_node,
    expect_scalar,
    expect_value,
    is_flag,
    is_name,
    make_misfit,
    read_data,
    read_flag,
    read_names,
    read_number,
    read_text,
    to_plain_value,
)
from ensemble_notebook.cell.reading.yaml_nodes import BrokenNode, ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.cell.spellings import (
    Spelling,
    find_foreign_hint,
    find_invisible_character,
    find_misnamed,
    find_other_schema,
    is_known,
    list_familiar_words,
    read_model_spelling,
    read_spelling,
)
from ensemble_notebook.cell.vocabulary import KeyGroup, SectionSchema, ValueKind
from ensemble_notebook.domain.definitions.amounts import MINUTE, AmountError, is_amount, read_budget, read_rate
from ensemble_notebook.domain.definitions.condition import read_short_test
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.output_type import is_type

ValueReader = Callable[[Node, str], Any]
_NUMBERS: Final = (ValueKind.NUMBER, ValueKind.WHOLE, ValueKind.SECONDS, ValueKind.SHARE)
_PAIRS: Final = "Write `name: value` below it, indented."
_WHEN: Final = "Write e.g. {triage: {contains: urgent}}, {triage: urgent} or {triage: default}."
_MEMBERS: Final = frozenset({"tasks", "phases"})
_NAMED_TASK: Final = (
    "Write `- name: {name}`, and `description: ...` below it. Or leave out each '-': then keys name the tasks, and "
    "those that read no other run at the same time."
)
_KEY_NAMES_IT: Final = "Remove this line, or change the key."
_SMALLEST: Final = "The smallest cell is a list of tasks: `- Research {topic}`, then `- Write a haiku from it`."
T = TypeVar("T")
R = TypeVar("R")


def read_section(root: Node | None, report: MistakeReport) -> Section | None:
    """Read a whole cell as a section, or None if there is nothing to read; everything wrong is reported."""
    if root is None or isinstance(root, BrokenNode):
        if not report.has_mistakes:
            report.add_mistake(report.source.top, "this cell is empty.", _SMALLEST)
        return None
    reader = SectionReader(report)
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


class SectionReader:
    """Reads mappings into sections; what can't be read is reported and left out.

    Attributes:
        readers: how each kind of value is read, from its node and its label.
        familiar_readers: how the value of a key is read that another tool means otherwise, by that tool's word.
        has_familiar_key: True after a key in another tool's words.
    """

    def __init__(self, report: MistakeReport) -> None:
        self.report = report
        self.has_familiar_key = False
        self.readers: Mapping[ValueKind, ValueReader] = {
            **dict.fromkeys((ValueKind.TEXT, ValueKind.CHOICE), partial(read_text, report=report)),
            ValueKind.FLAG: read_flag,
            ValueKind.EXTRAS: self._read_extras,
            ValueKind.TEXTS: self._read_texts,
            ValueKind.SCALAR: self._read_scalar,
            **{kind: partial(read_number, wanted=kind.value) for kind in _NUMBERS},
            **{kind: partial(self._read_digits, wanted=kind.value) for kind in vocabulary.MONEY},
            **{kind: partial(self._read_name, wanted=kind.value) for kind in vocabulary.SINGLE_NAMES},
            **{kind: partial(read_names, report=report, wanted=kind.value) for kind in vocabulary.LISTS_OF_NAMES},
            **{kind: partial(self._read_one_or_more, wanted=kind.value) for kind in vocabulary.NAMES_OR_ONE},
            **{kind: partial(self._read_part, schema=vocabulary.VALUE_SECTIONS[kind]) for kind in vocabulary.PARTS},
            **{kind: partial(self._read_limit, kind=kind) for kind in vocabulary.LIMITS},
            ValueKind.TOOLS: self._read_tools,
            ValueKind.AGENTS: self._read_agents,
            ValueKind.WORKER: self._read_named_agent,
            ValueKind.TASKS: self.read_group,
            ValueKind.PHASES: self._read_phases,
            ValueKind.MODEL: self._read_model,
            ValueKind.INPUTS: self._read_inputs,
            ValueKind.OUTPUT_TYPE: self._read_output_type,
            ValueKind.WHEN: self._read_when,
            ValueKind.REVIEW: partial(self._read_one_or_each, read=self._read_gate),
            ValueKind.PHASE_REVIEW: self._read_phase_review,
            ValueKind.REVIEWER: self._read_reviewer,
            ValueKind.STORE: self._read_store,
            ValueKind.CAPS: self._read_caps,
            ValueKind.STAGES: self._read_stages,
            ValueKind.ITEM_SOURCE: self._read_item_source,
        }
        self.familiar_readers: Mapping[str, ValueReader] = {
            "max_rpm": self._read_per_minute,
            "human_input": self._read_human_input,
        }

    def read_fields(self, node: MappingNode, section: Section) -> None:
        """Read every pair of a mapping into a section, and report what is required and missing."""
        for key, each in node.pairs:
            try:
                spelling = read_spelling(section.schema, key.text)
                if not is_known(section.schema, spelling.name):
                    raise self._explain_unknown_key(key, each, section)
                if spelling.is_familiar:
                    self.has_familiar_key = self.has_familiar_key or key.text in list_familiar_words(section.schema)
                    self.report.add_notice(key.place, f"{key.text!r} of {section.label} is read as {spelling.shown!r}.")
                if key_group := section.schema.key_groups.get(spelling.name):
                    self._read_key_group(section, key_group, KeyValue(key.place, each))
                else:
                    self._read_field(section, spelling, KeyValue(key.place, each))
            except MisreadError as misread:
                self.report.add_misread(misread)
        meant = {self._find_intended(section.schema, key.text) for key, _ in node.pairs} - {None}
        section.has_unknown = section.has_unknown or node.is_partial
        if section.key_values or meant or not section.has_unknown:  # where no key makes sense, that has been said
            written = section.key_values.keys() | meant
            for required in section.schema.keys.values():
                if required.is_required and not written.intersection((required.name, *required.word.unless)):
                    hint = f"Add `{required.name}: ...`, {required.meaning}."
                    self.report.add_mistake(section.place, f"{section.label} needs the key {required.name!r}.", hint)

    def _expect_mapping(self, node: Node, label: str, hint: str) -> MappingNode:
        """Expect the node to be a mapping."""
        expect_value(node, label)
        if isinstance(node, MappingNode):
            return node
        raise make_misfit(node, label, "a mapping", hint)

    def _read_each(self, items: Iterable[T], read: Callable[[T], R]) -> list[R]:
        """Read every item; report those that can't be read, and leave them out."""
        found = []
        for item in items:
            try:
                found.append(read(item))
            except MisreadError as misread:
                self.report.add_misread(misread)
        return found

    def _read_part(self, node: Node, label: str, *, schema: SectionSchema) -> Section:
        """Read a mapping with keys of its own as a section."""
        section = Section(schema, label, node.place)
        hint = f"Write {join_names(f'{name}: ...' for name in schema.keys)}."
        self.read_fields(self._expect_mapping(node, label, hint), section)
        return section

    def _read_field(self, section: Section, spelling: Spelling, key_value: KeyValue) -> None:
        name = spelling.name
        label = f"{spelling.shown!r} of {section.label}"
        _claim(section, name, label, key_value)
        key, node = section.schema.keys.get(name), key_value.value
        is_null = isinstance(node, ScalarNode) and node.is_plain and node.text in ("null", "~")
        if key is None:  # `async_execution`, which is no field
            section.values[name] = read_flag(node, label)
        elif key.word.is_nullable and is_null:
            section.values[name] = None
        else:
            read = self.familiar_readers.get(spelling.word) or self.readers[key.kind]
            section.values[name] = read(node, label)

    def _read_key_group(self, section: Section, key_group: KeyGroup, key_value: KeyValue) -> None:
        """Read a word that holds several fields of the section; a single value is that of the leading one."""
        label = f"{key_group.schema.name!r} of {section.label}"
        if isinstance(key_value.value, MappingNode):
            inner = Section(key_group.schema, label, key_value.key)
            self.read_fields(key_value.value, inner)
        else:
            inner = Section(key_group.schema, section.label, key_value.key)
            self._read_field(inner, Spelling(key_group.lead, key_group.lead, key_group.schema.name), key_value)
        for word, each in inner.key_values.items():
            name = key_group.fields[word]
            _claim(section, name, f"{word!r} of {label}", each)
            if word in inner.values:
                section.values[name] = inner.values[word]

    def _explain_unknown_key(self, key: ScalarNode, node: Node, section: Section) -> MisreadError:
        schema, word = section.schema, key.text
        section.has_unknown = True
        message = f"unknown key {quote(word)} in {section.label}."
        has = schema.describe_keys()
        if odd := find_invisible_character(word):
            message = f"the key {quote(word)} in {section.label} holds the invisible character {odd}."
            return MisreadError(key.place, message, "Delete it and type the key again.")
        if foreign := find_foreign_hint(word):
            return MisreadError(key.place, f"{word!r} of {section.label} has no counterpart here.", foreign)
        if close := self._find_intended(schema, word):
            return MisreadError(key.place, f"{message} Did you mean {close!r}?", has)
        if other := find_other_schema(schema, word):
            return MisreadError(key.place, f"{message} It is a key of {other.label}: look at its indentation.", has)
        if schema is vocabulary.TASK and " " in word.strip() and isinstance(node, ScalarNode):
            return MisreadError(key.place, f"{message} Put the text in quotes if ': ' belongs to it.", has)
        if schema is vocabulary.CELL and isinstance(node, ListNode | MappingNode | ScalarNode):
            return MisreadError(key.place, f"{message} Agents stand under `agents:`, tasks under `tasks:`.", has)
        return MisreadError(key.place, message, has)

    def _is_unlike_any_key(self, schema: SectionSchema, word: str) -> bool:
        """Whether nothing is known of a word that could make it a key of this place, or of another one."""
        if is_known(schema, read_spelling(schema, word).name) or find_invisible_character(word):
            return False
        return not (find_foreign_hint(word) or self._find_intended(schema, word) or find_other_schema(schema, word))

    def _find_intended(self, schema: SectionSchema, word: str) -> str | None:
        """Find the key that an unknown one is a misspelling of, in the words that the list of valid ones has."""
        if (misnamed := find_misnamed(schema, word)) is not None:
            return misnamed
        known = (*schema.words, *schema.keys, *list_familiar_words(schema))
        close = None if word in schema.known else find_nearest_name(word, known)
        return None if close is None else read_spelling(schema, close).shown

    def _read_digits(self, node: Node, label: str, *, wanted: str) -> str:
        """Read money as text: so it loses nothing on its way to a decimal."""
        read_number(node, label, wanted=wanted)
        return expect_scalar(node, label, wanted).text

    def _read_name(self, node: Node, label: str, wanted: str) -> ScalarNode:
        """Read a name, which stays a node, so that a mistake about it can be shown where it stands."""
        read_text(node, label, report=self.report, wanted=wanted)
        return expect_scalar(node, label, wanted)

    def _read_model(self, node: Node, label: str) -> ScalarNode | Section:
        if isinstance(node, MappingNode):
            return self._read_part(node, label, schema=vocabulary.MODEL)
        found = self._read_name(node, label, wanted=ValueKind.MODEL.value)
        familiar = read_model_spelling(found.text)
        if familiar != found.text:
            self.report.add_notice(found.place, f"{quote(found.text)} is read as {quote(familiar)}.")
            found = ScalarNode(found.start, found.end, found.place, familiar, is_plain=found.is_plain)
        return found

    def _read_extras(self, node: Node, label: str) -> Any:
        self._expect_mapping(node, label, _PAIRS)
        return read_data(node, label)

    def _read_texts(self, node: Node, label: str) -> str | list[str]:
        if not isinstance(node, ListNode):
            return read_text(node, label, report=self.report, wanted=ValueKind.TEXTS.value)
        return self._read_each(node.items, lambda item: read_text(item, label, report=self.report, wanted="a text"))

    def _read_inputs(self, node: Node, label: str) -> dict[str, Any]:
        def read(pair: tuple[ScalarNode, Node]) -> tuple[str, Any]:
            return pair[0].text, read_data(pair[1], f"the input {quote(pair[0].text)}")

        return dict(self._read_each(self._expect_mapping(node, label, _PAIRS).pairs, read))

    # limits

    def _read_limit(self, node: Node, label: str, *, kind: ValueKind) -> Section | ScalarNode:
        """Read a limit: a mapping, a short text, or the name of one that is shared with other runs."""
        schema = vocabulary.VALUE_SECTIONS[kind]
        if isinstance(node, MappingNode):
            return self._read_part(node, label, schema=schema)
        found = expect_scalar(node, label, kind.value)
        return read_limit(found, label, schema) if is_amount(found.text) else self._read_name(found, label, kind.value)

    def _read_per_minute(self, node: Node, label: str) -> Section:
        """Read `max_rpm` of another tool, requests per minute, as a rate limit."""
        requests = read_number(node, label, wanted="a number of requests per minute")
        return _make_section(vocabulary.RATE, label, node, {"requests": requests, "period": MINUTE})

    # conditions

    def _read_when(self, node: Node, label: str) -> list[Section]:
        found = self._read_one_or_each(node, label, self._read_conditions)
        return [section for sections in found for section in sections]

    def _read_conditions(self, node: Node, label: str) -> list[Section]:
        """Read the conditions on one task, of which any may hold."""
        mapping = self._expect_mapping(node, label, _WHEN)
        if len(mapping.pairs) != 1:
            message = f"a condition is about one task, and this one about {len(mapping.pairs)}."
            raise MisreadError(mapping.place, message, "Write a list, [{a: x}, {b: y}]: any of them may hold.")
        source, test = mapping.pairs[0]
        if isinstance(test, ListNode) and not test.items:
            raise MisreadError(test.place, f"the condition on {quote(source.text)} has no test.", _WHEN)
        tests = test.items if isinstance(test, ListNode) else [test]
        return self._read_each(tests, lambda one: self._read_condition(source, one))

    def _read_condition(self, source: ScalarNode, test: Node) -> Section:
        section = Section(vocabulary.CONDITION, f"the condition on {quote(source.text)}", source.place)
        if isinstance(test, MappingNode):
            self.read_fields(test, section)
            tests = [(name, each) for name, each in section.key_values.items() if name != "field"]
            if len(tests) > 1:
                message = f"{section.label} has {len(tests)} tests: {join_names(name for name, _ in tests)}."
                hint = "A condition has one. Of a list of conditions, any may hold."
                raise MisreadError(tests[1][1].key, message, hint)
            if (not tests and not section.has_unknown) or section.values.get("default") is False:
                raise MisreadError(section.place, f"{section.label} has no test.", _WHEN)
            if "field" not in section.key_values and not isinstance(section.values.get("equals", ""), str):
                read_text(section.key_values["equals"].value, f"'equals' of {section.label}", report=self.report)
        else:
            text = read_text(test, section.label, report=self.report)
            section.values = dict(_read_default_or_equals(test, text))
            section.key_values = dict.fromkeys(section.values, KeyValue(test.place, test))
        section.values["source"] = source
        section.key_values["source"] = KeyValue(source.place, source)
        return section

    def _read_scalar(self, node: Node, label: str) -> Any:
        value = to_plain_value(expect_scalar(node, label, ValueKind.SCALAR.value))
        if isinstance(value, int | float):
            return value
        return read_text(node, label, report=self.report, wanted=ValueKind.SCALAR.value)

    # reviews

    def _read_gate(self, node: Node, label: str) -> Section:
        if isinstance(node, MappingNode):
            return self._read_part(node, label, schema=vocabulary.REVIEW)
        if not is_flag(expect_scalar(node, label, ValueKind.REVIEW.value)):
            return _make_section(vocabulary.REVIEW, label, node, {"timing": read_text(node, label, report=self.report)})
        if read_flag(node, label):
            return Section(vocabulary.REVIEW, label, node.place)
        raise MisreadError(node.place, f"{label} can't be false: without it there is none.", "Remove this line.")

    def _read_human_input(self, node: Node, label: str) -> list[Section]:
        """Read `human_input` of another tool as a review of the output."""
        if read_flag(node, label):
            return [Section(vocabulary.REVIEW, label, node.place)]
        self.report.add_notice(node.place, "'human_input: false' is how tasks run; it is not needed.")
        return []

    def _read_phase_review(self, node: Node, label: str) -> Section:
        if isinstance(node, MappingNode) and any(key.text in vocabulary.PHASE_REVIEW.keys for key, _ in node.pairs):
            return self._read_part(node, label, schema=vocabulary.PHASE_REVIEW)
        return _make_section(vocabulary.PHASE_REVIEW, label, node, {"by": self._read_reviewer(node, label)})

    def _read_reviewer(self, node: Node, label: str) -> Section | ScalarNode:
        """Read a name, or a task that is not among those of the phase."""
        if isinstance(node, MappingNode):
            section = Section(vocabulary.TASK, label, node.place)
            self.read_fields(node, section)
            return section
        found = self._read_name(node, label, wanted=ValueKind.REVIEWER.value)
        if is_name(found.text):
            return found
        return _make_section(vocabulary.TASK, label, node, {"description": found.text.strip()})

    # constraints

    def _read_caps(self, node: Node, label: str) -> list[tuple[ScalarNode, int | float]]:
        def read(pair: tuple[ScalarNode, Node]) -> tuple[ScalarNode, int | float]:
            role, number = pair
            return role, read_number(number, f"{label} for {quote(role.text)}", wanted=ValueKind.WHOLE.value)

        return self._read_each(self._expect_mapping(node, label, "Write {Researcher: 2}.").pairs, read)

    def _read_stages(self, node: Node, label: str) -> list[list[ScalarNode]]:
        expect_value(node, label)
        if not isinstance(node, ListNode):
            raise make_misfit(node, label, ValueKind.STAGES.value, "Write [[Researcher, Analyst], [Writer]].")
        read = partial(self._read_one_or_more, label=f"a stage of {label}", wanted=ValueKind.ROLES.value)
        return self._read_each(node.items, read)

    # items

    def _read_item_source(self, node: Node, label: str) -> list[Any] | ScalarNode:
        """Read a list of items as it stands, or the name of what has them."""
        if isinstance(node, ListNode):
            return list(read_data(node, label))
        return self._read_name(node, label, wanted=ValueKind.ITEM_SOURCE.value)

    # names, paths, and one thing or several

    def _read_one_or_each(self, node: Node, label: str, read: Callable[[Node, str], R]) -> list[R]:
        expect_value(node, label)
        items = node.items if isinstance(node, ListNode) else [node]
        return self._read_each(items, lambda item: read(item, label))

    def _read_one_or_more(self, node: Node, label: str, *, wanted: str) -> list[ScalarNode]:
        if isinstance(node, ScalarNode):
            return [self._read_name(node, label, wanted=wanted)]
        found = read_names(node, label, wanted=wanted, report=self.report)
        return self._read_each(found, lambda item: self._read_name(item, f"an item of {label}", wanted="a name"))

    def _read_tools(self, node: Node, label: str) -> list[ScalarNode | Section]:
        """Read names of tools, some of which may be reviewed tools with keys of their own."""
        items = node.items if isinstance(node, ListNode) else [node]
        names = [each for each in items if not isinstance(each, MappingNode)]
        if len(names) == len(items):
            return [*read_names(node, label, wanted=ValueKind.TOOLS.value, report=self.report)]
        if isinstance(node, ListNode):
            names = [*read_names(replace(node, items=names), label, wanted="a name", report=self.report)]
        read = partial(self._read_part, label=f"a tool in {label}", schema=vocabulary.REVIEWED_TOOL)
        found = [*names, *self._read_each((each for each in items if isinstance(each, MappingNode)), read)]
        return sorted(cast("list[ScalarNode | Section]", found), key=lambda each: (each.place.line, each.place.column))

    def _read_store(self, node: Node, label: str) -> bool | ScalarNode:
        found = expect_scalar(node, label, ValueKind.STORE.value)
        if is_flag(found):
            return read_flag(found, label)
        return self._read_name(found, label, wanted=ValueKind.STORE.value)

    def _read_output_type(self, node: Node, label: str) -> Any:
        expect_value(node, label)
        if isinstance(node, MappingNode):
            return read_inline_type(node, label, self.report)
        if isinstance(node, ListNode) or (isinstance(node, ScalarNode) and is_type(node.text)):
            inside = "[str]" if isinstance(node, ListNode) else node.text
            message = f"{label} takes fields, and this is {describe_node(node)} alone."
            raise MisreadError(node.place, message, f"Wrap it: {{answer: {inside}}}.")
        return self._read_name(node, label, wanted=ValueKind.OUTPUT_TYPE.value)

    # agents

    def _read_agents(self, node: Node, label: str) -> list[Section]:
        hint = "Write `Name:` below it, and the keys of the agent below that."
        members = node if isinstance(node, ListNode) else self._expect_mapping(node, label, hint)
        return self._read_members(members, self._read_agent)

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
            message = f"{section.label} needs the key 'role'."
            self.report.add_mistake(section.place, message, "Add `role: ...`, who this is.")

    def _read_named_agent(self, node: Node, label: str) -> Section | ScalarNode:
        """Read the name of an agent, or an agent that is written where it is used."""
        if not isinstance(node, MappingNode):
            return self._read_name(node, label, wanted=ValueKind.WORKER.value)
        section = Section(vocabulary.AGENT, label, _find_first_place(node))
        self._read_agent_fields(node, section)
        return section

    # tasks

    def read_group(self, node: Node, label: str) -> TaskGroup:
        """Read tasks, which are a list or a mapping."""
        expect_value(node, label)
        if not isinstance(node, ListNode | MappingNode):
            hint = "Write one task a line below it: `- Research {topic}` or `gather: Research {topic}`."
            raise make_misfit(node, label, "a list or a mapping of tasks", hint)
        return TaskGroup(self._read_members(node, self._read_task), isinstance(node, ListNode))

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
        return first if is_name and not is_told and self._is_unlike_any_key(vocabulary.TASK, first.text) else None

    # phases

    def _read_phases(self, node: Node, label: str) -> list[Section]:
        mapping = self._expect_mapping(node, label, "Write `name:` below it, and the tasks of the phase below that.")
        return [self._read_phase(name, each, number) for number, (name, each) in enumerate(mapping.pairs, start=1)]

    def _read_phase(self, key: ScalarNode, node: Node, number: int) -> Section:
        section = self._read_member(vocabulary.PHASE, key, node, number)
        section.values["name"] = key.text
        if isinstance(node, MappingNode) and any(_is_phase_key(name, each) for name, each in node.pairs):
            self.read_fields(node, section)
            if section.values["name"] != key.text:
                message = f"{section.label} is named by its key already, and here again."
                self.report.add_mistake(section.find_place("name"), message, _KEY_NAMES_IT)
            # a task that reviews the phase runs behind it, not in it
            review, group = section.values.get("review"), section.values.get("tasks")
            if isinstance(review, Section) and isinstance(group, TaskGroup):
                by = review.values.get("by")
                for each in [each for each in group.sections if isinstance(by, ScalarNode) and each.name == by.text][
                    :1
                ]:
                    group.sections.remove(each)
                    review.values["by"] = each
        elif isinstance(node, ListNode | MappingNode):
            section.key_values["tasks"] = KeyValue(key.place, node)
            section.values["tasks"] = self.read_group(node, section.label)
        else:
            hint = "Write its tasks below it: `- Research {topic}`, or `tasks:` and `after:`."
            self._refuse_member(section, key, node, "a list or a mapping of tasks", hint)
        return section

    # all members

    def _read_members(
        self, node: ListNode | MappingNode, read: Callable[[ScalarNode | None, Node, int], Section]
    ) -> list[Section]:
        """Read the members of a mapping, which have names, or of a list."""
        pairs = node.pairs if isinstance(node, MappingNode) else [(None, item) for item in node.items]
        return [read(name, each, number) for number, (name, each) in enumerate(pairs, start=1)]

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
            self.report.add_misread(make_misfit(node, section.label, wanted, hint))

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


def _claim(section: Section, name: str, label: str, key_value: KeyValue) -> None:
    """Note where a field is written.

    Raises:
        MisreadError: it has been written before, in another spelling.
    """
    if name in section.key_values:
        first = section.key_values[name].key.line
        message = f"{label} is given twice; the first one, in another spelling, is in line {first}."
        raise MisreadError(key_value.key, message, "Remove one of them.")
    section.key_values[name] = key_value


def read_limit(node: ScalarNode, label: str, schema: SectionSchema) -> Section:
    """Read a rate or a budget that is written as a short text.

    Raises:
        MisreadError: it is none.
    """
    read = read_rate if schema is vocabulary.RATE else read_budget
    try:
        return _make_section(schema, label, node, read(node.text))
    except AmountError as error:
        raise MisreadError(node.place, f"{label}: {error}", error.hint) from None


def _make_section(schema: SectionSchema, label: str, node: Node, values: Mapping[str, Any]) -> Section:
    """Make a section whose fields all come from one value."""
    key_values = dict.fromkeys(values, KeyValue(node.place, node))
    return Section(schema, label, node.place, values=dict(values), key_values=key_values)


def _read_default_or_equals(node: Node, text: str) -> Mapping[str, Any]:
    if not isinstance(node, ScalarNode) or not node.is_plain:
        return {"equals": text}
    if (found := read_short_test(text)) is not None:
        return found
    hint = f'For the output itself, put it in quotes: "{text}".'
    raise MisreadError(node.place, f"{quote(text)} is no test. Did you mean 'default'?", hint)


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
        hint = f"Write `{word}: ...`; put a text that starts so in quotes."
        raise MisreadError(place, "a space is missing after ':'.", hint)


def _find_first_place(node: Node) -> Place:
    """Find where a list item starts: at a mapping's first key."""
    return node.pairs[0][0].place if isinstance(node, MappingNode) and node.pairs else node.place
