"""The typed outputs of a run as far as they have come, read from its events (E132, E133)."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import Graph, TaskNode
from ensemble_notebook.domain.reasoning import read_streamed_answer
from ensemble_notebook.engine.agent.partial_output import PartialFormat, PartialReader, continues
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.errors import EnsembleError, SuggestsNames, did_you_mean

# A longer reply is read again only once it has grown by such a part of it, so that reading all of it again and again
# takes a time that grows with its length, and not with the square of that.
_STEP: Final = 1 / 200


class Partial(SuggestsNames, dict[str, Any]):
    """The typed output of a task as far as it has come: a dict of its fields, as JSON has them.

    Fields that have not come yet are absent. The last text may go on; all other values are whole.

    Attributes:
        task: whose output it is; of an item of a task with ``for_each``, ``"rate[0]"``.
        attempt: from 1. One more each time that the output begins anew, as after a correction: what had come before is
            void then. Within an attempt, each partial only adds to the one before.
    """

    def __init__(self, fields: dict[str, Any], task: str, attempt: int) -> None:
        super().__init__(fields)
        self.task = task
        self.attempt = attempt


class PartialOutputs:
    """Finds in the events of a run what its typed outputs are by now.

    Args:
        graph: of the run.
        wanted: the name of the task whose output is of interest; None: all typed ones.

    Raises:
        EnsembleError: there is no such task, or none with an output type.
    """

    def __init__(self, graph: Graph, wanted: str | None) -> None:
        typed = {node.name: node for node in graph.tasks if node.task.output_type is not None}
        if wanted is not None and all(node.name != wanted for node in graph.tasks):
            raise EnsembleError(f"There is no task {wanted!r} in this ensemble.{did_you_mean(wanted, typed)}")
        self._nodes = {name: node for name, node in typed.items() if wanted in (None, name)}
        if not self._nodes:
            whose = "no task of this ensemble has" if wanted is None else f"task {wanted!r} does not have"
            raise EnsembleError(
                f"Fields come as parts of a typed output, which {whose}. Give it an `output_type`, or read its words: "
                f"`run.text()`."
            )
        self._spans: dict[str, _GrowingOutput] = {}  # of tasks, their turns and calls
        self._last: dict[str, _GrowingOutput] = {}  # by the name of the task
        self._formats: dict[str, PartialFormat] = {}
        self._unread: dict[_GrowingOutput, None] = {}

    def read(self, event: ev.Event, *, is_newest: bool) -> list[Partial]:
        """What an event adds.

        Args:
            event: the next one.
            is_newest: whether nothing more has happened by now. Replies are read only then, so that whoever takes long
                for one partial is given the newest next.
        """
        found: list[Partial] = []
        if isinstance(event, ev.TaskStarted):
            self._begin(event)
        growing = self._spans.get(event.span_id)
        around = self._spans.get(event.parent_id or "")
        if isinstance(event, ev.LlmToken):
            if growing is not None:
                growing.reply += event.text
                self._unread[growing] = None
        elif isinstance(event, ev.TurnStarted | ev.LlmCallStarted) and around is not None:
            if not getattr(event, "is_summary", False):
                self._spans[event.span_id] = around
                found += around.begin_reply(is_next=getattr(event, "is_correction", False))
        elif growing is not None:
            found += growing.go_on(event)
        if is_newest:
            found += [each for unread in self._unread for each in unread.grow()]
            self._unread.clear()
        return found

    def read_rest(self, outputs: Iterable[TaskOutput]) -> list[Partial]:
        """What is in the outputs of the run and was in none of its events, as where these keep no texts (T6a)."""
        every = [each for output in outputs for each in (output, *output.item_outputs)]
        return [each for output in every if output.name in self._last for each in self._last[output.name].end(output)]

    def _begin(self, event: ev.TaskStarted) -> None:
        name = event.task or ""
        around = self._spans.get(event.parent_id or "")
        node = self._nodes.get(name) if event.index is not None else None  # those of runs inside have none
        if around is not None and around.span_id == event.parent_id:
            node = around.node  # an item
        if node is not None:
            if node.name not in self._formats:
                self._formats[node.name] = PartialFormat(get_output_format(node.task.output_type))
            before = self._last.get(name)
            growing = _GrowingOutput(
                node, name, event.span_id, self._formats[node.name], 1 if before is None else before.attempt + 1
            )
            self._spans[event.span_id] = self._last[name] = growing


class _GrowingOutput:
    """The output of one start of a task, or of an item of it.

    Attributes:
        node: the task.
        span_id: of the task, or of the item.
        attempt: how often it has begun.
        reply: what the model has said by now.
    """

    def __init__(self, node: TaskNode, name: str, span_id: str, kind: PartialFormat, attempt: int) -> None:
        self.node = node
        self.span_id = span_id
        self.attempt = attempt
        self.reply = ""
        self._name = name
        self._format = kind
        self._reader = PartialReader(self._format)
        self._answer = ""
        self._given: dict[str, Any] | None = None
        self._is_over = False

    def begin_reply(self, *, is_next: bool = False) -> list[Partial]:
        """Begin anew with another reply; `is_next` where that is another attempt in any case."""
        found = self.grow(is_whole=True)
        self.attempt += is_next or self._given is not None
        self.reply = self._answer = ""
        self._reader, self._given = PartialReader(self._format), None
        return found

    def go_on(self, event: ev.Event) -> list[Partial]:
        """What an event of the task, a turn of it or a call adds."""
        match event:
            case ev.LlmCallCompleted():
                self.reply = event.text
                return self.grow(is_whole=True)
            case ev.LlmCallRetried():
                return self.begin_reply()
            case ev.TaskRetried() | ev.TaskFellBack():
                return self.begin_reply(is_next=True)
            case ev.TaskCompleted():
                return self.end(event.output)
        return []

    def grow(self, *, is_whole: bool = False) -> list[Partial]:
        """What the reply has more than when it was last read."""
        answer = read_streamed_answer(self.reply)
        if not is_whole and len(answer) - len(self._answer) < len(answer) * _STEP:
            return []
        if not answer.startswith(self._answer):  # what came before has turned out to be reasoning
            self._reader = PartialReader(self._format)
        self._answer = answer
        fields = self._reader.read(answer)
        # What takes back something is on its way to be refused.
        return self._give(fields) if fields and continues(fields, self._given or {}) else []

    def end(self, output: TaskOutput) -> list[Partial]:
        """What the whole has more."""
        if self._is_over or isinstance(output.parsed_output, list | None):  # a list is that of all items
            return []
        self._is_over = True
        fields = self._format.read_whole(output.raw, output.parsed_output)
        if fields is None:
            return []
        self.attempt += not continues(fields, self._given or {})
        return self._give(fields)

    def _give(self, fields: dict[str, Any]) -> list[Partial]:
        if fields == self._given:
            return []
        self._given = fields
        return [Partial(copy.deepcopy(fields), self._name, self.attempt)]
