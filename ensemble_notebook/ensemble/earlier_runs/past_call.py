"""A model call of an earlier run, as it was made: what the model was told, what it replied, and who was asked (F1).

What was told comes from the documents of the run, in memory or in the store, which have tools and schemas as well;
where there are none, from its trace: of a file, of another framework, of a demo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.planning.delegation import AgentResolver, add_team, build_team_graph
from ensemble_notebook.domain.planning.ensemble_texts import find_typed_task
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.domain.seams.chat_port import ModelReply, Said, ToolSpec, list_said
from ensemble_notebook.engine.agent.call_again import CallAgain
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall
from ensemble_notebook.ensemble.earlier_runs.continuing import find_run, to_chat_message
from ensemble_notebook.ensemble.earlier_runs.dependence import list_around
from ensemble_notebook.ensemble.ensemble_tool import RowHandler, find_ensemble
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span import Message, Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_facts import RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore

_INSIDE: Final = (SpanKind.TURN, SpanKind.TASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A model call.

    Attributes:
        trace: of its run.
        span: of the call.
        system, user: with what the conversation began.
        said: what was said after that.
        prompt_place: which of `user` and `said` is the prompt of the task itself, from 0: a history comes before it.
        tools: that the model was offered.
        schema: the JSON schema that it was held to.
        reply: what it replied; None where it did not.
        is_masked: whether secrets may be masked in what it was told.
        lacks_tools: whether its agent had tools, and nothing tells what the model knew of them.
        inputs, cell, changes: of its run, as of an `Origin`.
    """

    trace: ExecutionTrace
    span: Span
    system: str
    user: str
    said: tuple[Said, ...]
    prompt_place: int
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None
    reply: ModelReply | None
    is_masked: bool = True
    lacks_tools: bool = False
    inputs: Mapping[str, Any]
    cell: RunOrigin | None = None
    changes: tuple[ChangedCall, ...] = ()

    @property
    def prompt(self) -> str:
        """The prompt of the task itself."""
        told = (self.user, *self.said)[self.prompt_place]
        return told if isinstance(told, str) else self.user


class Asked(NamedTuple):
    """Who was asked in a call.

    Attributes:
        agent: whose call it was; one of this name alone, where nothing else is known of it.
        llm: its model; None where that is not known.
        rates: what that costs; None: by the public price list.
        output_type: what the reply was to be; None for any text, and where that is not known.
    """

    agent: Agent
    llm: Any = None
    rates: CostConfiguration | None = None
    output_type: Any = None


def find_past_call(run: Any, span: Any) -> PastCall:
    """A model call of a run.

    Args:
        run: an output, a trace, or what finds a run in the store.
        span: of the call, or of its turn or attempt; or the id of one.

    Raises:
        StoreError: the run is not there, or its store can't be read.
        ValidationError: there is no such call, it is still running, or what it was told is not kept.
    """
    found = _find_run(run)
    trace = found.trace
    if trace.capture_mode is CaptureMode.METADATA:
        _refuse_textless(trace.run_id)
    call = _find_call(trace, span)
    if call.end_seq is None:
        raise ValidationError(f"Span {call.span_id} is still running: wait for its end, or stop it.")
    return _read_documents(found, call) or _read_trace(found, call)


class _Run(NamedTuple):
    """A run.

    Attributes:
        trace, inputs, cell, changes, is_live: as of an `Origin`.
        documents: of what was said in it; as it was said, where it is live.
    """

    trace: ExecutionTrace
    documents: Sequence[Mapping[str, Any]]
    inputs: Mapping[str, Any]
    cell: RunOrigin | None = None
    changes: tuple[ChangedCall, ...] = ()
    is_live: bool = False


def _find_run(run: Any) -> _Run:
    """The run of an output or a trace, or one of the store."""
    if (journal := getattr(run, "_journal", None)) is not None:
        documents = [make(False) for make in journal.documents]
        return _Run(run.trace, documents, journal.inputs, journal.cell, journal.changes, is_live=True)
    trace = run if isinstance(run, ExecutionTrace) else getattr(run, "trace", None)
    if isinstance(trace, ExecutionTrace):
        store = RunStore.find()
        return _Run(trace, [] if store is None else store.load_exchanges(trace.run_id), trace.inputs)
    store = RunStore.open()
    found = find_run(store, str(run))
    if not found.facts.keeps_texts:
        _refuse_textless(found.run_id)
    if found.status is RunStatus.RUNNING:
        raise ValidationError(f"Run {found.run_id} is still going on: wait for its end, or stop it.")
    facts = found.facts
    cell = facts.origin if facts.origin is not None and facts.origin.text else None
    return _Run(store.load_trace(found), store.load_exchanges(found.run_id), facts.inputs, cell)


