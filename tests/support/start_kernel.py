"""The process that Jupyter takes for a kernel: asks for a fork, passes signals on to it, and ends as it does.

It is run without the packages of this environment, so that it starts in no time.
"""

import contextlib
import json
import os
import signal
import socket
import sys

asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
wish = {"folder": os.getcwd(), "environment": dict(os.environ), "arguments": ["-f", *sys.argv[2:]]}  # noqa: PTH109 - pathlib takes longer than all the rest
socket.send_fds(asked, [json.dumps(wish).encode() + b"\n"], [0, 1, 2])
answers = asked.makefile()
pid = int(answers.readline())


def pass_on(number: int, frame: object) -> None:
    """To all processes of the kernel, as they would have got it."""
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.killpg(pid, number)


for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, pass_on)
line = answers.readline()
sys.exit(int(line) if line else 1)
