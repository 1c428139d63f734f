"""How soon the board of 1,000 remembered runs is told to a page: in a real kernel, beside the board of a single run.

From the request of ``%ensemble runs`` to the rows, asked for as a page does it. What the page takes to draw them is in
a test of the browser (W134).
"""

from __future__ import annotations

import subprocess
import time
from statistics import median
from typing import Final, cast

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import run_kernel

from benchmarks.row import Row

_LIMIT_S: Final = 60.0
_RUN: Final = """
%load_ext ensemble_notebook
from ensemble_notebook import Ensemble, Task
from ensemble_notebook.trace.loading import list_runs
from ensemble_notebook.trace.store.run_store import RunStore
from tests.support.store import copy_runs, wait_for_store
tasks = [Task(description=each, expected_output="A text.") for each in ("Find facts", "Write a brief")]
Ensemble(tasks=tasks, name="report", llm="scripted").run()
wait_for_store()
list_runs(RunStore.open())  # which keeps what it came to
"""


def measure(*, quick: bool) -> list[Row]:
    count, rounds = (20, 1) if quick else (1_000, 7)
    with run_kernel(startup_timeout=_LIMIT_S, stderr=subprocess.DEVNULL) as kernel:
        client = cast(BlockingKernelClient, kernel)
        client.execute_interactive(_RUN, timeout=_LIMIT_S, output_hook=_check)
        _open(client, 1)  # the first one imports
        one = [_open(client, 1) for _ in range(rounds)]
        client.execute_interactive(f"copy_runs({count - 1})", timeout=_LIMIT_S, output_hook=_check)
        many = [_open(client, count) for _ in range(rounds)]
    return [
        Row(
            what=f"Run key to the rows of {count:,} runs, wall",
            ours=median(many) * 1e3,
            floor=median(one) * 1e3,
            beside="the board of one run",
            unit="ms",
            ratio=median(many) / median(one),
            most=500,
        )
    ]


def _check(message: dict[str, object]) -> None:
    """Raises RuntimeError: the cell failed."""
    if message["msg_type"] == "error":
        raise RuntimeError(message["content"])


def _open(client: BlockingKernelClient, count: int) -> float:
    """Seconds until a board is shown and its rows are told.

    Raises:
        RuntimeError: the rows are not so many.
    """
    began = time.perf_counter()
    client.execute("%ensemble runs")
    while True:
        message = client.get_iopub_msg(timeout=_LIMIT_S)
        _check(message)
        content = message["content"]
        data = content.get("data", {})
        if message["msg_type"] == "comm_open" and "feed_id" in data.get("state", {}):
            hello = {"method": "custom", "content": {"kind": "hello", "nonce": 1}}
            client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": content["comm_id"], "data": hello}))
        elif message["msg_type"] == "comm_msg" and data.get("content", {}).get("kind") == "runs":
            if len(data["content"]["rows"]) != count:
                raise RuntimeError(f"the board tells of {len(data['content']['rows'])} runs, not of {count}")
            return time.perf_counter() - began
