"""What was said in a run, and what happened in between, in reading order (E115).

A task stands as a whole, where it began, with what was handed on inside it: what ran side by side is not mixed up. What
was sent back begins anew where it was done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Message, RequestedCall, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.timeline_wording import ANSWERS, SUBJECTS, UNDECIDED, describe_skip

SaidAs = Literal["system", "user", "assistant", "tool", "review", "note"]

NO_TEXTS: Final = "this run kept no texts (capture_mode metadata)"
LONGEST_ARGUMENTS: Final = 200
"""Characters of the arguments of a tool call in a printed line."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Utterance:
    """Something that was said in a run, or a note of what happened in between.

    Attributes:
        number: its place in the transcript, from 0.
        span: where it arose: see `Message.span`; of a note, what it is about.
        task: the span of the task that it is a part of; None for what is between tasks.
        depth: how many tasks are around that one.
        speaker: who says it, by name: the role of an agent, the name of a tool, ``System``, ``Task``, ...
        role: ``system``, ``user`` for what the model is asked, ``assistant`` for a reply, ``tool`` for a result,
            ``review`` for an answer of a person or what stands for one, ``note`` for what happened in between.
        text: secrets masked; empty where none was kept.
        remark: in a few words what is special about it: ``said in an earlier run``, ``failed``, ...; else empty.
        tool_calls: what a reply asks for.
        reasoning: what the model thought before a reply; empty where nothing is known of it.
        agent: the role of the agent who says it, or is told it; empty where there is none.
        message: number of the message of the run that it is; None for what no model was told, or said.
        seq: number of the event that brought it.
    """

    number: int = 0
    span: Span
    task: Span | None
    depth: int = 0
    speaker: str = ""
    role: SaidAs = "note"
    text: str = ""
    remark: str = ""
    tool_calls: tuple[RequestedCall, ...] = ()
    reasoning: str = ""
    agent: str = ""
    message: int | None = None
    seq: int

    def __str__(self) -> str:
        """As one would read it to somebody."""
        indent = "  " * self.depth
        if self.role == "note":
            return f"{indent}-- {self.text} --"
        head = f"{self.speaker} ({self.remark})" if self.remark else self.speaker
        calls = [f"[{each.name}({_cut(each.arguments)})]" for each in self.tool_calls]
        lines = "\n".join(filter(None, [self.text.strip(), *calls])).splitlines() or [""]
        return "\n".join(
            [f"{indent}{head}: {lines[0]}".rstrip(), *(f"{indent}  {line}".rstrip() for line in lines[1:])]
        )

    def __repr__(self) -> str:
        """Who says it, and how it begins."""
        return f"<Utterance {self.number} {self.speaker or self.role}: {_cut(self.text)!r}>"


def read_utterances(fold: TraceFold) -> list[Utterance]:
    """All that was said in a run by now, in order; the fold is not to change meanwhile."""
    said = list(_Reader(fold).read_run())
    roles = _find_agents(said)
    return [
        replace(each, number=number, agent=role) for number, (each, role) in enumerate(zip(said, roles, strict=True))
    ]


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_ARGUMENTS else f"{flat[:LONGEST_ARGUMENTS]}…"


def list_around(task: Span | None) -> Iterator[Span]:
    """A task and those around it."""
    at = task
    while at is not None:
        if at.kind is SpanKind.TASK:
            yield at
        at = at.parent


def _find_agents(said: Sequence[Utterance]) -> list[str]:
    """The role of who says, or is told, each utterance: a prompt is told to whoever replies to it; empty: nobody's."""
    roles = [""] * len(said)
    waiting: dict[str, list[int]] = {}
    for place, each in enumerate(said):
        if each.task is None:
            continue
        # What has no reply, or came after the last one, is of the agent that it is a part of.
        roles[place] = each.span.agent or each.task.agent or ""
        told = waiting.setdefault(each.task.span_id, [])
        told.append(place)
        if each.role == "assistant":
            for before in told:
                roles[before] = each.speaker
            told.clear()
    return roles


