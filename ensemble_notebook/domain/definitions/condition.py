"""Conditions: whether a task or phase runs depends on what another task said (E33)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field as make_field
from typing import Any, ClassVar

from ensemble_notebook.domain.definitions.definition import Converted, Definition, converted, definition
from ensemble_notebook.domain.definitions.output_field import is_same_scalar, to_scalar_text
from ensemble_notebook.domain.definitions.pattern_search import describe_pattern, is_found, read_pattern
from ensemble_notebook.domain.outputs.task_output import TaskOutput


class ConditionSource(Definition):
    """What a condition can test the output of.

    `Task` derives from it. A task holds conditions and a condition names a task; with this class between them, their
    modules need not import each other.
    """

    __slots__ = ()


@definition
class Condition(Definition):
    """A test of a task's output that decides whether another task, or a phase, runs.

    A condition is decided once `source` has completed; if `source` did not complete, it does not hold. A task or phase
    with conditions of which none holds is skipped, which is not a failure. A join of several branches runs with those
    that ran.

    ::

        Condition("triage", field="category", equals="billing")

    Args:
        source: a task or its name. The owner of the condition waits for it.
        equals: the whole text, ignoring surrounding white space. With `field`, also a number, True or False.
        contains: a part of the text; with `field`, also an item of a list.
        matches: a regular expression that is searched for.
        predicate: a function ``(TaskOutput) -> bool``.
        default: True for a condition that holds if no other condition on the same source did.
        field: a path into the typed output of the source, such as ``"address.city"``: `equals`, `contains` and
            `matches` then test that value, as it is in JSON, and not the text. A value that is missing meets no test.

    Exactly one of `equals`, `contains`, `matches`, `predicate` and `default` is given. A predicate that raises, or a
    search that takes longer than a second (E67), fails the task, or the tasks of the phase, that has the condition.

    Raises:
        ValidationError: there is not exactly one test, a regular expression is broken, or `field` is no path.
    """

    TESTS: ClassVar[tuple[str, ...]] = ("equals", "contains", "matches", "predicate", "default")

    source: ConditionSource | str = make_field(kw_only=False)
    equals: str | float | bool | None = None
    contains: str | None = None
    matches: Converted[re.Pattern[str] | None, re.Pattern[str] | str | None] = converted(default=None)
    predicate: Callable[[TaskOutput], object] | None = None
    default: bool = False
    field: str | None = None

    def __post_init__(self) -> None:
        """Check one condition by itself."""
        if not isinstance(self.source, ConditionSource | str):
            raise self._refuse(
                "source", f"Condition source must be a task or a name, got {type(self.source).__name__}."
            )
        self._check_field()
        if self.field is None or not isinstance(self.equals, int | float):
            self._check_optional_text("equals")
        self._check_optional_text("contains")
        self._check_optional_function("predicate", "(TaskOutput) -> bool")
        self._require_bool("default")
        self._compile()
        chosen = [name for name in self.TESTS if self._has_test(name)]
        if len(chosen) != 1:
            found = "none" if not chosen else " and ".join(chosen)
            raise self._refuse(
                "source", f"A Condition has exactly one of {', '.join(self.TESTS)}; this one has {found}."
            )
        if self.field is not None and chosen[0] in ("predicate", "default"):
            message = f"Condition {chosen[0]} looks at the whole output; leave out field={self.field!r}."
            raise self._refuse("field", message)

    def _has_test(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None if name == "equals" else value not in (None, False)

    def _check_field(self) -> None:
        self._check_optional_text("field")
        if self.field is not None and not all(self.field.split(".")):
            message = f"Condition field must be a path such as 'category' or 'address.city', got {self.field!r}."
            raise self._refuse("field", message)

    def _compile(self) -> None:
        given: Any = self.matches
        if given is None:
            return
        try:
            self._set("matches", read_pattern(given))
        except ValueError as error:
            shown = describe_pattern(given.pattern if isinstance(given, re.Pattern) else given)
            message = f"Condition matches must be a regular expression, and {shown} {error}."
            raise self._refuse("matches", message) from error

    def is_met_by(self, text: str) -> bool:
        """Whether a test of the text holds for `text`. For the engine; it tests `predicate` and `default` elsewhere."""
        if self.equals is not None:
            return text.strip() == str(self.equals).strip()
        if self.contains is not None:
            return self.contains in text
        return self.matches is not None and is_found(self.matches, text)

    def is_met_by_value(self, value: object) -> bool:
        """Whether the test of a `field` holds for its `value`, as `read_field` returns it. None meets no test."""
        if value is None:
            return False
        if self.equals is not None:
            return is_same_scalar(value, self.equals)
        if self.contains is not None and isinstance(value, list):
            return any(to_scalar_text(each) == self.contains for each in value)
        return self.is_met_by(to_scalar_text(value))

    def describe(self, source: str) -> str:
        """Describe the condition, with `source` as its name: ``triage.category equals 'billing'``."""
        return f"{source if self.field is None else f'{source}.{self.field}'} {self.test}"

    @property
    def test(self) -> str:
        """Which test it makes, and against what, in words: ``contains 'urgent'``."""
        for name in ("equals", "contains"):
            if (value := getattr(self, name)) is not None:
                return f"{name} {value!r}"
        if self.matches is not None:
            return f"matches {describe_pattern(self.matches.pattern)}"
        return "default" if self.default else f"predicate {getattr(self.predicate, '__name__', 'function')}"

    def __repr__(self) -> str:
        """Source and test."""
        path = "" if self.field is None else f"field {self.field!r} "
        return f"Condition({self.source!r}, {path}{self.test})"


def normalize_conditions(owner: Definition) -> None:
    """Make the `when` of a task or phase a tuple of conditions; None becomes an empty one.

    Raises:
        ValidationError: something in it is no condition.
    """
    when: Any = getattr(owner, "when")  # noqa: B009 - both kinds of owner have one, their common base has not
    if when is None or isinstance(when, Condition):
        owner._set("when", () if when is None else (when,))
    owner._make_tuple("when")
    for index, each in enumerate(getattr(owner, "when")):  # noqa: B009
        if not isinstance(each, Condition):
            example = "when=Condition('triage', contains='urgent')"
            message = f"{owner._label} when takes conditions, such as {example}; got {type(each).__name__}."
            raise owner._refuse("when", message, item=index)
