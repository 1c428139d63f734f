"""Events, plans and errors without any text, as `CaptureMode.METADATA` keeps them (T6a).

What is kept is listed by the names of fields: a field that is new is blank until somebody says that it is a name.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
import re
from collections.abc import Collection, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.events import Event, Noted, Warned
from ensemble_notebook.domain.outputs.secrets import mask, mask_named
from ensemble_notebook.domain.outputs.task_output import TaskOutput, TokenUsage
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.domain.planning.map_design import NOT_NEEDED
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.errors import EnsembleError, Pickled, RunInterrupted, find_origin, read_http_status
from ensemble_notebook.errors.pickling import make_blank, set_state

T = TypeVar("T")

_NAMES: Final = frozenset(
    {
        *("run_id", "span_id", "parent_id", "task", "phase", "depends_on", "task_span_ids", "phase_span_ids", "name"),
        *("workflow", "agent", "agent_role", "worker_role", "role", "delegator", "llm", "model", "provider", "tool"),
        *("tools", "tool_call_id", "id", "task_id", "finish_reason", "cause", "subject", "kind", "operation", "scope"),
        *("context", "groups", "critical_path", "phases", "settings", "replayed_from", "source", "currency"),
        *("tool_name", "tasks", "replaced", "nested_run_id", "definition_version", "prompts_version"),
        *("by", "row", "variable", "_declared_role", "variant", "own_run_id", "map_run_id", "status", "id_digest"),
        "shortfall",
    }
)
_MAPPINGS: Final = frozenset({"settings", "phases"})
_TEST: Final = re.compile(r" (equals|contains|matches) .*", re.DOTALL)
_SAFE_REASON: Final = re.compile(
    rf"condition not met|{NOT_NEEDED}|[45]\d\d|[A-Z]\w*|(phase|task) '[^']*' (was skipped|failed)"
)
_UNSAID: Final = "Something is odd; the text is not kept (capture_mode metadata)."
_HIDDEN: Final = "text not kept"
_KEPT_FACTS: Final = ("origin", "http_status")
"""What is kept of a foreign error beside its type."""

_TEXTLESS: Final = frozenset({type(None), int, float, bool, datetime, timedelta, Decimal})
_SPAN_IDS: Final = frozenset({"span_id", "parent_id"})
_TEXTLESS_FIELDS: Final = frozenset({"int", "float", "bool", "datetime", "timedelta", "Decimal"})
_NAME_FIELDS: Final = frozenset({"str", "tuple[str, ...]"})


class TextlessError(EnsembleError):
    """Stands for a foreign error of which only the type is kept; its class is called as that type."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Its class is made when it is needed, so pickles make it again."""
        facts = (getattr(self, name, None) for name in _KEPT_FACTS)
        return _make_stand_in, (type(self).__name__, *facts)


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
        for name in _list_text_fields(made, has_roles=bool(self._roles)):
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
            return self._strip_mapping(value, name)
        if isinstance(value, BaseException):
            return hide_error_text(value)
        if is_dataclass(value) and not isinstance(value, type | Definition):
            return self._strip_plan(value) if isinstance(value, ExecutionPlan) else self._strip_fields(value)
        return value

    def _strip_mapping(self, value: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
        if name == "phase_settings":  # each a mapping
            return {phase: self._strip_mapping(each, "") for phase, each in value.items()}
        if name == "scope":  # of a delegation: its names are words of a model
            return {}
        return value if name in _MAPPINGS else {str(key): "" for key in value}

    def _strip_plan(self, plan: ExecutionPlan) -> Any:
        """The plan of a run stands in several places, and runs of a map may have the same one."""
        if self._plan[0] is not plan:
            self._plan = (plan, self._strip_fields(plan))
        return self._plan[1]

    def _strip_fields(self, value: Any) -> Any:
        changes, kind = {}, cast("Any", type(value))
        for name in _list_text_fields(kind, has_roles=bool(self._roles)):
            each = getattr(value, name)
            if type(each) not in _TEXTLESS:  # asked here, too, since most are
                stripped = self._strip(each, "" if name == "trace" else name)
                if stripped is not each:
                    changes[name] = stripped
        return replace(value, **changes) if changes else value

    def _strip_text(self, text: str, name: str) -> str:
        if name in _NAMES:
            return self.find_declared_role(text)
        if name == "when":
            return _TEST.sub(r" \1", text)
        return text if name == "reason" and _SAFE_REASON.fullmatch(text) else ""


@functools.cache
def _list_text_fields(kind: type, *, has_roles: bool) -> tuple[str, ...]:
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
        return _make_stand_in(kind, origin, read_http_status(error))
    made = copy.copy(error)
    made.args, made.__traceback__, made.__cause__ = (f"{kind} ({_HIDDEN})",), None, None
    for name, value in vars(error).items():
        if isinstance(value, str) and name not in _NAMES:
            setattr(made, name, "")
        elif isinstance(value, BaseException):
            setattr(made, name, hide_error_text(value))
        elif isinstance(value, Mapping):
            errors = {key: each for key, each in value.items() if isinstance(each, BaseException)}
            setattr(made, name, {key: hide_error_text(each) for key, each in errors.items()})
        elif isinstance(value, tuple | list) and name != "completed_task_outputs":
            setattr(made, name, TextFilter().apply(value))
    if origin is not None:
        vars(made)["origin"] = origin
    return made


def _make_stand_in(kind: str, *facts: str | int | None) -> TextlessError:
    made: TextlessError = type(kind, (TextlessError,), {})(f"{kind} ({_HIDDEN})")
    vars(made).update({name: fact for name, fact in zip(_KEPT_FACTS, facts, strict=True) if fact is not None})
    return made


# What a person declares is theirs, and keeps its texts. An output that is pickled is written somewhere, like a trace:
# it has the shape of what was run, with names, and no description, goal, input or expression.

_DEFINITION_NAMES: Final = frozenset(
    {"name", "source", "field", "llm", "manager_llm", "currency", "on_timeout", "on_exhausted"}
)
_ROLES: Final = frozenset({"role", "required_workers", "allowed_workers", "required_stages", "max_calls_per_worker"})


class DefinitionFilter:
    """Takes the texts out of definitions. What is the same object before is the same object afterwards."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def apply(self, value: T, *, keeps_roles: bool) -> T:
        """The same without texts. Roles that were resolved for a run may hold inputs, and are then to go, too."""
        return cast("T", self._strip(value, "", _DEFINITION_NAMES | _ROLES if keeps_roles else _DEFINITION_NAMES))

    def _strip(self, value: Any, name: str, names: frozenset[str]) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return value if name in names else ""
        if isinstance(value, re.Pattern):
            return None
        if isinstance(value, tuple | list):
            return type(value)(self._strip(each, name, names) for each in value)
        if isinstance(value, Mapping):
            return {key: self._strip(each, name, names) for key, each in value.items()}
        if isinstance(value, Pickled) and hasattr(value, "__dataclass_fields__"):
            return self._strip_fields(value, names)
        return value

    def _strip_fields(self, value: Any, names: frozenset[str]) -> Any:
        if id(value) in self._made:
            return self._made[id(value)][1]
        made = make_blank(type(value))
        self._made[id(value)] = value, made  # the original, too, so that its id stays its own
        state = {
            each.name: self._strip(getattr(value, each.name), each.name, names) for each in dataclasses.fields(value)
        }
        return set_state(made, state)


E = TypeVar("E", bound=Event)


def mask_event(event: E) -> E:
    """The event itself, where nothing in it is a secret; else a copy of it without."""
    return cast("E", _mask(event))


def mask_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event of others that is to be made, without secrets, also in names; ids of spans are ours.

    No file holds half a character, so there is none in them.
    """
    return {
        name: value
        if name in _SPAN_IDS or _is_textless(value.__class__)
        else _clean(value)
        if type(value) is str
        else _mask_field(value)
        for name, value in given.items()
    }


@functools.cache
def _is_textless(kind: type) -> bool:
    return kind in _TEXTLESS or issubclass(kind, Enum | TokenUsage)


@functools.cache
def _list_fields(kind: type) -> tuple[str, ...]:
    declared = {each.name: str(each.type).removesuffix(" | None") for each in fields(kind) if each.init}
    return tuple(name for name, each in declared.items() if each not in _TEXTLESS_FIELDS)


def _clean(text: str) -> str:
    return mask(mend_text(text))


def _mask(value: Any) -> Any:
    if type(value) is str:
        return value if (masked := _clean(value)) == value else masked  # what is equal need not be the same object
    if type(value) in _TEXTLESS or isinstance(value, str):  # an enum's member is no text
        return value
    if isinstance(value, tuple):
        parts = tuple(map(_mask, value))
        return value if all(map(operator.is_, parts, value)) else parts
    if isinstance(value, list):
        return [_mask(each) for each in value]
    if isinstance(value, Mapping):
        masked_items = {
            _mask(name): mask_named(mend_text(name), mend_text(each))
            if isinstance(name, str) and isinstance(each, str)
            else _mask(each)
            for name, each in value.items()
        }
        if masked_items == value:
            return value
        return MappingProxyType(masked_items) if isinstance(value, MappingProxyType) else masked_items
    if isinstance(value, TaskOutput) or not is_dataclass(value) or isinstance(value, type):
        return value  # the text of an output is the user's; its `repr` and pickles are masked
    changes = {
        name: masked
        for name in _list_fields(type(value))
        if type(before := getattr(value, name)) not in _TEXTLESS and (masked := _mask_field(before)) is not before
    }
    return replace(value, **changes) if changes else value


def _mask_field(value: Any) -> Any:
    try:
        return _mask(value)
    except RecursionError:  # a user's value that holds itself
        return mask(str(value))
