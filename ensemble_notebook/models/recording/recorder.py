"""Model sources that write down every exchange: a recording, for a later run without any model (E42).

Wraps the Protocols of `domain.seams.chat_port`; knows nothing of what is behind them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import (
    ChatPort,
    ChatSource,
    Conversation,
    Fault,
    ModelReply,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from ensemble_notebook.errors import ValidationError, get_message, summarize_error
from ensemble_notebook.models.recording.exchange import CancelledRequest, FailedRequest, Outcome
from ensemble_notebook.models.recording.exchange_documents import (
    outcome_to_document,
    request_to_document,
    result_to_document,
)
from ensemble_notebook.models.recording.port_info import PortInfo, to_recorded_name
from ensemble_notebook.models.recording.recording_format import (
    COMPLETE,
    HEADER,
    INCOMPLETE,
    format_document,
    is_recording,
)
from ensemble_notebook.models.recording.tool_answers import tool_to_document


class RecordingWriter:
    """A recording that grows. Whole after each exchange, whatever happens then: nothing is kept open or back.

    A file that can't be written costs a warning, never the run: what models answer is paid for (E70). Nothing more is
    written then, since later exchanges refer to earlier ones, and the file says that it is incomplete.

    Why not on a thread: an exchange takes less than a millisecond to write, and the next one may refer to its number.

    Attributes:
        warnings: at most one: that the file could not be written.
    """

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self._path = path
        self._models: set[str] = set()
        self._count = 0
        self._whole_size = 0
        self._lock = threading.RLock()  # a nested run may be on another loop (E52)

    def add_model(self, llm: str, info: PortInfo) -> None:
        """Write down what is known of a model, once. The first one replaces what the file held before."""
        with self._lock:
            if llm in self._models:
                return
            header = "" if self._models else HEADER
            self._write(header, {"llm": llm, **info.to_document()}, mode="a" if self._models else "w")
            self._models.add(llm)

    def add_exchange(self, request: Mapping[str, Any], outcome: Outcome, pieces: Sequence[str], seconds: float) -> int:
        """Write down an exchange, and give back its number."""
        facts = outcome_to_document(outcome, pieces)
        with self._lock:
            self._count += 1
            # The seconds come last: a document without them was cut off.
            self._write("", {"exchange": self._count, **request, **facts, "seconds": round(seconds, 3)}, mode="a")
            return self._count

    def add_tool(self, exchange: int, call: ToolCall, answer: ToolAnswer | None, seconds: float) -> None:
        """Write down what came of a tool call that the reply of an exchange asked for."""
        with self._lock:
            self._write("", tool_to_document(exchange, call, answer, seconds), mode="a")

    def _write(self, header: str, content: Mapping[str, Any], mode: str) -> None:
        if self.warnings:
            return
        try:
            text = header + format_document(content)
            with self._path.open(mode, encoding="utf-8", newline="\n") as file:
                file.write(text)
            self._whole_size += len(text.encode())
        except Exception as error:  # noqa: BLE001 - a full disk, or values that the format has no words for
            reason = getattr(error, "strerror", None) or summarize_error(error)
            self.warnings.append(
                f"The recording {self._path} is incomplete, since it could not be written: {reason}. The run went on; "
                f"to replay it, record anew."
            )
            self._mark_incomplete()

    def _mark_incomplete(self) -> None:
        """Cut off what is not whole, and say so in place, which needs no room; where that fails, leave no recording."""
        try:
            with self._path.open("r+b") as file:
                file.truncate(self._whole_size)
                file.seek(HEADER.encode().index(COMPLETE))
                file.write(INCOMPLETE)
            is_marked = self._whole_size > 0
        except OSError:
            is_marked = False
        if not is_marked and self._path.is_file():
            with suppress(OSError):
                self._path.unlink()


class RecordingSource:
    """A `ChatSource` that passes on to another, and writes every exchange to a file.

    The file is begun when the first model is ready, so that a run which never gets there leaves an older recording as
    it is.

    Args:
        source: the models.
        path: of the file; ``~`` is the home folder.

    Raises:
        ValidationError: there can be no file, or there is one which is no recording.
    """

    def __init__(self, source: ChatSource, path: str | os.PathLike[str]) -> None:
        self._source = source
        self._file = RecordingWriter(_check_path(Path(path).expanduser().absolute()))

    @property
    def warnings(self) -> Sequence[str]:
        """What could not be written, beside what the source warns of."""
        return (*self._source.warnings, *self._file.warnings)

    def check(self, llm: Any) -> None:
        """Check as the source that is recorded does."""
        self._source.check(llm)

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> RecordingPort:
        """Make a port of the source's, which writes down what goes through it."""
        port = await self._source.prepare(llm, notice)
        info, name = PortInfo.from_port(port), to_recorded_name(llm)
        self._file.add_model(name, info)
        return RecordingPort(**info.to_attributes(), port=port, llm=name, file=self._file)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingPort(PortInfo):
    """A `ChatPort` whose conversations are written down; all else is as the port has it."""

    port: ChatPort
    llm: str
    file: RecordingWriter

    def open(
        self, system: str, user: str, tools: Sequence[ToolSpec] = (), schema: Mapping[str, Any] | None = None
    ) -> RecordingConversation:
        """Begin a conversation."""
        request = request_to_document(self.llm, system, user, tools, schema)
        return RecordingConversation(self.port, self.port.open(system, user, tools, schema), request, self.file)

    def classify(self, error: Exception) -> Fault:
        """Classify as the recorded port does."""
        return self.port.classify(error)


