"""A span of another tracing library, before anything is known of what it means: files and live spans become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ForeignSpanEvent:
    """Something that a span noted at one moment."""

    name: str
    at_ns: int
    """Since the epoch, in nanoseconds."""
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForeignSpan:
    """One span of a trace. Nothing of it is trusted: times may run back, parents may be nowhere."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    """Since the epoch, in nanoseconds."""
    end_ns: int | None
    """None: it goes on, or its end was never told."""
    attributes: Attributes = field(default_factory=dict)
    """Plain values: texts, numbers, truths and sequences of them; some formats nest mappings."""
    events: Sequence[ForeignSpanEvent] = ()
    status: Literal["unset", "ok", "error"] = "unset"
    status_message: str | None = None
    scope: str = ""
    """The library that made it, such as ``openinference.instrumentation.langchain``."""
    resource: Attributes = field(default_factory=dict)
    """The process that made it."""
