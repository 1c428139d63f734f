"""What a person at a notebook waits for: the first sign of life of a cell, and how often its view is then updated.

In a real kernel, as a frontend speaks to it; the model server streams word by word.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from statistics import median
from typing import cast

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import run_kernel

from benchmarks.row import Row
from benchmarks.server import serving

_LIMIT_S = 60.0
_TRIVIAL = "from IPython.display import display\ndisplay(1)"
_STREAMS = 4
_PEER = """
import asyncio
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="{model}", base_url="{url}", api_key="none", max_retries=0)

async def listen():
    async for chunk in model.astream("Tell a tale"):
        pass
"""


@dataclass(slots=True)
class _Watch:
    """What a frontend saw of one executed cell: when the first output and the end came, and how many updates."""

    first_s: float = 0.0
    total_s: float = 0.0
    updates: int = 0


def measure(*, quick: bool) -> list[Row]:
    rounds, words = (1, 20) if quick else (9, 800)
    with serving() as url, run_kernel(startup_timeout=_LIMIT_S, stderr=subprocess.DEVNULL) as kernel:
        client = cast(BlockingKernelClient, kernel)
        _execute(client, "%load_ext ensemble_notebook")
        short, talk = _cell(f"openai:instant@{url}", 1), f"words-{words}-pause-5"
        _execute(client, short)
        signs = [(_execute(client, short).first_s, _execute(client, _TRIVIAL).first_s) for _ in range(rounds)]
        _execute(client, _PEER.format(model=talk, url=url))
        runs, peers = [], []
        for _ in range(min(rounds, 3)):
            runs.append(_execute(client, _cell(f"openai:{talk}@{url}", _STREAMS)))
            peers.append(_execute(client, f"await asyncio.gather(*(listen() for _ in range({_STREAMS})))"))
        events = _count(client, "out.events")
    return [_sign_of_life(signs), _updates(runs, events), _watched(runs, peers)]


def _sign_of_life(pairs: list[tuple[float, float]]) -> Row:
    return Row(
        what="first sign of life of a cell, wall",
        ours=median(mine for mine, _ in pairs) * 1e3,
        floor=median(other for _, other in pairs) * 1e3,
        ratio=median(mine / other for mine, other in pairs),
        beside="display(1)",
        unit="ms",
    )


def _updates(runs: list[_Watch], events: int) -> Row:
    return Row(
        what="updates of its live view",
        ours=median(run.updates / run.total_s for run in runs),
        floor=median(events / run.total_s for run in runs),
        ratio=median(run.updates / events for run in runs),
        beside="events of the run",
        unit="/s",
    )


def _watched(runs: list[_Watch], peers: list[_Watch]) -> Row:
    return Row(
        what=f"{_STREAMS} streams that are watched live, wall",
        ours=median(run.total_s for run in runs),
        floor=median(peer.total_s for peer in peers),
        ratio=median(run.total_s / peer.total_s for run, peer in zip(runs, peers, strict=True)),
        beside="ChatOpenAI.astream, unwatched",
        unit="s",
    )


def _cell(llm: str, count: int) -> str:
    tasks = "\n".join("- Tell a tale" for _ in range(count))
    return f"%%ensemble -o out --llm {llm} --workflow parallel\n{tasks}"


def _execute(client: BlockingKernelClient, code: str) -> _Watch:
    """Run a cell for a person: one who may be asked for input, so it gets the live view.

    Raises:
        RuntimeError: the cell failed.
    """
    seen = _Watch()
    started = time.perf_counter()
    request = client.execute(code, allow_stdin=True)
    while True:
        message = client.get_iopub_msg(timeout=_LIMIT_S)
        now = time.perf_counter() - started
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_msg" and content["data"].get("method") == "custom":
            seen.updates += 1
        if message["parent_header"].get("msg_id") != request:
            continue
        if kind == "display_data":
            seen.first_s = seen.first_s or now
        elif kind == "error":
            raise RuntimeError("\n".join(content["traceback"]))
        elif kind == "status" and content["execution_state"] == "idle":
            seen.total_s = now
            return seen


def _count(client: BlockingKernelClient, expression: str) -> int:
    reply = client.execute_interactive("", user_expressions={"count": f"len({expression})"}, timeout=_LIMIT_S)
    return int(reply["content"]["user_expressions"]["count"]["data"]["text/plain"])