class RecordingConversation:
    """A `Conversation` that is written down: its beginning once, then what each exchange adds."""

    def __init__(
        self, port: ChatPort, conversation: Conversation, request: dict[str, Any], file: RecordingWriter
    ) -> None:
        self._port = port
        self._conversation = conversation
        self._request = request
        self._file = file
        self._last_exchange = 0
        self._answers: dict[str, str | None] = {}

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        """Append the answer to a tool call."""
        self._conversation.add_tool_result(call, text)
        result = result_to_document(call, text)
        if self._answers.pop(call.id, None) == text:
            del result["text"]  # written with the call
        self._request.setdefault("results", []).append(result)

    def add_user_message(self, text: str) -> None:
        """Append what is said to the model after its last reply."""
        self._conversation.add_user_message(text)
        self._request["user"] = mask(text)

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        """Run the tool; its answer is written down before the model sees it."""
        started = time.monotonic()
        answer = None
        try:
            answer = await run()
        finally:
            self._file.add_tool(self._last_exchange, call, answer, time.monotonic() - started)
        # Where a model gives one id to two calls, what was answered is written with the results, too.
        self._answers[call.id] = None if call.id in self._answers else answer.text
        return answer

    def input_bound(self) -> int:
        """Tell what the conversation that is recorded tells."""
        return self._conversation.input_bound()

    async def reply(
        self, on_token: Callable[[str], None] | None = None, *, max_tokens: int | None = None
    ) -> ModelReply:
        """Ask for the next reply; it is written down before anybody sees it, and so is a failure."""
        pieces: list[str] = []

        def take_piece(piece: str) -> None:
            pieces.append(piece)
            if on_token is not None:
                on_token(piece)

        started = time.monotonic()

        def write(outcome: Outcome) -> int:
            return self._file.add_exchange(self._request, outcome, pieces, time.monotonic() - started)

        try:
            reply = await self._conversation.reply(None if on_token is None else take_piece, max_tokens=max_tokens)
        except Exception as error:
            self._request = {"repeats": write(_to_failed_request(error, self._port.classify(error)))}
            raise
        except BaseException:
            write(CancelledRequest())
            raise
        self._last_exchange = write(reply)
        self._request = {"continues": self._last_exchange}
        return reply


def _to_failed_request(error: Exception, fault: Fault) -> FailedRequest:
    return FailedRequest(type(error).__name__, get_message(error), fault)


def _check_path(file: Path) -> Path:
    """Give back a path at which a recording can be made.

    Raises:
        ValidationError: it is none.
    """
    if file.is_dir():
        raise ValidationError(f"The recording {file} is a folder. Name a file in it.")
    if not file.parent.is_dir():
        raise ValidationError(f"The recording {file} has no place: there is no folder {file.parent}. Make it first.")
    try:
        if file.exists() and file.stat().st_size and not is_recording(file):
            raise ValidationError(f"{file} is no recording, and would be overwritten. Record to another file.")
    except OSError as error:
        raise ValidationError(f"The recording {file} can't be made: {error.strerror}.") from error
    return file
