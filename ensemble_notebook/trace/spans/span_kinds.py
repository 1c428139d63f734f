"""The table of span kinds (T27): one row for each, and whoever treats kinds differently reads it.

A new kind is one row here, its events, and what the fold makes of them. TypeScript's table is made from this one by
``make wire-types``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Final, Literal, Self

from ensemble_notebook.domain import events as ev

Tone = Literal["model", "tool", "person", "pause"]


@dataclass(frozen=True, slots=True)
class BarMark:
    """How a kind is drawn in a bar of characters.

    Attributes:
        glyph: one character, unlike that of any other kind, so that bars can be read without colour.
        word: what the legend calls it.
        tone: what it has its colour from.
        level: what has a higher one is drawn over what has a lower one.
    """

    glyph: str
    word: str
    tone: Tone
    level: int


@dataclass(frozen=True, slots=True)
class KindTraits:
    """What holds for all spans of a kind.

    Attributes:
        name: of the kind.
        title: what a person calls one.
        parents: kinds of spans that it can be directly inside.
        starts, ends: events that begin one and that end it; of a task also the one that skips it before it began.
        is_leaf: it holds tokens and cost itself, and all sums are made of these.
        has_totals: it sums up the leaves beneath it.
        is_work: something is being done while it runs and nothing runs inside it, in contrast to what only frames work.
        is_wait: it begins by waiting: for a person, a limit, a budget.
        is_shown: views have rows of it; the run itself is told apart from its rows.
        is_activity: views name it when they say what goes on right now.
        is_failure_contained: its failure stops nothing around it.
        sign: what stands before its name.
        is_bead: the timeline draws a small bead, since it is mostly too short for a bar.
        bar: what the static picture draws of it in the bar of its task.
    """

    name: str
    title: str
    parents: tuple[str, ...]
    starts: tuple[type[ev.Event], ...]
    ends: tuple[type[ev.Event], ...]
    _: KW_ONLY
    is_leaf: bool = False
    has_totals: bool = False
    is_work: bool = False
    is_wait: bool = False
    is_shown: bool = True
    is_activity: bool = False
    is_failure_contained: bool = False
    sign: str = ""
    is_bead: bool = False
    bar: BarMark | None = None


class SpanKind(StrEnum):
    """What an interval is, from the outermost to the innermost."""

    _value_: str
    traits: KindTraits

    def __new__(cls, traits: KindTraits) -> Self:
        """A kind is its name, and has its traits."""
        kind = str.__new__(cls, traits.name)
        kind._value_ = traits.name
        kind.traits = traits
        return kind

    RUN = KindTraits("run", "Run", (), (ev.RunStarted,), (ev.RunEnded,), has_totals=True, is_shown=False)
    PHASE = KindTraits("phase", "Phase", ("run", "nested"), (ev.PhaseStarted,), (ev.PhaseEnded,), has_totals=True)
    TASK = KindTraits(
        "task",
        "Task",
        ("run", "phase", "delegation", "nested", "task"),
        (ev.TaskStarted,),
        (ev.TaskCompleted, ev.TaskReused, ev.TaskFailed, ev.TaskSkipped),
        has_totals=True,
        sign="▪",
    )
    TURN = KindTraits("turn", "Turn", ("task",), (ev.TurnStarted,), (ev.TurnEnded,), has_totals=True)
    LLM = KindTraits(
        "llm",
        "Model call",
        ("turn",),
        (ev.LlmCallStarted,),
        (ev.LlmCallCompleted, ev.LlmCallFailed),
        has_totals=True,
        is_activity=True,
        sign="◆",
        bar=BarMark("█", "model", "model", 1),
    )
    ATTEMPT = KindTraits(
        "attempt",
        "Attempt",
        ("llm",),
        (ev.LlmAttemptStarted,),
        (ev.LlmAttemptEnded,),
        is_leaf=True,
        is_work=True,
        sign="◆",
    )
    WAIT = KindTraits(
        "wait",
        "Wait",
        ("llm", "run"),
        (ev.WaitStarted,),
        (ev.WaitEnded, ev.RateLimitWaited),
        is_wait=True,
        bar=BarMark("┄", "held back", "pause", 6),
    )
    TOOL = KindTraits(
        "tool",
        "Tool call",
        ("turn",),
        (ev.ToolCallStarted,),
        (ev.ToolCallCompleted,),
        is_work=True,
        is_activity=True,
        is_failure_contained=True,
        sign="▪",
        bar=BarMark("▄", "tool", "tool", 2),
    )
    DELEGATION = KindTraits(
        "delegation",
        "Delegation",
        ("tool", "task"),
        (ev.DelegationStarted,),
        (ev.DelegationCompleted, ev.DelegationFailed),
        has_totals=True,
        sign="▸",
        bar=BarMark("▷", "handed on", "tool", 3),
    )
    REVIEW = KindTraits(
        "review",
        "Review",
        ("task", "phase", "tool"),
        (ev.ReviewRequested,),
        (ev.ReviewAnswered,),
        has_totals=True,
        is_wait=True,
        is_activity=True,
        bar=BarMark("‖", "review", "person", 4),
    )
    GUARDRAIL = KindTraits(
        "guardrail", "Guardrail", ("task",), (ev.GuardrailStarted,), (ev.GuardrailEnded,), is_work=True, is_bead=True
    )
    MEMORY = KindTraits(
        "memory", "Memory", ("task",), (ev.MemoryStarted,), (ev.MemoryEnded,), is_work=True, is_bead=True
    )
    SCORE = KindTraits(
        "score",
        "Score",
        ("task",),
        (ev.ScoreStarted,),
        (ev.ScoreEnded,),
        has_totals=True,
        is_work=True,
        is_activity=True,
        is_failure_contained=True,
        sign="★",
    )
    NESTED = KindTraits(
        "nested",
        "Nested run",
        ("task", "tool", "guardrail", "review", "memory", "score"),
        (ev.NestedRunStarted,),
        (ev.NestedRunEnded,),
        has_totals=True,
        sign="▸",
    )


# For pictures that can't follow a theme: with a contrast of 3 and more, on white and on near-black.
TONE_COLORS: Final[Mapping[Tone, str]] = {
    "model": "#6c6ce6",
    "tool": "#0f97a0",
    "person": "#b9801a",
    "pause": "#b9801a",
}
IDLE_COLOR: Final = "#7b8088"
ERROR_COLOR: Final = "#e0364a"
DONE_COLOR: Final = "#2f9e57"

FAINT_COLORS: Final = {"model": "#a9a9f2", "tool": "#74c4ca", "pause": "#dcb869", "idle": "#b4b8be"}
"""For a part of what has the full colour, beside it: told apart from the background by its place, not by contrast."""
