"""The approval service of docs/services.md, and the same with pydantic-ai's deferred tools.

Each runs in processes of its own, over HTTP. The third takes the kept messages away before it goes on, so that a second
answer finds none: nobody has to be paid twice with pydantic-ai, but it is for the service to see to it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.others.venv import ROOT, Venv

THEIRS: Final = Path(__file__).parent / "approval_service.py"
OURS: Final = "\n".join(
    re.findall(r"```python\n(.*?)```", (ROOT / "docs/services.md").read_text().partition("## Approval")[2], re.DOTALL)
)
TAKEN: Final = THEIRS.read_text().replace(
    "    approvals = {", '    path = path.rename(path.with_suffix(".taken"))\n    approvals = {'
)
SERVICES: Final = {
    "ensemble-notebook": OURS,
    "pydantic-ai": THEIRS.read_text(),
    "pydantic-ai, messages taken first": TAKEN,
}
SERVE: Final = """
import json, os, sys, time
import service

class Ledger(list):
    def append(self, payment):
        if os.environ["IN_TOOL"] == "slow":
            time.sleep(2)  # so that two answers overlap
        with open("paid", "a") as file:
            file.write(json.dumps(payment) + "\\n")
        if os.environ["IN_TOOL"] == "die":
            os._exit(1)  # paid, and nobody was told

service.PAID = Ledger()
if hasattr(service.llm, "function"):
    play = service.llm.function
    asked = []
    service.llm.function = lambda *given: (asked.append(1), play(*given))[1]

def do_GET(self):
    body = str(len(asked if "asked" in globals() else service.llm.calls)).encode()
    self.send_response(200)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)

service.Claims.do_GET = do_GET
service.Claims.log_message = lambda *given: None
server = service.serve(0)
print(server.server_port, flush=True)
server.serve_forever()
"""


def count_lines(code: str) -> int:
    """Lines of code as one formatter writes both, without empty ones, comments and docstrings."""
    width = ("--line-length", "120", "--config", "format.skip-magic-trailing-comma=true", "--isolated")
    command = [sys.executable, "-m", "ruff", "format", *width, "-"]
    code = subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout
    skipped = {
        line
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(code.splitlines(), 1)
    return sum(bool(line.partition("#")[0].strip()) and number not in skipped for number, line in lines)


def leave_out_ids(text: str) -> str:
    """What a service said, without what differs from run to run."""
    return re.sub(r"[0-9a-f-]{36}|[0-9a-f]{12}|[\d-]{10} [\d:]{8} UTC", "…", text)


class Service:
    """One of the two, in a folder of its own that outlives its processes."""

    def __init__(self, python: Path, code: str, folder: Path) -> None:
        self.python, self.folder = python, folder
        (folder / "service.py").write_text(code)
        (folder / "serve.py").write_text(SERVE)
        self.url = ""

    @contextmanager
    def serve(self, in_tool: str = "") -> Iterator[None]:
        store = {"ENSEMBLE_NOTEBOOK_STORE": str(self.folder / "store.sqlite"), "IN_TOOL": in_tool}
        started = subprocess.Popen(
            [self.python, "serve.py"], cwd=self.folder, env=os.environ | store, stdout=subprocess.PIPE, text=True
        )
        try:
            assert started.stdout is not None
            self.url = f"http://127.0.0.1:{int(started.stdout.readline())}"
            yield
        finally:
            started.kill()
            started.communicate(timeout=30)

    def post(self, path: str, **content: Any) -> tuple[int, Any]:
        """Status and content of an answer; status 0 of a server that died."""
        try:
            with urlopen(Request(self.url + path, json.dumps(content).encode()), timeout=60) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)
        except (HTTPException, URLError, ConnectionError):
            return 0, {}

    def claim(self) -> dict[str, Any]:
        """Begin a run, and give what an answer to its one pending call is made of."""
        code, begun = self.post("/claims", text="it never came")
        (call,) = begun["waiting"]
        assert (code, call["tool"], call["arguments"]) == (200, "refund", {"order": "A7", "amount": 40})
        assert self.payments == 0
        return {"run": begun["run"], "answers": {call["id"]: {"decision": "approve", "by": "Ann"}}}

    @property
    def payments(self) -> int:
        path = self.folder / "paid"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @property
    def asked(self) -> int:
        """How often the process that serves now has asked the model."""
        with urlopen(self.url, timeout=60) as answer:
            return int(answer.read())


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("pydantic-ai", "pydantic-ai-slim", ours=None)


@pytest.fixture(params=list(SERVICES))
def make_service(request: pytest.FixtureRequest, venv: Venv, tmp_path: Path) -> Callable[[str], Service]:
    def make(name: str) -> Service:
        folder = tmp_path / name
        folder.mkdir()
        python = Path(sys.executable) if request.param == "ensemble-notebook" else venv.bin / "python"
        return Service(python, SERVICES[request.param], folder)

    make.__name__ = request.param
    return make


def test_story_of_an_approval_is_told_by_each(
    make_service: Callable[[str], Service], add_figures: Callable[..., None]
) -> None:
    name, told = make_service.__name__, {}
    service = make_service("once")
    told["lines"] = str(count_lines((service.folder / "service.py").read_text()))
    with service.serve():
        answer = service.claim()
        code, done = service.post("/answers", **answer)
        assert (code, done["text"], done["waiting"], service.payments) == (200, "It is settled.", [], 1)
        assert service.asked == 3
        code, refused = service.post("/answers", **answer)
        assert (code, service.payments) == (409, 1)
        told["a_second_answer"] = f"refused: {leave_out_ids(refused['error'])}"

    service = make_service("restart")
    with service.serve():
        answer = service.claim()
    with service.serve():
        code, done = service.post("/answers", **answer)
        assert (code, done["text"], service.payments, service.asked) == (200, "It is settled.", 1, 1)
    with service.serve():
        assert service.post("/answers", **answer)[0] == 409
        assert service.payments == 1
    told["after_a_restart"] = "paid once; the model is asked for its last message only"

    service = make_service("at_once")
    with service.serve("slow"), ThreadPoolExecutor() as pool:
        answer = service.claim()
        codes = [code for code, _ in pool.map(lambda _: service.post("/answers", **answer), range(2))]
    told["payments_of_two_answers_at_once"] = f"{service.payments} ({codes.count(409)} refused)"
    assert service.payments == (2 if name == "pydantic-ai" else 1)

    service = make_service("died")
    with service.serve("die"):
        answer = service.claim()
        assert service.post("/answers", **answer)[0] == 0
        assert service.payments == 1
    with service.serve():
        code, again = service.post("/answers", **answer)
    told["payments_when_it_died_in_the_tool_and_the_answer_came_again"] = str(service.payments)
    told["what_it_said_then"] = leave_out_ids(again.get("error") or again["text"])
    assert (code, service.payments) == ((200, 2) if name == "pydantic-ai" else (409, 1))
    add_figures(service=name, **told)
