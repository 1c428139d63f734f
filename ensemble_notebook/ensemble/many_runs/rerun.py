"""A model call made again, once or several times, and what came of it beside the reply that the run had (F1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ensemble_notebook.domain.definitions.limits import AnyBudget
from ensemble_notebook.domain.events import LlmCallCompleted
from ensemble_notebook.domain.outputs.conversation import write_arguments
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import ModelReply
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedSource
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange, KeptReply, read_change
from ensemble_notebook.ensemble.scoring import RunToScore, Scorable
from ensemble_notebook.errors import TaskExecutionError, ValidationError, summarize_error

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.row_table import RowFrame
    from ensemble_notebook.trace.analysis.text_changes import TextChanges

_COLUMNS: Final = ("status", "error", "input_tokens", "output_tokens", "cost", "duration_ms")


class RerunArguments(NamedTuple):
    """What somebody has called a door of a rerun with.

    Attributes:
        run: whose call it is.
        span: of the call.
        change: what is different.
        replies: how many, and how they are asked for, as `read_repeated` takes it.
    """

    run: Any
    span: Any
    change: ForkChange
    replies: Mapping[str, Any]


def read_rerun(
    run: Any,
    span: Any,
    *,
    system_prompt: str | None = None,
    user_prompt: str | None = None,
    messages: Sequence[Any] | None = None,
    llm: Any = None,
    repeat: int = 1,
    budget: AnyBudget | None = None,
    timeout: float | None = None,
    concurrency: int | None = None,
    listeners: Sequence[Listener] = (),
    **parameters: Any,
) -> RerunArguments:
    """Read the arguments of a door.

    Raises:
        ValidationError: things are given that don't go together, or one has a wrong value.
    """
    change = read_change(
        system_prompt=system_prompt,
        user_prompt=user_prompt,
        messages=messages,
        llm=llm,
        parameters=parameters or None,
    )
    replies = {"repeat": repeat, "budget": budget, "timeout": timeout}
    return RerunArguments(run, span, change, {**replies, "concurrency": concurrency, "listeners": listeners})


class Rerun(Scorable):
    """What came of a model call that was made again. Nothing after the call has run.

    ``rerun.frame`` has a row for each reply, numbered from 1; ``rerun.diff(1)`` says what changed in the first.

    Attributes:
        result: the replies as a `MapResult` of one repeated row: they are one run, in trace and store.
        before: the reply that the run had; None where it had none.
        changed: what is different: the names of the arguments.
        name: of whom it is a call, and in which task.
        warnings: of what is not as it was, and those of its run.
        run_id: of the run that made the call again.
    """

    # An output names this class: what it holds is typed by none that knows outputs.
    def __init__(
        self,
        result: Any,
        before: ModelReply | None,
        *,
        changed: tuple[str, ...],
        name: str,
        warnings: Sequence[str],
        ensemble: Any,
        run: Any,
        span_id: str,
        source: ChangedSource,
    ) -> None:
        self.result = result
        self.before = before
        self.changed = changed
        self.name = name
        self.warnings: tuple[str, ...] = (*warnings, *result.warnings)
        self._own_warnings = tuple(warnings)
        self.run_id: str | None = result.run_id
        self._ensemble = ensemble
        self._run = run
        self._span_id = span_id
        self._source = source

    def __len__(self) -> int:
        """How many replies were asked for."""
        return len(self.result.rows)

    def __repr__(self) -> str:
        """How many there are, and of which call."""
        done = sum(each is not None for each in self.replies)
        return f"<Rerun of {self._span_id}: {done} of {len(self)} replies>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("rerun", self)

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
        whole: RowFrame = self.result.frame
        frame = whole[[name for name in whole.columns if name in _COLUMNS or name in self._score_columns]].copy()
        frame.index = frame.index.get_level_values(-1).set_names("reply_number")
        frame.insert(0, "tool_calls", [mask(_write_calls(each)) for each in self.replies])
        values = (each.output.parsed_output if each.output is not None else None for each in self.result.rows)
        frame.insert(0, "value", list(values))
        frame["error"] = [*map(_explain, self.result.rows, self.replies)]
        frame.insert(0, "reply", [None if each is None else mask(each.text) for each in self.replies])
        return frame.astype({"reply": "string", "tool_calls": "string", "error": "string"})

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
        from ensemble_notebook.trace.analysis.text_changes import TextChanges

        self._get(number)
        before, after = self.write_reply(0), self.write_reply(number)
        return TextChanges.between({} if before is None else {"reply": before}, {"reply": after or ""})

    def write_reply(self, number: int) -> str | None:
        """A reply with the tools that it asks for, as views show it: secrets masked.

        Args:
            number: of the reply, from 1; 0: the one that the run had.

        Returns:
            None, where there is no reply.
        """
        reply = (self.before, *self.replies)[number]
        if reply is None:
            return None
        return mask("\n".join(filter(None, [reply.text, _write_calls(reply)])))

    def fork(self, number: int = 1, **options: Any) -> Any:
        """Keep a reply, and go on with it from the call that was made again: a fork of the run that had it.

        Returns:
            The `EnsembleOutput` of the fork.

        Args:
            number: of the reply, from 1.
            **options: as of `Ensemble.fork`.

        Raises:
            ValidationError: there is none of this number, or it failed; or as of `Ensemble.fork`.
        """
        return self._ensemble.fork(self._run, self._span_id, reply=self._keep(number), **options)

    def _keep(self, number: int) -> KeptReply:
        """A reply as a fork of the run takes it. Errors as of `fork`."""
        reply = self._get(number)
        return KeptReply(text=reply.text, calls=reply.tool_calls, came_of=self._source.changes)

    def _make_source(self) -> ChangedSource:
        """What was different, for the cell. Not for users."""
        return self._source

    def to_yaml(self, namespace: Mapping[str, Any] | None = None) -> str:
        """Write the body of the cell that the run came from, with what was different in this call.

        Only the changed value differs; of a run that came from no cell, the whole ensemble is written.

        Args:
            namespace: the notebook's variables, such as ``globals()``, by which a model that is an object is named.

        Raises:
            ValidationError: nothing was different, or there is no place for it in a cell; names it.
        """
        text: str = render_view("changed_cell", self._source, namespace)
        return text

    def _get(self, number: int) -> ModelReply:
        if not 1 <= number <= len(self):
            raise ValidationError(f"There is no reply {number}: they are numbered from 1 to {len(self)}.")
        reply = self.replies[number - 1]
        if reply is None:
            raise ValidationError(f"Reply {number} failed: {_explain(self.result.rows[number - 1], None)}")
        return reply

    @property
    def score_records(self) -> tuple[ScoreRecord, ...]:
        """The scores that count, in the order in which they were given."""
        records: tuple[ScoreRecord, ...] = self.result.score_records
        return records

    @property
    def _shows_texts(self) -> bool:
        return bool(self.result._shows_texts)

    def _list_scored(self) -> Iterator[RunToScore]:
        """The replies, for whoever scores them. Not for users."""
        yield from self.result._list_scored()

    def _with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same with more scores; this one stays as it is."""
        scored = self.result._with_scores(records)
        return type(self)(
            scored,
            self.before,
            changed=self.changed,
            name=self.name,
            warnings=self._own_warnings,
            ensemble=self._ensemble,
            run=self._run,
            span_id=self._span_id,
            source=self._source,
        )


def _find_reply(row: Any) -> ModelReply | None:
    events = () if row.output is None else row.output._events
    found = next((each for each in reversed(events) if isinstance(each, LlmCallCompleted)), None)
    return None if found is None else ModelReply(text=found.text, tool_calls=found.tool_calls, usage=found.usage)


def _explain(row: Any, reply: ModelReply | None) -> str | None:
    """Why there is no reply; None where there is one."""
    if row.error is None:
        return None if reply is not None else mask(row.reason or row.status)
    cause = row.error.__cause__ if isinstance(row.error, TaskExecutionError) else None
    return mask(summarize_error(row.error if cause is None else cause))


def _write_calls(reply: ModelReply | None) -> str:
    calls = () if reply is None else reply.tool_calls
    return "\n".join(f"{each.name}({write_arguments(each.arguments)})" for each in calls)
