"""What the warm-up costs a person who works on meanwhile, and what it spares the first cell: in real, fresh kernels."""

from __future__ import annotations

import subprocess
import time
from typing import cast

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import run_kernel

from benchmarks.row import Row
from benchmarks.server import serving

_LIMIT_S = 60.0
_REST_S = 10.0
_PAUSE_S = 0.35
_OFF = "%config EnsembleMagics.warm_up = False"
_FIRST_CALL = "next(each.offset_s for each in out.events if type(each).__name__ == 'LlmAttemptStarted')"
_IS_WARMING = "any(each.name == 'ensemble-warm-up' for each in __import__('threading').enumerate())"


def measure(*, quick: bool) -> list[Row]:
    rounds = 1 if quick else 3
    with serving() as url:
        cold, trivial, warm = [], [], []
        for _ in range(rounds):
            plain, meanwhile = _work_on(most=2 if quick else 100)
            trivial.append((meanwhile, plain))
            cold.append(_first_call(url, "%load_ext ensemble_notebook\n" + _OFF, 0.0))
            warm.append(_first_call(url, "%load_ext ensemble_notebook", 1.0 if quick else _REST_S))
    return [_row("a trivial cell during the warm-up, p95", trivial, "before %load_ext"), _first(warm, cold)]


def _first(warm: list[float], cold: list[float]) -> Row:
    pairs = list(zip(warm, cold, strict=True))
    return _row("first call, 10 s after %load_ext", [*pairs], "at once, no warm-up", 500)


def _row(what: str, pairs: list[tuple[float, float]], beside: str, most: float | None = None) -> Row:
    """The worst round counts: each is a kernel that a person would have had."""
    ours, floor = max(pairs)
    return Row(what=what, ours=ours * 1e3, floor=floor * 1e3, beside=beside, unit="ms", ratio=ours / floor, most=most)


def _work_on(most: int) -> tuple[float, float]:
    """The 95th percentile of a trivial cell, before loading and for as long as the warm-up goes on."""
    with run_kernel(startup_timeout=_LIMIT_S, stderr=subprocess.DEVNULL) as kernel:
        client = cast(BlockingKernelClient, kernel)
        plain = [_execute(client, "1") for _ in range(20)]
        _execute(client, "%load_ext ensemble_notebook")
        meanwhile: list[float] = []
        while len(meanwhile) < most and _value(client, _IS_WARMING) == "True":
            time.sleep(_PAUSE_S)
            meanwhile.append(_execute(client, "1"))
    return _percentile(plain), _percentile(meanwhile)


def _first_call(url: str, load: str, rest_s: float) -> float:
    """Seconds from the request of a kernel's first ensemble cell to its first model request."""
    cell = f"%%ensemble -o out --llm openai:instant@{url}\n- Say hello"
    with run_kernel(startup_timeout=_LIMIT_S, stderr=subprocess.DEVNULL) as kernel:
        client = cast(BlockingKernelClient, kernel)
        _execute(client, load)
        time.sleep(rest_s)
        began = time.time()
        _execute(client, cell)
        started_at = float(_value(client, "out.events[0].time.timestamp()"))
        return started_at + float(_value(client, _FIRST_CALL)) - began


def _percentile(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.95 * (len(seconds) - 1))]


def _execute(client: BlockingKernelClient, code: str) -> float:
    """Seconds until the reply to a person's request.

    Raises:
        RuntimeError: the cell failed.
    """
    began = time.perf_counter()
    reply = client.execute(code, allow_stdin=True, reply=True, timeout=_LIMIT_S)
    if reply["content"]["status"] != "ok":
        raise RuntimeError("\n".join(reply["content"]["traceback"]))
    return time.perf_counter() - began


def _value(client: BlockingKernelClient, expression: str) -> str:
    reply = client.execute("", user_expressions={"value": expression}, reply=True, timeout=_LIMIT_S)
    return str(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])
