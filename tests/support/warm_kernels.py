"""Kernels that are there at once: forked from a process that has imported everything they need.

A kernel of a test does what any kernel does, but that its imports were done once for all of them. Tests of what is
imported when, or of how long a start takes, ask for no `warm_kernels` and get ordinary ones.

Jupyter starts `start_kernel.py` as the process of a kernel, which asks this process for a fork by a socket: it hands
over its streams, passes signals on, and ends as the fork does. Whichever of the two is killed takes the other with it.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

START: Final = Path(__file__).with_name("start_kernel.py")
_MODULES: Final = (
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "IPython.core.completer",
    "jedi",
    "numpy",
    "pandas",
    "altair",
    "ensemble_notebook.notebook.magics.warm_up",
)


@contextmanager
def serve_warm_kernels(home: Path) -> Iterator[Path]:
    """Have a process from which kernels are forked; gives a folder of Jupyter's path, whose `python3` they are."""
    spec = home / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    address = home / "forks"
    command = [sys.executable, "-S", "-E", str(START), str(address), "{connection_file}"]
    about = {"display_name": "Python 3 (ipykernel)", "language": "python", "metadata": {"debugger": True}}
    spec.write_text(json.dumps({"argv": command, "kernel_protocol_version": "5.5", **about}))
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(address))
        door.listen(16)  # whoever asks before the imports are done waits
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(door.fileno())],
            pass_fds=[door.fileno()],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
        )
    try:
        yield home
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


class _Forks:
    """The process that forks; it has one thread."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._started: dict[int, socket.socket] = {}  # by the id of its process
        self._events = selectors.DefaultSelector()

    def serve(self) -> None:
        """Fork, and take notice of ends, until whoever started this is gone."""
        woken, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for each in (self._door, woken, sys.stdin):
            self._events.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in self._events.select():
                if key.fileobj is sys.stdin:
                    for pid in self._started:
                        _kill(pid)
                    return
                if key.fileobj is woken:
                    woken.recv(4096)
                    self._bury()
                elif key.fileobj is self._door:
                    self._fork()
                elif _is_over(key.fileobj):  # the process of Jupyter was killed
                    self._events.unregister(key.fileobj)
                    _kill(next((pid for pid, each in self._started.items() if each is key.fileobj), None))

    def _fork(self) -> None:
        asked, _ = self._door.accept()
        said, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        while not said.endswith(b"\n"):
            if not (more := asked.recv(1 << 20)):  # it was killed: on a busy machine, who waited for it gave up
                for stream in streams:
                    os.close(stream)
                asked.close()
                return
            said += more
        wish = json.loads(said)
        pid = os.fork()
        if pid == 0:
            self._events.close()
            signal.set_wakeup_fd(-1)
            _become_kernel(wish, streams)
        for stream in streams:
            os.close(stream)
        self._started[pid] = asked
        self._events.register(asked, selectors.EVENT_READ)
        with suppress(OSError):  # it was killed meanwhile, of which the next look at its socket tells
            asked.sendall(b"%d\n" % pid)

    def _bury(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                asked = self._started.pop(pid)
                with suppress(KeyError):
                    self._events.unregister(asked)
                with suppress(OSError):
                    asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                asked.close()


def _is_over(asked: Any) -> bool:
    try:
        return not asked.recv(16)
    except ConnectionResetError:  # it had not yet read what it was told
        return True


def _kill(pid: int | None) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become_kernel(wish: dict[str, str], streams: list[int]) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(wish["folder"])
    os.environ.clear()
    os.environ.update(wish["environment"])
    os.environ["JPY_PARENT_PID"] = str(os.getppid())  # the kernel looks whether its parent is still there
    sys.path[0:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["ipykernel_launcher", *wish["arguments"]]
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "rw"[number > 0], closefd=False) for number in range(3))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    status = 1
    try:
        from ipykernel.kernelapp import launch_new_instance

        launch_new_instance()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Import everything, then fork for whoever asks."""
    # pandas looks once, on import, whether it is in a kernel: elsewhere it would cut tables to the width of a terminal.
    vars(builtins)["get_ipython"] = lambda: SimpleNamespace(kernel=None)
    for name in _MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    del vars(builtins)["get_ipython"]
    from ensemble_notebook.notebook.magics.warm_up import IMPORTS

    for step in IMPORTS:
        step()
    gc.collect()
    gc.freeze()
    _Forks(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
