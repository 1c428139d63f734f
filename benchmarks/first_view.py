"""How long after the Run key the view of a run is there: in real, fresh kernels, 5 s after ``%load_ext``.

The view is there with the output that shows it and the snapshot that it shows. What a page then needs for its first
paint is measured by `timeline`.
"""

from __future__ import annotations

import subprocess
import time
from statistics import median
from typing import cast

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import run_kernel

from benchmarks.row import Row
from benchmarks.server import serving

_LIMIT_S = 60.0
_REST_S = 5.0
_VIEW = "application/vnd.jupyter.widget-view+json"


def measure(*, quick: bool) -> list[Row]:
    with serving() as url:
        signs = [_open(url, 1.0 if quick else _REST_S) for _ in range(1 if quick else 5)]
    return [
        Row(
            what="Run key to the view, 5 s after %load_ext",
            ours=median(first for first, _ in signs) * 1e3,
            floor=median(again for _, again in signs) * 1e3,
            beside="the second cell",
            unit="ms",
            ratio=median(first / again for first, again in signs),
            most=500,
        )
    ]


def _open(url: str, rest_s: float) -> tuple[float, float]:
    """Seconds until the view of the first cell, and of the second."""
    cell = f"%%ensemble -o out --llm openai:instant@{url}\n- Say hello"
    with run_kernel(startup_timeout=_LIMIT_S, stderr=subprocess.DEVNULL) as kernel:
        client = cast(BlockingKernelClient, kernel)
        _execute(client, "%load_ext ensemble_notebook")
        time.sleep(rest_s)
        return _execute(client, cell), _execute(client, cell)


def _execute(client: BlockingKernelClient, code: str) -> float:
    """Run a cell for a person; gives the seconds until its view and the first message to it are there.

    Raises:
        RuntimeError: the cell failed.
    """
    began = time.perf_counter()
    request = client.execute(code, allow_stdin=True)
    shown_s = told_s = 0.0
    while True:
        message = client.get_iopub_msg(timeout=_LIMIT_S)
        now = time.perf_counter() - began
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_msg" and content["data"].get("method") == "custom":
            told_s = told_s or now
        elif kind in ("display_data", "update_display_data") and _VIEW in content["data"]:
            shown_s = shown_s or now
        elif kind == "error":
            raise RuntimeError("\n".join(content["traceback"]))
        is_end = kind == "status" and content["execution_state"] == "idle"
        if is_end and message["parent_header"].get("msg_id") == request:
            return max(shown_s, told_s)
