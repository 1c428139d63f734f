"""Runs of other frameworks, told as our events while their spans come (T102).

The topmost span that tells of agents, models or tools is a run; what is inside it are its tasks, turns and calls.
Times are the spans' own, moved where they run back or leave the span around them, and then marked. An event is told as
late as the kind of its span is known: some libraries say what a span is only when it ends, and then its events come
late with the times that they had. What a span does not tell stays unknown. Not thread-safe.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.delegation import DelegationRequest, DelegationResponse
from ensemble_notebook.domain.definitions.enums import (
    DelegationStatus,
    ExitReason,
    RunStatus,
    SpanStatus,
    ToolOutcome,
)
from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import TaskOutput, TokenUsage
from ensemble_notebook.domain.text_filter import mask_fields
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.errors import make_recorded_error
from ensemble_notebook.importers.foreign_names import ForeignKind, Reading, find_kind, has_names
from ensemble_notebook.importers.foreign_span import ForeignSpan
from ensemble_notebook.importers.span_order import list_moments

LOST_AFTER_NS: Final = 3_600 * 10**9
"""A root that is open for longer is closed as lost."""
SETTLE_NS: Final = 2 * 10**9
"""How long a run whose root has ended waits for spans inside it that have not."""
_MOST_CLOSED: Final = 20_000

_Key = tuple[str, str | None]
"""Ids of trace and span."""


def import_runs(spans: Iterable[ForeignSpan], run_id: str | None = None) -> list[tuple[ev.Event, ...]]:
    """The runs of spans that are all known, such as those of a file.

    Args:
        spans: in any order, of any traces.
        run_id: that the first run is given; None: that of its trace.

    Returns:
        The events of each run, in the order in which the runs began; empty where no span tells of agents or models.
    """
    runs = ForeignRuns(run_id)
    events: dict[str, list[ev.Event]] = {}
    for span, is_end in list_moments(spans):
        for event in runs.end(span) if is_end else runs.start(span):
            events.setdefault(event.run_id, []).append(event)
    for event in runs.close():
        events.setdefault(event.run_id, []).append(event)
    return [tuple(each) for each in events.values()]


@dataclass(slots=True, eq=False)
class _Box:
    """A task of ours, with turns and further tasks: of an agent, of a step, or of a root that asks models itself."""

    span: dict[str, Any]
    agent: str
    around: _Box | None
    description: str
    start_ns: int
    turns: list[_Turn] = field(default_factory=list)
    turn_count: int = 0
    tool_count: int = 0
    is_told: bool = False
    """Whether what it was given was told."""
    latest_output: str = ""

    @property
    def caller(self) -> str:
        """The agent whose calls are in it: its own, else that of what is around it."""
        box: _Box | None = self
        while box is not None and not box.agent:
            box = box.around
        return "" if box is None else box.agent


@dataclass(slots=True, eq=False)
class _Turn:
    """One reply of a model, with the tools that it asked for."""

    span: dict[str, Any]
    start_ns: int
    latest_ns: int
    open_count: int = 0
    asked_ids: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class _Node:
    """A span that came, and what became of it."""

    span: ForeignSpan
    around: _Node | None
    run: _Run
    start_ns: int
    kind: ForeignKind | None = None
    is_told: bool = False
    end: ForeignSpan | None = None
    is_over: bool = False
    is_moved: bool = False
    open_count: int = 0
    latest_ns: int = 0
    box: _Box | None = None
    """The task that it is, or that is inside it."""
    outer: _Box | None = None
    """The task that is made around a root that is a call."""
    agent: str = ""
    """Whose work it is, where what is inside it has told that first."""
    turn: _Turn | None = None
    own: dict[str, Any] = field(default_factory=dict)
    """The fields of its outermost event: of the task, the call, or the delegation."""
    attempt: dict[str, Any] = field(default_factory=dict)
    delegation: DelegationRequest | None = None
    nested: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class _Run:
    run_id: str
    trace_id: str
    start_ns: int
    root: _Node | None = None
    seq: int = 0
    span_count: int = 0
    task_count: int = 0
    names: Counter[str] = field(default_factory=Counter)
    keys: list[_Key] = field(default_factory=list)
    open: dict[str, _Node] = field(default_factory=dict)
    ended_ns: int | None = None
    latest_ns: int = 0
    """The latest end that was told: ends follow each other, so that what waited for what is told in one way only."""
    out: list[ev.Event] = field(default_factory=list)


def _list_around(node: _Node) -> Iterator[_Node]:
    """What is around a span, the innermost first."""
    while node.around is not None:
        node = node.around
        yield node


class ForeignRuns:
    """Makes the events of runs from spans that start and end one by one.

    Args:
        run_id: of the first run; None: that of its trace.

    Attributes:
        late_ends: how many spans have ended after their run was closed.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self._run_id = run_id
        self.late_ends: int = 0
        self._nodes: dict[_Key, _Node] = {}
        self._parents: dict[_Key, str | None] = {}
        self._runs: dict[str, _Run] = {}
        self._counts: Counter[str] = Counter()  # of runs, by trace
        self._closed: dict[_Key, int] = {}  # the latest spans of runs that are over, and when these ended

    def start(self, span: ForeignSpan) -> list[ev.Event]:
        """A span has started.

        Args:
            span: what is known of it by now.

        Returns:
            The events that are known by that, of one run; empty as long as nothing is.
        """
        key = (span.trace_id, span.span_id)
        if key in self._parents or key in self._closed:
            return []
        self._parents[key] = span.parent_id
        return self._enter(span, key) if has_names(span) else []

    def end(self, span: ForeignSpan) -> list[ev.Event]:
        """A span has ended.

        Args:
            span: all that it tells.

        Returns:
            The events that are known by that, of one run.
        """
        key = (span.trace_id, span.span_id)
        if key in self._closed:
            self.late_ends += 1
            return []
        out: list[ev.Event] = []
        if key not in self._nodes:
            if not has_names(span):
                self._parents.pop(key, None)  # what is inside it has ended before it, as a rule
                return []
            self._parents.setdefault(key, span.parent_id)
            out += self._enter(span, key)
        node = self._nodes.get(key)
        if node is None or node.end is not None:
            return out
        node.end = span
        self._finish(node)
        return out + self._take(node.run)

    def settle(self, now_ns: int) -> list[ev.Event]:
        """Close the runs that nothing more is waited for: whose root has ended, or is open for an hour.

        Args:
            now_ns: since the epoch, in nanoseconds.

        Returns:
            Events of any of them.
        """
        done = [
            run
            for run in self._runs.values()
            if (run.ended_ns is not None and now_ns - run.ended_ns >= SETTLE_NS)
            or now_ns - run.start_ns >= LOST_AFTER_NS
        ]
        return [event for run in done for event in self._close(run)]

    def close(self) -> list[ev.Event]:
        """Close all runs that are open, as they are: no more spans will come."""
        return [event for run in [*self._runs.values()] for event in self._close(run)]

    # --- Where a span belongs -----------------------------------------------------------------------------------------

    def _enter(self, span: ForeignSpan, key: tuple[str, str]) -> list[ev.Event]:
        around = self._find_around(span)
        closed_ns = self._closed.get((span.trace_id, span.parent_id))
        if around is None and closed_ns is not None and span.start_ns < closed_ns:
            self._closed[key] = closed_ns
            self.late_ends += 1
            return []
        if around is None:
            run = self._begin(span)
            node = _Node(span, None, run, run.start_ns)
            run.root = node
        else:
            run = around.run
            node = _Node(span, around, run, max(span.start_ns, around.start_ns))
            node.is_moved = node.start_ns != span.start_ns
            around.open_count += 1
        node.latest_ns = node.start_ns
        self._nodes[key] = node
        run.keys.append(key)
        run.open[span.span_id] = node
        node.kind = find_kind(span)
        if around is None:
            self._tell_run(node)
        elif span.end_ns is not None or (node.kind and (node.kind != "llm" or Reading(span).model)):
            self._tell_start(node)  # what it is is known, or, of a file, all that ever will be
        elif around.kind is None and not around.is_told:
            self._tell_start(around)  # what has something inside it is a step, whatever it calls itself later
        return self._take(run)

    def _find_around(self, span: ForeignSpan) -> _Node | None:
        """The nearest span around it that is in a run; spans without names between them are passed over."""
        parent, seen = span.parent_id, set[str]()
        while parent is not None and parent not in seen:
            seen.add(parent)
            key = (span.trace_id, parent)
            if (node := self._nodes.get(key)) is not None:
                return self._find_open(node, span)
            if key in self._closed:
                return None
            if key not in self._parents:  # it is not here: the first root of the trace has it, if there is one
                roots = (each.root for each in self._runs.values() if each.trace_id == span.trace_id)
                root = next((each for each in roots if each is not None and each.span.parent_id is None), None)
                return None if root is None else self._find_open(root, span)
            parent = self._parents[key]
        return None

    def _find_open(self, node: _Node, span: ForeignSpan) -> _Node | None:
        """What goes on of a span and those around it; None where a span begins after its root has ended."""
        ended_ns = node.run.ended_ns
        if ended_ns is not None and span.start_ns > ended_ns:
            return None
        return next((each for each in (node, *_list_around(node)) if not each.is_over), None)

    def _begin(self, span: ForeignSpan) -> _Run:
        run_id, self._run_id = self._run_id or span.trace_id or "trace", None
        if self._counts[span.trace_id]:
            run_id += "-" + hashlib.sha256(span.span_id.encode()).hexdigest()[:8]
        self._counts[span.trace_id] += 1
        run = self._runs[run_id] = _Run(run_id, span.trace_id, span.start_ns)
        return run

    def _take(self, run: _Run) -> list[ev.Event]:
        out, run.out = run.out, []
        return out

    # --- Starts -------------------------------------------------------------------------------------------------------

    def _tell_run(self, node: _Node) -> None:
        reading, run = Reading(node.span), node.run
        node.is_told = True
        name = (reading.agent if node.kind == "agent" else None) or reading.title
        self._emit(
            run,
            ev.RunStarted,
            node.start_ns,
            span_id=run.run_id,
            parent_id=None,
            name=name,
            workflow=node.span.scope.removeprefix("openinference.instrumentation.").replace("opentelemetry.", "")
            or "foreign",
            inputs={},
            max_concurrency=None,
        )
        if node.kind == "agent":
            node.box = self._begin_task(node, reading.agent or reading.title, name, run.run_id)
        elif node.kind in ("llm", "tool"):
            node.outer = self._begin_task(node, "", reading.title, run.run_id)
            self._tell_call(node, node.outer)

    def _tell_start(self, node: _Node) -> None:
        """Tell of a span whose kind is known, or has to be by now."""
        untold = [node]
        while (around := untold[-1].around) is not None and not around.is_told:
            untold.append(around)
        for each in reversed(untold):
            if not each.is_told:
                self._tell_one(each)

    def _tell_one(self, node: _Node) -> None:
        around = node.around
        assert around is not None, "a root is told when it comes"
        node.kind = node.kind or "step"
        node.is_told = True
        if node.kind in ("llm", "tool"):
            if self._find_call(around, "llm") is None:  # a client inside a model call tells of the same one again
                self._tell_call(node, self._find_box(around))
            return
        reading = Reading(node.span)
        agent = (reading.agent or reading.title) if node.kind == "agent" else ""
        if around.kind in (None, "step") and Reading(around.span).title == reading.title and (around.box or not agent):
            # Frameworks wrap the same work twice, under one name: it is one task.
            if around.box is not None:
                around.box.agent = around.box.agent or agent
            return
        parent_id, tool = self._find_parent(around)
        if tool is not None:
            parent_id = self._delegate(node, tool, agent, reading) if agent else self._nest(tool)
        node.box = self._begin_task(node, agent, (reading.agent if agent else "") or reading.title, parent_id)

    def _find_call(self, node: _Node | None, kind: ForeignKind) -> _Node | None:
        """The model call, or tool call, that a span is in, below the nearest task."""
        while node is not None and node.box is None:
            if node.kind == kind:
                return node
            node = node.around
        return None

    def _find_box(self, node: _Node) -> _Box:
        """The task in which calls of a span are; made where there is none: in the run itself, and in a tool."""
        for at in (node, *_list_around(node)):
            if at.box is not None:
                return at.box
            if at.kind == "tool" and at.own:
                at.box = self._begin_task(at, "", Reading(at.span).title, self._nest(at))
                return at.box
            if at.outer is not None:
                return at.outer
        at.box = self._begin_task(at, "", Reading(at.span).title, at.run.run_id)
        return at.box

    def _find_parent(self, node: _Node) -> tuple[str, _Node | None]:
        """The span of ours that a new task hangs under; and the tool whose call it is, if it is one's."""
        for at in (node, *_list_around(node)):
            if at.kind == "tool" and at.own:
                return at.own["span_id"], at
            box = at.box or at.outer
            if box is not None:
                return box.span["span_id"], None
        return node.run.run_id, None

    def _nest(self, tool: _Node) -> str:
        """The nested run that a tool has begun; begun here, where it is the first that is heard of it."""
        if tool.nested is None:
            tool.nested = self._span(tool.run, tool.own["span_id"], tool.own["task"])
            self._emit(
                tool.run,
                ev.NestedRunStarted,
                tool.start_ns,
                **tool.nested,
                name=Reading(tool.span).title,
                nested_run_id=tool.span.span_id,
                workflow="foreign",
            )
        return str(tool.nested["span_id"])

    def _begin_task(self, node: _Node, agent: str, name: str, parent_id: str) -> _Box:
        run, reading = node.run, Reading(node.span)
        beside = next((each.box or each.outer for each in _list_around(node) if each.box or each.outer), None)
        if beside is None:
            agent = agent or next((each.agent for each in _list_around(node) if each.agent), "")
        if beside is not None:
            self._end_turns(run, beside, node.start_ns)
        run.names[name] += 1
        count = run.names[name]
        is_listed = parent_id == run.run_id
        run.task_count += is_listed
        span = self._span(run, parent_id, name if count == 1 else f"{name}_{count}")
        box = _Box(span, agent, beside, reading.description, node.start_ns)
        place = run.task_count - 1 if is_listed else None
        self._emit(
            run,
            ev.TaskStarted,
            node.start_ns,
            **span,
            agent=agent,
            description=box.description or name,
            index=place,
            total=None,
            queued_s=0.0,
        )
        if not node.own and node.kind not in ("llm", "tool"):
            node.own = span
            self._mark(node, node.start_ns)
        return box

    def _delegate(self, node: _Node, tool: _Node, agent: str, reading: Reading) -> str:
        request = DelegationRequest(
            agent_role=agent, task_description=reading.description or reading.title, task_id=node.span.span_id
        )
        box = self._find_own_box(tool)
        around, depth = tool.around, 1
        while around is not None:
            depth, around = depth + (around.delegation is not None), around.around
        node.delegation = request
        node.own = self._span(tool.run, tool.own["span_id"], tool.own["task"])
        delegator = box.caller if box is not None else ""
        self._emit(
            tool.run, ev.DelegationStarted, node.start_ns, **node.own, delegator=delegator, depth=depth, request=request
        )
        self._mark(node, node.start_ns)
        return str(node.own["span_id"])

    def _tell_call(self, node: _Node, box: _Box) -> None:
        run, reading = node.run, Reading(node.span)
        if node.kind == "tool":
            asked = reading.tool_call_id or ""
            begun = [each for each in reversed(box.turns) if each.start_ns <= node.start_ns]
            turn = next((each for each in begun if asked and asked in each.asked_ids), next(iter(begun), None))
            node.turn = turn or self._begin_turn(run, box, node.start_ns)
            node.own = self._span(run, node.turn.span["span_id"], box.span["task"])
            box.tool_count += 1
            self._emit(
                run,
                ev.ToolCallStarted,
                node.start_ns,
                **node.own,
                agent=box.caller,
                tool=reading.tool,
                tool_call_id=asked or node.span.span_id,
                arguments=reading.arguments,
            )
        else:
            self._end_turns(run, box, node.start_ns)
            self._tell_given(run, box, reading, node.start_ns)
            node.turn = self._begin_turn(run, box, node.start_ns)
            node.own = self._span(run, node.turn.span["span_id"], box.span["task"])
            node.attempt = self._span(run, node.own["span_id"], box.span["task"])
            self._emit(
                run,
                ev.LlmCallStarted,
                node.start_ns,
                **node.own,
                agent=box.caller,
                model=reading.model or reading.served_model or "unknown",
                provider=reading.provider,
                max_attempts=1,
                is_scripted=False,
            )
            self._emit(run, ev.LlmAttemptStarted, node.start_ns, **node.attempt, attempt=1)
        node.turn.open_count += 1
        self._mark(node, node.start_ns)

    def _tell_given(self, run: _Run, box: _Box, reading: Reading, at_ns: int) -> None:
        """What the first model call of a task was asked with is what the task was given."""
        if box.is_told or not (asked := reading.asked):
            return
        box.is_told = True
        system = "\n\n".join(each.text for each in asked if each.role == "system")
        rest = [each for each in asked if each.role != "system"]
        prompt = rest.pop() if rest and rest[-1].role == "user" else ChatMessage(role="user", text="")
        self._emit(
            run,
            ev.TaskInputPrepared,
            max(at_ns, box.start_ns),
            **box.span,
            system_prompt=system,
            user_prompt=prompt.text,
            context=(),
            build_s=0.0,
            earlier=tuple(rest),
        )

    def _begin_turn(self, run: _Run, box: _Box, at_ns: int) -> _Turn:
        box.turn_count += 1
        turn = _Turn(self._span(run, box.span["span_id"], box.span["task"]), at_ns, at_ns)
        box.turns.append(turn)
        self._emit(run, ev.TurnStarted, at_ns, **turn.span, agent=box.caller, iteration=box.turn_count)
        return turn

    def _end_turns(self, run: _Run, box: _Box, at_ns: int, *, is_all: bool = False) -> None:
        for turn in [each for each in box.turns if is_all or not each.open_count]:
            box.turns.remove(turn)
            at_ns = max(at_ns, turn.latest_ns, run.latest_ns)
            self._emit(run, ev.TurnEnded, at_ns, **turn.span, status=SpanStatus.OK)

    # --- Ends ---------------------------------------------------------------------------------------------------------

    def _finish(self, node: _Node) -> None:
        """A span has ended: told once all that is inside it has."""
        assert node.end is not None
        if not node.is_told:
            node.span, node.kind = node.end, find_kind(node.end) or node.kind
            self._tell_start(node)
        self._learn_agent(node)
        if node.around is None:
            node.run.ended_ns = max(node.start_ns, node.end.end_ns or node.start_ns)
        if node.open_count == 0:
            self._tell_end(node)

    def _learn_agent(self, node: _Node) -> None:
        """What has ended may tell whose work it was in, which some agents tell of themselves only when they end."""
        assert node.end is not None
        inside: list[_Node] = []
        for each in _list_around(node):
            if each.agent or (each.box is not None and each.box.agent):
                return
            inside.append(each)
            if each.kind == "tool":
                break
        named = Reading(node.end).agent_around if inside else None
        while inside and inside[-1].span.name != named:
            inside.pop()
        if named is None or not inside:
            return
        inside[-1].agent = named
        outermost = next((each.box for each in reversed(inside) if each.box is not None), None)
        if outermost is not None:
            outermost.agent = named

    def _tell_end(self, node: _Node, lost_ns: int | None = None) -> None:
        """Tell the end of a span, and of those around it that waited for it alone."""
        at: _Node | None = node
        while at is not None:
            around = at.around
            at_ns = self._tell_own_end(at, lost_ns)
            if around is None:
                return
            around.open_count -= 1
            around.latest_ns = max(around.latest_ns, at_ns)
            at = around if around.end is not None and around.open_count == 0 else None

    def _tell_own_end(self, node: _Node, lost_ns: int | None) -> int:
        run, around = node.run, node.around
        wanted_ns = lost_ns if node.end is None or node.end.end_ns is None else node.end.end_ns
        at_ns = max(wanted_ns if wanted_ns is not None else node.latest_ns, node.latest_ns)
        limit_ns = None if around is None else (around.end or around.span).end_ns
        if limit_ns is not None:
            at_ns = max(min(at_ns, limit_ns), node.latest_ns)  # what is over is the limit of what is inside it
        at_ns = run.latest_ns = max(at_ns, run.latest_ns)
        node.is_moved = node.end is not None and wanted_ns != at_ns
        node.is_over = True
        run.open.pop(node.span.span_id, None)
        reading = Reading(node.end or node.span)
        if node.own:
            self._mark(node, at_ns)
            {"llm": self._end_model, "tool": self._end_tool}.get(node.kind or "", self._end_work)(node, reading, at_ns)
        elif around is not None and around.box is not None and find_kind(reading.span) == "agent":
            around.box.agent = around.box.agent or reading.agent or ""
        if around is None:
            self._end_run(node, reading, at_ns, is_lost=lost_ns is not None and node.end is None)
        return at_ns

    def _status(self, node: _Node, reading: Reading) -> SpanStatus:
        if node.end is None:
            return SpanStatus.INTERRUPTED
        return SpanStatus.OK if reading.error is None else SpanStatus.ERROR

    def _end_model(self, node: _Node, reading: Reading, at_ns: int) -> None:
        run, status, usage = node.run, self._status(node, reading), reading.usage
        assert node.turn is not None
        error = None if reading.error is None else make_recorded_error(*reading.error)
        told = {"status": status, "usage": usage if node.end is not None else TokenUsage(), "error": error}
        cost = {} if reading.cost is None else {"cost": reading.cost, "cost_source": node.span.scope or "the span"}
        self._emit(run, ev.LlmAttemptEnded, at_ns, **node.attempt, attempt=1, **told, **cost)
        if status is SpanStatus.OK:
            texts = [each.text for each in reading.said if each.text]
            calls = tuple(call for each in reading.said for call in each.tool_calls)
            node.turn.asked_ids = frozenset(each.id for each in calls)
            box = self._find_own_box(node)
            if box is not None:
                if node.end is not node.span:  # of a file, all of it was known when it began
                    self._tell_given(run, box, reading, node.start_ns)
                box.latest_output = "\n".join(texts) or box.latest_output
            self._emit(
                run,
                ev.LlmCallCompleted,
                at_ns,
                **node.own,
                text="\n".join(texts),
                tool_calls=calls,
                usage=usage,
                model=reading.served_model,
                finish_reason=reading.finish_reason,
                time_to_first_token_s=None,
            )
        else:
            error = error or make_recorded_error("RunInterrupted", "It is not known how it ended.")
            self._emit(run, ev.LlmCallFailed, at_ns, **node.own, error=error, status=status)
        self._leave_turn(node, at_ns)

    def _end_tool(self, node: _Node, reading: Reading, at_ns: int) -> None:
        run, status = node.run, self._status(node, reading)
        if node.box is not None:
            self._end_task(run, node.box, reading, at_ns, SpanStatus.OK if node.end is not None else status)
        if node.nested is not None:
            self._emit(run, ev.NestedRunEnded, at_ns, **node.nested, status=status, error=self._error(reading, status))
        error = None if reading.error is None else make_recorded_error(*reading.error)
        outcome = {SpanStatus.OK: ToolOutcome.SUCCESS, SpanStatus.ERROR: ToolOutcome.FAILURE}.get(status)
        self._emit(
            run,
            ev.ToolCallCompleted,
            at_ns,
            **node.own,
            tool=reading.tool,
            tool_call_id=reading.tool_call_id or node.span.span_id,
            status=status,
            outcome=outcome or ToolOutcome.UNKNOWN,
            result=reading.result or (str(error) if error is not None else ""),
            error=error,
        )
        self._leave_turn(node, at_ns)

    def _leave_turn(self, node: _Node, at_ns: int) -> None:
        assert node.turn is not None
        node.turn.open_count -= 1
        node.turn.latest_ns = max(node.turn.latest_ns, at_ns)

    def _find_own_box(self, node: _Node) -> _Box | None:
        return node.outer if node.around is None else self._find_box(node.around)

    def _end_work(self, node: _Node, reading: Reading, at_ns: int) -> None:
        if node.box is None:
            return
        run = node.run
        output = self._end_box(node, node.box, reading, at_ns)
        request = node.delegation
        if request is None:
            return
        facts: dict[str, Any] = {"task_id": request.task_id, "worker_role": request.agent_role}
        facts["duration"] = timedelta(microseconds=(at_ns - node.start_ns) / 1000)
        if output is not None:
            answer = DelegationResponse(status=DelegationStatus.SUCCESS, raw_output=output.raw, **facts)
            self._emit(run, ev.DelegationCompleted, at_ns, **node.own, request=request, response=answer, output=output)
            return
        status = self._status(node, reading)
        error = self._error(reading, status)
        answer = DelegationResponse(status=DelegationStatus.FAILURE, errors=(str(error),), **facts)
        failed = {"request": request, "response": answer, "status": status, "error": error}
        self._emit(run, ev.DelegationFailed, at_ns, **node.own, **failed)

    def _end_box(self, node: _Node, box: _Box, reading: Reading, at_ns: int) -> TaskOutput | None:
        return self._end_task(node.run, box, reading, at_ns, self._status(node, reading))

    def _end_task(self, run: _Run, box: _Box, reading: Reading, at_ns: int, status: SpanStatus) -> TaskOutput | None:
        if not box.is_told and (given := reading.description):
            box.is_told = True
            facts = {"system_prompt": "", "user_prompt": given, "context": (), "build_s": 0.0}
            self._emit(run, ev.TaskInputPrepared, at_ns, **box.span, **facts)
        self._end_turns(run, box, at_ns, is_all=True)
        if status is not SpanStatus.OK:
            error = self._error(reading, status)
            self._emit(run, ev.TaskFailed, at_ns, **box.span, agent=box.agent, error=error, status=status)
            return None
        # Some say only in the end whose work it was.
        agent = box.agent or (reading.agent if find_kind(reading.span) == "agent" else None) or ""
        output = TaskOutput(
            name=mask(mend_text(box.span["task"])),
            raw=mend_text(reading.output or box.latest_output),
            task_description=mend_text(box.description),
            agent_role=mask(mend_text(agent)),
            completed_at=_to_time(at_ns),
            duration=timedelta(microseconds=(at_ns - box.start_ns) / 1000),
            tool_call_count=box.tool_count,
        )
        self._emit(run, ev.TaskCompleted, at_ns, **box.span, output=output)
        return output

    def _end_run(self, node: _Node, reading: Reading, at_ns: int, *, is_lost: bool) -> None:
        run = node.run
        if node.outer is not None:
            self._end_task(run, node.outer, reading, at_ns, self._status(node, reading))
        told: dict[str, Any] = {"status": RunStatus.COMPLETED, "exit_reason": ExitReason.COMPLETED}
        if is_lost:
            told = {"status": RunStatus.INTERRUPTED, "exit_reason": ExitReason.INTERRUPTED, "is_cut_off": True}
        elif reading.error is not None:
            error = make_recorded_error(*reading.error)
            told = {"status": RunStatus.FAILED, "exit_reason": ExitReason.ERROR, "error": error}
        self._emit(run, ev.RunEnded, at_ns, span_id=run.run_id, parent_id=None, **told)
        self._runs.pop(run.run_id, None)
        for key in run.keys:
            self._nodes.pop(key, None)
            self._parents.pop(key, None)
            self._closed[key] = at_ns
        for _ in range(len(self._closed) - _MOST_CLOSED):
            self._closed.pop(next(iter(self._closed)))

    def _error(self, reading: Reading, status: SpanStatus) -> BaseException | None:
        if status is SpanStatus.OK:
            return None
        return make_recorded_error(*(reading.error or ("RunInterrupted", "It is not known how it ended.")))

    def _close(self, run: _Run) -> list[ev.Event]:
        """End all that is open, the innermost first, at the latest moment that is known of the run."""
        left = [*run.open.values()]
        latest_ns = max([run.ended_ns or 0, *(each.latest_ns for each in left)])
        for node in reversed(left):
            if not node.is_told:
                self._tell_start(node)
        while run.open:
            before = len(run.open)
            for node in reversed([*run.open.values()]):
                if node.open_count == 0 and not node.is_over:
                    self._tell_end(node, latest_ns)
                    break
            assert len(run.open) < before, "a span that is open has nothing open inside it"
        return self._take(run)

    # --- Events -------------------------------------------------------------------------------------------------------

    def _mark(self, node: _Node, at_ns: int) -> None:
        if node.is_moved:
            self._emit(node.run, ev.TimesMoved, at_ns, **node.own)
            node.is_moved = False

    def _span(self, run: _Run, parent_id: str, task: str) -> dict[str, Any]:
        run.span_count += 1
        return {"span_id": f"{run.run_id}.{run.span_count}", "parent_id": parent_id, "task": task}

    def _emit(self, run: _Run, kind: type[ev.Event], at_ns: int, **fields: Any) -> None:
        at_ns = max(at_ns, run.start_ns)
        offset_s = (at_ns - run.start_ns) / 1e9
        told = mask_fields(fields)
        run.out.append(kind(run_id=run.run_id, seq=run.seq, time=_to_time(at_ns), offset_s=offset_s, **told))
        run.seq += 1


def _to_time(at_ns: int) -> datetime:
    """The moment, as exact as datetimes are; one that no calendar has is the epoch."""
    try:
        return datetime.fromtimestamp(at_ns // 10**9, UTC) + timedelta(microseconds=at_ns % 10**9 / 1000)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)
