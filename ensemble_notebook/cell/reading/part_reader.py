"""Reads parts as sections: rates, budgets, conditions, reviews and constraints, in every form they may be written in.

What has keys of its own becomes a section, what names something of the notebook or the cell stays a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from ensemble_notebook.cell.language import cell_schema
from ensemble_notebook.cell.language.amounts import MINUTE, AmountError, is_amount, read_budget, read_rate
from ensemble_notebook.cell.language.cell_schema import SectionSchema
from ensemble_notebook.cell.language.vocabulary import ValueKind
from ensemble_notebook.cell.reading.field_reader import FieldReader, ValueReader
from ensemble_notebook.cell.reading.inline_types import is_type, read_inline_type
from ensemble_notebook.cell.reading.sections import KeyValue, Section
from ensemble_notebook.cell.reading.values import (
    describe_node,
    expect_scalar,
    expect_value,
    is_flag,
    is_name,
    read_data,
    read_flag,
    read_names,
    read_number,
    read_text,
    to_plain_value,
)
from ensemble_notebook.cell.text.mistakes import MisreadError, MistakeReport, join_names, quote
from ensemble_notebook.cell.text.suggestions import suggest_name
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

_WHEN: Final = "Write e.g. {triage: {contains: urgent}}, {triage: urgent} or {triage: default}."


class PartReader(FieldReader):
    """Reads values that have a form of their own."""

    def __init__(self, report: MistakeReport) -> None:
        super().__init__(report)
        self.readers = {
            **self.readers,
            ValueKind.OUTPUT_TYPE: self._read_output_type,
            ValueKind.RATE: partial(self._read_limit, schema=cell_schema.RATE, wanted=ValueKind.RATE.value),
            ValueKind.BUDGET: partial(self._read_limit, schema=cell_schema.BUDGET, wanted=ValueKind.BUDGET.value),
            ValueKind.WHEN: self._read_when,
            ValueKind.SCALAR: self._read_scalar,
            ValueKind.REVIEW: self._read_gates,
            ValueKind.PHASE_REVIEW: self._read_phase_review,
            ValueKind.REVIEWER: self._read_reviewer,
            ValueKind.MEMORIES: partial(self._read_one_or_more, wanted=ValueKind.MEMORIES.value),
            ValueKind.FUNCTIONS: partial(self._read_one_or_more, wanted=ValueKind.FUNCTIONS.value),
            ValueKind.STORE: self._read_store,
            ValueKind.CONSTRAINTS: partial(self.read_part, schema=cell_schema.CONSTRAINTS),
            ValueKind.CAPS: self._read_caps,
            ValueKind.STAGES: self._read_stages,
            ValueKind.ITEM_SOURCE: self._read_item_source,
        }
        self.familiar_readers: Mapping[str, ValueReader] = {
            "max_rpm": self._read_per_minute,
            "human_input": self._read_human_input,
        }

    # limits

    def _read_limit(self, node: Node, label: str, *, schema: SectionSchema, wanted: str) -> Section | ScalarNode:
        """Read a limit: a mapping, a short text, or the name of one that is shared with other runs."""
        if isinstance(node, MappingNode):
            return self.read_part(node, label, schema=schema)
        found = expect_scalar(node, label, wanted)
        return (
            read_limit(found, label, schema) if is_amount(found.text) else self.read_name(found, label, wanted=wanted)
        )

    def _read_per_minute(self, node: Node, label: str) -> Section:
        """Read `max_rpm` of another tool, requests per minute, as a rate limit."""
        requests = read_number(node, label, wanted="a number of requests per minute")
        return _make_section(cell_schema.RATE, label, node, {"requests": requests, "period": MINUTE})

    # conditions

    def _read_when(self, node: Node, label: str) -> list[Section]:
        expect_value(node, label)
        items = node.items if isinstance(node, ListNode) else [node]
        return [
            section
            for sections in self.read_each(items, lambda item: self._read_conditions(item, label))
            for section in sections
        ]

    def _read_conditions(self, node: Node, label: str) -> list[Section]:
        """Read the conditions on one task, of which any may hold."""
        mapping = self.expect_mapping(node, label, _WHEN)
        if len(mapping.pairs) != 1:
            message = f"a condition is about one task, and this one about {len(mapping.pairs)}."
            raise MisreadError(mapping.place, message, "Write a list, [{a: x}, {b: y}]: any of them may hold.")
        source, test = mapping.pairs[0]
        if isinstance(test, ListNode) and not test.items:
            raise MisreadError(test.place, f"the condition on {quote(source.text)} has no test.", _WHEN)
        tests = test.items if isinstance(test, ListNode) else [test]
        return self.read_each(tests, lambda one: self._read_condition(source, one))

    def _read_condition(self, source: ScalarNode, test: Node) -> Section:
        section = Section(cell_schema.CONDITION, f"the condition on {quote(source.text)}", source.place)
        if isinstance(test, MappingNode):
            self.read_fields(test, section)
            self._expect_one_test(section)
            if "field" not in section.key_values and not isinstance(section.values.get("equals", ""), str):
                read_text(section.key_values["equals"].value, f"'equals' of {section.label}", report=self.report)
        else:
            text = read_text(test, section.label, report=self.report)
            section.values = _read_default_or_equals(test, text)
            section.key_values = dict.fromkeys(section.values, KeyValue(test.place, test))
        section.values["source"] = source
        section.key_values["source"] = KeyValue(source.place, source)
        return section

    def _expect_one_test(self, condition: Section) -> None:
        tests = [(name, each) for name, each in condition.key_values.items() if name != "field"]
        if len(tests) > 1:
            message = f"{condition.label} has {len(tests)} tests: {join_names(name for name, _ in tests)}."
            hint = "A condition has one. Of a list of conditions, any may hold."
            raise MisreadError(tests[1][1].key, message, hint)
        if (not tests and not condition.has_unknown) or condition.values.get("default") is False:
            raise MisreadError(condition.place, f"{condition.label} has no test.", _WHEN)

    def _read_scalar(self, node: Node, label: str) -> Any:
        value = to_plain_value(expect_scalar(node, label, ValueKind.SCALAR.value))
        if isinstance(value, int | float):
            return value
        return read_text(node, label, report=self.report, wanted=ValueKind.SCALAR.value)

    # reviews

    def _read_gates(self, node: Node, label: str) -> list[Section]:
        expect_value(node, label)
        items = node.items if isinstance(node, ListNode) else [node]
        return self.read_each(items, lambda item: self._read_gate(item, label))

    def _read_gate(self, node: Node, label: str) -> Section:
        if isinstance(node, MappingNode):
            return self.read_part(node, label, schema=cell_schema.REVIEW)
        if not is_flag(expect_scalar(node, label, ValueKind.REVIEW.value)):
            return _make_section(
                cell_schema.REVIEW, label, node, {"timing": read_text(node, label, report=self.report)}
            )
        if read_flag(node, label):
            return Section(cell_schema.REVIEW, label, node.place)
        raise MisreadError(node.place, f"{label} can't be false: without it there is none.", "Remove this line.")

    def _read_human_input(self, node: Node, label: str) -> list[Section]:
        """Read `human_input` of another tool as a review of the output."""
        if read_flag(node, label):
            return [Section(cell_schema.REVIEW, label, node.place)]
        self.report.add_notice(node.place, "'human_input: false' is how tasks run; it is not needed.")
        return []

    def _read_phase_review(self, node: Node, label: str) -> Section:
        if isinstance(node, MappingNode) and any(key.text in cell_schema.PHASE_REVIEW.keys for key, _ in node.pairs):
            return self.read_part(node, label, schema=cell_schema.PHASE_REVIEW)
        return _make_section(cell_schema.PHASE_REVIEW, label, node, {"by": self._read_reviewer(node, label)})

    def _read_reviewer(self, node: Node, label: str) -> Section | ScalarNode:
        """Read a name, or a task that is not among those of the phase."""
        if isinstance(node, MappingNode):
            section = Section(cell_schema.TASK, label, node.place)
            self.read_fields(node, section)
            return section
        found = self.read_name(node, label, wanted=ValueKind.REVIEWER.value)
        if is_name(found.text):
            return found
        return _make_section(cell_schema.TASK, label, node, {"description": found.text.strip()})

    # constraints

    def _read_caps(self, node: Node, label: str) -> list[tuple[ScalarNode, int | float]]:
        def read(pair: tuple[ScalarNode, Node]) -> tuple[ScalarNode, int | float]:
            role, number = pair
            return role, read_number(number, f"{label} for {quote(role.text)}", wanted=ValueKind.WHOLE.value)

        return self.read_each(self.expect_mapping(node, label, "Write {Researcher: 2}.").pairs, read)

    def _read_stages(self, node: Node, label: str) -> list[list[ScalarNode]]:
        expect_value(node, label)
        if not isinstance(node, ListNode):
            message = f"{label} takes {ValueKind.STAGES.value}, and this is {describe_node(node)}."
            raise MisreadError(node.place, message, "Write [[Researcher, Analyst], [Writer]].")
        read = partial(self._read_one_or_more, label=f"a stage of {label}", wanted=ValueKind.ROLES.value)
        return self.read_each(node.items, read)

    # items

    def _read_item_source(self, node: Node, label: str) -> list[Any] | ScalarNode:
        """Read a list of items as it stands, or the name of what has them."""
        if isinstance(node, ListNode):
            return list(read_data(node, label))
        return self.read_name(node, label, wanted=ValueKind.ITEM_SOURCE.value)

    # names and paths

    def _read_one_or_more(self, node: Node, label: str, *, wanted: str) -> list[ScalarNode]:
        if isinstance(node, ScalarNode):
            return [self.read_name(node, label, wanted=wanted)]
        found = read_names(node, label, wanted=wanted, report=self.report)
        return self.read_each(found, lambda item: self.read_name(item, f"an item of {label}", wanted="a name"))

    def _read_store(self, node: Node, label: str) -> bool | ScalarNode:
        found = expect_scalar(node, label, ValueKind.STORE.value)
        if is_flag(found):
            return read_flag(found, label)
        return self.read_name(found, label, wanted=ValueKind.STORE.value)

    def _read_output_type(self, node: Node, label: str) -> Any:
        expect_value(node, label)
        if isinstance(node, MappingNode):
            return read_inline_type(node, label, self.report)
        if isinstance(node, ListNode) or (isinstance(node, ScalarNode) and is_type(node.text)):
            inside = "[str]" if isinstance(node, ListNode) else node.text
            message = f"{label} takes fields, and this is {describe_node(node)} alone."
            raise MisreadError(node.place, message, f"Wrap it: {{answer: {inside}}}.")
        return self.read_name(node, label, wanted=ValueKind.OUTPUT_TYPE.value)


def read_limit(node: ScalarNode, label: str, schema: SectionSchema) -> Section:
    """Read a rate or a budget that is written as a short text.

    Raises:
        MisreadError: it is none.
    """
    read = read_rate if schema is cell_schema.RATE else read_budget
    try:
        return _make_section(schema, label, node, read(node.text))
    except AmountError as error:
        raise MisreadError(node.place, f"{label}: {error}", error.hint) from None


def _make_section(schema: SectionSchema, label: str, node: Node, values: Mapping[str, Any]) -> Section:
    """Make a section whose fields all come from one value."""
    key_values = dict.fromkeys(values, KeyValue(node.place, node))
    return Section(schema, label, node.place, values=dict(values), key_values=key_values)


def _read_default_or_equals(node: Node, text: str) -> dict[str, Any]:
    is_plain = isinstance(node, ScalarNode) and node.is_plain
    if is_plain and text == "default":
        return {"default": True}
    if is_plain and (close := suggest_name(text, ["default"])):
        hint = f'For the output itself, put it in quotes: "{text}".'
        raise MisreadError(node.place, f"{quote(text)} is no test.{close}", hint)
    return {"equals": text}
