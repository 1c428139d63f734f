"""Events, plans and errors without any text, as `CaptureMode.METADATA` keeps them (T6a).

What is kept is listed by the names of fields: a field that is new is blank until somebody says that it is a name.
"""

from __future__ import annotations

import copy
import functools
import operator
import re
from collections.abc import Collection, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeVar, cast

from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.events import Event, Noted, Warned
from ensemble_notebook.domain.outputs.record import change_record
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.errors import EnsembleError, RunInterrupted, find_origin

T = TypeVar("T")

_NAMES: Final = frozenset(
    {
        *("run_id", "span_id", "parent_id", "task", "phase", "depends_on", "task_span_ids", "phase_span_ids", "name"),
        *("workflow", "agent", "agent_role", "worker_role", "role", "delegator", "llm", "model", "provider", "tool"),
        *("tools", "tool_call_id", "id", "task_id", "finish_reason", "cause", "subject", "kind", "operation", "scope"),
        *("context", "groups", "critical_path", "phases", "settings", "replayed_from", "source", "currency"),
        *("tool_name", "tasks", "replaced", "nested_run_id"),
    }
)
_MAPPINGS: Final = frozenset({"settings", "phases"})
_TEST: Final = re.compile(r" (equals|contains|matches) .*", re.DOTALL)
_SAFE_REASON: Final = re.compile(r"condition not met|[45]\d\d|[A-Z]\w*|(phase|task) '[^']*' (was skipped|failed)")
_UNSAID: Final = "Something is odd; the text is not kept (capture_mode metadata)."
_HIDDEN: Final = "text not kept"

_TEXTLESS: Final = frozenset({type(None), int, float, bool, datetime, timedelta, Decimal})
_TEXTLESS_FIELDS: Final = frozenset({"int", "float", "bool", "datetime", "timedelta", "Decimal"})
_NAME_FIELDS: Final = frozenset({"str", "tuple[str, ...]"})


class TextlessError(EnsembleError):
    """Stands for a foreign error of which only the type is kept; its class is called as that type."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Its class is made when it is needed, so pickles make it again."""
        return _make_stand_in, (type(self).__name__, getattr(self, "origin", None))


class TextFilter:
    """Takes the texts out of what one run tells.

    Args:
        messages: warnings and notes that hold no text of anybody, and are kept.
        roles: roles as they were resolved -> as they were declared.
    """

    def __init__(self, messages: Collection[str] = (), roles: Mapping[str, str] | None = None) -> None:
        self._messages = frozenset(messages)
        self._roles = {role: declared for role, declared in (roles or {}).items() if role != declared}
        self._plan: tuple[Any, Any] = (None, None)

    def find_declared_role(self, role: str) -> str:
        """The role that became this one in the run."""
        return self._roles.get(role, role)

    def keep_message(self, message: str) -> None:
        """This one holds no text of anybody, either."""
        self._messages |= {message}

    def apply(self, value: T) -> T:
        """The same without texts; what holds none stays the object that it was."""
        return cast("T", self._strip(value, ""))

    def strip_fields(self, kind: type[Event], given: dict[str, Any]) -> None:
        """Take the texts out of the values of fields from which an event is going to be made."""
        if kind in (Warned, Noted):
            given["message"] = given["message"] if given["message"] in self._messages else _UNSAID
            return
        made: Any = kind  # mypy takes classes of dataclasses for no keys of a cache
        for name in _list_told_fields(made, has_roles=bool(self._roles)):
            value = given.get(name)
            if type(value) not in _TEXTLESS:  # asked here, too, since most are
                given[name] = self._strip(value, name)

    def _strip(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind in _TEXTLESS:  # most fields of most events
            return value
        if kind is str:  # most of the others; quicker than to ask what else it might be
            return self._strip_text(value, name)
        if name in ("parsed_output", "arguments") and not isinstance(value, str):
            return None
        if kind is tuple and not value:  # most of the rest
            return value
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self._strip_text(value, name)
        if isinstance(value, tuple | list):
            parts = [self._strip(each, name) for each in value]
            is_same = all(map(operator.is_, parts, value))
            return value if is_same else type(value)(parts)
        if isinstance(value, Mapping):
            return value if name in _MAPPINGS else {str(key): "" for key in value}
        if isinstance(value, BaseException):
            return hide_error_text(value)
        if is_dataclass(value) and not isinstance(value, type | Definition):
            return self._strip_plan(value) if isinstance(value, ExecutionPlan) else self._strip_fields(value)
        return value

    def _strip_plan(self, plan: ExecutionPlan) -> Any:
        """The plan of a run stands in several places, and runs of a map may have the same one."""
        if self._plan[0] is not plan:
            self._plan = (plan, self._strip_fields(plan))
        return self._plan[1]

    def _strip_fields(self, value: Any) -> Any:
        changes, kind = {}, cast("Any", type(value))
        for name in _list_told_fields(kind, has_roles=bool(self._roles)):
            each = getattr(value, name)
            if type(each) not in _TEXTLESS:  # asked here, too, since most are
                stripped = self._strip(each, "" if name == "trace" else name)
                if stripped is not each:
                    changes[name] = stripped
        return change_record(value, changes) if changes else value

    def _strip_text(self, text: str, name: str) -> str:
        if name in _NAMES:
            return self.find_declared_role(text)
        if name == "when":
            return _TEST.sub(r" \1", text)
        return text if name == "reason" and _SAFE_REASON.fullmatch(text) else ""


@functools.cache
def _list_told_fields(kind: type, *, has_roles: bool) -> tuple[str, ...]:
    """The fields of a dataclass that may tell a text; names do where they may be roles, which depend on inputs."""

    def is_safe(each: Field[Any]) -> bool:
        declared = str(each.type).removesuffix(" | None")
        return declared in _TEXTLESS_FIELDS or (each.name in _NAMES and declared in _NAME_FIELDS and not has_roles)

    return tuple(each.name for each in fields(kind) if each.init and not is_safe(each))


def hide_error_text(error: BaseException) -> BaseException:
    """The type of an error, where it came from, and the same of its causes; no word of what they say."""
    made = _hide_one(error)
    at, seen = made, {id(error)}
    cause = error.__cause__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        at.__cause__ = _hide_one(cause)
        at, cause = at.__cause__, cause.__cause__
    return made


def _hide_one(error: BaseException) -> BaseException:
    kind, origin = type(error).__name__, find_origin(error)
    if not isinstance(error, EnsembleError | RunInterrupted) or isinstance(error, TextlessError):
        return _make_stand_in(kind, origin)
    made = copy.copy(error)
    made.args, made.__traceback__, made.__cause__ = (f"{kind} ({_HIDDEN})",), None, None
    for name, value in vars(error).items():
        if isinstance(value, str) and name not in _NAMES:
            setattr(made, name, "")
        elif isinstance(value, BaseException):
            setattr(made, name, hide_error_text(value))
        elif isinstance(value, tuple | list | Mapping) and name != "completed_task_outputs":
            setattr(made, name, _hide_many(value))
    if origin is not None:
        vars(made)["origin"] = origin
    return made


def _hide_many(values: Any) -> Any:
    text_filter = TextFilter()
    if isinstance(values, Mapping):
        errors = {name: each for name, each in values.items() if isinstance(each, BaseException)}
        return {name: hide_error_text(each) for name, each in errors.items()}
    return text_filter.apply(values)


def _make_stand_in(kind: str, origin: str | None) -> TextlessError:
    made: TextlessError = type(kind, (TextlessError,), {})(f"{kind} ({_HIDDEN})")
    if origin is not None:
        vars(made)["origin"] = origin
    return made
