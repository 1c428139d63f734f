"""The parts of members and of the cell as drafts: rates, budgets, conditions, reviews, constraints, in all their forms.

What has keys of its own becomes a draft, what names something of the notebook or the cell stays a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from ensemble_notebook.cell.language import cell_schema as schema
from ensemble_notebook.cell.language.amounts import MINUTE, AmountError, is_amount, read_budget, read_rate
from ensemble_notebook.cell.language.cell_schema import Scope
from ensemble_notebook.cell.language.vocabulary import Kind
from ensemble_notebook.cell.reading import inline_types as shape
from ensemble_notebook.cell.reading import values as value
from ensemble_notebook.cell.reading.drafts import Draft, Written
from ensemble_notebook.cell.reading.fields import FieldReader, Form
from ensemble_notebook.cell.text.mistakes import MisreadError, Report, listed, nearest_name, quoted
from ensemble_notebook.cell.text.yaml_nodes import ListNode, MappingNode, Node, ScalarNode

_WHEN: Final = "Write e.g. {triage: {contains: urgent}}, {triage: urgent} or {triage: default}."


class PartReader(FieldReader):
    """Reads values that have a form of their own."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.forms = {
            **self.forms,
            Kind.SHAPE: self._shape,
            Kind.RATE: partial(self._limit, scope=schema.RATE, wanted=Kind.RATE.value),
            Kind.BUDGET: partial(self._limit, scope=schema.BUDGET, wanted=Kind.BUDGET.value),
            Kind.WHEN: self._when,
            Kind.REVIEW: self._gates,
            Kind.PHASE_REVIEW: self._phase_review,
            Kind.REVIEWER: self._reviewer,
            Kind.MEMORIES: partial(self._one_or_more, wanted=Kind.MEMORIES.value),
            Kind.FUNCTIONS: partial(self._one_or_more, wanted=Kind.FUNCTIONS.value),
            Kind.STORE: self._store,
            Kind.CONSTRAINTS: partial(self.part, scope=schema.CONSTRAINTS),
            Kind.CAPS: self._caps,
            Kind.STAGES: self._stages,
        }
        self.spelled: Mapping[str, Form] = {"max_rpm": self._per_minute, "human_input": self._human_input}

    # limits

    def _limit(self, node: Node, label: str, *, scope: Scope, wanted: str) -> Draft | ScalarNode:
        """A limit as a mapping, as a short text, or as the name of one that is shared with other runs."""
        if isinstance(node, MappingNode):
            return self.part(node, label, scope=scope)
        found = value.scalar(node, label, wanted)
        return limit_draft(found, label, scope) if is_amount(found.text) else self.name(found, label, wanted=wanted)

    def _per_minute(self, node: Node, label: str) -> Draft:
        """`max_rpm` of another tool: requests per minute."""
        requests = value.number(node, label, wanted="a number of requests per minute")
        return _whole_draft(schema.RATE, label, node, {"requests": requests, "period": MINUTE})

    # conditions

    def _when(self, node: Node, label: str) -> list[Draft]:
        value.expect_written(node, label)
        items = node.items if isinstance(node, ListNode) else [node]
        return [draft for drafts in self.each(items, lambda item: self._conditions(item, label)) for draft in drafts]

    def _conditions(self, node: Node, label: str) -> list[Draft]:
        """The conditions on one task, of which any may hold."""
        mapping = self.mapping(node, label, _WHEN)
        if len(mapping.pairs) != 1:
            message = f"a condition is about one task, and this one about {len(mapping.pairs)}."
            raise MisreadError(mapping.place, message, "Write a list, [{a: x}, {b: y}]: any of them may hold.")
        source, test = mapping.pairs[0]
        if isinstance(test, ListNode) and not test.items:
            raise MisreadError(test.place, f"the condition on {quoted(source.text)} has no test.", _WHEN)
        tests = test.items if isinstance(test, ListNode) else [test]
        return self.each(tests, lambda one: self._condition(source, one))

    def _condition(self, source: ScalarNode, test: Node) -> Draft:
        draft = Draft(schema.CONDITION, f"the condition on {quoted(source.text)}", source.place)
        if isinstance(test, MappingNode):
            self.fields(test, draft)
            self._expect_one_test(draft)
        else:
            text = value.text(test, draft.label, report=self.report)
            draft.values = _default_or_equals(test, text)
            draft.written = dict.fromkeys(draft.values, Written(test.place, test))
        draft.values["source"] = source
        draft.written["source"] = Written(source.place, source)
        return draft

    def _expect_one_test(self, condition: Draft) -> None:
        tests = list(condition.written.items())
        if len(tests) > 1:
            message = f"{condition.label} has {len(tests)} tests: {listed(name for name, _ in tests)}."
            hint = "A condition has one. Of a list of conditions, any may hold."
            raise MisreadError(tests[1][1].key, message, hint)
        if (not tests and not condition.has_unknown) or condition.values.get("default") is False:
            raise MisreadError(condition.place, f"{condition.label} has no test.", _WHEN)

    # reviews

    def _gates(self, node: Node, label: str) -> list[Draft]:
        value.expect_written(node, label)
        items = node.items if isinstance(node, ListNode) else [node]
        return self.each(items, lambda item: self._gate(item, label))

    def _gate(self, node: Node, label: str) -> Draft:
        if isinstance(node, MappingNode):
            return self.part(node, label, scope=schema.REVIEW)
        if not value.is_flag(value.scalar(node, label, Kind.REVIEW.value)):
            return _whole_draft(schema.REVIEW, label, node, {"timing": value.text(node, label, report=self.report)})
        if value.flag(node, label):
            return Draft(schema.REVIEW, label, node.place)
        raise MisreadError(node.place, f"{label} can't be false: without it there is none.", "Remove this line.")

    def _human_input(self, node: Node, label: str) -> list[Draft]:
        """`human_input` of another tool: a person looks at the output."""
        if value.flag(node, label):
            return [Draft(schema.REVIEW, label, node.place)]
        self.report.notice(node.place, "'human_input: false' is how tasks run; it is not needed.")
        return []

    def _phase_review(self, node: Node, label: str) -> Draft:
        if isinstance(node, MappingNode) and any(key.text in schema.PHASE_REVIEW.keys for key, _ in node.pairs):
            return self.part(node, label, scope=schema.PHASE_REVIEW)
        return _whole_draft(schema.PHASE_REVIEW, label, node, {"by": self._reviewer(node, label)})

    def _reviewer(self, node: Node, label: str) -> Draft | ScalarNode:
        """A name, or a task that stands outside the phase."""
        if isinstance(node, MappingNode):
            draft = Draft(schema.TASK, label, node.place)
            self.fields(node, draft)
            return draft
        found = self.name(node, label, wanted=Kind.REVIEWER.value)
        if value.is_name(found.text):
            return found
        return _whole_draft(schema.TASK, label, node, {"description": found.text.strip()})

    # constraints

    def _caps(self, node: Node, label: str) -> list[tuple[ScalarNode, int | float]]:
        def read(pair: tuple[ScalarNode, Node]) -> tuple[ScalarNode, int | float]:
            role, number = pair
            return role, value.number(number, f"{label} for {quoted(role.text)}", wanted=Kind.WHOLE.value)

        return self.each(self.mapping(node, label, "Write {Researcher: 2}.").pairs, read)

    def _stages(self, node: Node, label: str) -> list[list[ScalarNode]]:
        value.expect_written(node, label)
        if not isinstance(node, ListNode):
            message = f"{label} takes {Kind.STAGES.value}, and this is {value.describe(node)}."
            raise MisreadError(node.place, message, "Write [[Researcher, Analyst], [Writer]].")
        read = partial(self._one_or_more, label=f"a stage of {label}", wanted=Kind.ROLES.value)
        return self.each(node.items, read)

    # names and paths

    def _one_or_more(self, node: Node, label: str, *, wanted: str) -> list[ScalarNode]:
        if isinstance(node, ScalarNode):
            return [self.name(node, label, wanted=wanted)]
        found = value.names(node, label, wanted=wanted, report=self.report)
        return self.each(found, lambda item: self.name(item, f"an item of {label}", wanted="a name"))

    def _store(self, node: Node, label: str) -> bool | ScalarNode:
        found = value.scalar(node, label, Kind.STORE.value)
        if value.is_flag(found):
            return value.flag(found, label)
        return self.name(found, label, wanted=Kind.STORE.value)

    def _shape(self, node: Node, label: str) -> Any:
        value.expect_written(node, label)
        if isinstance(node, MappingNode):
            return shape.read_shape(node, label, self.report)
        if isinstance(node, ListNode) or (isinstance(node, ScalarNode) and shape.is_type(node.text)):
            inside = "[str]" if isinstance(node, ListNode) else node.text
            message = f"{label} takes fields, and this is {value.describe(node)} alone."
            raise MisreadError(node.place, message, f"Wrap it: {{answer: {inside}}}.")
        return self.name(node, label, wanted=Kind.SHAPE.value)


def limit_draft(node: ScalarNode, label: str, scope: Scope) -> Draft:
    """A rate or a budget that is written as a short text.

    Raises:
        MisreadError: it is none.
    """
    read = read_rate if scope is schema.RATE else read_budget
    try:
        return _whole_draft(scope, label, node, read(node.text))
    except AmountError as error:
        raise MisreadError(node.place, f"{label}: {error}", error.hint) from None


def _whole_draft(scope: Scope, label: str, node: Node, values: Mapping[str, Any]) -> Draft:
    """A draft whose fields are all told by one value."""
    written = dict.fromkeys(values, Written(node.place, node))
    return Draft(scope, label, node.place, values=dict(values), written=written)


def _default_or_equals(node: Node, text: str) -> dict[str, Any]:
    is_plain = isinstance(node, ScalarNode) and node.is_plain
    if is_plain and text == "default":
        return {"default": True}
    if is_plain and nearest_name(text, ["default"]):
        hint = f'For the output itself, put it in quotes: "{text}".'
        raise MisreadError(node.place, f"{quoted(text)} is no test. Did you mean 'default'?", hint)
    return {"equals": text}
