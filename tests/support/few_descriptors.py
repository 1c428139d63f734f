"""A run with many items in a process that may open few files.

``python -m tests.support.few_descriptors URL COUNT KIND``: `KIND` is ``spec`` or ``object``, for the model, or
``stopped``. Prints as JSON what came of the run, and of the others in the process, who want to open files meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from ensemble_notebook import Agent, Ensemble, EnsembleOutput, RunInterrupted, Task

LIMIT: Final = 256
"""As on macOS."""


def main(url: str, count: int, kind: str) -> dict[str, Any]:
    """Run it, and tell."""
    import resource  # which Windows has not

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    Ensemble(tasks=[Task.of("Say hello.", name="hello")], llm="scripted").run()  # what a first run opens, it keeps
    agent = Agent(role="Worker", goal="Work", llm=_make_model(url, kind), llm_timeout=10.0)
    task = Task.of("Do {item}.", name="each", for_each="{parts}", agent=agent)
    watch = _Watch()
    output = _run(Ensemble(tasks=[task], workflow="parallel"), count, watch if kind == "stopped" else None)
    left = count_sockets() - watch.before
    watch.end()
    spans = output.frames.spans
    waits = spans[spans.wait_kind == "connection"]
    return {
        "status": output.status.value,
        "faults": watch.faults,
        "most": watch.most,
        "left": left,
        "waits": len(waits),
        "kinds_around": sorted(set(spans.kind[spans.index.isin(waits.parent_id)])),
        "tokens": output.metrics.total_tokens,
    }


def count_sockets() -> int:
    """Count the sockets of this process."""
    return sum(each.is_socket() for each in Path("/dev/fd").iterdir())


class _Watch:
    """Somebody else in the process, who opens files all the time.

    Attributes:
        before: the sockets at the beginning.
        most: how many more there were.
        faults: what went wrong.
    """

    def __init__(self) -> None:
        self.before = count_sockets()
        self.most = 0
        self.faults: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._is_over.wait(0.01):
            try:
                Path(os.devnull).read_bytes()
                self.most = max(self.most, count_sockets() - self.before)
            except OSError as error:
                self.faults.append(repr(error))

    def end(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._thread.join()


def _make_model(url: str, kind: str) -> Any:
    if kind != "object":
        return f"openai:m@{url}"
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="m", base_url=url, api_key="k")  # type: ignore[arg-type]


def _run(ensemble: Ensemble, count: int, watch: _Watch | None) -> EnsembleOutput:
    """Run it to the end or, where somebody watches, until many connections are open."""
    inputs = {"parts": [str(number) for number in range(count)]}
    if watch is None:
        return ensemble.run(inputs)
    handle = ensemble.start(inputs)
    while watch.most < LIMIT // 4:
        time.sleep(0.01)
    handle.cancel()
    with contextlib.suppress(RunInterrupted):
        handle.result()
    output = handle.output
    if output is None:
        raise RuntimeError("the run has left nothing")
    return output


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