def _refuse_textless(run_id: str) -> None:
    raise ValidationError(
        f"Run {run_id} can't be asked for its calls: this run kept no texts (capture_mode metadata). Run it again with "
        f'capture_mode "standard".'
    )


def _find_call(trace: ExecutionTrace, given: Any) -> Span:
    """The span of a model call."""
    span_id = given if isinstance(given, str) else getattr(given, "span_id", None)
    span = None if span_id is None else trace._fold.spans.get(span_id)
    if span is None:
        raise ValidationError(
            f"Run {trace.run_id} has no span {span_id or repr(given)}. output.frames.llm_calls lists its model calls."
        )
    if span.kind is SpanKind.ATTEMPT:
        span = span.parent or span
    if span.kind in _INSIDE:
        calls = (each for each in trace._fold.spans.values() if each.kind is SpanKind.LLM)
        inside = [each for each in calls if span in list_around(each)]
        if len(inside) > 1:
            raise ValidationError(
                f"Span {span.span_id} has {len(inside)} model calls: name one of them, "
                f"{', '.join(each.span_id for each in inside[:3])}{', ...' if len(inside) > 3 else ''}."
            )
        span = inside[0] if inside else span
    if span.kind is not SpanKind.LLM:
        title = span.kind.traits.title.lower()
        raise ValidationError(f"Span {span.span_id} of run {trace.run_id} is no model call, but a {title}.")
    return span


def _read_documents(run: _Run, call: Span) -> PastCall | None:
    """The call as the documents of its run have it; None where they don't.

    Raises:
        ValidationError: they are damaged.
    """
    from ensemble_notebook.models.recording.documents import BROKEN_DOCUMENT, find_call

    trace, documents = run.trace, run.documents
    place = next((each for each in reversed(documents) if each.get("span") == call.span_id), None)
    if place is None:
        return None
    try:
        found = find_call(documents, place["exchange"] if "exchange" in place else place["kept"])
    except BROKEN_DOCUMENT as error:
        raise ValidationError(f"What is kept of span {call.span_id} is damaged: run it again.") from error
    return PastCall(
        trace=trace,
        span=call,
        system=found.system,
        user=found.user,
        said=found.said,
        prompt_place=_find_prompt_place(trace, call, 1 + len(found.said)),
        tools=found.tools,
        schema=found.schema,
        reply=found.reply,
        is_masked=found.is_masked and not run.is_live,
        inputs=run.inputs,
        cell=run.cell,
        changes=run.changes,
    )


def _list_told(trace: ExecutionTrace, call: Span) -> list[Message]:
    """The messages of a task up to a call, the beginnings of earlier conversations among them."""
    messages = trace._fold.messages.get(call.task_id or "", ())
    return [each for each in messages if each.seq <= call.seq and not each.is_left_out]


def _begins(message: Message) -> bool:
    """Whether a conversation begins with a message: with the prompts of a task, or with what a fork has changed."""
    return message.span.kind is SpanKind.TASK or (message.span.kind is SpanKind.LLM and message.is_earlier)


def _find_prompt_place(trace: ExecutionTrace, call: Span, count: int) -> int:
    """Which of the messages of a call is the prompt of its task, from 0, the system prompt left out.

    Args:
        trace: of its run.
        call: its span.
        count: of its messages.
    """
    own = [each for each in _list_told(trace, call) if each.span.kind is SpanKind.TASK and each.role != "system"]
    prompts = [each for each in own if not each.is_earlier]
    if not prompts:  # a call that was made again: all was said before
        return 0
    return min(sum(each.seq == prompts[-1].seq for each in own) - 1, count - 1)


