"""A model call made again, once or several times, and what came of it beside the reply that the run had (F1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import escape_variables
from ensemble_notebook.domain.events import LlmCallCompleted
from ensemble_notebook.domain.outputs.conversation import write_arguments
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.secrets import MASK, mask
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, build_graph, price_llm
from ensemble_notebook.domain.seams.chat_port import ModelReply, Step, list_steps, to_message
from ensemble_notebook.engine.agent.call_again import CallAgain
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.ensemble.earlier_runs.fork_change import Reply, read_change, set_parameters
from ensemble_notebook.ensemble.earlier_runs.forking import Origin, find_call_span, find_exchange, find_origin
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import read_repeated
from ensemble_notebook.ensemble.scoring import RunToScore, Scorable
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.analysis.text_changes import TextChanges
from ensemble_notebook.trace.spans.span import Span

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
    from ensemble_notebook.models.recording.documents import RecordedCall
    from ensemble_notebook.trace.analysis.row_table import RowFrame

_SETTINGS: Final = ("budget", "timeout", "listeners", "concurrency")
_COLUMNS: Final = ("status", "error", "input_tokens", "output_tokens", "cost", "duration_ms")


class Rerun(Scorable):
    """What came of a model call that was made again. Nothing after the call has run.

    ``rerun.frame`` has a row for each reply, numbered from 1; ``rerun.diff(1)`` says what changed in the first.

    Attributes:
        result: the replies as the `MapResult` of one repeated row: one run, in trace and store.
        before: the reply that the run had; None where it had none.
        run_id: of the run that made the call again.
    """

    def __init__(self, result: MapResult, before: ModelReply | None, ensemble: RunnableEnsemble, run: Any, span: Span):
        self.result = result
        self.before = before
        self.run_id: str | None = None if result.output is None else result.output.run_id
        self._ensemble = ensemble
        self._run = run
        self._span = span

    def __len__(self) -> int:
        """How many replies were asked for."""
        return len(self.result.rows)

    def __repr__(self) -> str:
        """How many there are, and of which call."""
        done = sum(each is not None for each in self.replies)
        return f"<Rerun of {self._span.span_id}: {done} of {len(self)} replies>"

    def _repr_html_(self) -> str:
        """The frame."""
        return str(self.frame.to_html(escape=True))

    @cached_property
    def replies(self) -> tuple[ModelReply | None, ...]:
        """The whole replies, as the model gave them; None for one that failed."""
        return tuple(map(_find_reply, self.result.rows))

    @cached_property
    def frame(self) -> RowFrame:
        """A row for each reply, by its number from 1.

        Columns: reply, value (of a typed one), tool_calls, status, error, input_tokens, output_tokens, cost,
        duration_ms, and its scores. Secrets are masked.
        """
        whole = self.result.frame
        frame = whole[[name for name in whole.columns if name in _COLUMNS or name in self._score_columns]].copy()
        frame.index = frame.index.get_level_values(-1).set_names("reply_number")
        frame.insert(0, "tool_calls", [mask(_write_calls(each)) for each in self.replies])
        values = (each.output.parsed_output if each.output is not None else None for each in self.result.rows)
        frame.insert(0, "value", list(values))
        frame.insert(0, "reply", [None if each is None else mask(each.text) for each in self.replies])
        return cast("RowFrame", frame)

    @property
    def _score_columns(self) -> set[str]:
        names = {each.name for each in self.score_records}
        return {*names, *(f"{name}_{kind}" for name in names for kind in ("reason", "label")), "score_error"}

    def diff(self, number: int = 1) -> TextChanges:
        """What changed in a reply, word by word, against the one that the run had.

        Args:
            number: of the reply, from 1.

        Raises:
            ValidationError: there is none of this number, or it failed.
        """
        before = {} if self.before is None else {"reply": _write(self.before)}
        return TextChanges.between(before, {"reply": _write(self._get(number))})

    def fork(self, number: int = 1, **options: Any) -> EnsembleOutput:
        """Keep a reply, and go on with it from the call that was made again: a fork of the run that had it.

        Args:
            number: of the reply, from 1.
            **options: as of `Ensemble.fork`.

        Raises:
            ValidationError: there is none of this number, or it failed; or as of `Ensemble.fork`.
        """
        reply = self._get(number)
        kept = Reply(text=reply.text, calls=reply.tool_calls)
        return self._ensemble.fork(self._run, self._span.span_id, reply=kept, **options)

    def _get(self, number: int) -> ModelReply:
        if not 1 <= number <= len(self):
            raise ValidationError(f"There is no reply {number}: they are numbered from 1 to {len(self)}.")
        reply = self.replies[number - 1]
        if reply is None:
            raise ValidationError(f"Reply {number} failed: {self.result.rows[number - 1].error}")
        return reply

    @property
    def score_records(self) -> tuple[ScoreRecord, ...]:
        """The scores that count, in the order in which they were given."""
        return self.result.score_records

    @property
    def _shows_texts(self) -> bool:
        return self.result._shows_texts

    def _list_scored(self) -> Iterator[RunToScore]:
        """The replies, for whoever scores them. Not for users."""
        return self.result._list_scored()

    def _with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same with more scores; this one stays as it is."""
        scored = self.result._with_scores(records)
        return type(self)(scored, self.before, self._ensemble, self._run, self._span)


