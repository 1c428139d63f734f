"""The loopback model server in a process of its own, so that its CPU is nobody's cost.

What it answers is in the name of the model: ``delay-200`` waits 200 ms, ``words-400-pause-5`` says 400 words, with 5 ms
between them where they are streamed, ``letters-99`` makes each of 99 letters, ``rounds-20`` calls the tool `search` 20
times first; any other name is answered at once.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.support.openai_server import Answer, OpenAIServer, Request

_TOOL_RESULT: Final = re.compile(rb'"role"\s*:\s*"tool"')
_MODEL: Final = re.compile(rb'"model"\s*:\s*"([^"]*)"')


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a server that lives as long as the block."""
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def _choose(request: Request) -> Answer | None:
    named = _MODEL.search(request.raw)
    return _answer(named[1].decode(), len(_TOOL_RESULT.findall(request.raw))) if named else None


@functools.cache
def _answer(model: str, rounds: int) -> Answer:
    facts = {name: int(value) for name, value in re.findall(r"([a-z]+)-(\d+)", model)}
    if rounds < facts.get("rounds", 0):
        return Answer(None, calls=[("search", {"query": "steak"})])
    word = "ok" if "letters" not in facts else "x" * facts["letters"]
    text = " ".join([word] * facts.get("words", 1))
    return Answer(text, delay=facts.get("delay", 0) / 1000, pause=facts.get("pause", 0) / 1000)


if __name__ == "__main__":
    with OpenAIServer(choose=_choose) as server:
        print(server.url, flush=True)
        sys.stdin.read()