def _read_trace(run: _Run, call: Span) -> PastCall:
    """The call as the messages of the trace have it.

    Raises:
        ValidationError: they don't have it.
    """
    trace = run.trace
    told = _list_told(trace, call)
    begins = next((each.seq for each in reversed(told) if _begins(each)), None)
    systems = [each.text for each in told if each.role == "system"]
    conversation = [to_chat_message(each) for each in told if each.seq >= (begins or 0) and each.role != "system"]
    if begins is None or not conversation or conversation[0].role != "user":
        raise ValidationError(
            f"What the model was told in span {call.span_id} of run {trace.run_id} is not kept: neither its store nor "
            f"its trace has it. Give the whole with messages=[...] in a new run."
        )
    try:
        said = tuple(list_said(conversation[1:]))
    except KeyError:
        raise ValidationError(f"In span {call.span_id} a tool answers a call that no reply made.") from None
    replies = [each for each in trace._fold.messages.get(call.task_id or "", ()) if each.span is call]
    reply = next((to_chat_message(each) for each in reversed(replies) if each.role == "assistant"), None)
    agents = (each for each in trace.agents if each.role == call.agent)
    return PastCall(
        trace=trace,
        span=call,
        system=systems[-1] if systems else "",
        user=conversation[0].text,
        said=said,
        prompt_place=_find_prompt_place(trace, call, len(conversation)),
        reply=None if reply is None else ModelReply(text=reply.text, tool_calls=reply.tool_calls),
        lacks_tools=any(each.tools for each in agents) or any(each.role == "tool" for each in conversation),
        inputs=run.inputs,
        cell=run.cell,
        changes=run.changes,
    )


# --- Who was asked ----------------------------------------------------------------------------------------------------


def find_asked(graph: Graph, call: PastCall) -> Asked:
    """Who was asked in a call of a run of an ensemble.

    Args:
        graph: of the ensemble.
        call: of its run, or of a run nested in that.
    """
    span, role = call.span, call.span.agent or "Agent"
    inner = _find_graph(AgentResolver(call.trace.inputs).resolve_graph(graph), span)
    if inner is None:
        return Asked(Agent(role=role, goal="Reply"))
    node = _find_node(inner, span)
    if node is not None and isinstance(again := node.task.handler, CallAgain):
        return Asked(again.agent, again.llm, again.rates, again.output_type)
    if node is not None and node.agent is not None and span.delegation_id is None:
        kind = find_typed_task(node).output_type
        if span.is_fallback and node.fallback is not None:
            return Asked(node.fallback, node.fallback_llm, node.fallback_rates, kind)
        return Asked(node.agent, node.llm, node.rates, kind)
    members = [Asked(each.agent, each.llm, each.rates) for each in inner.team]
    members += [Asked(each.agent, each.llm, each.rates) for each in inner.all_tasks if each.agent is not None]
    return next((each for each in members if each.agent.role == role), Asked(Agent(role=role, goal="Reply")))


def _find_graph(graph: Graph, span: Span) -> Graph | None:
    """The graph of the run that a span is in, beginning with that around all; None where it is not known."""
    found: Graph | None = graph
    for run in reversed([each for each in list_around(span) if each.kind is SpanKind.NESTED]):
        if found is None or run.parent is None:
            return None
        node = _find_node(found, run.parent)
        if run.parent.kind is SpanKind.TASK:
            inner: Any = None if node is None else node.task.ensemble
            found = None if node is None or node.nested is None else add_team(inner, node.nested)
            if node is not None and isinstance(rows := node.task.handler, RowHandler):
                found = build_team_graph(rows.ensembles[node.name])
            continue
        agents = [*(each.agent for each in found.all_tasks), *(each.agent for each in found.team)]
        tools = [tool for each in agents if each is not None for tool in each.tools]
        tools += [tool for each in found.all_tasks for tool in each.task.tools]
        called = (find_ensemble(each) for each in tools if getattr(each, "name", None) == run.parent.tool)
        ensemble = next((each for each in called if each is not None), None)
        found = None if ensemble is None else build_team_graph(ensemble)
    return found


def _find_node(graph: Graph, span: Span) -> TaskNode | None:
    """The task that a span is in, or that it is an item of."""
    task = next((each for each in list_around(span) if each.kind is SpanKind.TASK), None)
    if task is None:
        return None
    named = [each for each in graph.all_tasks if each.name == (task.item_of or task.name)]
    in_phase = (each for each in named if each.phase is None or graph.get_phase_name(each) == task.phase)
    return next(in_phase, named[0] if named else None)
