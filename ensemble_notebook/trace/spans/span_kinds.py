"""The table of span kinds (T27): one row for each, and whoever treats kinds differently reads it.

A new kind is one row here, its events, and what the fold makes of them. TypeScript's table is made from this one by
``make wire-types``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Self

from ensemble_notebook.domain import events as ev

Tone = Literal["model", "tool", "person", "pause"]


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """What holds for all spans of a kind.

    Attributes:
        title: what a person calls one.
        parents: kinds of spans that it can be directly inside.
        starts, ends: events that begin one and that end it; of a task also the one that skips it before it began.
        keep_rank: where a saved view has no room for all, kinds with a lower rank are kept first.
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

    title: str
    parents: tuple[str, ...]
    starts: tuple[type[ev.Event], ...]
    ends: tuple[type[ev.Event], ...]
    keep_rank: int
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

    def __new__(cls, name: str, traits: KindTraits) -> Self:
        """A kind is its name, and has its traits."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.traits = traits
        return kind

    RUN = (
        "run",
        KindTraits(
            title="Run",
            parents=(),
            starts=(ev.RunStarted,),
            ends=(ev.RunEnded,),
            keep_rank=0,
            has_totals=True,
            is_shown=False,
        ),
    )
    PHASE = (
        "phase",
        KindTraits(
            title="Phase",
            parents=("run", "nested"),
            starts=(ev.PhaseStarted,),
            ends=(ev.PhaseEnded,),
            keep_rank=1,
            has_totals=True,
        ),
    )
    TASK = (
        "task",
        KindTraits(
            title="Task",
            parents=("run", "phase", "delegation", "nested", "task"),
            starts=(ev.TaskStarted,),
            ends=(ev.TaskCompleted, ev.TaskReused, ev.TaskFailed, ev.TaskSkipped),
            keep_rank=2,
            has_totals=True,
            sign="▪",
        ),
    )
    TURN = (
        "turn",
        KindTraits(
            title="Turn",
            parents=("task",),
            starts=(ev.TurnStarted,),
            ends=(ev.TurnEnded,),
            keep_rank=12,
            has_totals=True,
        ),
    )
    LLM = (
        "llm",
        KindTraits(
            title="Model call",
            parents=("turn",),
            starts=(ev.LlmCallStarted,),
            ends=(ev.LlmCallCompleted, ev.LlmCallFailed),
            keep_rank=6,
            has_totals=True,
            is_activity=True,
            sign="◆",
            bar=BarMark(glyph="█", word="model", tone="model", level=1),
        ),
    )
    ATTEMPT = (
        "attempt",
        KindTraits(
            title="Attempt",
            parents=("llm",),
            starts=(ev.LlmAttemptStarted,),
            ends=(ev.LlmAttemptEnded,),
            keep_rank=11,
            is_leaf=True,
            is_work=True,
            sign="◆",
        ),
    )
    WAIT = (
        "wait",
        KindTraits(
            title="Wait",
            parents=("llm", "run"),
            starts=(ev.WaitStarted,),
            ends=(ev.WaitEnded, ev.RateLimitWaited),
            keep_rank=9,
            is_wait=True,
            bar=BarMark(glyph="┄", word="held back", tone="pause", level=6),
        ),
    )
    TOOL = (
        "tool",
        KindTraits(
            title="Tool call",
            parents=("turn",),
            starts=(ev.ToolCallStarted,),
            ends=(ev.ToolCallCompleted,),
            keep_rank=7,
            is_work=True,
            is_activity=True,
            is_failure_contained=True,
            sign="▪",
            bar=BarMark(glyph="▄", word="tool", tone="tool", level=2),
        ),
    )
    DELEGATION = (
        "delegation",
        KindTraits(
            title="Delegation",
            parents=("tool", "task"),
            starts=(ev.DelegationStarted,),
            ends=(ev.DelegationCompleted, ev.DelegationFailed),
            keep_rank=5,
            has_totals=True,
            sign="▸",
            bar=BarMark(glyph="▷", word="handed on", tone="tool", level=3),
        ),
    )
    REVIEW = (
        "review",
        KindTraits(
            title="Review",
            parents=("task", "phase", "tool"),
            starts=(ev.ReviewRequested,),
            ends=(ev.ReviewAnswered,),
            keep_rank=3,
            has_totals=True,
            is_wait=True,
            is_activity=True,
            bar=BarMark(glyph="‖", word="review", tone="person", level=4),
        ),
    )
    GUARDRAIL = (
        "guardrail",
        KindTraits(
            title="Guardrail",
            parents=("task",),
            starts=(ev.GuardrailStarted,),
            ends=(ev.GuardrailEnded,),
            keep_rank=8,
            is_work=True,
            is_bead=True,
        ),
    )
    MEMORY = (
        "memory",
        KindTraits(
            title="Memory",
            parents=("task",),
            starts=(ev.MemoryStarted,),
            ends=(ev.MemoryEnded,),
            keep_rank=10,
            is_work=True,
            is_bead=True,
        ),
    )
    SCORE = (
        "score",
        KindTraits(
            title="Score",
            parents=("task",),
            starts=(ev.ScoreStarted,),
            ends=(ev.ScoreEnded,),
            keep_rank=13,
            has_totals=True,
            is_work=True,
            is_activity=True,
            is_failure_contained=True,
            sign="★",
        ),
    )
    NESTED = (
        "nested",
        KindTraits(
            title="Nested run",
            parents=("task", "tool", "guardrail", "review", "memory", "score"),
            starts=(ev.NestedRunStarted,),
            ends=(ev.NestedRunEnded,),
            keep_rank=4,
            has_totals=True,
            sign="▸",
        ),
    )


# --- Colours for pictures that can't follow a theme: a contrast of 3 and more, on white and on near-black -------------


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
