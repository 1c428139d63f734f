"""Drives one run from start to end: asks the scheduler, and has its commands executed."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.attachments import Attachment, hold_here
from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.seams.kept_tasks import KeptTasks
from ensemble_notebook.domain.thumbnails import make_thumbnail
from ensemble_notebook.engine import scheduler_messages as messages
from ensemble_notebook.engine.agent.preparation import CLOSING_LIMIT_S
from ensemble_notebook.engine.events.event_stream import Clock, EventStream
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.engine.run.command_executor import CommandExecutor, NodeTasks
from ensemble_notebook.engine.run.run_result import RunResult, RunSpans
from ensemble_notebook.engine.run_services import CallAnswers, ParentRun, RunServices
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.engine.scheduler import Scheduler
from ensemble_notebook.engine.task.for_each import ItemPlaces
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.engine.task_timer import TimedAround

CANCELLATION_LIMIT_S: Final = 0.5
THUMBNAIL_LIMIT_S: Final = 5.0


_making: Final = threading.Lock()


def _make_thumbnail(attachment: Attachment) -> tuple[str | None, str]:
    with _making:
        return make_thumbnail(attachment)


class Driver:
    """One run on the current loop. `close` and `stop` may be called at any time on that loop.

    Args:
        spec: what is to be run.
        source: where models come from.
        stream: takes the events.
        clock: tells durations.
        draw: gives a random number from 0 to 1, for the waits between attempts.
        parent: the run in whose task this one was begun; None where it was begun in none.
        around: what the time of this run is a part of, where its events are part of another run's.
        kept_tasks: of earlier runs, and where this one's are kept; None where nothing is.
        answers: as of `RunServices`.
        tools: as of `RunServices`.

    Attributes:
        is_concluded: its last event is out.
    """

    def __init__(
        self,
        spec: RunSpec,
        source: ChatSource,
        stream: EventStream,
        clock: Clock,
        draw: Callable[[], float],
        parent: ParentRun | None = None,
        around: TimedAround | None = None,
        kept_tasks: KeptTasks | None = None,
        answers: CallAnswers | None = None,
        tools: object = None,
    ) -> None:
        self._parent = parent
        self._spec = spec
        self._source = source
        strategy, max_concurrency = spec.definition.error_strategy, spec.definition.max_concurrency
        self._scheduler = Scheduler(spec.graph, strategy, max_concurrency, spec.only)
        self._caller = FunctionCaller()
        self.result = RunResult()
        self._spans = RunSpans(spec, stream, around)
        act, advance = self._act, self._advance  # bound once: the rows of a map have thousands of drivers
        # Not kept here: it knows `close`, and so this driver, which only the garbage collector would free then.
        services = RunServices(
            spec=spec,
            inputs=MappingProxyType(dict(spec.inputs)),
            source=source,
            caller=self._caller,
            clock=clock,
            draw=draw,
            span=self._spans.run,
            exit_early=self.close,
            warn=self.warn,
            parent=parent,
            kept_tasks=kept_tasks,
            answers=answers,
            tools=tools,
        )
        self._runner = TaskRunner(services, ItemPlaces(act, advance))
        self._node_tasks = NodeTasks(act, self._runner.as_parent)
        self._executor = CommandExecutor(
            services, self._spans, self._runner, self.result, self._node_tasks, advance, self.close
        )
        self._stream = stream
        self._thumbnails: dict[str, tuple[Attachment, asyncio.Task[None]]] = {}
        self._is_stopping = False
        self.is_concluded = False
        self._is_abandoned = False
        self._is_released = False
        self._loop = asyncio.get_running_loop()
        self._is_finished = False
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def run(self) -> RunResult:
        """Drive the run to its end. A cancelled `run` stops the tasks first, then lets the cancellation through.

        Task failures do not raise; they are in the result.
        """
        attachments = self._spec.attachments
        hold_here(attachments)
        try:
            self._spans.emit_run_started()
            attachments.hear(self._hear_attachment)
            self._runner.begin()
            self._act(self._advance, messages.RunStartRequested())
            if self._parent is not None:
                self._parent.add_nested(self._stop_with_parent)
            await self._wait_for_end()
        except asyncio.CancelledError:
            self.stop(ExitReason.INTERRUPTED)
            await self._wait_for_end()
            raise
        except Exception:
            self.result.exit_reason = ExitReason.ERROR
            raise
        finally:
            await self._end_thumbnails()
            self._conclude()
            is_whole = self.result.exit_reason is ExitReason.COMPLETED
            await self._runner.close_tools(CLOSING_LIMIT_S if is_whole else CANCELLATION_LIMIT_S)
            # Part what knows each other, so that it is freed at once: the garbage collector looks at all that is alive.
            # Not where another thread ends the run, which has a use for it still.
            if not self._is_abandoned:
                self._is_released = True
                self._scheduler.release()
                self._executor.release()
                self._runner.release()
                attachments.close(keeps=self._spec.row is None and self._parent is None)
                del self._executor, self._runner, self._node_tasks
        return self.result

    def _hear_attachment(self, attachment: Attachment) -> None:
        """The run has been given a picture or PDF, by any thread."""
        call_on_loop(self._loop, self._begin_thumbnail, attachment)

    def _begin_thumbnail(self, attachment: Attachment) -> None:
        if attachment.digest not in self._thumbnails:
            self._thumbnails[attachment.digest] = attachment, self._loop.create_task(self._tell_attachment(attachment))

    async def _tell_attachment(self, attachment: Attachment) -> None:
        """Tell of it once there is a small one: made on a thread, since pixels take long, while the task goes on."""
        is_textless = self._spec.capture_mode is CaptureMode.METADATA
        small = (None, "") if is_textless else await asyncio.to_thread(_make_thumbnail, attachment)
        self._spans.emit_attachment(attachment, *small)

    async def _end_thumbnails(self) -> None:
        """Wait for those that are being made; of what takes too long is told without one."""
        if not self._thumbnails:
            return
        is_whole = self.result.exit_reason is ExitReason.COMPLETED
        tasks = [task for _, task in self._thumbnails.values()]
        await asyncio.wait(tasks, timeout=THUMBNAIL_LIMIT_S if is_whole else CANCELLATION_LIMIT_S)
        for attachment, task in self._thumbnails.values():
            if not task.done():
                task.cancel()
                self._spans.emit_attachment(attachment, None, "there is no thumbnail, since the run was over first.")
        self._thumbnails.clear()

    def close(self, reason: ExitReason, words: str) -> None:
        """Let what runs finish and start nothing new; why it was closed first counts, also in words."""
        if self._is_finished or self.result.exit_reason is not ExitReason.COMPLETED:
            return
        self.result.exit_reason = reason
        is_exit = reason is not ExitReason.BUDGET_EXCEEDED
        self._act(self._advance, messages.RunClosed(f"not started: {words}", is_exit))

    def stop(self, reason: ExitReason) -> None:
        """Stop at once: requests in flight are cancelled, nothing new starts. Does nothing after the end."""
        if self._is_finished or self._is_stopping:
            return
        self._request_stop(reason)
        asyncio.get_running_loop().call_later(CANCELLATION_LIMIT_S, self._act, self._executor.leave_uncancelled)

    def warn(self, message: str) -> None:
        """Say something about the run while it goes on, in words that hold no text of its user."""
        if self._spec.text_filter is not None:
            self._spec.text_filter.keep_message(message)
        self._spans.warn(message)

    def abandon(self, reason: ExitReason, message: str) -> None:
        """End the run from another thread, since something blocks its loop; `message` is a warning of it.

        What the loop does once it is free again is no part of the run: its tasks find themselves cancelled.
        """
        self._is_abandoned = True
        if self.is_concluded:
            return
        self._stream.take_over()
        if not self._is_stopping:
            self._request_stop(reason)
        self._spans.warn(message)
        self._act(self._executor.leave_uncancelled)
        self._conclude()

    def _stop_with_parent(self) -> None:
        call_on_loop(self._loop, self.stop, ExitReason.INTERRUPTED)

    def _request_stop(self, reason: ExitReason) -> None:
        self._is_stopping = True
        self.result.exit_reason = reason
        self._runner.stop_requests()
        self._act(self._advance, messages.RunStopRequested())

    def _conclude(self) -> None:
        if self.is_concluded:
            return
        self.is_concluded = True
        if self._parent is not None:
            self._parent.remove_nested(self._stop_with_parent)
        for label in self._caller.list_abandoned():
            self._spans.warn(f"Still running and left to itself: {label}.")
        for message in self._source.warnings:
            self._spans.warn(message)
        self._caller.close()
        self._runner.close()
        result = self.result
        result.delegated = tuple(self._runner.delegated)
        if result.outputs and not any(output.reused for output in result.outputs.values()):
            # A manager that ends without a required stage has done less than was asked of it.
            for number, roles in self._runner.undone_stages:
                names = ", ".join(repr(self._stream.find_declared_role(role) or role) for role in roles)
                self.warn(f"Stage {number} of required_stages is not complete: {names} did nothing for the manager.")
                result.is_doubtful = True
        made = self._spec.definition
        result.conclude(made.error_strategy, fallback_is_warning=made.fallback_is_warning)
        if not made.fallback_is_warning:  # the status does not tell of it
            for output in result.outputs.values():
                if output.from_fallback:
                    role = self._stream.find_declared_role(output.agent_role) or output.agent_role
                    self.warn(f"Task {output.name!r} was done by its fallback {role!r}.")
        self._spans.emit_run_ended(result)

    def _advance(self, scheduler_input: messages.SchedulerInput) -> None:
        if self._is_released:  # an item that was left to itself has ended after all
            return
        commands = deque(self._scheduler.handle(scheduler_input))
        while commands:  # each is gone once it is done, since there may be as many as tasks
            command = commands.popleft()
            if not isinstance(command, messages.EndRun):
                self._executor.execute(command)
            else:
                call_on_loop(self._loop, self._finish)

    async def _wait_for_end(self) -> None:
        """Wait until the run has ended. Who is cancelled here cancels no more than a future of its own.

        Raises:
            Exception: the fault that has ended it.
        """
        if not self._is_finished:
            self._waiter = self._loop.create_future()
            await self._waiter
        if self._fault is not None:
            raise self._fault

    def _finish(self, fault: Exception | None = None) -> None:
        if self._is_finished:
            return
        self._is_finished, self._fault = True, fault
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _act(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function that moves the run on. Where it fails, the run ends, since nothing else would end it then."""
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - e.g. a logging filter of the application
            if not self._is_released:  # what is running is cancelled, and nobody hears of it any more
                self._node_tasks.cancel_all()
                self._node_tasks.detach()
                call_on_loop(self._loop, self._finish, error)
