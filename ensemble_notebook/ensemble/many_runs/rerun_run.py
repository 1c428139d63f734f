"""The run of a rerun: a map of one repeated row, whose task makes the model call again (F1)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from ensemble_notebook.domain.definitions.agent import find_llm_fault
from ensemble_notebook.domain.definitions.enums import ErrorStrategy, RunStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.conversation import write_arguments
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.outputs.secrets import MASK
from ensemble_notebook.domain.planning.delegation import build_team_graph
from ensemble_notebook.domain.planning.graph import Graph, price_llm
from ensemble_notebook.domain.seams.chat_port import ModelReply, Said, list_said, to_message
from ensemble_notebook.engine.agent.call_again import CallAgain
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.ensemble.cost_estimation import estimate_calls
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedSource
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange, set_parameters
from ensemble_notebook.ensemble.earlier_runs.fork_origin import describe_change
from ensemble_notebook.ensemble.earlier_runs.past_call import PastCall, find_asked, find_past_call
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.map_run import MapHandle, start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_repeated
from ensemble_notebook.ensemble.many_runs.rerun import Rerun, RerunArguments
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import EnsembleError, RunInterrupted, ValidationError

_log = logging.getLogger("ensemble_notebook.run")


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
    call = find_past_call(given.run, given.span)
    graph, span = build_team_graph(ensemble), call.span
    made = _change_call(ensemble, graph, call, change)
    task = Task(
        name=span.task or "call",
        description=escape_variables(span.description or f"The call of {made.agent.role} once more"),
        expected_output="A reply",
        handler=made,
    )
    rows = ensemble._with_rows([task], error_strategy=ErrorStrategy.FAIL_FAST, concurrency=1)
    one = dataclasses.replace(rows, rate_limit=ensemble.rate_limit, max_concurrency=None)
    place = ForkPlace(call.trace.run_id, span.span_id, change.names, is_rerun=True)
    replies = read_repeated(None, {}, **given.replies)
    settings = dataclasses.replace(replies.settings, forked_from=place, streams=streams)
    changes = (*call.changes, describe_change(call.trace, span, change))
    source = ChangedSource(changes=changes, cell=call.cell, ensemble=ensemble, inputs=call.inputs)
    of_map = start_map(one, replies._replace(settings=settings))
    warnings = []
    if call.lacks_tools:
        warnings.append(
            f"The trace of run {call.trace.run_id} does not tell what the model knew of its tools: it is offered none."
        )
    for each in warnings:
        _log.warning("%s", each)

    def make_rerun(result: MapResult) -> Rerun:
        return Rerun(
            result,
            call.reply,
            changed=change.names,
            name=f"{made.agent.role}, {task.name}",
            warnings=warnings,
            ensemble=ensemble,
            run=given.run,
            span_id=span.span_id,
            source=source,
        )

    return RerunHandle(of_map, make_rerun)


def estimate_rerun(ensemble: RunnableEnsemble, given: RerunArguments) -> CostEstimate:
    """What a rerun would take. Nothing is asked. Arguments and errors as of `prepare_rerun`."""
    call, budget = find_past_call(given.run, given.span), given.replies["budget"]
    made = _change_call(ensemble, build_team_graph(ensemble), call, given.change)
    read_repeated(None, {}, **given.replies)  # checks them
    return estimate_calls(
        ensemble if budget is None else ensemble.replace(budget=budget),
        name=call.span.task or "call",
        role=made.agent.role,
        llm=made.llm,
        rates=made.rates,
        texts=_list_texts(made),
        reply=None if call.reply is None else call.reply.usage.output_tokens,
        count=given.replies["repeat"],
        at=datetime.now(UTC),
    )


def _list_texts(call: CallAgain) -> list[str]:
    """All that a model is told."""
    texts = [call.system, call.user, *(to_message(each).text for each in call.said)]
    replies = (each for each in call.said if isinstance(each, ModelReply))
    texts += [write_arguments(asks.arguments) for each in replies for asks in each.tool_calls]
    return [*texts, *(json.dumps([each.name, each.description, dict(each.parameters)]) for each in call.tools)]


def _change_call(ensemble: RunnableEnsemble, graph: Graph, call: PastCall, change: ForkChange) -> CallAgain:
    """A call as it is made again.

    Raises:
        ValidationError: its model is not known, can't be asked here, or would be told a mask.
    """
    span, asked = call.span, find_asked(graph, call)
    replayed_from = call.trace._fold.replayed_from
    if change.llm is None and replayed_from is not None:
        raise ValidationError(
            f"Run {call.trace.run_id} was replayed from {replayed_from}: no model was asked, so none can be asked "
            f"again. Name one with llm=, such as llm='openai:NAME'."
        )
    if change.llm is None and asked.llm is None:
        raise ValidationError(
            f"The model of agent {asked.agent.role!r} is not known any more: name one with llm=, such as "
            f"llm='openai:NAME'."
        )
    llm = asked.llm if change.llm is None else change.llm
    model = price_llm(llm if change.parameters is None else set_parameters(llm, change.parameters), ensemble)
    if fault := find_llm_fault(model.llm):
        raise ValidationError(f"llm {fault}.")
    make_source(RunSettings()).check(model.llm)
    told: list[Said]
    system, told = call.system, [call.user, *call.said]
    if change.messages is not None:
        system = change.messages[0].text if change.messages[0].role == "system" else ""
        told = [*list_said(each for each in change.messages if each.role != "system")]
    if change.system_prompt is not None:
        system = change.system_prompt
    if change.user_prompt is not None:
        told[call.prompt_place] = change.user_prompt
    user, *said = told
    assert isinstance(user, str)
    made = CallAgain(
        agent=asked.agent,
        llm=model.llm,
        rates=asked.rates if change.llm is None else model.rates,
        system=system,
        user=user,
        said=tuple(said),
        tools=call.tools,
        schema=call.schema,
        output_type=asked.output_type,
    )
    given = {change.system_prompt, change.user_prompt, *(each.text for each in change.messages or ())}
    if call.is_masked and any(MASK in each for each in _list_texts(made) if each not in given):
        raise ValidationError(
            f"What the model was told in span {span.span_id} had secrets, which are not kept: {MASK} stands in their "
            f"place, and is never sent. Give the whole with messages=[...], or run the cell again."
        )
    return made


class RerunHandle:
    """A rerun that has been started. Thread-safe, and awaitable on any event loop.

    Args:
        of_map: the map that it is, with a row for each reply.
        make_rerun: makes the result of that map's.
    """

    def __init__(self, of_map: MapHandle, make_rerun: Callable[[MapResult], Rerun]) -> None:
        self.run: RunHandle | None = of_map.run
        self.name: str | None = of_map.name
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
        except RunInterrupted as error:
            if not isinstance(error.output, MapResult):
                raise
            rerun = self._make_rerun(error.output)
            done = sum(each is not None for each in rerun.replies)
            told = RunInterrupted(f"{done} of {len(rerun)} replies are there, and kept.")
            told.output = rerun
            raise told from None
        except EnsembleError as error:
            if isinstance(result := getattr(error, "output", None), MapResult):
                error.output = self._make_rerun(result)
            raise