class _Reader:
    """Puts the messages of a run into reading order.

    Args:
        fold: of the run; not to change meanwhile.
    """

    def __init__(self, fold: TraceFold) -> None:
        self._fold = fold
        self._inside: dict[str | None, list[Span]] = {}
        self._beneath: dict[str, list[Span]] = {}
        for span in fold.spans.values():
            if span.kind is SpanKind.TASK:
                around = [*list_around(span.parent)][:1]
                self._inside.setdefault(around[0].span_id if around else None, []).append(span)
            elif span.task_id is not None:
                self._beneath.setdefault(span.task_id, []).append(span)

    def read_run(self) -> Iterator[Utterance]:
        """All of it, in order."""
        between: list[Utterance] = []
        for span in self._fold.spans.values():
            if span.kind is SpanKind.PHASE:
                between += self._note_rounds(span, None, 0, f"phase {span.name}: round")
            elif span.kind is SpanKind.REVIEW and span.task_id is None and span.end_seq is not None:
                between += [self._read_review(span, None, 0)]
        return self._weave(between, self._inside.get(None, ()), 0, (-1, None))

    def _weave(
        self, own: Sequence[Utterance], tasks: Sequence[Span], depth: int, within: tuple[int, int | None]
    ) -> Iterator[Utterance]:
        """What is said in a place, with the tasks inside it where they begin; of these what begins within a time."""
        begin, end = within
        parts: list[tuple[int, Any]] = [(each.seq, each) for each in own]
        for task in tasks:
            starts = [each.seq for each in task.active_intervals] or [task.seq]
            ends = [*starts[1:], None]
            parts += [
                (start, (task, start, ending, place))
                for place, (start, ending) in enumerate(zip(starts, ends, strict=True))
                if start > begin and (end is None or start < end)
            ]
        for _, part in sorted(parts, key=lambda each: each[0]):
            if isinstance(part, Utterance):
                yield part
            else:
                yield from self._read_task(*part, depth=depth)

    def _read_task(self, task: Span, start: int, end: int | None, place: int, *, depth: int) -> Iterator[Utterance]:
        """One time that a task was done: from an event on, to another one or its end."""
        messages = [
            each
            for each in self._fold.messages.get(task.span_id, ())
            if each.seq >= start and (end is None or each.seq < end)
        ]
        own = [each for each in self._list_notes(task, depth) if each.seq >= start and (end is None or each.seq < end)]
        own += [said for each in messages if (said := self._read_message(each, task, depth)) is not None]
        yield self._note(task, task, depth, start, _describe_task(task, place, is_last=end is None))
        yield from self._weave(own, self._inside.get(task.span_id, ()), depth + 1, (start, end))
        if end is not None or task.end_seq is None:
            return
        # What had no model has an output all the same.
        if task.output and not any(each.role == "assistant" for each in messages):
            remark = f"reused: {task.reuse_reason}" if task.reused else "" if task.item_count is None else "all items"
            yield self._say(task, task, depth, task.end_seq, task.agent or "Output", "assistant", task.output, remark)
        if task.status in (SpanStatus.ERROR, SpanStatus.CANCELLED, SpanStatus.INTERRUPTED):
            yield self._note(task, task, depth, task.end_seq, f"{task.name}: {_describe_failure(task)}")

    def _read_message(self, message: Message, task: Span, depth: int) -> Utterance | None:
        """A message; None where a fork only tells it once more."""
        span = message.span
        if message.is_resent and message.is_earlier:
            return None
        remarks = [
            "not sent" if message.is_left_out else "",
            "said in an earlier run" if message.is_earlier and not message.is_left_out else "",
            "changed by the fork" if message.is_resent else "",
        ]
        speaker = "System"
        if message.role == "user":
            # What a session's model is told before another turn is no correction.
            is_correction = span.kind is SpanKind.TURN and bool(span.attributes)
            speaker = "Correction" if is_correction else self._find_asker(task) or "Task"
        elif message.role == "assistant":
            speaker = span.agent or task.agent or "Model"
            remarks.append("fallback" if span.is_fallback else "")
            remarks.append("kept" if span.reused else "")
        elif message.role == "tool":
            speaker = message.name or "Tool"
            remarks.append("" if span.status in (SpanStatus.OK, SpanStatus.RUNNING) else _describe_failure(span))
            remarks.append("kept" if span.kind is SpanKind.TOOL and span.reused else "")
        facts: dict[str, Any] = {"tool_calls": message.tool_calls, "reasoning": message.reasoning or ""}
        facts["message"] = message.number
        remark = ", ".join(filter(None, remarks))
        return self._say(span, task, depth, message.seq, speaker, message.role, message.text, remark, **facts)

    def _find_asker(self, task: Span) -> str | None:
        """Who has delegated a task; None where nobody has."""
        around = task.parent
        if around is None or around.kind is not SpanKind.DELEGATION:
            return None
        return (around.attributes or {}).get("delegator")

    def _list_notes(self, task: Span, depth: int) -> Iterator[Utterance]:
        """What happened in a task beside what was said."""
        yield from self._note_rounds(task, task, depth, f"{task.name}: draft")
        has_fallback, messages = False, self._fold.messages.get(task.span_id, ())
        changed = {each.span.span_id for each in messages if each.is_resent}
        for span in self._beneath.get(task.span_id, ()):
            if span.span_id in changed:
                yield self._note(span, task, depth, span.seq, "forked here: the model is told something else")
            if span.kind is SpanKind.TURN and span.is_fallback and not has_fallback:
                has_fallback = True
                prompts = [each.seq for each in messages if each.span is task and each.seq < span.seq]
                yield self._note(span, task, depth, max(prompts, default=span.seq), f"{span.agent} takes over")
            if span.end_seq is None:
                continue
            if span.kind is SpanKind.ATTEMPT and span.retry_reason:
                wait = "" if not span.backoff_ms else f" after {format_duration(span.backoff_ms)}"
                said = f"attempt {span.attempt} failed ({span.retry_reason}), asked again{wait}"
                yield self._note(span, task, depth, span.end_seq, said)
            elif span.kind is SpanKind.LLM and span.status not in (SpanStatus.OK, SpanStatus.SKIPPED):
                yield self._note(span, task, depth, span.end_seq, f"model call: {_describe_failure(span)}")
            elif span.kind is SpanKind.GUARDRAIL and span.status is SpanStatus.ERROR:
                yield self._note(span, task, depth, span.end_seq, f"guardrail {span.name}: {span.output or 'refused'}")
            elif span.kind is SpanKind.REVIEW:
                yield self._read_review(span, task, depth)

    def _note_rounds(self, span: Span, task: Span | None, depth: int, what: str) -> Iterator[Utterance]:
        """Each time that something was sent back; that a task of a phase was is said of the phase."""
        sent_back = [each for each in span.sent_back if each.end_seq is not None]
        breaks = {each.end_seq for each in span.inactive_intervals}
        for number, each in enumerate(sent_back, start=2):
            if each.end_seq not in breaks:
                yield self._note(
                    span, task, depth, each.end_seq or 0, f"{what} {number}, {each.verdict or 'done again'}"
                )

    def _read_review(self, span: Span, task: Span | None, depth: int) -> Utterance:
        facts = span.attributes or {}
        decision, by = span.review_decision or "", facts.get("by") or ""
        remark = (
            f"{SUBJECTS.get(facts.get('subject') or '', 'review')}: {ANSWERS.get(decision, decision or 'no answer')}"
        )
        speaker = UNDECIDED.get(by) or ("Person" if by in ("", "person") else by)
        return self._say(span, task, depth, span.end_seq or span.seq, speaker, "review", span.output or "", remark)

    def _note(self, span: Span, task: Span | None, depth: int, seq: int, text: str) -> Utterance:
        return Utterance(span=span, task=task, depth=depth, seq=seq, text=text)

    def _say(
        self,
        span: Span,
        task: Span | None,
        depth: int,
        seq: int,
        speaker: str,
        role: SaidAs,
        text: str,
        remark: str = "",
        **facts: Any,
    ) -> Utterance:
        return Utterance(
            span=span, task=task, depth=depth, seq=seq, speaker=speaker, role=role, text=text, remark=remark, **facts
        )


def _describe_task(task: Span, place: int, *, is_last: bool) -> str:
    """That a task begins: whose it is, what came of it before, and why it does not run."""
    if task.status is SpanStatus.SKIPPED and task.start_ms is None:
        return f"{task.name}: {describe_skip(task.reason)}"
    who = f" ({task.agent})" if task.agent else ""
    again = f", round {place + 1}" if place else ""
    kept = f", reused: {task.reuse_reason}" if task.reused and task.reuse_reason and is_last else ""
    return f"{task.name}{who}{again}{kept}"


def _describe_failure(span: Span) -> str:
    """What became of what did not end well."""
    if span.status is not SpanStatus.ERROR:
        return str(span.outcome_word or span.status.value)
    return " ".join(f"failed: {span.error_type or ''} {span.error_message or ''}".split())
