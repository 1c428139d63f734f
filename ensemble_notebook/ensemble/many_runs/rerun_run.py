"""The run of a rerun: a map of one repeated row, whose task makes the model call again (F1)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, RunStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.secrets import MASK
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, build_graph, price_llm
from ensemble_notebook.domain.seams.chat_port import list_said, to_message
from ensemble_notebook.engine.agent.call_again import CallAgain
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedSource
from ensemble_notebook.ensemble.earlier_runs.fork_change import set_parameters
from ensemble_notebook.ensemble.earlier_runs.forking import (
    Origin,
    describe_change,
    find_call_span,
    find_exchange,
    find_origin,
)
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle, start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_repeated
from ensemble_notebook.ensemble.many_runs.rerun import Rerun, RerunArguments
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError
from ensemble_notebook.trace.spans.span import Span

if TYPE_CHECKING:
    from ensemble_notebook.models.recording.documents import RecordedCall


def prepare_rerun(ensemble: RunnableEnsemble, given: RerunArguments, *, streams: bool = False) -> RerunHandle:
    """Prepare a rerun; `RerunHandle._begin` begins it. Everything that can be refused is refused here.

    Args:
        ensemble: whose call it is: its prices, limits and listeners are those of the rerun.
        given: what its door was called with.
        streams: whether replies are streamed in any case.

    Raises:
        ValidationError, StoreError: there is no such call, or what it was told is not kept; nothing was asked.
    """
    change = given.change
    origin, graph = find_origin(given.run), build_graph(ensemble)
    at = find_call_span(origin, given.span)
    call = find_sent_call(origin, at)
    node = next((each for each in graph.all_tasks if each.name == at.task), None)
    agent, asked = _find_agent(graph, node, at)
    asked = change.llm if change.llm is not None else asked
    if asked is None:
        raise ValidationError(
            f"The model of agent {at.agent!r} is not known any more: name one with llm=, such as llm='openai:NAME'."
        )
    model = price_llm(asked if change.parameters is None else set_parameters(asked, change.parameters), ensemble)
    system, user, said = call.system, call.user, call.said
    if change.messages is not None:
        system = change.messages[0].text if change.messages[0].role == "system" else system
        first, *others = [each for each in change.messages if each.role != "system"]
        user, said = first.text, tuple(list_said(others))
    made = CallAgain(
        agent=agent,
        llm=model.llm,
        rates=model.rates,
        system=system if change.system_prompt is None else change.system_prompt,
        user=user if change.user_prompt is None else change.user_prompt,
        said=said,
        tools=call.tools,
        schema=call.schema,
        output_type=None if node is None or at.delegation_id is not None else node.task.output_type,
    )
    told = (made.system, made.user, *(to_message(each).text for each in made.said))
    if not origin.is_live and any(MASK in each for each in told):
        raise ValidationError(
            f"What the model was told in span {at.span_id} had secrets, which are not kept: {MASK} stands in their "
            f"place, and is never sent. Give the whole with messages=[...], or run the cell again."
        )
    task = Task(
        name=at.task or "call",
        description=escape_variables(at.description or f"The call of {at.agent} once more"),
        expected_output="A reply",
        handler=made,
    )
    rows = ensemble._with_rows([task], error_strategy=ErrorStrategy.FAIL_FAST, concurrency=1)
    one = dataclasses.replace(rows, rate_limit=ensemble.rate_limit, max_concurrency=None)
    place = ForkPlace(origin.run_id, at.span_id, change.names, is_rerun=True)
    replies = read_repeated(None, {}, **given.replies)
    settings = dataclasses.replace(replies.settings, forked_from=place, streams=streams)
    changes = (*origin.changes, describe_change(origin.trace, at, change, graph))
    source = ChangedSource(changes=changes, cell=origin.cell, ensemble=ensemble, inputs=origin.inputs)
    of_map = start_map(one, replies._replace(settings=settings))
    return RerunHandle(of_map, lambda result: Rerun(result, call.reply, ensemble, given.run, at.span_id, source))


class RerunHandle:
    """A rerun that has been started. Thread-safe, and awaitable on any event loop.

    Args:
        of_map: the map that it is, with a row for each reply.
        make_rerun: makes the result of that map's.
    """

    def __init__(self, of_map: MapHandle, make_rerun: Callable[[MapResult], Rerun]) -> None:
        self.run = of_map.run
        self.name = of_map.name
        self._map = of_map
        self._make_rerun = make_rerun

    @property
    def run_id(self) -> str:
        """The id of the run that makes the call again."""
        assert self.run is not None  # there is a row for each reply, and there is no rerun of none
        return self.run.run_id

    @property
    def status(self) -> RunStatus:
        """Its current status."""
        return self._map.status

    @property
    def is_done(self) -> bool:
        """Whether it has ended, so that `result` does not wait."""
        return self._map.is_done

    @property
    def events(self) -> Sequence[Event]:
        """The events so far, those of all replies among them. Read only; grows while it goes on."""
        return self._map.events

    @property
    def output(self) -> Rerun | None:
        """The result, once it has ended, failed or been interrupted; None until then."""
        result = self._map.output
        return None if result is None else self._make_rerun(result)

    def _begin(self) -> None:
        """Start it on the loop thread of the process."""
        self._map._begin()

    def _run_to_end(self) -> Rerun:
        """Begin, and wait for the end. Errors as of `result`, and of `MapHandle._run_to_end`."""
        with self._telling_errors():
            return self._make_rerun(self._map._run_to_end())

    async def _run_here(self) -> Rerun:
        """Begin, and wait on any loop; cancelling that stops it. Errors as of `result`."""
        self._begin()
        try:
            return await self
        except asyncio.CancelledError as stopped:
            self.cancel()
            stopped.output = self.output  # type: ignore[attr-defined]
            raise

    def cancel(self) -> None:
        """Stop it; returns at once. Replies that are there are kept. Does nothing after the end."""
        self._map.cancel()

    def result(self, timeout: float | None = None, *, while_waiting: Callable[[], object] | None = None) -> Rerun:
        """Wait for the end and return the result.

        Args:
            timeout: seconds to wait; it goes on after that. None: no limit.
            while_waiting: called several times a second on this thread.

        Raises:
            TimeoutError: it has not ended yet.
            DeadlineExceededError, RunInterrupted: it was stopped; has what is there as ``output``.
        """
        with self._telling_errors():
            return self._make_rerun(self._map.result(timeout, while_waiting=while_waiting))

    def interrupted(self) -> Rerun:
        """Stop it after a `KeyboardInterrupt`.

        Raises:
            RunInterrupted: always, with the replies that are there as ``output``.
        """
        with self._telling_errors():
            return self._make_rerun(self._map.interrupted())

    def __await__(self) -> Generator[Any, None, Rerun]:
        """Wait for the result, on any loop."""
        with self._telling_errors():
            return self._make_rerun((yield from self._map.__await__()))

    def __repr__(self) -> str:
        """Id and status."""
        return f"<RerunHandle {self.run_id}: {self.status.value}>"

    @contextmanager
    def _telling_errors(self) -> Iterator[None]:
        """Errors have the replies, and not the rows of a map, as their ``output``."""
        try:
            yield
        except (EnsembleError, RunInterrupted) as error:
            if isinstance(result := getattr(error, "output", None), MapResult):
                error.output = self._make_rerun(result)
            raise


def find_sent_call(origin: Origin, span: Span) -> RecordedCall:
    """What the model was told in a span.

    Raises:
        ValidationError: it is not kept, or was never sent.
    """
    from ensemble_notebook.models.recording.documents import BROKEN_DOCUMENT, find_call

    documents = [make(False) for make in origin.documents]
    exchange = find_exchange(origin, span, documents)
    try:
        return find_call(documents, exchange)
    except BROKEN_DOCUMENT as error:
        raise ValidationError(f"What is kept of span {span.span_id} is damaged: run it again.") from error


def _find_agent(graph: Graph, node: TaskNode | None, span: Span) -> tuple[Agent, Any]:
    """The agent of a call, and its model; one of this name alone where nothing else is known of it."""
    if node is not None and node.agent is not None and node.agent.role == span.agent:
        return node.agent, node.llm
    if node is not None and node.fallback is not None and node.fallback.role == span.agent:
        return node.fallback, node.fallback_llm
    for member in graph.team:
        if member.agent.role == span.agent:
            return member.agent, member.llm
    other = next((each for each in graph.all_tasks if each.agent is not None and each.role == span.agent), None)
    if other is not None and other.agent is not None:
        return other.agent, other.llm
    return Agent(role=span.agent or "Agent", goal="Reply"), None