def _find_reply(row: RowResult) -> ModelReply | None:
    events = () if row.output is None else row.output._events
    found = next((each for each in reversed(events) if isinstance(each, LlmCallCompleted)), None)
    return None if found is None else ModelReply(text=found.text, tool_calls=found.tool_calls, usage=found.usage)


def _write_calls(reply: ModelReply | None) -> str:
    calls = () if reply is None else reply.tool_calls
    return "\n".join(f"{each.name}({write_arguments(each.arguments)})" for each in calls)


def _write(reply: ModelReply) -> str:
    return "\n".join(filter(None, [reply.text, _write_calls(reply)]))


def rerun_call(
    ensemble: RunnableEnsemble,
    run: Any,
    span: Any,
    *,
    system_prompt: str | None = None,
    user_prompt: str | None = None,
    messages: Sequence[Any] | None = None,
    llm: Any = None,
    repeat: int = 1,
    **parameters: Any,
) -> Rerun:
    """Make a model call of a run again; see `EnsembleOutput.rerun`."""
    settings = {name: parameters.pop(name) for name in _SETTINGS if name in parameters}
    change = read_change(
        system_prompt=system_prompt,
        user_prompt=user_prompt,
        messages=messages,
        llm=llm,
        parameters=parameters or None,
    )
    origin, graph = find_origin(run), build_graph(ensemble)
    at = find_call_span(origin, span)
    call = _find_call(origin, at)
    node = next((each for each in graph.all_tasks if each.name == at.task), None)
    agent, asked = _find_agent(graph, node, at)
    asked = change.llm if change.llm is not None else asked
    if asked is None:
        raise ValidationError(
            f"The model of agent {at.agent!r} is not known any more: name one with llm=, such as llm='openai:NAME'."
        )
    model = price_llm(asked if not parameters else set_parameters(asked, parameters), ensemble)
    said: tuple[Step, ...] = call.steps
    system, user = call.system, call.user
    if change.messages is not None:
        system = change.messages[0].text if change.messages[0].role == "system" else system
        first, *others = [each for each in change.messages if each.role != "system"]
        user, said = first.text, tuple(list_steps(others))
    made = CallAgain(
        agent=agent,
        llm=model.llm,
        rates=model.rates,
        system=system if system_prompt is None else system_prompt,
        user=user if user_prompt is None else user_prompt,
        steps=said,
        tools=call.tools,
        schema=call.schema,
        output_type=None if node is None or at.delegation_id is not None else node.task.output_type,
    )
    told = (made.system, made.user, *(to_message(each).text for each in made.steps))
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
    given = read_repeated(None, {}, repeat=repeat, **settings)
    place = ForkPlace(origin.run_id, at.span_id, change.names, is_rerun=True)
    given = given._replace(settings=dataclasses.replace(given.settings, forked_from=place))
    result = start_map(one, given)._run_to_end()
    return Rerun(result, call.reply, ensemble, run, at)


def _find_call(origin: Origin, span: Span) -> RecordedCall:
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
