"""A real Jupyter kernel, driven message by message."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.support.row_reader import read_rows

if TYPE_CHECKING:
    from jupyter_client.blocking import BlockingKernelClient
    from jupyter_client.manager import KernelManager

LIMIT_S = 60


class Kernel:
    """A kernel, seen as a frontend sees it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self.messages: list[dict[str, Any]] = []

    def send(self, code: str) -> str:
        """Ask for execution; gives the request's id."""
        return self.client.execute(code, allow_stdin=True)

    def until(self, is_enough: Callable[[], bool]) -> None:
        """Collect what the kernel publishes until it is enough."""
        deadline = time.monotonic() + LIMIT_S
        while not is_enough():
            self.messages.append(self.client.get_iopub_msg(timeout=deadline - time.monotonic()))

    def run(self, code: str) -> tuple[str, dict[str, Any]]:
        """Execute and wait; gives the request's id and the reply."""
        request = self.send(code)
        reply = self.reply(request)
        self.until(lambda: self.is_idle(request))
        return request, reply

    def reply(self, request: str) -> dict[str, Any]:
        while True:
            reply = self.client.get_shell_msg(timeout=LIMIT_S)
            if reply["parent_header"]["msg_id"] == request:
                return reply["content"]

    def is_idle(self, request: str) -> bool:
        return any(message["content"]["execution_state"] == "idle" for message in self.of(request, "status"))

    def of(self, request: str, *kinds: str) -> list[dict[str, Any]]:
        """What was published for a request."""
        return [
            message
            for message in self.messages
            if message["parent_header"].get("msg_id") == request and message["msg_type"] in kinds
        ]

    def bundles(self, request: str) -> list[dict[str, Any]]:
        """The data of a request's displays and their updates, in order."""
        return [message["content"]["data"] for message in self.of(request, "display_data", "update_display_data")]

    def has_told(self, request: str, task: str) -> bool:
        """Whether the widget of a cell knows that a task is done."""
        for message in self.of(request, "comm_open", "comm_msg"):
            data = message["content"]["data"]
            told = data.get("content") or {}
            rows = read_rows(told, message["buffers"]) if "columns" in told else told.get("rows", ())
            if any(row["name"] == task and row["status"] == "ok" for row in rows):
                return True
        return False

    def value(self, expression: str) -> str:
        """A string of the kernel."""
        reply = self.client.execute_interactive(
            "", user_expressions={"value": expression}, allow_stdin=False, timeout=LIMIT_S, output_hook=lambda _: None
        )
        return reply["content"]["user_expressions"]["value"]["data"]["text/plain"].strip("'")
