"""Conditions: whether a task or phase runs depends on what another task said (E33), by a pattern or a field of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field as make_field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ensemble_notebook.domain.definitions.definition import Converted, Definition, converted, definition, show_value
from ensemble_notebook.domain.definitions.output_type import FieldKind, FieldValues, is_same_scalar, to_scalar_text
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import OLD_FLAGS, PlainValueError, read_plain_value
from ensemble_notebook.errors import DeadlineExceededError, find_nearest

if TYPE_CHECKING:
    import regex

_LONGEST_WORD: Final = 80


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
    search that takes longer than a second, fails the task, or the tasks of the phase, that has the condition.

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
        self._check_optional_text("field")
        if self.field is not None and not all(self.field.split(".")):
            message = f"Condition field must be a path such as 'category' or 'address.city', got {self.field!r}."
            raise self._refuse("field", message)
        if self.field is None or not isinstance(self.equals, int | float):
            self._check_optional_text("equals")
        self._check_optional_text("contains")
        self._check_optional_function("predicate", "(TaskOutput) -> bool")
        self._require_bool("default")
        given: Any = self.matches
        try:
            self._set("matches", None if given is None else read_pattern(given))
        except ValueError as error:
            shown = describe_pattern(given.pattern if isinstance(given, re.Pattern) else given)
            message = f"Condition matches must be a regular expression, and {shown} {error}."
            raise self._refuse("matches", message) from error
        # False is a value that a field may equal, and for the others none at all.
        given = {name: getattr(self, name) for name in self.TESTS}
        chosen = [name for name, each in given.items() if each is not None and (name == "equals" or each is not False)]
        if len(chosen) != 1:
            found = "none" if not chosen else " and ".join(chosen)
            message = f"A Condition has exactly one of {', '.join(self.TESTS)}; this one has {found}."
            raise self._refuse("source", message)
        if self.field is not None and chosen[0] in ("predicate", "default"):
            message = f"Condition {chosen[0]} looks at the whole output; leave out field={self.field!r}."
            raise self._refuse("field", message)

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

    def find_fault(self, values: FieldValues) -> str | None:
        """Find why none of the `values` that its `field` can have meets the test; None where one may."""
        wanted = self.contains if self.equals is None else self.equals
        if wanted is None or any(map(self.is_met_by_value, values.words)):
            return None
        if self.equals is None:
            is_possible = bool(values.kinds)
        else:
            kind = FieldKind.TEXT if isinstance(wanted, str) else FieldKind.NUMBER
            is_possible = not isinstance(wanted, bool) and kind in values.kinds
        if is_possible:
            return None
        nearest = _find_meant(wanted, values)
        if nearest is not None:
            hint = f"Did you mean {nearest!r}?"
        else:
            hint = "Test one of its items with contains." if FieldKind.LIST in values.kinds else ""
        return f"it is {values.describe()}, and never {self.test}. {hint}".strip()

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


AnyCondition = Condition | Mapping[Any, Any]
"""The forms of a condition; the mapping is one of a task, or its name, to the test of its output."""

_ANY_CONDITION: Final = "Condition('triage', contains='urgent') or {'triage': {'contains': 'urgent'}}"


def _find_meant(wanted: str | float | bool, values: FieldValues) -> str | float | bool | None:
    """The value of a field that was probably meant by another one."""
    text = to_scalar_text(wanted).strip()
    if FieldKind.TEXT in values.kinds:
        return text
    words = {to_scalar_text(each): each for each in values.words}
    if (found := find_nearest(OLD_FLAGS.get(text.lower(), text), words)) is not None:
        return words[found]
    if FieldKind.NUMBER in values.kinds and isinstance(wanted, str):
        with suppress(PlainValueError):
            number = read_plain_value(text)
            return number if isinstance(number, int | float) and not isinstance(number, bool) else None
    return None


def read_short_test(text: str) -> Mapping[str, Any] | None:
    """Read the test that a text alone stands for: the default, or the whole output; None where it could be both."""
    if text == "default":
        return {"default": True}
    is_close = len(text) <= _LONGEST_WORD and find_nearest(text, ["default"]) is not None
    return None if is_close else {"equals": text}


def normalize_conditions(owner: Definition, field: str = "when") -> None:
    """Make the `when` of a task or phase, or another field like it, a tuple of conditions; None becomes an empty one.

    Raises:
        ValidationError: something in it has none of the forms of a condition.
    """
    given: Any = getattr(owner, field)
    if given is None or given == ():
        owner._set(field, ())
        return
    found: list[Condition] = []
    for index, value in enumerate(given if isinstance(given, list | tuple) else [given]):
        if isinstance(value, Condition):
            found.append(value)
            continue
        if not isinstance(value, Mapping):
            message = f"{owner._label} {field} must be conditions, such as {_ANY_CONDITION}; got {show_value(value)}."
            raise owner._refuse(field, message, item=index)
        if len(value) != 1:
            message = f"{owner._label} {field}: a condition is about one task, and this one about {len(value)}."
            hint = "Write a list, [{a: x}, {b: y}]: any of them may hold."
            raise owner._refuse(field, f"{message} {hint}", item=index)
        ((source, tests),) = value.items()
        tests = tests if isinstance(tests, list | tuple) else [tests]
        if not tests:
            raise owner._refuse(field, f"{owner._label} {field}: the condition on {source!r} has no test.", item=index)
        for test in tests:
            fields = read_short_test(test) if isinstance(test, str) else test
            if fields is None:
                message = f"{owner._label} {field}: {test!r} is no test. Did you mean 'default'? "
                raise owner._refuse(field, f"{message}For the output itself, write {{'equals': {test!r}}}.", item=index)
            fields = {**fields, "source": source} if isinstance(fields, Mapping) else fields
            found.append(owner._to_part(field, fields, Condition, f"tests such as {_ANY_CONDITION}", item=index))
    owner._set(field, tuple(found))


# --- Searches for users' regular expressions in a text, within limits -------------------------------------------------
#
# Some expressions take exponential time for some texts, such as ``(a+)+$``. `re` can't be interrupted and blocks the
# whole process meanwhile. `regex` reads the same expressions, has a timeout, and releases the GIL. Compiling has no
# timeout in either, so expressions that would take seconds to compile are refused by their size: long ones, and those
# whose repetitions are long when written out (``(a{1000}){1000}``).


SEARCH_LIMIT_S: Final = 1.0
_FLAGS: Final = {"ASCII": "a", "DOTALL": "s", "IGNORECASE": "i", "MULTILINE": "m", "VERBOSE": "x"}
LONGEST_PATTERN: Final = 2_000
LARGEST_PATTERN: Final = 100_000
_LONGEST_SHOWN: Final = 100
# What one part of an expression may be, beside a single character.
_PART: Final = re.compile(r"\((?:\?(?:[:=!>]|<[=!]))?|\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)


def read_pattern(given: object) -> re.Pattern[str]:
    """An expression, as a text or already compiled, that can be searched for.

    Raises:
        ValueError: it is none, or too large; says which, as the end of a sentence about it.
    """
    text = given.pattern if isinstance(given, re.Pattern) else given
    if not isinstance(text, str):
        raise ValueError(f"is none: it is no text, but {type(text).__name__}")
    if len(text) > LONGEST_PATTERN:
        told = f"is too long: it has {len(text):,} characters, and may have {LONGEST_PATTERN:,}"
        raise ValueError(f"{told}; use a predicate")
    if (size := _measure_size(text)) > LARGEST_PATTERN:
        told = f"is too large: it stands for {size:,} characters, and may stand for {LARGEST_PATTERN:,}"
        raise ValueError(f"{told}; repeat less in its repetitions, or use a predicate")
    try:
        pattern = given if isinstance(given, re.Pattern) else re.compile(text)
        _translate(pattern)
    except RecursionError:
        raise ValueError("is none: it is nested too deeply") from None
    except Exception as error:  # besides `re.error` and OverflowError, what `regex` can't read
        raise ValueError(f"is none: {error}") from error
    return pattern


def _measure_size(text: str) -> int:
    """How many characters an expression has at least, when all that it repeats is written out."""
    sizes = [0]  # of the groups that are open
    last = 0  # of the part that a repetition would repeat
    for part in _PART.finditer(text):
        if part[0].startswith("("):
            sizes.append(0)
            last = 0
        elif part[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif part[1] is not None:
            more = last * (max(1, int(part[1][:9])) - 1)
            sizes[-1] += more
            last += more
        elif part[0] not in "*+?|":
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def is_found(pattern: re.Pattern[str], text: str, owner: str = "condition") -> bool:
    """Whether a text holds the expression.

    Args:
        pattern: is searched for.
        text: in which it is.
        owner: what searches, for the message.

    Raises:
        DeadlineExceededError: that can't be told within a second.
    """
    try:
        return _translate(pattern).search(text, timeout=SEARCH_LIMIT_S, concurrent=True) is not None
    except TimeoutError:
        running = f"a search for {describe_pattern(pattern.pattern)} in a text of {len(text):,} characters"
        remedy = "Write it without a repetition inside a repetition, or use a function."
        raise DeadlineExceededError(owner, SEARCH_LIMIT_S, running, remedy) from None


def write_pattern(pattern: re.Pattern[str]) -> str:
    """An expression as one text that means the same, with its flags in it."""
    if re.compile(pattern.pattern).flags == pattern.flags:
        return pattern.pattern
    letters = "".join(letter for name, letter in _FLAGS.items() if pattern.flags & getattr(re, name))
    return f"(?{letters}){pattern.pattern}"


def describe_pattern(pattern: object) -> str:
    """An expression as it is shown: as it is written, and cut where it is long."""
    text = repr(pattern)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


@cache
def _translate(pattern: re.Pattern[str]) -> regex.Pattern[str]:
    """The same expression for `regex`, whose flags have other numbers."""
    import regex

    flags = 0
    for name in _FLAGS:
        if pattern.flags & getattr(re, name):
            flags |= getattr(regex, name)
    return regex.compile(pattern.pattern, flags)
