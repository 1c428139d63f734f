"""The embedded model (E40): llama.cpp's own server inside this process, spoken to over loopback HTTP.

One server per file of weights and process, started at first use, stopped at exit. Why not simply call llama.cpp: its
server batches the requests of many tasks, has templates for tools and schemas, and speaks what the models elsewhere
speak, so that there is one way to all of them. Knows nothing of LangChain.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import secrets
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import protect
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.models.openai.connections import Connections
from ensemble_notebook.models.weights_download import SMOLLM2, pull_weights

SLOTS: Final = 4
# Half of what the default model was trained on; a longer prompt would take it a minute to read.
CONTEXT_PER_SLOT: Final = 4096
# The default model is small: bounded, so that it can't babble; cool and seeded, so that lessons repeat themselves.
MAX_TOKENS: Final = 160
_TEMPERATURE: Final = 0.2
_REPEAT_PENALTY: Final = 1.1
_SEED: Final = 1

_DRAIN_LIMIT_S: Final = 5.0


class LocalServer:
    """A running server.

    Making one takes a second or more. For about half of that the whole process stands still: llama.cpp's binding
    holds the interpreter's lock while it loads.

    Attributes:
        name: of the model.
        url: base of the OpenAI protocol.
        api_key: random, so that the port is of no use to other users of the machine, nor to pages in their browsers.
        max_tokens: for one reply; None where nothing bounds it but the context.
        has_tool_support: whether the chat template of the weights has a form for tools.
    """

    def __init__(self, path: Path) -> None:
        is_default = path == SMOLLM2.path
        self.name = SMOLLM2.model if is_default else path.stem
        self.max_tokens = MAX_TOKENS if is_default else None
        self.api_key = secrets.token_urlsafe(24)
        self._path = f"/{secrets.token_urlsafe(24)}"
        for secret in (self.api_key, self._path):
            protect(secret)
        self._sockets: list[socket.socket] = []
        self._is_stopping = False
        self._engine = self._start(path, is_default)
        self.url = f"{self._engine.listening_address}{self._path}/v1"
        self._request("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
        template = self._request("/props").get("chat_template_caps") or {}
        self.has_tool_support = bool(template.get("supports_tool_calls"))

    def _start(self, path: Path, is_default: bool) -> Any:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.model_alias = {self.name}
        params.api_keys = [self.api_key]
        # llama.cpp can't look at `Host`, and answers some addresses without a key: below a path that nobody knows, a
        # page gets nothing but refusals, by whatever name it calls this machine. No origin is let in; else all are.
        params.api_prefix = self._path
        params.cors_origins = params.cors_methods = params.cors_headers = ""
        params.cors_credentials = False
        params.n_parallel = SLOTS
        params.n_ctx = SLOTS * CONTEXT_PER_SLOT
        for cpu in (params.cpuparams, params.cpuparams_batch):
            # On a busy machine, threads that spin on every core slow each other down tenfold.
            cpu.n_threads = max(1, len(_find_usable_cores()) // 2)
            cpu.poll = 0
        params.verbosity = -1
        params.offline = True
        params.ui = False
        params.cache_ram_mib = 0
        # Both would lengthen the time in which the process stands still; the first request does as well.
        params.warmup = params.fit_params = False
        if is_default:
            params.sampling.temp = _TEMPERATURE
            params.sampling.penalty_repeat = _REPEAT_PENALTY
            params.sampling.seed = _SEED
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise _make_error(f"llama.cpp can't use the weights in {path}: {error}") from error

    def connect(self) -> Connections:
        """Connections for one event loop, which `stop` can cut."""
        return Connections(self.url, self._make_socket)

    def _make_socket(self, address: tuple[Any, ...]) -> socket.socket:
        if self._is_stopping:
            raise ConnectionAbortedError("The local model was stopped.")
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets = [each for each in self._sockets if each.fileno() != -1]
        self._sockets.append(made)
        return made

    def stop(self) -> None:
        """Cut what is connected, wait until the server has noticed, and end it.

        It may not be ended in the middle of a request: it would wait for itself, or crash.
        """
        self._is_stopping = True
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _DRAIN_LIMIT_S
        while self.is_busy():
            if time.monotonic() > deadline:
                self.abandon()
                break
            time.sleep(0.02)
        self._engine = None

    def is_busy(self) -> bool:
        """Whether it is writing a reply."""
        try:
            return any(slot["is_processing"] for slot in self._request("/slots"))
        except OSError:
            return False

    def abandon(self) -> None:
        """Never end it, since that would wait for threads that are stuck or, in a forked child, missing.

        The end of the process would wait for them as well; where the C library can, it is told to leave at once.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))
        if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "on_exit"):
            libc.on_exit(libc._exit, None)

    def _request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._engine.listening_address}{self._path}{path}", data, headers)
        # Nobody's proxy has a way to this process.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
            return json.load(reply)


class _RunningServers:
    """Those of this process, by their weights."""

    def __init__(self) -> None:
        self._running: dict[Path, LocalServer] = {}
        self._starting = threading.Lock()

    def get(self, weights: str | None, notice: Callable[[str], None]) -> LocalServer:
        with self._starting:
            path = _find_path(weights)
            if path not in self._running:
                if weights is None:
                    pull_weights(notice)
                self._running[path] = LocalServer(path)
            return self._running[path]

    def has(self, path: Path) -> bool:
        return path in self._running

    def stop(self) -> None:
        while self._running:
            self._running.popitem()[1].stop()

    def abandon_all(self) -> None:
        """Abandon all, in a forked child: the parent's servers are not its own."""
        self._starting = threading.Lock()
        while self._running:
            self._running.popitem()[1].abandon()


_servers: Final = _RunningServers()
atexit.register(_servers.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_servers.abandon_all)


def get_local_server(weights: str | None, notice: Callable[[str], None]) -> LocalServer:
    """Get the server of this process for the weights in a file, or the default ones; started if need be. Blocks.

    Raises:
        ValidationError: there are no such weights, or llama.cpp can't use them.
    """
    return _servers.get(weights, notice)


def find_name_to_start(weights: str | None) -> str | None:
    """Find the name of the model whose server has to be started first, perhaps by somebody else; None where it runs."""
    path = _find_path(weights)
    if _servers.has(path):
        return None
    return SMOLLM2.model if weights is None else path.stem


def find_weights_file(text: str) -> Path:
    """Find the file that a spec names.

    Raises:
        ValidationError: there is none, or it holds no weights.
    """
    path = Path(text).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise _make_error(
            f"The weights {text!r} can't be read: {error.strerror} (looked for {path.absolute()})."
        ) from error
    if magic != b"GGUF":
        raise _make_error(f"{text!r} holds no weights: a GGUF file begins with the letters GGUF.")
    return path.resolve()


def _find_path(weights: str | None) -> Path:
    return SMOLLM2.path if weights is None else find_weights_file(weights)


def _make_error(message: str) -> ValidationError:
    return ValidationError(Problem(message, field="llm"))


def _find_usable_cores() -> set[int]:
    """Find the cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
